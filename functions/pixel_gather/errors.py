"""Every error that Pixel Gather raises on purpose, grouped by what the caller should do.

::

    GatherError
    ├── RequestError       the request or the list is wrong: fix it (also a ValueError)
    ├── BudgetError        the plan is over a limit: ask for less or raise the limit
    ├── SourceError        one source cannot be used: recorded in ``status``, and the gather goes on
    │   └── StaleHeaderError   it is not what an index says: open it anew
    ├── StoreError         the place that the cube is written to refused: mend it, run again
    ├── BusyError          this machine or a store could not just now: run again, nothing needs mending
    ├── ArrayExistsError   something else lies at the cube's place: choose another
    ├── MissingExtraError  a package that is optional is needed: the message says what to install
    │
    │   and of a deployment on AWS:
    ├── GatherNotFoundError   no gather of this id: list them
    ├── SceneNotFoundError    the catalog has no such scene or collection: search for it
    ├── NotRedrivableError    nothing to run again: the message says what to do instead
    ├── ThrottledError        asked too often: ask again later
    ├── DeniedError           credentials are missing or too weak: get others
    ├── UnreachableError      no answer: mend the network, the address or the certificate
    └── DeploymentError       it is not there, or not as it should be: deploy it again
"""

from typing import ClassVar

from pixel_gather.model.status import Status


class GatherError(Exception):
    """Base of all errors below; ``code`` is stable and meant for programs."""

    code: ClassVar[str] = "gather_error"


class RequestError(GatherError, ValueError):
    """The request, or the list that it names, is wrong."""

    code = "request_error"

    def __init__(self, message: str, *, field: str) -> None:
        """Say what is wrong.

        Args:
            message: One sentence that says what to do.
            field: Where it stands: a dotted field of the request, or ``LIST line N``.
        """
        super().__init__(f"{field}: {message}")
        self.field = field


class BudgetError(GatherError):
    """The plan exceeds the request's or the deployment's limit; nothing was read or written."""

    code = "budget_error"


class SourceError(GatherError):
    """One source cannot be used; ``status`` says why, in the cube's own codes."""

    code = "source_error"

    def __init__(self, message: str, *, href: str, status: Status) -> None:
        """Name the source and what became of it."""
        super().__init__(f"{href}: {message}")
        self.href = href
        self.status = status
        self.reason = message


class StaleHeaderError(SourceError):
    """A header that was known beforehand does not hold for what lies there now: open the source anew.

    Never recorded: what opening it anew tells decides.
    """

    code = "stale_header"


class StoreError(GatherError):
    """The place that the cube or its control files are kept in could not be read or written."""

    code = "store_error"


class BusyError(GatherError):
    """This machine, or a store, could not do it just now: the same run again goes on where it stopped."""

    code = "busy"


class ArrayExistsError(GatherError):
    """The cube's place holds another cube, or half of one that this request cannot continue."""

    code = "array_exists"


class MissingExtraError(GatherError, ImportError):
    """A package is needed that is installed with an extra, such as ``pixel-gather[aws]``."""

    code = "missing_extra"


class GatherNotFoundError(GatherError):
    """There is no gather of this id, or it ended more than 90 days ago."""

    code = "gather_not_found"


class SceneNotFoundError(GatherError):
    """The catalog has no scene, or no collection, of this id."""

    code = "scene_not_found"


class NotRedrivableError(GatherError):
    """The gather has nothing that could be run again: the message says what to do instead."""

    code = "not_redrivable"


class ThrottledError(GatherError):
    """Asked too often: ask again later."""

    code = "throttled"

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        """Say who is busy, and when to come back where that was said."""
        super().__init__(message)
        self.retry_after_s = retry_after_s


class DeniedError(GatherError):
    """Credentials are missing or expired, or do not allow this."""

    code = "access_denied"


class UnreachableError(GatherError):
    """No answer: the network, the address or the certificate is wrong."""

    code = "unreachable"


class DeploymentError(GatherError):
    """The deployment is not there, not configured, or answered what it should not."""

    code = "deployment_error"
