"""Translate GDAL's errors to a status and a sentence without GDAL's own words.

Damaged bytes are CORRUPT. A valid file that cannot be read here is UNSUPPORTED.
"""

import re
from collections.abc import Sequence
from typing import Final

_PATH: Final = re.compile(r"'?/?vsiriopener_[0-9a-f]+/source'?[:,]? ?")
_OWN_NAMES: Final = re.compile(r"^(source(, band \d+)?: )?((\w+): ?)?(?=\S)")
_LONGEST: Final = 200

UNPLACED: Final = "its header is damaged or cut off: it does not say where each tile lies"
_CONVERT: Final = "; convert it, for example to DEFLATE"
_UNUSUAL: Final = f"its pixels are stored in an unusual way that is not read here{_CONVERT}"
_COMPRESSIONS: Final = {
    "JXL": "JPEG XL",
    "JP2000": "JPEG 2000 inside of TIFF",
    "34712": "JPEG 2000 inside of TIFF",
    "33003": "JPEG 2000 inside of TIFF",
    "33004": "JPEG 2000 inside of TIFF",
    "33005": "JPEG 2000 inside of TIFF",
    "34933": "PNG inside of TIFF",
    "34934": "JPEG XR",
    "22610": "JPEG XR",
    "48124": "Jetraw",
}
"""Names of compressions, by libtiff's name, or by TIFF code where libtiff has no name."""

_CODEC: Final = re.compile(r"missing codec(?: of code)? (\w+)")
_RULES: Final[tuple[tuple[str, str, str], ...]] = (
    (
        r"BitsPerSample\(=(\d+)\) and SampleType\(=(\d+)\)",
        "UNSUPPORTED",
        f"its numbers (of {{0}} bits, sample format {{1}}) are not read here{_CONVERT}",
    ),
    (
        r"\"Predictor\" value (\d+) not supported",
        "UNSUPPORTED",
        f"its predictor ({{0}}) is not read here{_CONVERT}",
    ),
    (r"Old-JPEG", "UNSUPPORTED", f"its compression (the JPEG of TIFF 6.0) is not read here{_CONVERT}"),
    (
        r"(?i)too many blocks|zero number of (tiles|strips)|too (many|large) (tiles|strips|blocks)",
        "UNSUPPORTED",
        "it has no tiles, or more of them than can be read",
    ),
    (
        r"Fax3SetupState|LogLuvSetup|(?i:inappropriate photometric|unsupported|not supported|cannot handle)",
        "UNSUPPORTED",
        _UNUSUAL,
    ),
    # The second one is said of JPEG 2000 whose header is sound.
    (r"Cannot open TIFF file with|not recognized as being in a supported", "UNSUPPORTED", _UNUSUAL),
    (
        r"Incorrect count for|TIFFFetchStripThing",
        "CORRUPT",
        "its header contradicts itself: it does not say where each tile lies",
    ),
    (r"Cannot read offset/size", "CORRUPT", UNPLACED),
    (
        r"band (\d+): IReadBlock failed at X offset (\d+), Y offset (\d+)",
        "CORRUPT",
        "the tile in column {1} and row {2} of band {0} is damaged",
    ),
    (
        r"Cannot read TIFF header|Not a TIFF|TIFFReadDirectory|TIFFFetch|opj_read_header|(?i:jp2 file)",
        "CORRUPT",
        "its header is damaged or cut off",
    ),
)
"""The first pattern that is found in any of the texts decides. Its groups are the numbers in the sentence."""


def classify_messages(texts: Sequence[str]) -> tuple[str, str]:
    """Return the name of a status, and a sentence.

    The messages are GDAL's, from the outermost error to its cause.
    """
    told = "\n".join(texts)
    if (codec := _CODEC.search(told)) is not None:
        name = codec[1]
        known = _COMPRESSIONS.get(name, f"code {name}" if name.isdigit() else name)
        return "UNSUPPORTED", f"its compression ({known}) is not read here{_CONVERT}"
    for pattern, status, sentence in _RULES:
        if (found := re.search(pattern, told)) is not None:
            return status, sentence.format(*found.groups())
    return "CORRUPT", _shortest(texts)


def _shortest(texts: Sequence[str]) -> str:
    """Return the cause, which is the last text, without the names of GDAL's functions."""
    for text in reversed(texts):
        cause = _OWN_NAMES.sub("", _PATH.sub("", text).strip()).strip(" .;")
        if cause and not text.startswith("Read failed."):
            return f"it cannot be read: {cause[:_LONGEST]}"
    return "it cannot be read"
