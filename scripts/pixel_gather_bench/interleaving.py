"""The order of runs that are compared: rounds, so that what changes with time changes for all alike."""

from collections.abc import Iterator, Sequence


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
