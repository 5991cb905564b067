"""The order of runs that are compared: rounds, each beginning with another one."""

from collections.abc import Iterable


def turned[T](items: Iterable[T], round_index: int) -> list[T]:
    """Return the items so that the first one moves on by one each round. Round -1 is a warm-up."""
    known = list(items)
    first = max(round_index, 0) % len(known) if known else 0
    return known[first:] + known[:first]
