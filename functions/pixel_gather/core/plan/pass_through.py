"""Whether compressed tiles can become chunks unchanged, and who can read them then. Pure.

With the codec ``source`` no tile is decoded. That is possible if the window begins at a corner of tiles, and
all sources store their tiles alike.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from pixel_gather.core.errors import RequestError, SourceError
from pixel_gather.core.model.source import Header
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.tile_coding import COMPLEX_INTEGERS, NO_PREDICTOR, TileCoding
from pixel_gather.core.model.window import Window
from pixel_gather.core.plan.choose_layout import Layout, tile_layout

if TYPE_CHECKING:  # pydantic costs a worker 0.2 s of its start
    from pixel_gather.core.plan.slot_draft import Draft
    from pixel_gather.core.request.request import GatherRequest

_FIELD: Final = "output.codec"
_COMPRESSIONS: Final = ("none", "deflate", "zstd", "lzw", "lzma", "packbits")
_READERS: Final = {
    "none": "zarr-python opens it; zarrita, zarrs, TensorStore and GDAL have its codecs",
    "zstd": "zarr-python opens it; zarrita, zarrs, TensorStore and GDAL have its codecs",
    "deflate": "zarr-python opens it; zarrita, and zarrs with a feature, have its codecs; TensorStore and "
    "GDAL lack them",
}
"""Which programs read tiles without a predictor, by compression. All other tiles need imagecodecs."""

_AT_A_CORNER: Final = Window(col_off=0, row_off=0, width=1, height=1)
_WITH_IMAGECODECS: Final = (
    "zarr-python with imagecodecs opens it, after imagecodecs.zarr.register_codecs(); zarrita, zarrs, "
    "TensorStore and GDAL lack its codecs"
)


def readers_of(coding: TileCoding) -> str:
    """Return in words which programs can read arrays of such tiles, and which cannot."""
    return _READERS[coding.compression] if _is_read_by_zarr(coding) else _WITH_IMAGECODECS


def _is_read_by_zarr(coding: TileCoding) -> bool:
    """Return whether zarr-python decodes such tiles by itself."""
    return coding.compression in _READERS and not _predicts(coding)


def _predicts(coding: TileCoding) -> bool:
    return coding.predictor != NO_PREDICTOR


def check_passes(header: Header, window: Window, coding: TileCoding | None) -> None:
    """Refuse a source whose tiles cannot be chunks of an array of such tiles.

    Args:
        header: Header of the source.
        window: In its pixels.
        coding: How the tiles of the array are stored. None if any coding will do.

    Raises:
        SourceError: With status UNLIKE. The reason names the first property that is in the way.
    """
    problem = _problem(header.coding, window, coding)
    if problem is None and window != window.clipped(width=header.width, height=header.height):
        problem = "the window lies partly outside it"
    if problem is not None:
        raise SourceError(problem, href=header.href, status=Status.UNLIKE)


def _problem(own: TileCoding | None, window: Window, coding: TileCoding | None) -> str | None:
    """Return the first property in the way, or None."""
    if own is None:
        return "only GDAL can read it, as it can LERC and WebP, so its tiles cannot be kept"
    problems = {
        "it is stored in strips, not in tiles": not own.is_tiled,
        "its tiles hold several bands": own.is_interleaved,
        "Zarr has no dtype for its complex integers": own.dtype == COMPLEX_INTEGERS,
        f"no Zarr codec decodes its tiles of {own.compression}": own.compression not in _COMPRESSIONS,
        f"the window begins at pixel ({window.col_off}, {window.row_off}), not at a corner of its tiles of "
        f"{own.tile_width} x {own.tile_height}": window.col_off % own.tile_width
        or window.row_off % own.tile_height,
    }
    difference = None if coding is None else coding.difference(own)
    return difference or next((said for said, is_so in problems.items() if is_so), None)


def _check_alike(header: Header, coding: TileCoding | None) -> None:
    """Refuse a source whose tiles are stored in another way. Where its window lies is not checked."""
    problem = _problem(header.coding, _AT_A_CORNER, coding)
    if problem is not None:
        raise SourceError(problem, href=header.href, status=Status.UNLIKE)


def check_sample(
    request: "GatherRequest",
    typical: Header,
    window: Window,
    headers: Sequence[Header],
    *,
    by_reference: bool = False,
) -> None:
    """Check the typical header, and that the sampled sources store their tiles like it.

    Args:
        request: The request. Nothing is checked with another codec.
        typical: The header that the others are compared with.
        window: In pixels of the typical source.
        headers: Headers of all sampled sources.
        by_reference: Whether the cube refers to the sources' tiles, and stores none. It has no other codec.

    Raises:
        RequestError: The field is ``output.codec``, or ``sources`` of references. The message names the first
            source and property in the way.
    """
    if not request.passes_through:
        return
    if request.masked:
        raise RequestError(
            "codec source decodes no pixels, so they cannot be masked: leave masked out", field=_FIELD
        )
    try:
        check_passes(typical, window, None)
        for header in headers:
            _check_alike(header, typical.coding)
    except SourceError as error:
        said = str(error)
        instead = f"choose another window or list{_whole_tiles(window, typical.coding)}"
        if by_reference:
            raise RequestError(
                f"tiles cannot be referred to. {said}. Gather the pixels by run, or {instead}",
                field="sources",
            ) from error
        raise RequestError(
            f"tiles cannot be kept as they are (codec source). {said}. Gather with another codec, or "
            f"{instead}",
            field=_FIELD,
        ) from error


def _whole_tiles(window: Window, coding: TileCoding | None) -> str:
    """Return in words the pixel window of the tiles around one. Empty if it begins at a corner."""
    if coding is None or not coding.is_tiled:
        return ""
    width, height = coding.tile_width, coding.tile_height
    col, row = window.col_off // width * width, window.row_off // height * height
    if (col, row) == (window.col_off, window.row_off):
        return ""
    return (
        f"; the tiles around this window are --pixels {col},{row},"
        f"{-(-window.col_stop // width) * width - col},{-(-window.row_stop // height) * height - row}"
    )


def layout_of(
    request: "GatherRequest", drafts: Sequence["Draft"], shape: tuple[int, int, int], **sizes: int
) -> Layout:
    """Return the layout whose chunks are the sources' tiles.

    Args:
        request: The request.
        drafts: One for each slot.
        shape: (row, y, x) of the cube.
        sizes: As for `pixel_gather.core.plan.choose_layout.tile_layout`.

    Raises:
        RequestError: Tiles of two slots differ in size, or the request wants other chunks.
    """
    tiles = {(each.slot.grid.tile_height, each.slot.grid.tile_width) for each in drafts}
    if len(tiles) > 1:
        raise RequestError(
            "tiles are kept as they are only if all have one size, and those of the bands differ: gather by "
            "run with another codec than source",
            field=_FIELD,
        )
    if request.output.layout != "balanced":
        raise RequestError(
            "with codec source, the chunks are the sources' tiles: leave layout out", field="output.layout"
        )
    (tile,) = tiles
    return tile_layout(shape, tile=tile, **sizes)


def warnings_of(
    request: "GatherRequest", drafts: Sequence["Draft"], *, codec: str, by_reference: bool = False
) -> Iterator[str]:
    """Yield what a user of the cube has to know: who can read it, and what it lacks.

    Args:
        request: The request.
        drafts: One for each slot.
        codec: The cube's, which a request that appends leaves out.
        by_reference: Whether the cube refers to the sources' tiles, and stores none.
    """
    if codec == "zfp":
        yield f"the cube is compressed by zfp: {_WITH_IMAGECODECS}"
    if not request.passes_through:
        return
    codings = dict.fromkeys(each.slot.coding for each in drafts if each.slot.coding is not None)
    for coding in codings:
        predictor = f" with predictor {coding.predictor}" if _predicts(coding) else ""
        tiles = f"the sources' tiles ({coding.compression}{predictor})"
        if by_reference:
            needed = "icechunk" if _is_read_by_zarr(coding) else "icechunk and imagecodecs"
            yield f"the cube refers to {tiles}: zarr-python with {needed} opens it"
        else:
            yield f"the cube keeps {tiles}: {readers_of(coding)}"
    digests = "ETags and positions of tiles" if by_reference else "the compressed bytes"
    yield (
        "no pixel is decoded: min, max, mean and valid_fraction are NaN, and there are no quicklooks. "
        f"Digests are of {digests}. Damaged tiles are not noticed"
    )
