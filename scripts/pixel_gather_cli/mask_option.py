"""The option that says which pixels do not count."""

from typing import Any

from pixel_gather.core.errors import RequestError


def mask_option(text: str) -> dict[str, Any]:
    """Return the mask that ``--mask`` says.

    Raises:
        RequestError: It says none.
    """
    band, _, values = text.rpartition(":")
    kind, equals, bits = values.partition("=")
    try:
        numbers = [int(part) for part in (bits if equals else values).split(",")]
    except ValueError:
        numbers = []
    if not band or not numbers or (equals and kind != "bits"):
        raise RequestError(f"{text!r} is not BAND:3,8,9 or BAND:bits=3,4", field="--mask")
    return {"band": band, "bits" if equals else "drop": numbers}
