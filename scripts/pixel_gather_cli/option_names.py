"""Errors name the option that the user gave, not the field of the request that it fills."""

import functools
from collections.abc import Callable, Container, Mapping
from pathlib import PurePath
from typing import Any, Final

import click
from click.core import ParameterSource

from pixel_gather.core.errors import BudgetError, RequestError

_FILLED_BY: Final[dict[str, tuple[str, ...]]] = {
    "append_to": ("cube",),
    "cube": ("append_to", "cubes"),
    "frames_per_second": ("fps",),
    "grid.crs": ("grid_crs",),
    "id": ("id_", "id_column"),
    "limits": ("max_usd", "times_source"),
    "measurement": ("measurements", "rgb"),
    "output": ("codec", "zfp_tolerance"),
    "points": ("features",),
    "output.bands": ("band_axis",),
    "output.sharding": ("no_sharding",),
    "search": ("remove",),
    "sources": ("list_file", "prefix", "stac", "items", "catalog"),
    "table": ("cube", "windows"),
    "time": ("time_column",),
    "usd": ("max_usd",),
    "window": ("tile", "pixels", "bbox", "point"),
    "zones": ("features",),
}
"""Fields of requests whose options have other names, and the fields of several options."""

_SAYS_INSTEAD: Final = {"assets": "bands"}
"""Options by those that say the same in other commands, which have both names for different things."""

_LINE: Final = " line "
"""In the field of an error between a list's name and the number."""

_LIMITS: Final = {
    "limits.usd": "max_usd",
    "limits.seconds": "max_seconds",
    "limits.times_source": "times_source",
}
"""Options by the limits that errors name."""

_IN_A_LIMIT: Final = {"window": "window.size"}
"""Fields of a request that errors name, where a limit holds although nobody has given it."""


def naming_options[Command: Callable[..., Any]](command: Command) -> Command:
    """Let a command's `RequestError` name the options or arguments that were given, where it names a field.

    An option that is needed and was not given is named, too. A field of a REQUEST file keeps its own name.
    """

    @functools.wraps(command)
    def run(**values: Any) -> Any:
        try:
            return command(**values)
        except RequestError as error:
            context = click.get_current_context()
            names = _names_of(error.field, context, is_missing=error.is_missing) or [error.field]
            also_wrong: dict[str, str] = {}
            for field, what in error.also_wrong.items():
                for name in _names_of(field, context, is_missing=True) or [field]:
                    if name not in names:
                        also_wrong.setdefault(name, what)
            if names == [error.field] and also_wrong == error.also_wrong:
                raise
            raise RequestError(error.message, field=", ".join(names), also_wrong=also_wrong) from error
        except BudgetError as error:
            names = _names_of_limit(error.field, values)
            if not names:
                raise
            raise BudgetError(error.message, field=names[0]) from error

    return run  # type: ignore[return-value] # it takes the same


def with_option(refusal: str) -> str:
    """Return a refusal of a deployment. If it begins with a limit, the limit's option is added.

    The limit may come from an option, a REQUEST file or the deployment. This is not known here.
    """
    limit, colon, said = refusal.partition(":")
    return f"{limit} ({_show_limit(limit)}){colon}{said}" if limit in _LIMITS else refusal


def _show_limit(limit: str) -> str:
    return f"--{_LIMITS[limit]}".replace("_", "-")


def _names_of_limit(limit: str, values: Mapping[str, Any]) -> list[str]:
    """Return the option of a limit that was given, or the one of a window that is too large."""
    if limit in _IN_A_LIMIT:
        return _names_of(_IN_A_LIMIT[limit], click.get_current_context(), is_missing=False)
    return [] if values.get(_LIMITS.get(limit, "")) is None else [_show_limit(limit)]


def _names_of(field: str, context: click.Context, *, is_missing: bool) -> list[str]:
    """Return what the user gave for a field: its option or argument, or all options that fill it.

    Of a field for which nothing was given, and of one that is missing, it is the option that could be given.
    """
    file, _, _ = field.partition(_LINE)
    if "." in field and any(file in (each, _name_of_file(each)) for each in context.params.values()):
        return []  # a file that was given keeps its name
    given = {
        each.name: each
        for each in context.command.params
        if each.name is not None and each.name in context.params and is_given(each.name)
    }
    others = _other_options(context, given)
    last = field.rpartition(".")[-1]
    if last in _SAYS_INSTEAD and last not in context.params and "request_file" not in given:
        options = given | others
        return [_show_option(options[name]) for name in (_SAYS_INSTEAD[last],) if name in options]
    if is_missing and field not in _FILLED_BY:
        for name in (last, *_FILLED_BY.get(last, ())):
            if name in others:
                return [_show_option(others[name])]
    for name, each in given.items():
        if field != context.params[name] and field.endswith(f".{context.params[name]}"):
            return [_show_option(each)]  # the field ends in a file's name
    for part in (field, *reversed(field.split("."))):
        found = [given[name] for name in (part, *_FILLED_BY.get(part, ())) if name in given]
        if found:
            return [_show_option(each) for each in found]
    fills = (
        each for name, each in others.items() if name == field or (name == f"{field}s" and each.multiple)
    )
    return [_show_option(each) for each in fills]


def _name_of_file(value: object) -> str | None:
    return PurePath(value).name if isinstance(value, str) else None


def _other_options(context: click.Context, given: Container[str | None]) -> dict[str | None, click.Option]:
    """Return the options with a value that were not given; none beside a file that may say the same."""
    if "request_file" in given:
        return {}
    return {
        each.name: each
        for each in context.command.params
        if isinstance(each, click.Option) and not each.is_flag and each.name not in given
    }


def is_given(name: str) -> bool:
    """Tell whether the command line has an option or argument. A default is not given."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def _show_option(parameter: click.Parameter) -> str:
    if isinstance(parameter, click.Argument):
        return parameter.human_readable_name.strip("[].")
    return max(parameter.opts, key=len)
