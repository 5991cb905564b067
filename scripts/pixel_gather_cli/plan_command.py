"""``pixel-gather plan``: the dry run."""

import json
from typing import Any

import click

from pixel_gather.cube import CubePlan
from pixel_gather.in_process import dry_run
from pixel_gather_cli.request_options import request_of, request_options, settings_of, settings_options


@click.command("plan")
@request_options
@settings_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def plan_command(*, as_json: bool, **options: Any) -> None:
    """Say what a gather will take: shape, layout, requests, bytes, seconds and dollars. Reads no pixel.

    REQUEST is a JSON or YAML file, or - for standard input; options take the place of its fields.

    \b
    pixel-gather plan --sources list.txt --bbox 11.2,46.4,11.5,46.6
    """
    plan = dry_run(request_of(options), settings=settings_of(options))
    click.echo(json.dumps(plan.to_json(), indent=2) if as_json else plan_to_text(plan))


def plan_to_text(plan: CubePlan) -> str:
    """Return the plan as text, one figure a line."""
    estimate = plan.estimate
    rows, strips = plan.layout.n_shards(plan.shape)
    shape = " x ".join(f"{length:,}" for length in plan.shape)
    cut = {
        name: " x ".join(map(str, part))
        for name, part in (("chunk", plan.layout.chunk), ("shard", plan.layout.shard))
    }
    shares = ", ".join(f"{name} ${usd:.5f}" for name, usd in estimate.usd_by_service.items())
    lines = {
        "sources": f"{plan.n_sources:,}",
        "cube": f"{shape} ({plan.dim}, y, x)",
        "measurements": ", ".join(f"{each.name} ({each.dtype})" for each in plan.measurements),
        "place": plan.placement.crs or "not placed on the map",
        "layout": f"chunks of {cut['chunk']}, shards of {cut['shard']}, {plan.codec}",
        "shards": f"{rows * strips:,}, each one task",
        "requests": f"about {estimate.n_gets:,} GETs and {estimate.n_puts:,} PUTs",
        "bytes": f"about {_size(estimate.fetched_nbytes)} to read, {_size(estimate.decoded_nbytes)} decoded",
        "on AWS": f"about {estimate.seconds:,.1f} s and ${estimate.usd:.4f} ({shares})",
        "  assuming": "; ".join(estimate.assumptions),
    }
    text = [f"{name:<13} {value}" for name, value in lines.items()]
    return "\n".join(text + [f"{'warning':<13} {each}" for each in plan.warnings])


def _size(nbytes: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if nbytes < 1000:  # noqa: PLR2004 # the step between decimal units
            return f"{nbytes:,.0f} {unit}" if unit == "B" else f"{nbytes:,.1f} {unit}"
        nbytes /= 1000
    return f"{nbytes:,.1f} TB"
