"""Makes images for the page: WebP in data URIs. Invalid pixels are transparent."""

import base64
import io
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from msgspec import Struct
from PIL import Image as Pillow

from pixel_gather.core.results.report_content import Image, Mask
from pixel_gather.io.pictures.stretch import Stretch

_TRIED: Final = 24
"""The size of so many frames is measured to estimate how many fit."""

_LOSSLESS_PIXELS: Final = 256 * 1024
"""Films of at most so many pixels are lossless, if they fit."""

_QUALITY: Final = 80
_OPAQUE: Final = 255

type Rgba = np.ndarray[Any, np.dtype[np.uint8]]


class ColourChannel(Struct, frozen=True, kw_only=True, eq=False):
    """Pixels of one measurement, shown as grey, red, green or blue."""

    pixels: Image
    """Shape (..., y, x)."""

    is_valid: Mask


class Film(Struct, frozen=True, kw_only=True):
    """Frames side by side in one image."""

    uri: str
    every: int
    """One in so many quicklooks is a frame."""

    n_frames: int
    n_columns: int
    n_rows: int
    height: int
    """Height of one frame, in pixels."""

    width: int


def paint_channels(channels: Sequence[ColourChannel], stretches: Sequence[Stretch]) -> Rgba:
    """Return (..., y, x, 4): red, green, blue, opacity.

    Args:
        channels: One for grey, or three for red, green and blue. A pixel is shown if it is valid in all.
        stretches: Stretch of each channel.
    """
    is_valid = np.logical_and.reduce([each.is_valid for each in channels])
    greys = [
        np.where(is_valid, stretch.to_greys(each.pixels), 0)
        for each, stretch in zip(channels, stretches, strict=True)
    ]
    colours = greys if len(greys) > 1 else greys * 3
    return np.stack([*colours, np.where(is_valid, _OPAQUE, 0)], axis=-1).astype("uint8")


def picture_uri(image: Rgba, *, is_lossless: bool) -> str:
    """Return a picture of shape (y, x, 4) as a data URI."""
    return _uri(picture_file(image, is_lossless=is_lossless))


def make_film(frames: Rgba, *, most_nbytes: int) -> Film:
    """Return as many evenly spread frames as fit into a number of bytes.

    Args:
        frames: Shape (frame, y, x, 4).
        most_nbytes: Limit for the image. A single frame may exceed it.
    """
    n_frames = len(frames)
    if frames.size <= 4 * _LOSSLESS_PIXELS:
        image = _image(frames, is_lossless=True)
        if len(image) <= most_nbytes:
            return _film(frames, image, 1)
    sparse = frames[:: -(-n_frames // _TRIED)]
    nbytes_a_frame = len(_image(sparse)) / len(sparse)
    every = min(max(1, round(nbytes_a_frame * n_frames / most_nbytes)), n_frames)
    while True:
        shown = frames[::every]
        image = _image(shown)
        if len(image) <= most_nbytes or len(shown) == 1:
            return _film(shown, image, every)
        every += max(1, every * (len(image) - most_nbytes) // most_nbytes)


def _film(frames: Rgba, image: bytes, every: int) -> Film:
    n_frames, height, width, _ = frames.shape
    n_columns = _n_columns(frames)
    return Film(
        uri=_uri(image),
        every=every,
        n_frames=n_frames,
        n_columns=n_columns,
        n_rows=-(-n_frames // n_columns),
        height=height,
        width=width,
    )


def _n_columns(frames: Rgba) -> int:
    n_frames, height, width, _ = frames.shape
    return int(np.ceil(np.sqrt(n_frames * height / width)))


def _image(frames: Rgba, *, is_lossless: bool = False) -> bytes:
    return picture_file(_side_by_side(frames), is_lossless=is_lossless)


def _side_by_side(frames: Rgba) -> Rgba:
    n_frames, height, width, _ = frames.shape
    n_columns = _n_columns(frames)
    canvas = np.zeros((-(-n_frames // n_columns) * height, n_columns * width, 4), dtype="uint8")
    for number, each in enumerate(frames):
        top, left = number // n_columns * height, number % n_columns * width
        canvas[top : top + height, left : left + width] = each
    return canvas


def picture_file(image: Image, *, is_lossless: bool) -> bytes:
    """Return a picture as WebP."""
    written = io.BytesIO()
    Pillow.fromarray(image).save(written, "WEBP", lossless=is_lossless, quality=_QUALITY, method=2)
    return written.getvalue()


def _uri(content: bytes) -> str:
    return f"data:image/webp;base64,{base64.standard_b64encode(content).decode()}"
