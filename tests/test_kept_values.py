"""Values that were used last: which ones stay, and that their bytes are counted right."""

from hypothesis import given
from hypothesis import strategies as st

from pixel_gather.core.kept_values import KeptValues

STEPS = st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 60)))


@given(STEPS)
def test_kept_values_are_those_used_last_within_the_bound(steps: list[tuple[str, int]]) -> None:
    """Bytes are those of what is there, also after a value was replaced."""
    kept, used = KeptValues[str, int](100), dict[str, int]()

    for key, nbytes in steps:
        kept.put(key, nbytes, nbytes)
        used.pop(key, None)
        used[key] = nbytes
        while sum(used.values()) > 100 and len(used) > 1:
            del used[next(iter(used))]

        assert [*kept] == [*used]
        assert kept.nbytes == sum(used.values())


def test_value_that_is_asked_for_stays_longer() -> None:
    """What was put first is dropped first only if nobody asks for it."""
    kept = KeptValues[str, int](2)
    for key in "abac":
        if kept.get(key) is None:
            kept.put(key, 0, 1)

    assert [*kept] == ["a", "c"]
    assert kept.get("b") is None


def test_newest_value_stays_though_it_alone_has_more_bytes() -> None:
    """Who asks for it again and again need not make it anew each time."""
    kept = KeptValues[str, int](2)
    kept.put("a", 0, 1)
    kept.put("b", 0, 9)

    assert ([*kept], kept.nbytes) == (["b"], 9)
