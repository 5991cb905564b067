"""Errors travel between processes, as in a process pool."""

import importlib
import inspect
import pickle
import pkgutil
from collections.abc import Mapping
from typing import Any

import pixel_gather
import pixel_gather_bench
import pixel_gather_cli
from pixel_gather.core.model.status import Status

_PACKAGES = (pixel_gather, pixel_gather_bench, pixel_gather_cli)

_VALUES: dict[Any, Any] = {
    str: "said",
    int: 7,
    bool: True,
    Status: Status.MISSING,
    float | None: 1.5,
    Mapping[str, str] | None: {"said": "too"},
}
"""A value for each type of an argument."""


def _import_if_installed(name: str) -> None:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != "torch":  # no dependency of ours
            raise


def _own_errors() -> list[type[BaseException]]:
    for package in _PACKAGES:
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                _import_if_installed(module.name)
    found, left = set(), [BaseException]
    while left:
        for each in left.pop().__subclasses__():
            if each not in found:
                found.add(each)
                left.append(each)
    # Other tests of the same process may have imported errors of the emulator.
    names = {package.__name__ for package in _PACKAGES}
    return sorted((each for each in found if each.__module__.partition(".")[0] in names), key=str)


def _example(kind: type[BaseException]) -> BaseException:
    if kind.__init__ in (Exception.__init__, OSError.__init__, ImportError.__init__, SystemExit.__init__):
        return kind("said")
    parameters = inspect.signature(kind, eval_str=True).parameters.values()
    named = {each.name: _VALUES[each.annotation] for each in parameters if each.kind is each.KEYWORD_ONLY}
    return kind(*(_VALUES[each.annotation] for each in parameters if each.name not in named), **named)


def test_every_error_is_the_same_after_a_pickle() -> None:
    """An error that cannot be unpickled breaks a process pool, and nobody learns of it."""
    kinds = _own_errors()

    assert len(kinds) > 30
    for kind in kinds:
        error = _example(kind)
        error.add_note("a note")
        again = pickle.loads(pickle.dumps(error))  # noqa: S301 # our own

        assert type(again) is kind
        assert (str(again), again.args, vars(again)) == (str(error), error.args, vars(error))
