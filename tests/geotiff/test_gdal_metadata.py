"""The XML of GDAL: scales and offsets of bands, and hints at masks."""

import pytest

from geotiff.small_tiffs import ASCII, SHORT, Tags, ifd_of
from pixel_gather.io.geotiff.gdal_metadata import (
    mentions_mask,
    overview_resampling,
    scales_and_offsets,
    units_of_bands,
)
from pixel_gather.io.geotiff.ifd import Ifd, Tag
from pixel_gather.io.geotiff.unsupported import UnsupportedError


def told(*items: str) -> Ifd:
    """Return a directory whose metadata has these items."""
    return tagged(f"<GDALMetadata>{''.join(items)}</GDALMetadata>" if items else "")


def tagged(text: str) -> Ifd:
    """Return a directory with this metadata, if it is any."""
    tags: Tags = {Tag.GDAL_METADATA: (ASCII, text.encode() + b"\0")} if text else {}
    return ifd_of({256: (SHORT, (1,)), **tags})


def item(value: str, *, role: str = "scale", sample: str | None = "0", name: str = "SCALE") -> str:
    """Return one item."""
    of_band = "" if sample is None else f' sample="{sample}"'
    return f'<Item name="{name}"{of_band} role="{role}">{value}</Item>'


def test_each_band_has_its_scale_and_offset() -> None:
    """Without a word they are 1 and 0. Only the role counts, not the name."""
    assert scales_and_offsets(told(), 2) == ((1.0, 1.0), (0.0, 0.0))
    assert scales_and_offsets(told(item(" 0.5 ", sample="1")), 2) == ((1.0, 0.5), (0.0, 0.0))
    both = told(item("0.5"), item("7", role="offset", sample="1"), item("m", role="unittype"))
    assert scales_and_offsets(both, 2) == ((0.5, 1.0), (0.0, 7.0))
    assert scales_and_offsets(told(item("7", role="offset")), 1) == ((1.0,), (7.0,))
    assert scales_and_offsets(told(item("x", role="description")), 1) == ((1.0,), (0.0,))


def test_roles_may_have_capitals_or_other_quotes() -> None:
    """GDAL writes none of that, but reads it."""
    assert scales_and_offsets(told(item("0.5", role="Scale")), 1) == ((0.5,), (0.0,))
    assert scales_and_offsets(told(item("0.5").replace('"', "'")), 1) == ((0.5,), (0.0,))
    assert units_of_bands(told(item("m", role="UnitType"))) == {0: "m"}


@pytest.mark.parametrize(
    "items",
    [
        item("0.5", sample="2"),
        item("0.5", sample="-1"),
        item("0.5", sample=None),
        item("0.5", sample="one"),
        item("0.5", sample="1_0"),
        item("half"),
        item(""),
        item("1_0"),
        item("\u0663"),
        item("0.5").replace(' name="SCALE"', ""),
        item("0.5").replace("sample", "Sample"),
        item("0.5").replace("Item", "item"),
        item("0.5<b/>"),
        item("0.5") + "<Item>",
        item("0.5") + "<!-- a comment -->",
        item("0.5") + "<?x?>",
    ],
)
def test_what_gdal_may_read_otherwise_is_refused(items: str) -> None:
    """A band that is not there, text that is no number, invalid XML, and XML with more than plain items."""
    with pytest.raises(UnsupportedError):
        scales_and_offsets(told(items), 2)


def test_characters_as_numbers_are_left_to_gdal() -> None:
    """GDAL decodes numeric character references inside its escaped text. Our reader does not."""
    with pytest.raises(UnsupportedError):
        units_of_bands(told(item("&amp;#181;m", role="unittype")))


def test_items_of_another_root_are_refused() -> None:
    """GDAL skips all of them."""
    with pytest.raises(UnsupportedError):
        scales_and_offsets(tagged(f"<Metadata>{item('0.5')}</Metadata>"), 1)


def test_xml_without_scales_is_not_parsed() -> None:
    """Whatever it is."""
    assert scales_and_offsets(told("<!DOCTYPE"), 1) == ((1.0,), (0.0,))
    assert overview_resampling(told("<!DOCTYPE")) is None


def test_long_metadata_is_refused() -> None:
    """More than a MiB is more than names and numbers."""
    room = (1 << 20) - len("<GDALMetadata></GDALMetadata>") - 1

    assert scales_and_offsets(told("x" * room), 1) == ((1.0,), (0.0,))
    with pytest.raises(UnsupportedError):
        scales_and_offsets(told("x" * (room + 1)), 1)


@pytest.mark.parametrize(
    ("text", "hints"), [("Alpha", True), ("NoData_Values", True), ("nodata", False), (item("2"), False)]
)
def test_alpha_or_one_nodata_for_all_bands_hint_at_a_mask(text: str, *, hints: bool) -> None:
    """The words may be in capitals or not."""
    assert mentions_mask(told(text)) is hints
    assert not mentions_mask(told())


def test_resampling_is_told_once_and_in_capitals() -> None:
    """Items without text, and of other names, say nothing."""

    def named(value: str) -> str:
        return item(value, role="", sample=None, name="OVERVIEW_RESAMPLING")

    assert overview_resampling(told(item("x"), named(""), named(" cubic "))) == "CUBIC"
    assert overview_resampling(told(named(""))) is None
    assert overview_resampling(told(item("OVERVIEW_RESAMPLING"))) is None
