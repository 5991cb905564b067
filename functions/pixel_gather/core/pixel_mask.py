"""Which pixels do not count, by the values of one band. Pure."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import asdict

from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.plurals import counted

if TYPE_CHECKING:  # the function that checks requests has no numpy
    import numpy as np

MOST_DILATED: Final = 64
"""Most pixels that a mask grows by."""

_LOWEST: Final = -(2**63)
_HIGHEST: Final = 2**64 - 1

type Mask = np.ndarray[Any, np.dtype[np.bool_]]


class PixelMask(Struct, frozen=True, kw_only=True):
    """Which pixels do not count, by the values of one band. Such a band is never averaged."""

    band: str
    drop: tuple[int, ...] = ()
    """Values that are dropped."""

    bits: tuple[int, ...] = ()
    """Bits, from 0: a pixel with any of them set is dropped."""

    dilate: int = 0
    """How many pixels around each dropped one are dropped, too, along both axes."""

    @classmethod
    def of(cls, given: Mapping[str, Any], *, may_dilate: bool = False) -> "PixelMask":
        """Check ``{band, drop}`` or ``{band, bits}``.

        Args:
            given: ``bits`` are numbers, or names with numbers such as ``{cloud: 3}``.
            may_dilate: Whether ``dilate`` is a field.

        Raises:
            RequestError: A field is missing, unknown or out of range.
        """
        if not isinstance(given, Mapping) or not isinstance(given.get("band"), str) or not given["band"]:
            raise RequestError("write {band: scl, drop: [3, 8, 9]}", field="mask")
        if "dilate" in given and not may_dilate:
            raise RequestError("only a gather's mask is dilated; leave dilate out", field="mask.dilate")
        if unknown := given.keys() - {"band", "drop", "bits", "dilate"}:
            raise RequestError(
                f"there is no field {min(unknown)}; there are band; drop, the values that hide a pixel, or "
                "bits, counted from 0; and dilate",
                field="mask",
            )
        bits = given.get("bits", ())
        bits = tuple(bits.values()) if isinstance(bits, Mapping) else bits
        drop, bits = _integers(given.get("drop", ()), "mask.drop"), _integers(bits, "mask.bits")
        if bool(drop) == bool(bits):
            raise RequestError(
                "give either drop, the values that hide a pixel, or bits, counted from 0",
                field="mask",
            )
        if any(not _LOWEST <= value <= _HIGHEST for value in drop):
            raise RequestError("no pixel has such a value: write whole numbers of 64 bits", field="mask.drop")
        if any(not 0 <= bit < 64 for bit in bits):  # noqa: PLR2004 # bits of the largest integer
            raise RequestError("bits are counted from 0 to 63", field="mask.bits")
        (dilate,) = _integers(given.get("dilate", 0), "mask.dilate")
        if not 0 <= dilate <= MOST_DILATED:
            raise RequestError(f"write 0 to {MOST_DILATED} pixels", field="mask.dilate")
        return cls(band=given["band"], drop=drop, bits=bits, dilate=dilate)

    def to_json(self) -> dict[str, Any]:
        """Return the fields that are given."""
        return {name: value for name, value in asdict(self).items() if value}

    def in_words(self) -> str:
        """Return which pixels are hidden."""
        named = self.bits or self.drop
        what = ("bit" if self.bits else "value") + ("s" if len(named) > 1 else "")
        numbers = ", ".join(map(str, named))
        around = f", and {counted(self.dilate, 'pixel')} around" if self.dilate else ""
        return f"hidden where {self.band} has the {what} {numbers}{around}"

    def drops(self, stored: "np.ndarray[Any, Any]") -> Mask:
        """Return which stored values of the band say that a pixel does not count. Nothing is dilated."""
        if self.drop:
            dropped: Mask = stored == self.drop[0]
            for value in self.drop[1:]:
                dropped |= stored == value
            return dropped
        bits = sum(1 << bit for bit in self.bits)
        if stored.dtype.kind == "u" and bits < 1 << 8 * stored.dtype.itemsize:  # in a quarter of the time
            found: Mask = (stored & stored.dtype.type(bits)) != 0
        else:
            found = (stored.astype("int64").view("uint64") & bits) != 0  # bit 63 is one of uint64 alone
        return found


def _integers(given: object, field: str) -> tuple[int, ...]:
    values = tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else (given,)
    if not all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        raise RequestError("write whole numbers", field=field)
    return tuple(int(value) for value in values)
