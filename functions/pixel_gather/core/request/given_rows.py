"""Lists that a program gives with its request as a table: a data frame, an Arrow table, or dicts. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

_COUNT: Final = "n_rows"


class GivenTable(Struct, frozen=True, eq=False):
    """A table as a program gave it. It is read when the list is.

    It equals itself alone, because comparing data frames is no yes or no.
    """

    table: Any


def is_table(given: Any) -> bool:
    """Return whether it is a table: of pandas, of Arrow, or a sequence of dicts."""
    if isinstance(given, list | tuple):
        return bool(given) and isinstance(given[0], Mapping)
    has_columns = hasattr(given, "__len__") and hasattr(given, "columns")  # a series has none
    return has_columns and (is_data_frame(given) or hasattr(given, "__arrow_c_stream__"))


def is_data_frame(given: Any) -> bool:
    """Return whether it is a data frame of pandas. Others, such as those of polars, are Arrow tables, too."""
    return hasattr(given, "itertuples") and hasattr(given, "columns")


def given_table(given: Any) -> GivenTable:
    """Return a table as a value of a request.

    Raises:
        ValueError: It is none, or the request is one that was stored.
    """
    if isinstance(given, GivenTable):
        return given
    if isinstance(given, Mapping) and _COUNT in given:
        raise ValueError(
            "a program gave these rows, and the request keeps only their number; give the rows again"
        )
    if not is_table(given):
        raise ValueError("give a data frame, an Arrow table, or a list of dicts, with a column href")
    return GivenTable(given)


def table_in_request(given: GivenTable | None) -> Any:
    """Return what a stored request says of a table, as tables are large: its number of rows.

    The digest of the list tells tables apart.
    """
    return None if given is None else {_COUNT: len(given.table)}
