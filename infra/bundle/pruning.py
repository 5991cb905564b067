"""Removes files of wheels that no function opens, each with a reason."""

import os
import re
from pathlib import Path, PurePosixPath
from typing import Final

from msgspec import Struct

_CODECS: Final = "blosc|deflate|imcd|jpeg8|jpegxl|lzma|zfp|zlib|zstd"
"""imagecodecs' modules behind the names that ``pixel_gather`` calls; ``imcd`` holds its own codecs: delta,
floatpred, LZW and PackBits; GDAL as rasterio brings it has no JPEG XL. ``imagecodecs.zarr`` loads zlib."""

_CODEC_LIBRARIES: Final = (
    "blosc|brotli(common|dec|enc)|deflate|gomp|jpeg|jxl(_cms|_threads)?|lcms2|lz4|lzma|snappy|zfp|zstd"
)
"""The libraries of those modules. Blosc needs LZ4, Snappy and zstd; JPEG XL (7.5 MB) Brotli and lcms2."""


class Rule(Struct, frozen=True):
    """Files that are removed."""

    paths: str
    """Regular expression for a whole path inside the bundle."""

    reason: str
    """Why nothing needs them."""


RULES: Final = (
    Rule(r"bin/.*", "commands; Lambda calls a handler"),
    Rule(
        r"[^/]+\.dist-info/(?!METADATA$|entry_points\.txt$).*",
        "versions and entry points are all that is read",
    ),
    Rule(r"(.*/)?tests/.*", "test suites"),
    Rule(r".*\.(pyi|pyx|pxd|pxi|c|h|a|typed)", "for compilers and type checkers"),
    Rule(rf"imagecodecs/_(?!shared|({_CODECS})\.).*\.so", "codecs that pixel_gather does not call"),
    Rule(rf"imagecodecs\.libs/lib(?!({_CODEC_LIBRARIES})-).*", "libraries of the codecs above"),
    Rule(r"imagecodecs/licenses/.*", "texts about the sources of the wheel"),
    Rule(r"numpy/_core/_(simd|.*_tests)\..*\.so", "modules of NumPy's test suite"),
    Rule(r"numpy/(conftest\.py|f2py/.*|_pyinstaller/.*)", "Fortran, and other packagers"),
    Rule(r"pyparsing/.*|pyparsing-.*", "only rasterio's command line parses expressions"),
    Rule(
        r"rasterio/rio/(?!(__init__|helpers)\.py$).*",
        "rasterio's command line, but for what rasterising imports",
    ),
    Rule(r"rasterio/(_example|_fill|shutil)\..*\.so", "examples, filling and copying of rasters"),
    Rule(
        r"rasterio/gdal_data/(?!gdalvrt\.xsd).*",
        "GDAL's processes can open no file (io/limit_child.py), and CRSs are PROJ's; "
        "rasterio knows the folder by gdalvrt.xsd",
    ),
    Rule(
        r"PIL/_(avif|imagingcms|imagingft|imagingtk)\..*\.so", "photographs, colour profiles, text, windows"
    ),
    Rule(r"pillow\.libs/lib(avif|brotli|freetype|harfbuzz|lcms2|png).*", "libraries of those"),
    Rule(r"aws_lambda_powertools/.*/swagger_ui/.*\.(js|css)", "pages that no function serves"),
)
"""Files whose path matches one of these rules are removed."""


def prune(folder: Path) -> None:
    """Remove the files that a rule matches, and the folders that are then empty."""
    names = re.compile("|".join(f"(?:{rule.paths})" for rule in RULES))
    for parent, _, files in os.walk(folder, topdown=False):
        inside = PurePosixPath(os.path.relpath(parent, folder))
        for file in files:
            if names.fullmatch(str(inside / file)):
                Path(parent, file).unlink()
        if inside.name and not os.listdir(parent):  # noqa: PTH208 # faster for thousands of folders
            Path(parent).rmdir()
