"""Which values of an earlier ranking a later one may take."""

from copy import replace
from typing import Final

from pixel_gather.core.model.scaling import SCALING_COLUMNS
from pixel_gather.core.model.source import Source
from pixel_gather.core.pixel_mask import PixelMask
from pixel_gather.features.rank.ranking_request import Precision, RankingRequest
from pixel_gather.features.rank.scenes import RankScene
from pixel_gather.features.rank.statistic import Statistic
from pixel_gather.tables.expression import Expression
from pixel_gather.tables.find_bands import BandOf
from support.identities import alike, another, check_identity

_MASK: Final = {"band": "scl", "drop": [3, 8]}
_OF_BAND: Final = RankingRequest.of(by="b1 * 2", mask=_MASK)
_OF_SHARE: Final = RankingRequest.of(by="valid", mask=_MASK)


def test_a_value_is_kept_by_all_that_it_is_made_of() -> None:
    """How precisely, in which order and how many are wanted is asked of the same values.

    The files of the bands are in the key of each scene.
    """
    area = RankingRequest.of(by="b1", bbox=[0, 0, 1, 1]).area
    changes = {
        "by": another(_OF_SHARE, by="clear"),
        "expression": another(_OF_BAND, expression=Expression.parse("b1 * 3")),
        "area": another(_OF_BAND, area=area),
        "mask": another(_OF_BAND, mask=None),
        "statistic": another(_OF_BAND, statistic=Statistic.parse("median")),
        "precision": alike(_OF_BAND, precision=Precision.of("exact")),
        "order": alike(_OF_BAND, order="asc"),
        "top": alike(_OF_BAND, top=1),
        "bands": alike(_OF_BAND, bands=(("b1", "B04"),)),
        "raw": another(_OF_BAND, raw=True),
    }

    check_identity(RankingRequest.inputs_digest, changes, fields=RankingRequest.__struct_fields__)


def test_a_value_is_kept_by_the_pixels_that_do_not_count() -> None:
    """The band of the mask is in the key of each scene. A ranking dilates nothing."""
    of_bits = PixelMask(band="scl", bits=(3,))
    changes = {
        "band": alike(of_bits, band="qa"),
        "drop": another(PixelMask(band="scl", drop=(3,)), drop=(8,)),
        "bits": another(of_bits, bits=(4,)),
        "dilate": alike(of_bits, dilate=1),
    }

    check_identity(
        lambda mask: replace(_OF_BAND, mask=mask).inputs_digest(),
        changes,
        fields=PixelMask.__struct_fields__,
    )


def test_a_value_is_kept_by_the_statistic_with_all_its_digits() -> None:
    """Before, a share above 1234567 was given for that above 1234568."""
    share = Statistic("share", 1234567)
    changes = {
        "kind": another(Statistic("share", 0.5), kind="quantile"),
        "at": another(share, at=1234568),
    }

    check_identity(
        lambda statistic: replace(_OF_BAND, statistic=statistic).inputs_digest(),
        changes,
        fields=Statistic.__struct_fields__,
    )


def test_a_name_has_the_values_of_its_expression() -> None:
    """So whoever writes the expression gets what is kept."""
    requests = [RankingRequest.of(by=by) for by in ("ndvi", "(nir - red) / (nir + red)")]

    assert len({each.inputs_digest() for each in requests}) == 1


def test_a_scene_is_kept_by_the_bands_that_are_read() -> None:
    """Not by its name or its time, which only the table tells."""
    source = Source(href="s3://a/0.tif")
    scene = RankScene(id="s", time_us=0, bands={"b1": BandOf(source, 1)}, mask=BandOf(source, 2))
    changes = {
        "id": alike(scene, id="t"),
        "time_us": alike(scene, time_us=1),
        "bands": another(scene, bands={"b1": BandOf(source, 3)}),
        "mask": another(scene, mask=BandOf(source, 3)),
        "missing": alike(scene, missing="b1"),  # it is not read
    }

    check_identity(lambda it: it.parts_key, changes, fields=RankScene.__struct_fields__)


def test_a_scene_is_kept_by_what_the_list_says_of_its_values() -> None:
    """Whatever the list may say: a value by another scale is another value."""
    said: list[dict[str, float]] = [{}, *({name: 2.0} for name in SCALING_COLUMNS), {"cloud_cover": 2.0}]
    sources = [Source(href="s3://a/0.tif", columns=each) for each in said]
    scenes = [RankScene(id="s", time_us=0, bands={"b1": BandOf(each, 1)}, mask=None) for each in sources]

    assert len({each.parts_key for each in scenes}) == 1 + len(SCALING_COLUMNS)
