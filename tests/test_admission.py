"""How many workers a gather gets while others run."""

import pytest

from pixel_gather.core.admission import Running, admit_gather, entry_of, parse_register, register_content

NOW = 1_000_000.0


def running(*workers: int) -> dict[str, Running]:
    """Return gathers that run."""
    return {str(at): Running(workers=n, until_s=NOW + 60) for at, n in enumerate(workers)}


@pytest.mark.parametrize(
    ("others", "wants", "granted"),
    [
        ((), 500, 500),
        ((), 2000, 900),
        ((300,), 500, 500),
        ((500,), 500, 450),
        ((800,), 500, 450),
        ((450, 450), 500, 300),
        ((900,), 3, 3),
        (tuple([10] * 899), 500, 1),
        (tuple([1] * 2000), 500, 1),
    ],
)
def test_gather_gets_what_others_leave_or_its_fair_share(
    others: tuple[int, ...], wants: int, granted: int
) -> None:
    """Nobody waits for another, and nobody takes more than is useful."""
    assert admit_gather(running(*others), wants=wants, most=900) == granted


def test_register_keeps_what_counts_and_forgets_what_has_failed() -> None:
    """An entry ends by itself, after three times its forecast and a quarter of an hour at least."""
    kept = {"a": entry_of(5, now_s=NOW, seconds=10), "b": entry_of(7, now_s=NOW, seconds=1000)}
    content = register_content(kept)

    assert parse_register(content, now_s=NOW) == kept
    assert parse_register(content, now_s=NOW + 901).keys() == {"b"}
    assert parse_register(content, now_s=NOW + 3001) == {}


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[1]", b'{"a": 3}', b'{"a": {"workers": "x"}}'])
def test_object_that_is_no_register_holds_up_nobody(content: bytes) -> None:
    """It counts as empty, and is replaced."""
    assert parse_register(content, now_s=NOW) == {}
