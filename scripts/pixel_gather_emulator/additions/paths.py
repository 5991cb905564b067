"""Paths of states that lead nowhere in the input.

AWS                                                      ministack
the execution fails with States.Runtime                  the value is null
a rule of a Choice fails likewise, but for IsPresent     the rule does not hold
IsPresent holds for a null                               it does not
"""

# ruff: noqa: SLF001 # an addition reaches into ministack

from collections.abc import Callable
from typing import Any

from ministack.services import stepfunctions as sf

_resolve_path: Callable[[str, Any], Any] = sf._resolve_path
_evaluate_rule: Callable[..., bool] = sf._evaluate_rule


class NowhereError(sf._ExecutionError):  # type: ignore[misc] # ministack ships no types
    """A path leads nowhere."""


def apply() -> None:
    """Put the additions in place."""
    sf._resolve_path = resolve_path
    sf._evaluate_rule = evaluate_rule


def resolve_path(path: str, data: Any) -> Any:
    """Return the value that a path leads to."""
    found = _resolve_path(path, data)
    if found is None and not _leads_somewhere(path, data):
        raise NowhereError("States.Runtime", f"Invalid path '{path}': it leads nowhere in the input")
    return found


def evaluate_rule(rule: dict[str, Any], data: Any, context: Any = None) -> bool:
    """Return whether a rule of a Choice holds."""
    if "IsPresent" not in rule:
        return _evaluate_rule(rule, data, context)
    try:
        sf._resolve_path_or_ctx(rule["Variable"], data, context)
    except NowhereError:
        return not rule["IsPresent"]
    return bool(rule["IsPresent"])


def _leads_somewhere(path: str, data: Any) -> bool:
    for _, name in sf._parse_jsonpath_tokens(path) or ():
        try:
            data = data[name]
        except (KeyError, IndexError, TypeError):
            return False
    return True
