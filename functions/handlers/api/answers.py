"""Types that the answers of several features have, for the OpenAPI document. No function loads this.

The texts below fields are what readers of the document see.
"""

from enum import StrEnum
from typing import Annotated, Final, Required, TypedDict

from msgspec import Meta

from handlers.api.problems import INTERNAL_ERROR, KINDS, NO_SUCH_ADDRESS, TYPE_PREFIX

type Count = Annotated[int, Meta(ge=0)]
type Amount = Annotated[float, Meta(ge=0)]
type Time = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
type Links = dict[str, str]
type Box = Annotated[list[float], Meta(min_length=4, max_length=6)]

_CODES: Final = sorted({*(kind.code for kind in KINDS), NO_SUCH_ADDRESS, INTERNAL_ERROR})


class State(StrEnum):
    """What became of a gather or of a table."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    TIMED_OUT = "timed_out"


class Problem(TypedDict, total=False):
    """Problem details (RFC 9457)."""

    type: Required[
        Annotated[str, Meta(extra_json_schema={"examples": [TYPE_PREFIX + code for code in _CODES]})]
    ]
    title: Required[str]
    status: int
    detail: Required[str]
    field: str
    """The field of the request that is wrong, or the limit that the request is over."""

    reason: str
    """What is wrong with that field. The text does not begin with the name of the field."""

    is_missing: bool
    """Whether nothing was given for that field, although something is needed."""

    also_wrong: dict[str, str]
    """Other wrong fields, by name, and what is wrong with each. The text is empty where that is not known."""


class Failure(TypedDict):
    """Why a gather or a table has failed."""

    type: str
    detail: str


class Line(TypedDict):
    """A gather or a table in a list, or after it was stopped or redriven."""

    id: str
    state: State
    submitted_at: Time
    ended_at: Time | None
    """UTC; null while it runs."""

    seconds: Amount
    links: Links
    """self. Where one is described: stop while it runs, redrive if a redrive can continue it, and at the end
    its files: cube and report of a gather, or the files of a table on S3."""
