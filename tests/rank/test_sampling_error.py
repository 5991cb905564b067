"""The stated error: how often its interval holds the exact value, by how the level was made."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

from pixel_gather.features.rank.sampling_error import (
    INTERVAL,
    ErrorEstimate,
    Grid,
    LevelSample,
    Resampling,
    estimate,
)
from pixel_gather.features.rank.statistic import Statistic
from pixel_gather.tables.expression import Expression

_ONE, _RATIO = Expression.parse("a"), Expression.parse("(a - b) / (a + b)")


@cache
def _image(seed: int, *, smooth: int) -> Grid:
    """Return an image with structure at every scale from ``smooth`` pixels up."""
    rng = np.random.default_rng(seed)
    image = np.zeros((256, 256))
    size = 256
    while size >= smooth:
        n = 256 // size
        image += np.kron(rng.normal(size=(n, n)) * size**0.5, np.ones((size, size)))
        size //= 2
    return np.asarray(1000 + 10 * image)


def _average(image: Grid) -> Grid:
    return np.asarray(image.reshape(32, 8, 32, 8).mean(axis=(1, 3)))


def _nearest(image: Grid) -> Grid:
    return image[4::8, 4::8]


def _correlation(image: Grid) -> float:
    """Return the correlation of neighbours, across and down."""
    centred = image - image.mean()
    across, down = (centred[:, 1:] * centred[:, :-1]).mean(), (centred[1:] * centred[:-1]).mean()
    return float((across + down) / 2 / centred.var())


def _estimate(
    *bands: Grid, text: str = "mean", resampling: Resampling = "average", factor: int = 8, **more: Any
) -> ErrorEstimate:
    """Estimate a statistic of a band, or of the ratio of two."""
    given = {"weights": np.ones(bands[0].shape)} | more
    sample = LevelSample(
        bands=dict(zip("ab", bands, strict=False)), resampling=resampling, factor=factor, **given
    )
    return estimate(sample, _ONE if len(bands) == 1 else _RATIO, Statistic.parse(text))


def _error(*bands: Grid, **given: Any) -> float:
    return _estimate(*bands, **given).error


def _holds(found: ErrorEstimate, exact: float) -> bool:
    return abs(found.value - exact) <= INTERVAL * found.error + 1e-9


@pytest.mark.long
@pytest.mark.parametrize(
    ("reduce", "resampling", "text"),
    [
        (_average, "unknown", "mean"),
        (_nearest, "unknown", "mean"),
        *((_nearest, "nearest", text) for text in ("mean", "median", "p10", "p90", "share_above:1010")),
    ],
)
@pytest.mark.parametrize("smooth", [1, 4, 32])
def test_interval_holds_the_exact_value_in_95_percent(
    reduce: Callable[[Grid], Grid], resampling: Resampling, text: str, smooth: int
) -> None:
    """Of rough and smooth images, at an eighth of the resolution."""
    statistic = Statistic.parse(text)
    n_held = 0
    for seed in range(20):
        image = _image(seed, smooth=smooth)
        found = _estimate(reduce(image), text=text, resampling=resampling)
        assert np.isfinite(found.error)
        n_held += _holds(found, statistic.of(image.ravel()))

    assert n_held >= 19


@pytest.mark.parametrize("resampling", ["average", "unknown"])
def test_interval_holds_for_a_ratio_of_averages(resampling: Resampling) -> None:
    """The ratio of averages is not the average of ratios, and the error says so."""
    n_held = 0
    for seed in range(20):
        a, b = _image(seed, smooth=1), _image(seed + 1, smooth=1)
        a, b = a - a.min() + 10, b - b.min() + 10
        exact = float(((a - b) / (a + b)).mean())
        n_held += _holds(_estimate(_average(a), _average(b), resampling=resampling), exact)

    assert n_held >= 19


def test_declared_averages_have_a_smaller_error_than_unknown_overviews() -> None:
    """What a file says of itself is worth reading less of it."""
    error = partial(_error, _average(_image(0, smooth=1)), quantum=1)

    assert 0 < error(resampling="average") < error(resampling="nearest") <= error(resampling="unknown")


@pytest.mark.parametrize("image", [np.full((32, 32), 7.0), np.arange(25.0).reshape(5, 5)])
def test_error_is_unknown_of_a_constant_or_tiny_level(image: Grid) -> None:
    """Neither shows what it was made from."""
    assert _error(image, resampling="nearest") == np.inf


def test_36_pixels_tell_something_of_their_error() -> None:
    """Thirty are enough."""
    assert np.isfinite(_error(np.arange(36.0).reshape(6, 6), resampling="nearest"))


def test_error_has_how_far_the_edges_move_the_mean() -> None:
    """Twice as far if nobody says how the overviews were made."""
    image = np.tile([[0.0, 2.0], [2.0, 0.0]], (16, 16))
    image[:, :2] = 100
    weights = np.ones((32, 32))
    weights[:, 0] = 0.5
    moved = (0.5 * 100 + 100 + 30 * 1) / 31.5 - 1
    assert _error(image, weights=weights) == pytest.approx(1.5 * moved)
    assert _error(image, weights=weights, resampling="unknown") > 1.5 * 2 * moved


def test_error_has_what_hides_at_a_gap() -> None:
    """Half of the pixels beside it; if nobody says how the overviews were made, all of them on both sides."""
    image = np.kron(np.tile([[0.0, 2.0], [2.0, 0.0]], (8, 8)), np.ones((2, 2)))
    sampling = ((1 - _correlation(image[:, 4:])) / (28 * 32)) ** 0.5
    image[:, :4] = np.nan

    assert _error(image) == pytest.approx(1.5 * 0.5 / 28 / INTERVAL)
    assert _error(image, resampling="unknown") == pytest.approx(1.5 * np.hypot(2 / 28 / INTERVAL, sampling))
    assert _error(image, resampling="nearest") == pytest.approx(1.5 * sampling)


def test_error_has_the_farthest_move_by_any_quarter_of_the_pixels() -> None:
    """Neighbours that differ more than by chance do not make an error larger."""
    image = np.tile([[1.0, 0.0], [1.0, 2.0]], (16, 16))

    assert _correlation(image) < 0
    expected = 1.5 * np.hypot(1, (0.5 / 1024) ** 0.5)
    assert _error(image, resampling="nearest") == pytest.approx(expected, rel=1e-9)


def test_error_of_a_share_is_that_of_the_pixels_above() -> None:
    """And of three in n."""
    image = np.kron(np.tile([[0.7, 2.0], [2.0, 0.7]], (8, 8)), np.ones((2, 2)))
    sampling = (0.25 * (1 - _correlation(image)) / 1024) ** 0.5

    expected = 1.5 * np.hypot(sampling, 3 / INTERVAL / 1024)
    assert _error(image, text="share_above:1", resampling="nearest") == pytest.approx(expected, rel=1e-9)


def test_error_of_an_area_without_a_whole_pixel_is_their_spread() -> None:
    """All of them are edges."""
    image = np.tile([[0.0, 2.0], [2.0, 0.0]], (16, 16))

    assert _error(image, weights=np.full((32, 32), 0.5)) == pytest.approx(1.5)


def test_error_of_averages_has_a_move_for_each_level_down_to_full_resolution() -> None:
    """Of a mean: what the next coarser level moves, for each of three levels."""
    image = np.full((33, 33), 5.0)
    image[:32, :32] = np.tile([[0.0, 2.0], [2.0, 0.0]], (16, 16))

    assert _error(image) == pytest.approx(1.5 * 3 * (image.mean() - 1))


def test_error_of_a_ratio_of_averages_grows_fourfold_with_each_finer_level() -> None:
    """Blocks of four pixels are alike, so that only the second halving moves the ratio."""
    a = np.kron(np.tile([[1.0, 3.0], [3.0, 1.0]], (8, 8)), np.ones((2, 2)))
    ratio = (a - 1) / (a + 1)
    sampling = (ratio.var() * (1 - _correlation(ratio)) / 1024) ** 0.5
    averaging = (1 / 3 - 1 / 4) / 4 * (4 + 16 + 64) / INTERVAL

    expected = 1.5 * np.hypot(averaging, sampling)
    assert _error(a, np.ones((32, 32))) == pytest.approx(expected, rel=1e-9)


def test_error_of_a_median_is_half_a_band_of_quantiles() -> None:
    """It is as wide as two errors of the share below the median. The mean of smooth images errs less."""
    image = np.kron(np.random.default_rng(2).normal(size=(16, 16)), np.ones((2, 2)))
    is_above = (image > np.median(image)).astype(float)
    step = (is_above.var() * (1 - _correlation(is_above)) / image.size) ** 0.5
    low, high = (Statistic("quantile", 0.5 + each).of(image.ravel()) for each in (-step, step))

    assert _error(image, text="median", resampling="nearest") == pytest.approx(1.5 * (high - low) / 2)


def test_error_has_the_rounding_of_stored_numbers() -> None:
    """All may have been rounded the same way."""
    image = np.tile([[0.0, 2.0], [2.0, 0.0]], (16, 16))

    assert _error(image, quantum=2) == pytest.approx(1.5 * 2 / 12**0.5)


def test_a_level_without_a_pixel_has_no_value() -> None:
    """All are masked."""
    found = _estimate(np.full((32, 32), np.nan), resampling="nearest")

    assert np.isnan(found.value)
    assert found.n_pixels == 0


@pytest.mark.parametrize(("text", "value"), [("mean", 1), ("share_above:1", 0)])
def test_a_share_that_no_pixel_shows_may_still_be_three_in_n(text: str, value: int) -> None:
    """The rule of three."""
    image = np.ones((32, 32))
    image[0, 0] = value
    found = _estimate(image, text=text, resampling="nearest", is_indicator=text == "mean")

    assert found.value == value
    assert 3 / 1024 <= INTERVAL * found.error < 6 / 1024


@pytest.mark.parametrize("resampling", ["average", "unknown"])
@pytest.mark.parametrize("text", ["median", "p10", "share_above:1010"])
def test_averages_tell_nothing_of_percentiles_and_shares(resampling: Resampling, text: str) -> None:
    """Nothing in them shows how much wider the spread of single pixels is."""
    assert _error(_average(_image(0, smooth=1)), text=text, resampling=resampling) == np.inf


@pytest.mark.parametrize("text", ["mean", "median"])
def test_overviews_that_move_means_tell_nothing(text: str) -> None:
    """Such as those of root mean squares."""
    assert _error(_average(_image(0, smooth=1)), text=text, resampling="moves means") == np.inf


@pytest.mark.parametrize("factor", [2, 4, 8, 16])
def test_interval_holds_for_a_ratio_of_speckle(factor: int) -> None:
    """Its detail is that of noise, of which a coarse level shows almost nothing."""
    rng = np.random.default_rng(0)
    red, nir = (rng.gamma(4, mean, (512, 512)) for mean in (100, 500))
    n = 512 // factor
    a, b = (each.reshape(n, factor, n, factor).mean(axis=(1, 3)) for each in (nir, red))

    assert _holds(_estimate(a, b, factor=factor), ((nir - red) / (nir + red)).mean())


def test_pixels_mixed_with_what_the_mask_drops_do_not_count() -> None:
    """A cloud is brighter than all else, and a third of it lies in pixels that are partly clear."""
    kept = np.ones((32, 32))
    kept[:, 12:20] = 0
    kept[:, 20:22] = 0.3
    image = np.where(kept == 1, _average(_image(3, smooth=4)), 9000.0)
    found = _estimate(image, kept=kept)

    assert found.value == pytest.approx(image[kept == 1].mean())
    assert 0 < found.error < image[kept == 1].std()


def test_pixels_two_away_from_what_the_mask_drops_may_be_mixed() -> None:
    """Cubic resampling reaches so far, and nobody says how these overviews were made."""
    kept = np.ones((32, 32))
    kept[:, 15:17] = 0
    image = _average(_image(3, smooth=4)).copy()
    image[:, 13:19] = 9000

    beyond = np.delete(image, np.s_[13:19], axis=1)
    assert _estimate(image, kept=kept, resampling="unknown").value == pytest.approx(beyond.mean())


def test_a_level_of_mixed_pixels_tells_nothing() -> None:
    """The clear pixels that are by themselves are too few."""
    kept = np.full((32, 32), 0.5)
    kept[:, :8] = 1

    assert _error(_average(_image(3, smooth=4)), kept=kept) == np.inf


@pytest.mark.parametrize(("scattered", "is_told"), [(True, False), (False, True)])
def test_scattered_gaps_tell_nothing_and_one_large_gap_does(*, scattered: bool, is_told: bool) -> None:
    """Where single pixels are missing, there are smaller gaps that the level does not show."""
    image = _average(_image(5, smooth=4))
    if scattered:
        image[2::7, 3::7] = np.nan
    else:
        image[:5, :5] = np.nan

    assert np.isfinite(_error(image)) == is_told


@pytest.mark.parametrize(("share", "is_told"), [(0.05, True), (0.2, False)])
def test_a_pixel_may_have_a_tenth_of_a_ratios_variance(share: float, *, is_told: bool) -> None:
    """Not more."""
    ratio = np.tile([[-0.01, 0.01], [0.01, -0.01]], (16, 16))
    ratio[7, 7] = (share / (1 - share) * 1023) ** 0.5 * 0.01
    a = np.full((32, 32), 100.0)

    assert np.isfinite(_error(a, a * (1 - ratio) / (1 + ratio))) == is_told


@pytest.mark.parametrize("what", ["two pixels", "three beside a large gap", "outside of the area"])
def test_few_scattered_gaps_are_no_sign_of_smaller_ones(what: str) -> None:
    """Nor are those that do not count."""
    image, weights = _average(_image(5, smooth=4)).copy(), np.ones((32, 32))
    if what == "two pixels":
        image[[3, 20], [4, 9]] = np.nan
    elif what == "three beside a large gap":
        image[:2] = np.nan
        image[[8, 20, 25], [4, 9, 28]] = np.nan
    else:
        image[::5, :8:3] = np.nan
        weights[:, :8] = 0

    assert np.isfinite(_error(image, weights=weights))


def test_a_mean_that_one_pixel_decides_is_unknown() -> None:
    """A ratio whose denominator is almost 0. The mean of averages of a band is that of all its pixels."""
    rng = np.random.default_rng(1)
    a, b = rng.uniform(2, 3, (2, 32, 32))
    b[7, 7] = -a[7, 7] + 1e-9
    sample = LevelSample(bands={"a": a, "b": b}, weights=np.ones((32, 32)), resampling="average", factor=8)

    assert estimate(sample, _RATIO, Statistic("mean")).error == np.inf
    a[7, 7] = 1e9
    assert estimate(sample, _ONE, Statistic("mean")).error == 0
