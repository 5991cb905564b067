"""Packages that come with an extra, such as ``pixel-gather[aws]``, and what to say without them."""

from importlib.util import find_spec
from typing import Final, Literal

from pixel_gather.errors import MissingExtraError

type Extra = Literal["aws", "report", "xarray"]
_PACKAGES: Final[dict[Extra, tuple[str, ...]]] = {
    "aws": ("boto3",),
    "report": ("matplotlib", "jinja2", "PIL"),
    "xarray": ("xarray",),
}
"""What is imported of each; a test holds it to pyproject.toml."""


def check_extra(extra: Extra, what: str) -> None:
    """Refuse to go on without the packages of an extra; imports none of them.

    Args:
        extra: Its name.
        what: What needs it, as the subject of a sentence, in the plural.

    Raises:
        MissingExtraError: One of them is not installed.
    """
    for package in _PACKAGES[extra]:
        if not _is_there(package):
            raise MissingExtraError(
                f"{what} need {package}, which is not installed: pip install 'pixel-gather[{extra}]'"
            )


def _is_there(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ValueError:  # the program has said that it is not to be imported
        return False
