"""``pixel-gather plan``: the dry run."""

import math
import shutil
from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import Any, BinaryIO, Final

import click
import msgspec
from msgspec import Struct

from pixel_gather.core.errors import NothingToAppendError, RequestError
from pixel_gather.core.estimate.assumptions import use_measured
from pixel_gather.core.estimate.estimate_result import EstimatedFigure
from pixel_gather.core.model.plurals import counted, in_degrees
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.results.run_table import shorten_in_middle
from pixel_gather.features.gather.gather import make_plan
from pixel_gather.in_process.places import check_place, show_place
from pixel_gather_cli.details import WARNING, details_option, in_few_lines, nothing_appended
from pixel_gather_cli.json_output import json_option, print_result
from pixel_gather_cli.progress import with_progress
from pixel_gather_cli.request_options import request_of, request_options, settings_of, settings_options
from pixel_gather_cli.with_options import other_commands_option

_NARROWEST: Final = 30
_WIDEST_NAMES: Final = 100
_WIDTH_OF_FILES: Final = 1000
"""Line width without a terminal: nothing is wrapped, so programs find whole lines."""


@click.command("plan")
@request_options
@other_commands_option("--to", "plan writes nothing: leave --to out here, and give it to run")
@settings_options
@json_option
@click.option(
    "--measured",
    type=click.File("rb"),
    metavar="FILE",
    help="File of settings with figures that scripts/deploy check has measured in your account.",
)
@details_option
@with_progress("planning")
def plan_command(*, as_json: bool, verbose: bool, measured: BinaryIO | None, **options: Any) -> None:
    """Estimate a gather: shape, layout, requests, bytes, seconds and dollars. Reads no pixel.

    REQUEST is a JSON or YAML file, or - for standard input; options replace its fields. With --verbose, every
    number comes with what it rests on. An append of what the cube has succeeds and says so.

    \b
    pixel-gather plan --sources list.txt --bbox 11.2,46.4,11.5,46.6
    """
    if measured is not None:
        _use_figures_of(measured)
    request = request_of(options)
    try:
        plan = make_plan(request, settings=settings_of(options))
    except NothingToAppendError as error:
        place = show_place(check_place(request.output.append_to or ""))
        said = nothing_appended(place, has_chips=error.has_chips)
        print_result({"cube": place, "appended": 0}, f"{'cube':<14} {said}", as_json=as_json)
        return
    width = shutil.get_terminal_size((_WIDTH_OF_FILES, 0)).columns
    text = plan_to_text(plan, width=width) if verbose else plan_in_short(plan)
    print_result(plan.to_json(), text, as_json=as_json)


class _Settings(Struct):
    """What counts of a file of settings."""

    measured: dict[str, float]


def _use_figures_of(file: BinaryIO) -> None:
    try:
        use_measured(msgspec.json.decode(file.read(), type=_Settings).measured)
    except (msgspec.DecodeError, RequestError) as error:
        raise click.BadParameter(
            f"{file.name} was not written by scripts/deploy check --save: {error}",
            param_hint="'--measured'",
        ) from error


def plan_in_short(plan: CubePlan) -> str:
    """Return the plan in ten lines: the cube, what it costs, warnings, and what to do next."""
    known = {each.what: each.how_much for each in plan.estimate.figures}
    shape = " x ".join(f"{length:,}" for length in plan.folded(plan.shape))
    names = shorten_in_middle(
        ", ".join(f"{each.name} ({each.dtype})" for each in plan.measurements), _WIDEST_NAMES
    )
    workers = counted(plan.estimate.n_workers, "worker")
    option, size = "--to", known["bytes decoded"]
    if not plan.append.is_first:
        option, size = "--append-to", f"{_new_in(plan)}, {size} to decode"
    lines = [
        ("cube", f"{shape} ({', '.join(plan.leading_dims)}, y, x), {size}"),
        ("measurements", names),
        *_grid_lines(plan),
        ("to read", f"{known['bytes to read']} of {_sources_of(plan)} in {known['GETs']} GETs"),
        ("on AWS", f"{known['dollars']} and {known['seconds']} s, with {workers}"),
        *in_few_lines([(WARNING, each) for each in plan.warnings], most=5),
        (
            "next",
            f"gather by run {option} PLACE, or on AWS by submit; --verbose shows every number and its basis",
        ),
    ]
    return "\n".join(f"{name:<14} {value}" for name, value in lines)


def _new_in(plan: CubePlan) -> str:
    """Return how many rows or chips an append adds."""
    n_new = plan.n_rows - plan.first_row
    return (
        counted(n_new, "new row") if plan.chips is None else counted(n_new // plan.chips.n_images, "new chip")
    )


def _sources_of(plan: CubePlan) -> str:
    """Return how many sources are read: new ones, and those of the cube that had failed."""
    n_again = plan.append.n_again
    found = [counted(plan.n_sources, "source")] if plan.n_sources or not n_again else []
    return " and ".join([*found, *([counted(n_again, "failed source")] if n_again else [])])


def _grid_lines(plan: CubePlan) -> Iterator[tuple[str, str]]:
    """Yield what becomes of the sources' pixels: on a common grid, and by a mask."""
    if plan.resolution is not None:
        steps = shorten_in_middle(
            ", ".join(f"{name} {step}" for name, step in plan.steps.items()), _WIDEST_NAMES
        )
        yield "grid", f"pixels of {_width_in_words(plan)} in {plan.placement.crs or 'no CRS'}: {steps}"
    if (mask := plan.of_scenes.mask) is not None:
        yield "mask", f"pixels are {mask.in_words()}"
    if plan.values == "harmonised":
        said = (f"{each.name} x {each.scale:g} + {each.offset:g}" for each in plan.measurements)
        yield "values", f"harmonised: {shorten_in_middle(', '.join(said), _WIDEST_NAMES)}"
    if plan.values == "scaled":
        names = (each.name for each in plan.of_scenes.measurements if each.stored is not None)
        said_of = shorten_in_middle(", ".join(names), _WIDEST_NAMES)
        yield "values", f"scaled: {said_of} by the scale and offset of each source"
    if plan.reduction is not None:
        scenes = counted(plan.reduction.n_scenes, "scene")
        yield "reduce", f"{plan.reduction.in_words()}: {scenes} to {counted(plan.n_rows, 'row')}"


def _width_in_words(plan: CubePlan) -> str:
    """Return the width of pixels of a common grid: as asked for, and as whole pixels of sources make it."""
    asked, transform = plan.resolution or 0.0, plan.placement.transform
    said = in_degrees(asked) if plan.in_degrees else f"{asked:.8g}"
    width = asked if transform is None else math.hypot(transform.a, transform.d)
    if f"{width:.9g}" == f"{asked:.9g}":
        return said
    return f"{said} ({width:.9g}, from whole pixels of the sources)"


def plan_to_text(plan: CubePlan, *, width: int = _WIDTH_OF_FILES) -> str:
    """Return the plan as text: the cube, and a table of its numbers with their basis."""
    shape = " x ".join(f"{length:,}" for length in plan.folded(plan.shape))
    cut = {
        name: " x ".join(map(str, part))
        for name, part in (("chunk", plan.layout.chunk), ("shard", plan.layout.shard))
    }
    shards = f"shards of {cut['shard']}" if plan.layout.is_sharded else "one in each object"
    lines = {
        "cube": f"{shape} ({', '.join(plan.leading_dims)}, y, x)",
        "measurements": ", ".join(f"{each.name} ({each.dtype})" for each in plan.measurements),
        "place": plan.placement.crs or "not placed on the map",
        **dict(_grid_lines(plan)),
        "layout": f"chunks of {cut['chunk']}, {shards}, {plan.codec}",
    }
    text = [f"{name:<14} {value}" for name, value in lines.items()]
    text += ["", *_table(plan.estimate.figures, width), ""]
    for each in plan.warnings:
        first, *others = _wrap_text(each, max(width - 15, _NARROWEST))
        text += [f"{'warning':<14} {first}", *(f"{'':<14} {other}" for other in others)]
    return "\n".join(text).rstrip()


def _table(figures: Sequence[EstimatedFigure], width: int) -> Iterator[str]:
    """Yield lines of three columns. A number's basis may take several lines."""
    what, how_much = (max(len(getattr(each, name)) for each in figures) for name in ("what", "how_much"))
    yield f"{'on AWS':<{what}}  {'how much':<{how_much}}  rests on"
    left = max(width - what - how_much - 4, _NARROWEST)
    for each in figures:
        first, *others = (line for words in each.rests_on for line in _wrap_text(words, left, after="  "))
        yield f"{each.what:<{what}}  {each.how_much:<{how_much}}  {first}"
        yield from (f"{'':<{what}}  {'':<{how_much}}  {other}" for other in others)


def _wrap_text(text: str, width: int, *, after: str = "") -> list[str]:
    """Wrap a text without breaking hrefs."""
    return wrap(text, width, subsequent_indent=after, break_long_words=False, break_on_hyphens=False)
