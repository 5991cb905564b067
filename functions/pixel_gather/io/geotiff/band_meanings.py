"""What a GeoTIFF says that its bands mean, by GDAL's rules: colours, units, a palette, names of classes."""

from typing import Final

import numpy as np

from pixel_gather.core.model.band_meaning import NO_MEANING, BandClass, BandMeaning
from pixel_gather.io.geotiff.gdal_metadata import colours_of_bands, flags_of_bands, units_of_bands
from pixel_gather.io.geotiff.ifd import Ifd, Tag
from pixel_gather.io.geotiff.layout import ALPHAS, Photometric
from pixel_gather.io.geotiff.unsupported import TiffError, UnsupportedError

_RGBS: Final = (Photometric.RGB, Photometric.YCBCR)
_MOST_ENTRIES: Final = 256
"""Entries of the largest palette that is read."""

_STEPS: Final = (257, 256)
"""How often a colour of 8 bits fits into the 16 bits that a palette has for it."""


def meanings_of(ifd: Ifd, n_bands: int) -> tuple[BandMeaning, ...]:
    """Return what the first directory says of each band; empty if it says nothing.

    What cannot be understood counts as not said. It never keeps a file from being read.

    Raises:
        NeedBytes: Values have not been fetched yet.
    """
    try:
        photometric = ifd.integer(Tag.PHOTOMETRIC, Photometric.MIN_IS_BLACK)
        colours = (
            dict(zip(range(n_bands), ("red", "green", "blue"), strict=False)) if photometric in _RGBS else {}
        )
        extras = ifd.integers(Tag.EXTRA_SAMPLES, most=n_bands) or ()
        first_extra = n_bands - len(extras)
        colours |= {first_extra + n: "alpha" for n, extra in enumerate(extras) if extra in ALPHAS}
        classes = _palette(ifd) if photometric == Photometric.PALETTE and n_bands == 1 else ()
        colours |= {0: "palette"} if classes else {}
        said = {band: colour for band, colour in colours_of_bands(ifd).items() if band < n_bands}
        flags, units = flags_of_bands(ifd), units_of_bands(ifd)
    except UnsupportedError:
        return ()
    meanings = tuple(
        BandMeaning(
            colour=said.get(band, colours.get(band)), classes=classes, unit=units.get(band, "")
        ).with_classes(flags.get(band, flags.get(None, ())))
        for band in range(n_bands)
    )
    return meanings if any(each != NO_MEANING for each in meanings) else ()


def _palette(ifd: Ifd) -> tuple[BandClass, ...]:
    """Return the colours of a palette that are not black: files have black where no colour was given."""
    entry = ifd.entries.get(Tag.COLOR_MAP)
    if entry is None or entry.n_values > 3 * _MOST_ENTRIES:
        return ()
    if entry.n_values % 3:
        raise TiffError("a palette that is not of three colours")
    stored = ifd.array(Tag.COLOR_MAP, 0, entry.n_values).reshape(3, -1).astype("int64")
    step = next(
        (step for step in _STEPS if not (stored % step).any()), 1 if stored.max() < _STEPS[1] else 257
    )
    colours = np.clip(stored // step, 0, 255).T.tolist()
    return tuple(
        BandClass(value=value, colour="#{:02x}{:02x}{:02x}".format(*colour))
        for value, colour in enumerate(colours)
        if any(colour)
    )
