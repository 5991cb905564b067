"""What the objects of a request have in common: their base, and types of their fields."""

import re
from os import PathLike, fspath
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, field_validator

from pixel_gather.core.request.wrong_values import HALF_A_CHARACTER

type Coordinate = Annotated[float, Field(allow_inf_nan=False)]
type Size = Annotated[int, Field(ge=1, le=1_000_000)]
type Offset = Annotated[int, Field(ge=-(2**31) + 1, le=2**31 - 1)]
"""Offset in pixels. No supported raster has more columns or rows."""

_HALF: Final = re.compile("[\ud800-\udfff]")


class RequestPart(BaseModel):
    """An object of a request. Fields that it does not have are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    @field_validator("*", mode="before")
    @classmethod
    def _plain(cls, given: Any) -> Any:
        """Take an array of NumPy or a series of pandas as the list that it stands for."""
        return plain_list(given)

    @field_validator("*")
    @classmethod
    def _refuse_halves_of_characters(cls, given: Any) -> Any:
        """Refuse lone surrogates: they cannot be encoded as UTF-8, so nothing can send or store them."""
        texts = [*given, *given.values()] if isinstance(given, dict) else given
        for each in texts if isinstance(texts, list | tuple) else (texts,):
            if isinstance(each, str) and not each.isascii() and _HALF.search(each):
                raise ValueError(HALF_A_CHARACTER)
        return given


def exactly_one(model: BaseModel, names: tuple[str, ...]) -> None:
    """Refuse an object of which not exactly one of these fields is given."""
    given = [name for name in names if getattr(model, name) is not None]
    if len(given) != 1:
        found = "none is" if not given else " and ".join(given) + " are"
        raise ValueError(f"give exactly one of {', '.join(names)}; {found} given")


def as_text(value: Any) -> Any:
    """Return a path as text and any other value unchanged."""
    return fspath(value) if isinstance(value, PathLike) else value


def plain_list(given: Any) -> Any:
    """Return an array of NumPy, Arrow or polars, or a series of pandas, as a list of Python's values.

    Any other value is returned unchanged.
    """
    names = () if hasattr(given, "columns") else ("tolist", "to_list", "to_pylist")
    to_list = next((getattr(given, name) for name in names if hasattr(given, name)), lambda: given)
    return to_list()


def may_be_path(name: str) -> Any:
    """Return a validator with which a field of text also takes a path, such as one of `pathlib`."""
    return field_validator(name, mode="before")(as_text)
