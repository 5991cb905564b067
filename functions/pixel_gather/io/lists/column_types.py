"""Finds the narrowest type that holds every value of a column. Looks at each value once."""

import re
from dataclasses import dataclass
from typing import Final

from pixel_gather.core.model.source import MAX_EXACT
from pixel_gather.io.lists.list_columns import Scalar

_MAX_INT64: Final = 2**63 - 1
_INTEGER = re.compile(r"[+-]?(?:0|[1-9][0-9]*)")
_NUMBER = re.compile(r"[+-]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_BOOLS: Final = {"true": True, "false": False}


@dataclass(slots=True, kw_only=True)
class ColumnTypes:
    """Which types are still possible for one column."""

    reads_text: bool
    """Whether text may stand for numbers and true/false, as in CSV."""

    n_values: int = 0
    """Values that are not missing."""

    may_be_int: bool = True
    may_be_float: bool = True
    may_be_bool: bool = True
    largest: int = 0
    """Largest absolute value of the integers."""

    def add(self, value: Scalar) -> None:
        """Rule out the types that cannot hold this value."""
        if value is None:
            return
        self.n_values += 1
        if isinstance(value, str):
            if not self.reads_text:
                self.may_be_int = self.may_be_float = self.may_be_bool = False
            elif self.may_be_int or self.may_be_float or self.may_be_bool:
                self._add_text(value)
        elif isinstance(value, bool):
            self.may_be_int = self.may_be_float = False
        else:
            self.may_be_bool = False
            if isinstance(value, int):
                self.largest = max(self.largest, abs(value))
            else:
                self.may_be_int = False

    def _add_text(self, text: str) -> None:
        if _INTEGER.fullmatch(text):
            self.may_be_bool = False
            self.largest = max(self.largest, abs(int(text)) if len(text) < 30 else _MAX_INT64 + 1)  # noqa: PLR2004 # longer integers fit no type
            return
        self.may_be_int = False
        self.may_be_bool = self.may_be_bool and text.lower() in _BOOLS
        if _NUMBER.fullmatch(text):
            self.may_be_float = self.may_be_float and abs(float(text)) != float("inf")
        else:
            self.may_be_float = self.may_be_float and text.lower() == "nan"

    def dtype(self, n_sources: int) -> str:
        """Return the narrowest type for a column of this many sources.

        Integers become floats if a value is missing.
        """
        is_whole = self.n_values == n_sources
        if self.n_values == 0:
            return "string"
        if self.may_be_bool and is_whole:
            return "bool"
        if self.may_be_int and is_whole and self.largest <= _MAX_INT64:
            return "int64"
        if self.may_be_float and self.largest <= MAX_EXACT:
            return "float64"
        return "string"


def to_dtype(value: Scalar, dtype: str) -> Scalar:
    """Convert a value to its column's type. NaN becomes None."""
    if value is None:
        return None
    if dtype == "string":
        return str(value).lower() if isinstance(value, bool) else str(value)
    if dtype == "int64":
        return int(value)
    if dtype == "bool":
        return _BOOLS[value.lower()] if isinstance(value, str) else bool(value)
    number = float(value)
    return None if number != number else number  # noqa: PLR0124 # only NaN differs from itself
