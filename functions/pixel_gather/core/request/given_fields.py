"""Checks fields that come from outside: known names alone, exactly one of two, and names of bands. Pure."""

from collections.abc import Iterable

from pixel_gather.core.errors import RequestError


def check_names(given: Iterable[str], known: Iterable[str], *, what: str = "field", within: str = "") -> None:
    """Refuse an unknown name, which would be ignored.

    Args:
        given: The names to check.
        known: The names that are allowed.
        what: What the names are: field or parameter.
        within: The request's field that holds these fields.

    Raises:
        RequestError: A name is unknown. The error names it, and lists the known ones.
    """
    if unknown := set(given) - set(known):
        name = str(min(unknown, key=str)) or "''"
        taken = ", ".join(sorted(known)) or "none"
        raise RequestError(
            f"there is no such {what}; it takes {taken}", field=f"{within}.{name}" if within else name
        )


def check_one_of(given: Iterable[str], first: str, second: str, *, hint: str = "") -> None:
    """Refuse an object that has neither or both of two fields.

    Args:
        given: Names of its fields.
        first: One field. The error names it.
        second: The other one.
        hint: What to write in these fields.

    Raises:
        RequestError: It has neither or both.
    """
    if n_given := len({first, second}.intersection(given)) - 1:
        both = ", not both" if n_given > 0 else ""
        raise RequestError(f"give {first} or {second}{both}{hint and f': {hint}'}", field=first)


def split_bands(text: str, *, field: str) -> dict[str, str]:
    """Return the names of bands that a text such as ``red=B4,nir=B5`` says.

    Args:
        text: Names in expressions, each with the band that it stands for.
        field: What errors name.

    Raises:
        RequestError: It is no such text, or a name stands for two bands.
    """
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(name.strip() and band.strip() for name, _, band in pairs):
        raise RequestError(f"{text!r} is not such as red=B4,nir=B5", field=field)
    bands: dict[str, str] = {}
    for name, _, band in pairs:
        if bands.setdefault(name.strip(), band.strip()) != band.strip():
            raise RequestError(f"{name.strip()} stands for two bands: leave one out", field=field)
    return bands
