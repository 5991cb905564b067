"""What the commands ask of a deployment on AWS. Implemented by `ApiDeployment` and `DirectDeployment`."""

import io
from typing import Any, Literal, Protocol

from msgspec import Struct

from pixel_gather.core.request.request import GatherRequest

type Kind = Literal["gather", "table"]


class LocalList(Struct, frozen=True, kw_only=True):
    """A list file on this machine."""

    file: io.BufferedIOBase
    """Positioned at its start. The caller closes it."""

    nbytes: int
    sha256: str
    """64 hexadecimal digits."""

    suffix: str
    """The format's file name suffix, without a dot."""


class RemoteDeployment(Protocol):
    """A deployment on AWS. Answers are plain JSON; a refusal raises a `GatherError`."""

    def submit(self, request: GatherRequest, *, force: bool) -> dict[str, Any]:
        """Start a gather, or find the one with the same request.

        Returns:
            ``id``, ``is_new``, ``state`` and ``links``.
        """

    def keep_list(self, listed: LocalList) -> str:
        """Upload a list file unless a recent copy is there; return its href."""

    def status(self, id_: str) -> dict[str, Any]:
        """Describe one gather, or by the API also a table or a large ranking."""

    def list_(self, *, limit: int, token: str | None, state: str | None, kind: Kind) -> dict[str, Any]:
        """Return one page: ``gathers`` or ``tables``, the latest first, and ``next``: its token or None."""

    def stop(self, id_: str) -> dict[str, Any]:
        """Stop what `status` describes; return its ``id`` and ``state``."""

    def limit(self, id_: str, workers: int) -> dict[str, Any]:
        """Let a gather or table have at most so many workers from now on; return its ``id`` and ``state``."""

    def redrive(self, id_: str) -> dict[str, Any]:
        """Run the missing parts of what failed or was stopped; return its ``id`` and ``state``."""
