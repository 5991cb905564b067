"""Finds the band and the scene in a source's href, for lists without a ``band`` column.

A pattern is a regular expression with the band in parentheses. Built-in patterns cover the names of Landsat,
Sentinel-1, Sentinel-2, HLS, OPERA and ECOSTRESS products.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from os.path import commonprefix
from typing import Final, NamedTuple

from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.scene_id import scene_id
from pixel_gather.core.model.shown import shown_href
from pixel_gather.io.lists.href_time import AUTO
from pixel_gather.io.lists.list_columns import check_name
from pixel_gather.io.lists.list_prefix import compile_pattern, search


class BandOfScene(NamedTuple):
    """What a href says of its source."""

    band: str
    scene: str
    """Equal for all bands of one scene."""


type FindBand = Callable[[str], BandOfScene | None]
"""Returns what a href says, or None if it names no band."""

_SCENE: Final = "scene"
_FILE: Final = r"\.(?i:tiff?|jp2)\b"
_PRODUCTS: Final = (
    # Landsat, collections 1 and 2, and tiles of the US
    r"(?P<scene>L[CEMOT]0\d_(?:L[12]\w\w|CU|AK|HI)_\d{6}_\d{8}(?:_\d{8}_\d\d)?(?:_(?:T[12]|RT|A[12]))?)_(\w+)"
    + _FILE,
    r"(?P<scene>L[CEMOT][1-9]\d{13}[A-Z]{3}\d\d)_(\w+)" + _FILE,  # Landsat before collections
    r"(?P<scene>S2[A-D]_MSI\w+)\.SAFE/(?:.+/)?(?:L2A_)?T\d\d[A-Z]{3}_\d{8}T\d{6}_(\w+)"
    + _FILE,  # Sentinel-2, products
    r"(?P<scene>T\d\d[A-Z]{3}_\d{8}T\d{6})_(\w+)" + _FILE,  # Sentinel-2, images by themselves
    # Sentinel-2 on AWS, COGs of both collections, and its tiles
    r"(?P<scene>S2[A-D]_T?\d{1,2}[A-Z]{3}_\d{8}(?:T\d{6})?(?:_\d+)?_L\d[AC])[/_]+(\w+)" + _FILE,
    r"/(?P<scene>tiles/\d{1,2}/[A-Z]/[A-Z]{2}/\d{4}/\d{1,2}/\d{1,2}/\d+)/((?:R\d0m/)?\w+)" + _FILE,
    # Sentinel-1, ground range
    r"(?P<scene>S1[A-D]_\w\w_GRD\w_\w{4}_\w+)(?:\.SAFE)?/measurement/(?:s1[a-d]-\w\w-grd|iw|ew|s\d)-([vh]{2})[-.]",
    r"(?P<scene>HLS\.[LS]30\.T\w{5}\.\d{7}T\d{6}\.v\d\.\d)\.(\w+)" + _FILE,
    r"(?P<scene>OPERA_L\d_[\w-]+?_\d{8}T\d{6}Z_\d{8}T\d{6}Z_\w+?_v\d(?:\.\d)?)_([\w-]+)" + _FILE,
    r"(?P<scene>ECO(?:v\d{3}|STRESS)_L\d\w+?_\d{8}T\d{6}_\d{4}_\d\d)_(\w+)" + _FILE,
)

_MOST_BANDS: Final = 20
"""More different texts than this are no bands, or too long for a pattern."""

_WAY: Final = "sources.band (--band of ls, plan and run)"
_MIXED: Final = "Each is a row, or a scene, by itself"
_MOST_NAMED: Final = 4
_LOOKS_KNOWN: Final = re.compile(r"L[CEMOT]\d|S[12][A-D]_|T\d\d[A-Z]{3}_\d|/tiles/|HLS\.|OPERA_L|ECO[vS]")
"""Loading ``regex`` for the built-in patterns takes 20 ms."""

_WORD: Final = re.compile(r"[A-Za-z0-9]+")
_NAME_OF_BAND: Final = re.compile(
    r"red|green|blue|nir\d*|swir\d*|tir\d*|rededge\d*|coastal|cirrus|pan|b\d\d?a?|bqa|band\d+", re.IGNORECASE
)


def band_finder(pattern: str, *, field: str = "sources.band") -> FindBand:
    r"""Return a function that finds the band in a href.

    Args:
        pattern: Searched for in the whole href; or ``auto`` for the built-in patterns. Its group is the band,
            such as ``_(B\d+)\.tif``. What its group ``scene`` matches is the name of the scene. Without one,
            files whose hrefs differ in nothing but the band are a scene.
        field: Field of the request that errors name.

    Raises:
        RequestError: The pattern is wrong. The function raises it for a band that no array can be called.
    """
    patterns = [compile_pattern(each, field) for each in (_PRODUCTS if pattern == AUTO else (pattern,))]
    if any(each.groups - (_SCENE in each.groupindex) != 1 for each in patterns):
        raise RequestError(
            r"put the band, and only the band, in parentheses, such as _(B\d+)\.tif", field=field
        )

    def find(href: str) -> BandOfScene | None:
        for each in patterns:
            if (match := search(each, href, field)) is None:
                continue
            group = 2 if each.groupindex.get(_SCENE) == 1 else 1
            if match[group]:
                start, stop = match.span(group)
                scene = match[_SCENE] if _SCENE in each.groupindex else scene_id(href[:start] + href[stop:])
                return BandOfScene(
                    _check_band(match[group].replace("/", "_"), href, field), scene.replace("/", "_")
                )
        return None

    return find


def _check_band(band: str, href: str, field: str) -> str:
    try:
        check_name(band, what="band")
    except ValueError as error:
        raise RequestError(f"{error} ({href})", field=field) from error
    return band


def note_of_names(hrefs: Sequence[str]) -> str | None:
    """Return a remark on sources without a band, if by their names they are of several; None if not."""
    if not any(_LOOKS_KNOWN.search(href) for href in hrefs):
        return None
    find = band_finder(AUTO)
    bands = dict.fromkeys(found.band for href in hrefs if (found := find(href)) is not None)
    if len(bands) < 2:  # noqa: PLR2004 # one band is no mixture
        return None
    return _several(bands, AUTO)


def note_of_words(hrefs: Sequence[str]) -> str | None:
    """Return a remark on sources without bands and times, if they differ in a word that names bands."""
    for pattern, bands in _patterns_of_words([hrefs]):
        find = band_finder(pattern) if all(map(_NAME_OF_BAND.fullmatch, bands)) else None
        if find is not None and all(map(find, hrefs)):
            return _several(bands, f"'{pattern}'")
    return None


def _several(bands: Iterable[str], way: str) -> str:
    first = list(islice(bands, _MOST_NAMED + 1))
    named = ", ".join(first[:_MOST_NAMED]) + (", ..." if len(first) > _MOST_NAMED else "")
    return (
        f"by their names the files are of several bands ({named}). {_MIXED}. {_WAY} {way} puts the bands of "
        "a scene together"
    )


def note_of_equal_times(
    n: int,
    n_all: int,
    same_time: Sequence[Sequence[str]],
    *,
    has_bands: bool = False,
    sample: Sequence[str] = (),
) -> str:
    """Return a remark on lines with the time of another line, with the pattern that would tell bands apart.

    Args:
        n: How many lines, or rows of several bands.
        n_all: Number of all.
        same_time: For some of the times, one href of each.
        has_bands: Whether bands are told apart already.
        sample: Other hrefs of the list, which the pattern has to fit.
    """
    one, other = map(shown_href, same_time[0][:2])
    said = (
        f"{n:,} of {n_all:,} {'rows' if has_bands else 'files'} have the time of another: {one} and "
        f"{_within_folder(other, one)}"
    )
    if has_bands:
        return (
            f"{said}. Each is a row by itself. If one repeats the other, leave it out. If they are bands of "
            "one scene, give them the same scene: in a column, or by a group (?P<scene>...) in the pattern "
            "of bands"
        )
    pattern = pattern_of_bands(same_time, sample)
    way = "give the list a column band" if pattern is None else f"{_WAY} '{pattern}' puts them together"
    return f"{said}. {_MIXED}. If they are bands of one scene, {way}"


def _within_folder(href: str, other: str) -> str:
    """Return an href without the folders that another one shares, unless they share only the scheme."""
    shared = commonprefix((href, other))  # noqa: RUF071 # cut at a slash below
    start = shared.rfind("/") + 1
    return href if shared[:start].endswith("//") else href[start:]


def pattern_of_bands(same_time: Sequence[Sequence[str]], sample: Sequence[str] = ()) -> str | None:
    """Return the pattern that tells bands apart in hrefs of equal times; None if there is none.

    Each time has at least two hrefs. The pattern finds a band in the hrefs of ``sample``, too.
    """
    candidates = (AUTO, *(pattern for pattern, _ in _patterns_of_words(same_time)))
    return next((each for each in candidates if _tells_apart(each, same_time, sample)), None)


def _tells_apart(pattern: str, same_time: Sequence[Sequence[str]], sample: Sequence[str]) -> bool:
    """Return whether a pattern finds every href's band, and several bands in scenes of every time."""
    find = band_finder(pattern)
    try:
        if not all(map(find, sample)):
            return False
        of_times = [[find(href) for href in hrefs] for hrefs in same_time]
    except RequestError:
        return False
    for found in of_times:
        n_scenes = len({each.scene for each in found if each is not None})
        if None in found or len(set(found)) < len(found) or n_scenes == len(found):
            return False
    return True


def _patterns_of_words(same_time: Sequence[Sequence[str]]) -> Iterator[tuple[str, list[str]]]:
    """Yield the pattern and the texts of words in which hrefs of equal times differ, the last word first."""
    words = [[list(_WORD.finditer(href)) for href in hrefs] for hrefs in same_time]
    n_words = min((len(each) for hrefs in words for each in hrefs), default=0)
    for position in range(1, n_words + 1):
        texts = list(dict.fromkeys(each[-position][0] for hrefs in words for each in hrefs))
        if not 1 < len(texts) <= _MOST_BANDS:
            continue
        href, match = same_time[0][0], words[0][0][-position]
        before, after = href[: match.start()][-1:], href[match.end() :][:1]
        yield f"{re.escape(before)}({'|'.join(texts)}){re.escape(after) or '$'}", texts
