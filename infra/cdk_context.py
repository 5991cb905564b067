"""Reads and checks values of the CDK context: text from the command line, JSON from cdk.json."""

import json
import re
from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

_NO_CAP: Final = "none"
_TRUTHS: Final = {"true": True, "false": False}


class SettingsError(ValueError):
    """A key of the CDK context is wrong. The message names it and says what it should be."""

    def __init__(self, key: str, value: object, expected: str) -> None:
        """Compose the message from the key, its value and what was expected."""
        super().__init__(f"context key {key}: {json.dumps(value)} should be {expected}")


class Form(Struct, frozen=True):
    """A pattern that a text of the settings must match, and words for it."""

    pattern: str
    """Regular expression for the whole text."""

    expected: str
    """What the pattern allows, in words for an error."""

    def check(self, key: str, value: object) -> str:
        """Return the value if it is a text that matches. The error names the key."""
        if not isinstance(value, str) or not re.fullmatch(self.pattern, value):
            raise SettingsError(key, value, self.expected)
        return value


class Context(Struct, frozen=True):
    """Reads keys. Each method returns the default where the key is missing."""

    get: Callable[[str], object]
    """Returns a key's value, or None; `constructs.Node.try_get_context`."""

    def text[Default: str | None](self, key: str, form: Form, default: Default) -> str | Default:
        """Return a text that matches the form."""
        value = self.get(key)
        return default if value is None else form.check(key, value)

    def texts(self, key: str, form: Form) -> tuple[str, ...]:
        """Return the texts of a JSON array. Each matches the form. The default is an empty array."""
        return tuple(form.check(f"{key}[{index}]", each) for index, each in enumerate(self.array(key)))

    def numbers(self, key: str, names: Form, *, lowest: float, highest: float) -> dict[str, float]:
        """Return the numbers of a JSON object. Each name matches the form. The default is an empty object."""
        return {
            names.check(key, name): _read_bounded(f"{key}.{name}", value, lowest, highest)
            for name, value in self.object_(key).items()
        }

    def truth(self, key: str, *, default: bool) -> bool:
        """Return true or false."""
        value = self.get(key)
        if value is None or isinstance(value, bool):
            return default if value is None else value
        if isinstance(value, str) and value.lower() in _TRUTHS:
            return _TRUTHS[value.lower()]
        raise SettingsError(key, value, "true or false")

    def integer(self, key: str, default: int, *, lowest: int, highest: int) -> int:
        """Return a whole number within bounds, which are included."""
        number = self.number(key, default, lowest=lowest, highest=highest)
        if number != int(number):
            raise SettingsError(key, self.get(key), f"a whole number from {lowest:,} to {highest:,}")
        return int(number)

    def number(self, key: str, default: float, *, lowest: float, highest: float) -> float:
        """Return a number within bounds, which are included."""
        value = self.get(key)
        return default if value is None else _read_bounded(key, value, lowest, highest)

    def cap(self, key: str, default: float | None) -> float | None:
        """Return a number above 0, or None where the value is the word none."""
        value = self.get(key)
        if value is None or value == _NO_CAP:
            return default if value is None else None
        number = _number(value)
        if number is None or not 0 < number < float("inf"):
            raise SettingsError(key, value, "a number above 0, or none for no cap")
        return number

    def count(self, key: str, default: int | None) -> int | None:
        """Return a whole number above 0, or None where the value is the word none."""
        number = self.cap(key, default)
        if number is None:
            return None
        if number != int(number):
            raise SettingsError(key, self.get(key), "a whole number above 0, or none for no cap")
        return int(number)

    def array(self, key: str) -> list[Any]:
        """Return the items of a JSON array. The default is an empty list."""
        return self._json(key, list[Any]())

    def object_(self, key: str) -> dict[str, Any]:
        """Return the fields of a JSON object. The default has none."""
        return self._json(key, dict[str, Any]())

    def _json[Value: list[Any] | dict[str, Any]](self, key: str, default: Value) -> Value:
        value = self.get(key)
        if value is None:
            return default
        found = _from_json(value) if isinstance(value, str) else value
        if not isinstance(found, type(default)):
            raise SettingsError(key, value, f"a JSON {'array' if isinstance(default, list) else 'object'}")
        return found


def _read_bounded(key: str, value: object, lowest: float, highest: float) -> float:
    number = _number(value)
    if number is None or not lowest <= number <= highest:
        raise SettingsError(key, value, f"a number from {lowest:,} to {highest:,}")
    return number


def _number(value: object) -> float | None:
    found = _from_json(value) if isinstance(value, str) else value
    return found if isinstance(found, int | float) and not isinstance(found, bool) else None


def _from_json(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None
