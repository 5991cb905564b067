"""Sizes of reads."""

import pytest

from pixel_gather.io.geotiff.geotiff_settings import GeoTiffSettings


def test_a_first_read_that_is_named_is_fixed() -> None:
    """Without one it starts at 16 KiB and adapts."""
    assert GeoTiffSettings.reading_first(None) == GeoTiffSettings()
    assert GeoTiffSettings().learns_head
    assert GeoTiffSettings().head_nbytes == 16_384
    assert GeoTiffSettings.reading_first(1) == GeoTiffSettings(head_nbytes=1, learns_head=False)


@pytest.mark.parametrize("name", ["head_nbytes", "max_get_nbytes", "max_gets_in_flight"])
def test_limits_under_which_nothing_can_be_read_are_refused(name: str) -> None:
    """One is enough, and zero is not."""
    assert getattr(GeoTiffSettings(**{name: 1}), name) == 1  # type: ignore[arg-type] # they are integers
    with pytest.raises(ValueError, match="at least 1"):
        GeoTiffSettings(**{name: 0})  # type: ignore[arg-type] # as above


def test_tiles_are_cut_to_parts_and_to_the_longest_request() -> None:
    """The smaller of both."""
    settings = GeoTiffSettings(max_get_nbytes=100)

    assert settings.cut_nbytes == 100
    assert settings.in_parts(None) is settings
    assert settings.in_parts(40).cut_nbytes == 40
    assert settings.in_parts(400).cut_nbytes == 100
    assert settings.in_parts(40).part_nbytes == 40
