"""The order of warnings."""

from pixel_gather.core.plan.warning_kinds import LossWarning, PixelWarning, gravest_first


def test_the_gravest_come_first() -> None:
    """Those of a kind keep their order, and all are plain texts, as they are stored."""
    given = ["a", LossWarning("b"), PixelWarning("c"), "d", PixelWarning("e"), LossWarning("f")]

    found = gravest_first(given)

    assert found == ("c", "e", "b", "f", "a", "d")
    assert {type(each) for each in found} == {str}
