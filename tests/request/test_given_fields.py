"""Fields of objects from outside."""

import pytest

from pixel_gather import RequestError
from pixel_gather.core.request.given_fields import check_names, check_one_of


@pytest.mark.parametrize(
    ("given", "within", "says"),
    [
        (["a", "c"], "", "c: there is no such field; it takes a, b"),
        (["c"], "limits", "limits.c: there is no such field; it takes a, b"),
        (["d", 7, "c"], "", "7: there is no such field; it takes a, b"),
        ([""], "", "'': there is no such field; it takes a, b"),
    ],
)
def test_a_field_that_would_be_ignored_is_refused(given: list[str], within: str, says: str) -> None:
    """The error names it, and those that there are. A key of YAML may be a number."""
    with pytest.raises(RequestError) as refused:
        check_names(given, {"b", "a"}, within=within)

    assert str(refused.value) == says


def test_known_fields_are_taken() -> None:
    """All of them or some."""
    check_names(["a"], {"b", "a"})
    check_one_of(["a", "c"], "a", "b")
    check_one_of(["b"], "a", "b")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([], "a: give a or b: b is a list"),
        (["a", "b"], "a: give a or b, not both: b is a list"),
    ],
)
def test_one_of_two_fields_is_wanted(given: list[str], says: str) -> None:
    """None is told otherwise than both."""
    with pytest.raises(RequestError) as refused:
        check_one_of(given, "a", "b", hint="b is a list")

    assert str(refused.value) == says
