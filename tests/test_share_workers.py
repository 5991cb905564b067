"""How many workers a gather gets while others run."""

import pytest

from pixel_gather.core.share_workers import (
    Running,
    admit_gather,
    common_reads,
    entry_of,
    parse_register,
    register_content,
)

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
    wanted = Running(workers=wants, until_s=NOW)

    assert admit_gather(running(*others), wanted, most=900, gets_per_s=5500).workers == granted


def reading(reads: str, gets_per_s: float = 0.0, workers: int = 50) -> Running:
    """Return a gather that reads below a prefix of S3."""
    return Running(workers=workers, until_s=NOW + 60, reads=reads, gets_per_s=gets_per_s)


@pytest.mark.parametrize(
    ("others", "reads", "granted"),
    [
        ([], "s3://a/x/", 50),
        ([reading("s3://a/x/", 1100)], "s3://a/x/", 40),
        ([reading("s3://a/x/", 5500)], "s3://a/x/", 25),
        ([reading("s3://a/", 5500)], "s3://a/x/", 25),
        ([reading("s3://a/x/2024/", 5500)], "s3://a/x/", 25),
        ([reading("s3://a/x/", 2750), reading("s3://a/x/", 2750)], "s3://a/x/", 17),
        ([reading("s3://a/y/", 5500)], "s3://a/x/", 50),
        ([reading("s3://b/x/", 5500)], "s3://a/x/", 50),
        ([reading("", 5500)], "s3://a/x/", 50),
        ([reading("s3://a/x/", 5500)], "", 50),
        ([reading("s3://a/x/", 1e9)], "s3://a/x/", 25),
    ],
)
def test_gathers_that_read_below_one_prefix_share_what_s3_answers(
    others: list[Running], reads: str, granted: int
) -> None:
    """A worker of the new one sends 110 GETs a second. Others keep theirs. Other prefixes do not count."""
    register = {str(at): each for at, each in enumerate(others)}

    entry = admit_gather(register, reading(reads, 5500), most=900, gets_per_s=5500)

    assert entry.workers == granted
    assert entry.gets_per_s == pytest.approx(110 * granted)


@pytest.mark.parametrize(
    ("href", "reads"),
    [
        ("s3://bucket/a/b", "s3://bucket/a/b"),
        ("s3://bucket/", "s3://bucket/"),
        ("s3://buck", ""),
        ("s3://", ""),
        ("https://host/a", ""),
        ("", ""),
    ],
)
def test_prefix_is_of_one_bucket_or_none(href: str, reads: str) -> None:
    """What several buckets begin with is no prefix of S3."""
    assert common_reads(href) == reads


def test_register_keeps_what_counts_and_forgets_what_has_failed() -> None:
    """An entry ends by itself, after three times its forecast and a quarter of an hour at least."""
    kept = {"a": entry_of(5, now_s=NOW, seconds=10), "b": entry_of(7, now_s=NOW, seconds=1000)}
    content = register_content(kept)

    assert parse_register(content, now_s=NOW) == kept
    assert parse_register(content, now_s=NOW + 901).keys() == {"b"}
    assert parse_register(content, now_s=NOW + 3001) == {}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff",
        b"[1]",
        b'{"a": 3}',
        b'{"a": {"workers": "x"}}',
        b'{"a": {"workers": 5, "until_s": 1e12, "gets_per_s": -1}}',
    ],
)
def test_object_that_is_no_register_holds_up_nobody(content: bytes) -> None:
    """It counts as empty, and is replaced."""
    assert parse_register(content, now_s=NOW) == {}
