"""Halts a deployment whose budget is spent, and lets it go on.

To halt is to put a marker, which every plan looks for, and then to let all that runs have one worker. Step
Functions allows no fewer. Nothing is cancelled: shards that are done have been paid for, and one worker costs
only cents an hour.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

from msgspec import Struct

from pixel_gather.core.errors import (
    GatherNotFoundError,
    RequestError,
    ThrottledError,
    UnreachableError,
)
from pixel_gather.core.halt_marker import HALTED_KEY, halt_content, workers_before
from pixel_gather.io.aws.aws_errors import aws_errors_in_words
from pixel_gather.io.aws.executions import LONGEST_LIST, Executions

_PAUSE_S: Final = 1.0
"""Step Functions answers one DescribeMapRun a second for a whole account."""

_LEAST_S: Final = 20.0
"""Left of the time when no other round begins."""

_MOST_TRIES: Final = 5
"""Tries to give each gather and table its workers back while Step Functions is busy."""

_BUSY: Final = (ThrottledError, UnreachableError)


class Switch(Struct, frozen=True, kw_only=True):
    """Halts one deployment, and lets it go on."""

    gathers: Executions
    tables: Executions
    sleep: Callable[[float], None] = time.sleep

    def halt(self, *, left_s: Callable[[], float], by_hand: bool = False) -> list[str]:
        """Let nothing begin, and let what runs have one worker. Return the names of what was limited.

        What runs but has no workers yet is looked at again until it has some, or until the time is nearly
        over: it may have been planned before the marker, and its workers begin minutes later. At the end the
        list is read once more, as Step Functions may be late to list what began just before the marker. If
        somebody resumes the deployment meanwhile, all get their workers back, and nothing was limited.

        Args:
            left_s: How many seconds there are to look again.
            by_hand: As in `pixel_gather.core.halt_marker.halt_content`.
        """
        limited = workers_before(self._marker())
        self._mark(limited, by_hand=by_hand)
        was_empty = False
        while True:
            waiting = [(of, id_) for of, id_ in self._running() if id_ not in limited]
            for executions, id_ in waiting:
                with suppress(*_BUSY):
                    before = self._change(executions, id_, 1)
                    if before is not None:
                        limited[id_] = before
                if (marker := self._marker()) is None:  # somebody has resumed the deployment meanwhile
                    with suppress(ThrottledError):
                        self._give_back(limited)
                    return []
                limited = _higher(limited, workers_before(marker))  # another halt may run beside this one
                self._mark(limited, by_hand=by_hand)
            if (was_empty and not waiting) or left_s() < _LEAST_S:
                return list(limited)
            was_empty = not waiting
            if was_empty:
                self.sleep(_PAUSE_S)

    def resume(self) -> list[str]:
        """Give what was limited its workers back, and let all begin again. Return the names of what got them.

        The marker is removed last, as it holds the numbers of workers. So this can be called again after an
        error.

        Raises:
            ThrottledError: Step Functions stays busy. The deployment stays halted.
        """
        freed = self._give_back(workers_before(self._marker()))
        with aws_errors_in_words():
            self.gathers.s3.delete_object(Bucket=self.gathers.control_bucket, Key=HALTED_KEY)
        return freed

    def _give_back(self, before: Mapping[str, int]) -> list[str]:
        """Let what runs have as many workers as before. Return the names of what got them."""
        freed: list[str] = []
        waiting = [(of, id_) for of, id_ in self._running() if id_ in before]
        for _ in range(_MOST_TRIES):
            busy: list[tuple[Executions, str]] = []
            for executions, id_ in waiting:
                try:
                    is_freed = self._change(executions, id_, before[id_]) is not None
                except _BUSY:
                    busy.append((executions, id_))
                else:
                    freed += [id_] * is_freed
            waiting = busy
        if waiting:
            names = ", ".join(id_ for _, id_ in waiting)
            raise ThrottledError(
                f"Step Functions is busy, so these still have one worker: {names}. Resume again in a minute"
            )
        return freed

    def _marker(self) -> bytes | None:
        return self.gathers.control_file(HALTED_KEY)

    def _mark(self, limited: Mapping[str, int], *, by_hand: bool) -> None:
        content = halt_content(datetime.now(UTC), limited, by_hand=by_hand)
        with aws_errors_in_words():
            self.gathers.s3.put_object(Bucket=self.gathers.control_bucket, Key=HALTED_KEY, Body=content)

    def _running(self) -> Iterator[tuple[Executions, str]]:
        for executions in (self.gathers, self.tables):
            token: str | None = None
            while True:
                page: Mapping[str, Any] = executions.list_(limit=LONGEST_LIST, token=token, state="running")
                for each in page[f"{executions.kind}s"]:
                    yield executions, each["id"]
                token = page["next"]
                if token is None:
                    break

    def _change(self, executions: Executions, id_: str, workers: int) -> int | None:
        """Change the workers of what runs, and return how many it had. None if it has no workers.

        Raises:
            ThrottledError, UnreachableError: Step Functions is busy.
        """
        self.sleep(_PAUSE_S)
        try:
            _, before = executions.change_workers(id_, workers)
        except (RequestError, GatherNotFoundError):
            return None
        return before


def _higher(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    """Return the higher number of each name. A halt only lowers, so the higher one is from before."""
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}
