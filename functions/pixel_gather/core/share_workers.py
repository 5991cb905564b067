"""How many workers a gather gets while others run. Pure.

One small object, the register, names the gathers of a deployment that run, with their workers. A gather
enters it when it is planned, and leaves it when it is finished. The entry of one that fails ends by itself.

S3 answers so many GETs a second of one prefix, and more only gradually. Gathers that read below one prefix at
the same time share them. A worker more would only wait, and be paid for.
"""

from collections.abc import Mapping, Sequence
from copy import replace
from math import ceil, isfinite
from typing import Final

import msgspec
from msgspec import Struct

_MOST_ENTRIES: Final = 10_000
_LATE: Final = 3.0
"""How many times as long as forecast an entry counts."""

_LEAST_S: Final = 900.0


class Running(Struct, frozen=True, kw_only=True):
    """One gather that runs."""

    workers: int
    until_s: float
    """Until when it counts, in seconds since 1970."""

    reads: str = ""
    """What the addresses of all its sources begin with; empty if they lie in several buckets or not on S3."""

    gets_per_s: float = 0.0
    """GETs a second that all its workers send, by its forecast."""

    def reads_beside(self, other: "Running") -> bool:
        """Return whether both read below one prefix, as far as one can tell."""
        one, two = sorted((self.reads, other.reads), key=len)
        return bool(one) and two.startswith(one)


type Register = Mapping[str, Running]
"""The gathers that run, by the names of their executions."""


def parse_register(content: bytes, *, now_s: float) -> dict[str, Running]:
    """Return the entries that count. An object that is no register has none."""
    try:
        found = msgspec.json.decode(content, type=dict[str, Running])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
    if len(found) > _MOST_ENTRIES:
        return {}
    return {name: each for name, each in found.items() if _counts(each, now_s)}


def _counts(entry: Running, now_s: float) -> bool:
    is_sound = entry.workers > 0 and isfinite(entry.gets_per_s) and entry.gets_per_s >= 0
    return is_sound and entry.until_s > now_s


def register_content(running: Register) -> bytes:
    """Return the register as it is stored."""
    return msgspec.json.encode(running)


def admit_gather(others: Register, wanted: Running, *, most: int, gets_per_s: float) -> Running:
    """Return the entry of a new gather, with the workers that it gets.

    It gets what it wants, or what others leave, but at least a fair share: of all workers, and of the GETs of
    the prefix that it reads.

    Args:
        others: All other gathers that run. They keep their workers.
        wanted: Its entry with the workers that are useful to it.
        most: Workers of all gathers together.
        gets_per_s: What S3 answers of one prefix.
    """
    beside = [each for each in others.values() if each.reads_beside(wanted)]
    allowed = _left_or_fair(gets_per_s, [each.gets_per_s for each in beside])
    share = min(allowed / wanted.gets_per_s, 1.0) if beside and wanted.gets_per_s else 1.0
    workers = int(_left_or_fair(most, [each.workers for each in others.values()]))
    workers = max(min(ceil(wanted.workers * share), workers), 1)
    return replace(wanted, workers=workers, gets_per_s=wanted.gets_per_s * workers / max(wanted.workers, 1))


def _left_or_fair(most: float, taken: Sequence[float]) -> float:
    return max(most - sum(taken), most / (len(taken) + 1))


def entry_of(
    workers: int, *, now_s: float, seconds: float, reads: str = "", gets_per_s: float = 0.0
) -> Running:
    """Return the entry of a gather that takes so many seconds by its forecast."""
    until_s = now_s + max(_LATE * seconds, _LEAST_S)
    return Running(workers=workers, until_s=until_s, reads=reads, gets_per_s=gets_per_s)


def common_reads(href: str) -> str:
    """Return the beginning of all addresses as an entry has it: a whole bucket of S3 at least, or nothing."""
    is_below_a_bucket = href.startswith("s3://") and "/" in href.removeprefix("s3://")
    return href if is_below_a_bucket else ""
