"""What a table computes of each pixel: stored values of bands, or expressions of physical ones. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import replace
from typing import Any

from msgspec import Struct

from pixel_gather.core.errors import RequestError
from pixel_gather.core.pixel_mask import PixelMask
from pixel_gather.tables.expression import Expression
from pixel_gather.tables.spectral_indexes import EXPRESSIONS, SHARES

_NAMED = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*(.+)", re.DOTALL)


class Value(Struct, frozen=True, kw_only=True):
    """One value of each pixel."""

    name: str
    """Of its column."""

    expression: Expression


class Values(Struct, frozen=True, kw_only=True):
    """The values that a table has, and which pixels count."""

    values: tuple[Value, ...] = ()
    """Empty for all bands, as they are stored; see `of_bands`."""

    mask: PixelMask | None = None
    bands: tuple[tuple[str, str], ...] = ()
    """(name in an expression, band of the list or asset of the catalog)."""

    raw: bool = False
    """Whether scale and offset are left out."""

    @classmethod
    def of(
        cls,
        *,
        by: str | Sequence[str] | None,
        mask: Mapping[str, Any] | None,
        bands: Mapping[str, str] | None,
        raw: bool,
    ) -> "Values":
        """Check what is computed.

        Args:
            by: Names and expressions, in one text with commas or one each. ``evi=2.5*(nir-red)`` names one.
            mask: As in `PixelMask.of`.
            bands: What the names of bands stand for.
            raw: Whether scale and offset are left out.

        Raises:
            RequestError: One of them is wrong.
        """
        if not isinstance(by, Iterable | None):
            raise RequestError(f"it is {by!r}; write names or expressions, such as ndvi", field="by")
        named = named_bands(bands)
        parts = [] if by is None else [by] if isinstance(by, str) else list(by)
        values = [_value(part) for each in parts for part in _split(str(each))]
        names = [each.name for each in values]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise RequestError(f"{twice} is there twice; name it once", field="by")
        for each in values:
            for name in set(each.expression.names) & set(SHARES) - {name for name, _ in named}:
                raise RequestError(f"{name} is no value of a pixel; the table has a column valid", field="by")
        pixel_mask = None if mask is None else PixelMask.of(mask)
        of_mask = () if pixel_mask is None else (pixel_mask.band, pixel_mask.band.partition(":")[0])
        if named and not values and all(name not in of_mask for name, _ in named):
            raise RequestError(
                "it says what names in by stand for: give by (--by), such as ndvi, or leave bands out",
                field="bands",
            )
        return cls(
            values=tuple(values),
            mask=pixel_mask,
            bands=named,
            raw=raw or not values,
        )

    def of_bands(self, names: Sequence[str]) -> "Values":
        """Return the same with the stored values of these bands, if no value was asked for."""
        if self.values:
            return self
        return replace(
            self, values=tuple(Value(name=each, expression=Expression.band(each)) for each in names)
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The bands that the values are computed from, each once."""
        return tuple(dict.fromkeys(name for each in self.values for name in each.expression.names))

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the values."""
        return tuple(each.name for each in self.values)

    def assets(self) -> dict[str, str]:
        """Return the assets of a catalog or STAC API that the values and the mask need, by their names.

        Raises:
            RequestError: No band is named.
        """
        names = [*self.names, *([] if self.mask is None else [self.mask.band])]
        return assets_of(names, dict(self.bands))


def named_bands(given: Mapping[str, str] | None) -> tuple[tuple[str, str], ...]:
    """Check what names in an expression stand for: bands of the list, or assets of the catalog.

    Raises:
        RequestError: It is no mapping.
    """
    if not isinstance(given, Mapping | None):
        raise RequestError("write {red: B04}: the name in by, and its band or asset", field="bands")
    return tuple((str(name), str(band)) for name, band in (given or {}).items())


def assets_of(names: Sequence[str], asset_of: Mapping[str, str]) -> dict[str, str]:
    """Return the asset that each name of a band means: that which stands for it, or the one of this name.

    Raises:
        RequestError: There is no name.
    """
    bases = {name.partition(":")[0] for name in names}
    if not bases:
        raise RequestError("say of which asset, such as red or nir", field="by")
    return {base: asset_of.get(base, base) for base in sorted(bases)}


def _value(text: str) -> Value:
    named = _NAMED.fullmatch(text)
    name, expression = (named[1], named[2]) if named else (text.strip(), text.strip())
    return Value(name=name, expression=Expression.parse(EXPRESSIONS.get(expression.strip(), expression)))


def _split(text: str) -> Iterator[str]:
    """Yield the parts between commas that are not in parentheses."""
    depth, start = 0, 0
    for at, character in enumerate(f"{text},"):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and (depth <= 0 or at == len(text)):
            yield text[start:at]
            start = at + 1
