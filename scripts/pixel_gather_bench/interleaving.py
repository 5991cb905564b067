"""The order of runs that are compared: rounds, so that what changes with time changes for all alike."""

from collections.abc import Iterable, Iterator, Sequence


def rounds[T](items: Sequence[T], times: int, *, warm_ups: int = 0) -> Iterator[tuple[int, T]]:
    """Yield every item once a round, with the round's number from 0.

    Every second round goes backwards, so that nothing always follows the same neighbour. Every other round
    begins one item later, so that nothing is always first.

    Args:
        items: What is compared.
        times: Rounds.
        warm_ups: Rounds before them, which do not count; their numbers are below 0.
    """
    for number in range(-warm_ups, times):
        first = max(number, 0) // 2 % max(len(items), 1)
        turned = [*items[first:], *items[:first]]
        for item in reversed(turned) if number > 0 and number % 2 else turned:
            yield number, item


def turned[T](items: Iterable[T], round_index: int) -> list[T]:
    """Return the items so that the first one moves on by one each round. Round -1 is a warm-up."""
    known = list(items)
    first = max(round_index, 0) % len(known) if known else 0
    return known[first:] + known[:first]
