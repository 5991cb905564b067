"""What a table would take, and what was made, in words."""

from collections.abc import Mapping
from typing import Any

from pixel_gather.core.model.plurals import counted, size
from pixel_gather.in_process.table_job import MadeTable


def plan_text(plan: Mapping[str, Any]) -> str:
    """Return a plan in words, of this process or of a deployment."""
    far = f", {plan['not_opened']:,} more near no feature in time" if plan["not_opened"] else ""
    by = counted(plan["workers"], "worker") if "workers" in plan else "one function of one vCPU"
    return (
        f"{counted(plan['features'], 'feature')} on {counted(plan['images'], 'image')}{far}\n"
        f"{plan['lines']:,} lines from {counted(plan['tiles'], 'tile')}: {plan['requests']:,} requests, "
        f"{size(plan['bytes'])}\n"
        f"about {plan['seconds']:,.1f} s and ${plan['usd']:.6f} in {by}\n"
        f"From the headers of {counted(plan['sampled'], 'image')}."
    )


def made_text(made: MadeTable) -> str:
    """Return what was made, in words."""
    statuses = ", ".join(f"{n:,} {name}" for name, n in made.n_by_status.items())
    failed = f", {made.n_failed:,} not read" if made.n_failed else ""
    far = f", {made.n_far:,} not opened" if made.n_far else ""
    read = f"{counted(made.n_read, 'image')} read, " if made.n_read < made.n_images - made.n_far else ""
    return (
        f"{made.path}: {counted(made.n_lines, 'line')} of {counted(made.n_features, 'feature')} on "
        f"{counted(made.n_images, 'image')}{failed}{far}\n"
        f"{statuses}\n"
        f"{read}{counted(made.n_requests, 'request')}, {size(made.nbytes)}, {made.seconds:.2f} s"
    )
