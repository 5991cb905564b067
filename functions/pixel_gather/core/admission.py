"""How many workers a gather gets while others run. Pure.

One small object, the register, names the gathers of a deployment that run, with their workers. A gather
enters it when it is planned, and leaves it when it is finished. The entry of one that fails ends by itself.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

import msgspec

_MOST_ENTRIES: Final = 10_000
_LATE: Final = 3.0
"""How many times as long as forecast an entry counts."""

_LEAST_S: Final = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """One gather that runs."""

    workers: int
    until_s: float
    """Until when it counts, in seconds since 1970."""


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
    return {name: each for name, each in found.items() if each.workers > 0 and each.until_s > now_s}


def register_content(running: Register) -> bytes:
    """Return the register as it is stored."""
    return msgspec.json.encode({name: asdict(each) for name, each in running.items()})


def admit_gather(others: Register, *, wants: int, most: int) -> int:
    """Return the workers of a new gather: what it wants, or what others leave, but at least a fair share.

    Args:
        others: All other gathers that run. They keep their workers.
        wants: Workers that are useful to it.
        most: Of all gathers together.
    """
    left = most - sum(each.workers for each in others.values())
    fair = most // (len(others) + 1)
    return max(min(wants, max(left, fair)), 1)


def entry_of(workers: int, *, now_s: float, seconds: float) -> Running:
    """Return the entry of a gather that takes so many seconds by its forecast."""
    return Running(workers=workers, until_s=now_s + max(_LATE * seconds, _LEAST_S))
