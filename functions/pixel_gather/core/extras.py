"""Checks for packages that an extra installs, such as ``[aws]``."""

from collections.abc import Sequence
from typing import Final, Literal

from pixel_gather.core.errors import MissingExtraError

type Extra = Literal["aws", "export", "join", "report", "tables", "xarray"]
_PACKAGES: Final[dict[Extra, tuple[str, ...]]] = {
    "aws": ("boto3",),
    "export": ("PIL", "matplotlib", "netCDF4"),
    "join": ("icechunk", "xarray"),
    "report": ("matplotlib", "jinja2", "PIL"),
    "tables": ("pandas", "pyarrow"),
    "xarray": ("xarray",),
}
"""Modules that each extra provides. A test compares them with pyproject.toml."""


def check_extra(extra: Extra, what: str, *, packages: Sequence[str] = ()) -> None:
    """Raise an error if a package of an extra is not installed. Imports none of them.

    Args:
        extra: Its name.
        what: What needs it: the plural subject of the message.
        packages: The modules that are needed; all of the extra's if none are given.

    Raises:
        MissingExtraError: A package is not installed.
    """
    for package in packages or _PACKAGES[extra]:
        if not is_installed(package):
            raise MissingExtraError(
                f"{what} need {package}, which is not installed: pip install '.[{extra}]' in a clone, "
                f"or 'WHEEL[{extra}]' with the path of the wheel"
            )


def is_installed(package: str) -> bool:
    """Return whether a package is installed. It is not imported."""
    from importlib.util import find_spec  # noqa: PLC0415 # not in a worker's start

    try:
        return find_spec(package) is not None
    except ValueError:  # the program has blocked its import
        return False
