"""Every error that Pixel Gather raises on purpose, grouped by what the caller should do.

::

    GatherError
    ├── RequestError       the request or the list is wrong: fix it (also a ValueError)
    │   └── NothingToAppendError   the cube has all that was listed: there is nothing to plan
    ├── BudgetError        the plan is over a limit: ask for less or raise the limit
    │   └── HaltedError    the deployment is halted: ask again, unchanged, when it goes on
    ├── SourceError        one source cannot be used: it is recorded in ``status`` and the gather continues
    │   ├── NoOverviewError    it has no such overview: ask for another one
    │   └── StaleHeaderError   a cached header is out of date: read the header again
    ├── StoreError         the cube's store failed: repair it and run again
    │   └── ShardsMissingError   shards have not been gathered: run again to go on
    ├── BusyError          this machine or a store is busy: run again, nothing needs repair
    │   └── AppendRunningError   another append to the cube is at work: run again when it is done
    ├── ArrayExistsError   the output location is in use: choose another
    ├── AlreadyCommittedError   the work was done before, and nothing was written: there is nothing to do
    ├── MissingExtraError  an optional package is needed: the message says what to install
    │
    │   and for a deployment on AWS:
    ├── GatherNotFoundError   no gather has this id: list them
    │   └── TableNotFoundError   no table has this id: list them
    ├── SceneNotFoundError    the catalog has no such scene or collection: search for it
    ├── NotRedrivableError    nothing can be run again: the message says what to do instead
    ├── ThrottledError        too many requests: ask again later
    ├── DeniedError           credentials are missing or insufficient: get others
    ├── UnreachableError      no answer: check the network, the address and the certificate
    ├── DeploymentError       the deployment is missing or wrongly configured: deploy it again
    │
    │   and for the workers and the state machine:
    ├── GatherCancelledError  the gather was cancelled: its request goes on if it is submitted again
    ├── ShardLateError        the first try of some shards takes too long: another worker starts
    └── ShardsLeftError       a second try has no time for the shards that are left: as above
"""

from collections.abc import Mapping
from json import JSONDecodeError
from typing import Any, ClassVar, Final

from pixel_gather.core.model.shown import shown_href
from pixel_gather.core.model.status import Status

DAMAGED_JSON: Final = (JSONDecodeError, UnicodeDecodeError, RecursionError)
"""What reading a file raises that is no JSON, or is nested too deep."""

NOT_OF_A_CUBE: Final = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""What reading a group's ``zarr.json`` raises if it is damaged, or if no gather has written it."""

OF_NO_GATHER: Final = (
    "a Zarr that no gather made is there: choose another place, or name the cube that this is an array of"
)
"""Said of a place whose ``zarr.json`` is sound, and not that of a cube."""

REFUSALS: Final = ("RequestError", "BudgetError", "HaltedError", "ArrayExistsError")
"""Errors with which the plan of a gather refuses a request. A redrive would be refused again."""

_MOST_NAMED: Final = 3


def why_no_cube(error: Exception) -> str:
    """Return why a place holds no cube: reading its ``zarr.json`` raised one of `NOT_OF_A_CUBE`."""
    if isinstance(error, DAMAGED_JSON):
        return f"its zarr.json is damaged ({error}): put it back from a copy, or choose another place"
    return OF_NO_GATHER


class PickledError(Exception):
    """An error with its own arguments that can be sent to another process, as a process pool does."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how the error is made again. Python would call the class with the message alone."""
        return _made_again, (type(self), self.args), self.__dict__


def _made_again(kind: type[Exception], args: tuple[Any, ...]) -> Exception:
    error = kind.__new__(kind, *args)
    error.args = args  # OSError leaves that to its own __init__
    return error


class GatherError(PickledError):
    """Base of all errors below. Programs can rely on ``code``, which never changes."""

    code: ClassVar[str] = "gather_error"


class RequestError(GatherError, ValueError):
    """The request, or the list that it names, is wrong."""

    code = "request_error"

    def __init__(
        self,
        message: str,
        *,
        field: str,
        also_wrong: Mapping[str, str] | None = None,
        is_missing: bool = False,
    ) -> None:
        """Say what is wrong.

        Args:
            message: One sentence that says what to do.
            field: Where the mistake is: a dotted field of the request, or ``LIST line N``.
            also_wrong: What is wrong with other fields; nothing where that is not said. The message names
                the first three.
            is_missing: Whether nothing was given for the field, and something is needed.
        """
        super().__init__(f"{field}: {message}{_in_few_words(also_wrong or {})}")
        self.field = field
        self.message = message
        self.also_wrong = dict(also_wrong or {})
        self.is_missing = is_missing


def _in_few_words(also_wrong: Mapping[str, str]) -> str:
    if not also_wrong:
        return ""
    said = [f"{field} ({what})" if what else field for field, what in also_wrong.items()][:_MOST_NAMED]
    n_more = len(also_wrong) - _MOST_NAMED
    return f". Also wrong: {', '.join(said)}{f' and {n_more:,} more' if n_more > 0 else ''}"


class NothingToAppendError(RequestError):
    """The cube has all sources, or chips, that are to be added. Only a plan says so: a gather succeeds."""

    code = "nothing_to_append"

    def __init__(self, *, has_chips: bool) -> None:
        """Say what the cube has."""
        what = "chips" if has_chips else "sources"
        super().__init__(
            f"the cube has all of these {what}: there is nothing to append", field="output.append_to"
        )
        self.has_chips = has_chips


class BudgetError(GatherError):
    """The plan exceeds a limit of the request or of the deployment. Nothing was read or written."""

    code = "budget_error"

    def __init__(self, message: str, *, field: str = "") -> None:
        """Say what is exceeded.

        Args:
            message: One sentence that says what to do.
            field: The limit, as a dotted field of the request; empty if no field holds it.
        """
        super().__init__(f"{field}: {message}" if field else message)
        self.field = field
        self.message = message


class HaltedError(BudgetError):
    """The deployment is halted, and begins nothing. The request itself is right."""


class SourceError(GatherError):
    """One source cannot be used. ``status`` is the code that the cube stores for it."""

    code = "source_error"

    def __init__(self, message: str, *, href: str, status: Status) -> None:
        """Name the source, its status and the reason."""
        super().__init__(f"{shown_href(href)}: {message}")
        self.href = href
        self.status = status
        self.reason = message


class NoOverviewError(SourceError):
    """A source does not have the overview that was asked for."""

    code = "no_overview"


class StaleHeaderError(SourceError):
    """A cached header does not match the object that is there now: read the header again.

    The cube never records this error. It records the result of the second try.
    """

    code = "stale_header"


class StoreError(GatherError):
    """The store of the cube or of its control files could not be read or written."""

    code = "store_error"


class ShardsMissingError(StoreError):
    """More shards have not been gathered than the request allows. Run the same request again to go on."""

    code = "shards_missing"


class BusyError(GatherError):
    """This machine or a store is busy at the moment. Repeat the run: it continues where it stopped."""

    code = "busy"


class AppendRunningError(BusyError):
    """Another append is adding rows to the cube. Run again: the rows then go behind its rows."""

    code = "append_running"


class ArrayExistsError(GatherError):
    """The output location holds another cube, or an unfinished one that this request cannot continue."""

    code = "array_exists"


class AlreadyCommittedError(GatherError):
    """The cube has reached the version that this work is for. Nothing was written."""

    code = "already_committed"


class MissingExtraError(GatherError, ImportError):
    """A package is missing that an extra installs, such as ``aws``."""

    code = "missing_extra"


class GatherNotFoundError(GatherError):
    """No gather has this id, or it ended more than 90 days ago."""

    code = "gather_not_found"


class TableNotFoundError(GatherNotFoundError):
    """No table has this id, or it ended more than 90 days ago."""

    code = "table_not_found"


class SceneNotFoundError(GatherError):
    """No scene or collection of the catalog has this id."""

    code = "scene_not_found"


class NotRedrivableError(GatherError):
    """Nothing of this gather can be run again. The message says what to do instead."""

    code = "not_redrivable"


class GatherCancelledError(GatherError):
    """Somebody has cancelled this gather. Its request, submitted again, goes on with what is missing."""

    code = "gather_cancelled"


class ThrottledError(GatherError):
    """Too many requests: ask again later."""

    code = "throttled"

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        """Take the message and, if the server named it, the number of seconds to wait."""
        super().__init__(message)
        self.retry_after_s = retry_after_s


class DeniedError(GatherError):
    """Credentials are missing, expired or insufficient."""

    code = "access_denied"


class UnreachableError(GatherError):
    """The server does not answer: check the network, the address and the certificate."""

    code = "unreachable"


class DeploymentError(GatherError):
    """The deployment is missing, not configured, or gave an unexpected answer."""

    code = "deployment_error"


class ShardLateError(GatherError):
    """The first try took too long. The state machine starts a fresh worker."""

    code = "shard_late"


class ShardsLeftError(GatherError):
    """A second try filled some shards and has no time for the others. The state machine tries again."""

    code = "shards_left"
