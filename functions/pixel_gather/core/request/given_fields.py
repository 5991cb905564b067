"""Which fields an object from outside may have, and which of two it has. Pure."""

from collections.abc import Iterable

from pixel_gather.core.errors import RequestError


def check_names(given: Iterable[str], known: Iterable[str], *, what: str = "field", within: str = "") -> None:
    """Refuse a name that would be ignored.

    Args:
        given: The names.
        known: Those that there are.
        what: What they name: fields or parameters.
        within: Field of a request whose own fields they are.

    Raises:
        RequestError: It names it, and those that there are.
    """
    if unknown := set(given) - set(known):
        name = str(min(unknown, key=str)) or "''"
        taken = ", ".join(sorted(known)) or "none"
        raise RequestError(
            f"there is no such {what}; it takes {taken}", field=f"{within}.{name}" if within else name
        )


def check_one_of(given: Iterable[str], first: str, second: str, *, hint: str = "") -> None:
    """Refuse an object that has none or both of two fields.

    Args:
        given: Names of its fields.
        first: A field, which the error names.
        second: The other one.
        hint: What to write there.

    Raises:
        RequestError: There is not exactly one of them.
    """
    if n_given := len({first, second}.intersection(given)) - 1:
        both = ", not both" if n_given > 0 else ""
        raise RequestError(f"give {first} or {second}{both}{hint and f': {hint}'}", field=first)
