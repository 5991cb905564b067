"""Which pixels do not count, by the values of one band. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pixel_gather.core.errors import RequestError


@dataclass(frozen=True, slots=True, kw_only=True)
class PixelMask:
    """Which pixels do not count, by the values of one band. Such a band is never averaged."""

    band: str
    drop: tuple[int, ...] = ()
    """Values that are dropped."""

    bits: tuple[int, ...] = ()
    """Bits, from 0: a pixel with any of them set is dropped."""

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "PixelMask":
        """Check ``{band, drop}`` or ``{band, bits}``.

        Raises:
            RequestError: It is neither.
        """
        if not isinstance(given, Mapping) or not isinstance(given.get("band"), str) or not given["band"]:
            raise RequestError("write {band: scl, drop: [3, 8, 9]}", field="mask")
        if unknown := given.keys() - {"band", "drop", "bits"}:
            raise RequestError(
                f"there is no such field {min(unknown)}; give band and drop or bits", field="mask"
            )
        drop, bits = (_integers(given.get(name, ()), f"mask.{name}") for name in ("drop", "bits"))
        if bool(drop) == bool(bits):
            raise RequestError("give either the values to drop or the bits", field="mask")
        if any(not 0 <= bit < 64 for bit in bits):  # noqa: PLR2004 # bits of the largest integer
            raise RequestError("bits are counted from 0 to 63", field="mask.bits")
        return cls(band=given["band"], drop=drop, bits=bits)

    def drops(self, stored: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Return which stored values of the band say that a pixel does not count."""
        if self.drop:
            return np.isin(stored, self.drop)
        bits = sum(1 << bit for bit in self.bits)
        return np.asarray((stored.astype(np.int64) & bits) != 0)


def _integers(given: object, field: str) -> tuple[int, ...]:
    values = tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else (given,)
    if not all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        raise RequestError("write whole numbers", field=field)
    return tuple(int(value) for value in values)
