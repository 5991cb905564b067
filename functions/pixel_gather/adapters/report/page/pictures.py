"""MaskedQuicklooks as images inside the page: WebP in data URIs, what is not valid being transparent."""

import base64
import io
from dataclasses import dataclass
from typing import Final

import numpy as np
from PIL import Image as Pillow

from pixel_gather.adapters.report.page.stretch import Stretch
from pixel_gather.report.evidence import Image, Mask, MaskedQuicklooks

_MOST_FILM_NBYTES: Final = 1_500_000
_LOSSLESS_PIXELS: Final = 256 * 1024
"""Films of no more pixels are kept to the bit."""

_QUALITY: Final = 80
_OPAQUE: Final = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Film:
    """Frames side by side in one image."""

    uri: str
    every: int
    """Every n-th quicklook is a frame."""

    n_frames: int
    n_columns: int
    n_rows: int
    height: int
    """Of one frame, in pixels."""

    width: int


def picture_uri(pixels: Image, is_valid: Mask, stretch: Stretch) -> str:
    """Return one picture, shape (y, x), without loss."""
    return _uri(_webp(_with_alpha(pixels, is_valid, stretch), is_lossless=True))


def film_of(quicklooks: MaskedQuicklooks, stretch: Stretch) -> Film:
    """Return as many quicklooks as fit into 1.5 MB, evenly spread."""
    every = 1
    while True:
        film, content = _film(quicklooks, stretch, every)
        if len(content) <= _MOST_FILM_NBYTES or film.n_frames == 1:
            return film
        every += max(1, every * (len(content) - _MOST_FILM_NBYTES) // _MOST_FILM_NBYTES)


def _film(quicklooks: MaskedQuicklooks, stretch: Stretch, every: int) -> tuple[Film, bytes]:
    pixels, is_valid = quicklooks.pixels[::every], quicklooks.is_valid[::every]
    n_frames, height, width = pixels.shape
    n_columns = int(np.ceil(np.sqrt(n_frames * height / width)))
    n_rows = -(-n_frames // n_columns)
    canvas = np.zeros((n_rows * height, n_columns * width, 4), dtype="uint8")
    for number, (each, valid) in enumerate(zip(pixels, is_valid, strict=True)):
        top, left = number // n_columns * height, number % n_columns * width
        canvas[top : top + height, left : left + width] = _with_alpha(each, valid, stretch)
    content = _webp(canvas, is_lossless=canvas.size <= 4 * _LOSSLESS_PIXELS)
    film = Film(
        uri=_uri(content),
        every=every,
        n_frames=n_frames,
        n_columns=n_columns,
        n_rows=n_rows,
        height=height,
        width=width,
    )
    return film, content


def _with_alpha(pixels: Image, is_valid: Mask, stretch: Stretch) -> Image:
    """Return (y, x, 4): red, green, blue, opacity."""
    greys = np.where(is_valid, stretch.applied(pixels), 0)
    alpha = np.where(is_valid, _OPAQUE, 0)
    return np.stack([greys, greys, greys, alpha], axis=-1).astype("uint8")


def _webp(image: Image, *, is_lossless: bool) -> bytes:
    written = io.BytesIO()
    Pillow.fromarray(image).save(written, "WEBP", lossless=is_lossless, quality=_QUALITY, method=2)
    return written.getvalue()


def _uri(content: bytes) -> str:
    return f"data:image/webp;base64,{base64.standard_b64encode(content).decode()}"
