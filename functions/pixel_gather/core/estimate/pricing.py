"""Prices of requests, seconds and transitions on AWS. Pure.

They are those of some Regions for arm64 in November 2026. Check them before quoting. Other Regions have other
prices, and a plan there says so.
"""

from math import floor, inf, log10
from typing import Final

from pixel_gather.core.host_leases import lease_s

PRICES_OF: Final = "us-east-1, arm64, November 2026"
SAME_PRICES: Final = frozenset({"us-east-1", "us-east-2", "us-west-2"})
"""Regions with the prices below."""

_MOST_DECIMALS: Final = 12

USD_PER_GET: Final = 0.0004 / 1000
USD_PER_PUT: Final = 0.005 / 1000
USD_PER_GB_S: Final = 0.0000133334
"""A GB is 1,024 MiB: Lambda bills a worker of 1,769 MiB as 1.728."""

USD_PER_INVOCATION: Final = 0.20 / 1_000_000
USD_PER_TRANSITION: Final = 0.025 / 1000
TRANSITIONS_PER_CHILD: Final = 3
"""A child's start, its one Task, and its end."""

TRANSITIONS_BESIDE: Final = 5
"""Transitions besides those of the children: start, plan, choice, map, finish."""

TRANSITIONS_PER_ITEM: Final = 1
"""The Task of an item of an inline Map, which has no child executions."""

TRANSITIONS_BESIDE_INLINE: Final = 7
"""The five above, the Parallel state around an inline Map, and the early start of finish."""

GETS_PER_TASK: Final = 10
"""By the worker: the claim twice, the plan, the task's part of the list, the marker of a cancelled gather,
and a HEAD of its object twice.

By the finish: the task's part of the list, its sidecar and its headers. HEADs are priced as GETs. Those of
further measurements are not counted.
"""

GETS_BESIDE: Final = 120
"""Approximate other GETs: by the plan, and by the finish for array metadata and for the report."""

PUTS_BESIDE: Final = 45
"""Approximate other PUTs: the plan's files, the metadata of cube and coordinates, and the files beside them.
These are quicklooks, the table of rows, the receipt, the report, and the page that shows the pixels. S3 bills
a list of 1,000 shards as a PUT too.
"""

_NEAR: Final = {"us-east-1", "us-east-2"}
_USD_PER_GB_FROM: Final = {
    **dict.fromkeys(("us-east-1", "us-east-2", "us-west-1", "us-west-2", "ca-central-1"), 0.02),
    **dict.fromkeys(("eu-central-1", "eu-north-1", "eu-south-1"), 0.02),
    **dict.fromkeys(("eu-west-1", "eu-west-2", "eu-west-3"), 0.02),
    "ap-south-1": 0.086,
    "ap-northeast-1": 0.09,
    "ap-northeast-2": 0.08,
    "ap-northeast-3": 0.09,
    "ap-southeast-1": 0.09,
    "ap-southeast-2": 0.098,
    "ap-east-1": 0.09,
    "sa-east-1": 0.138,
    "me-south-1": 0.1105,
    "af-south-1": 0.147,
}
"""Dollars per GB of transfer out of S3 to another Region."""

_BESIDE_GB: Final = 1769 / 1024
"""Memory of plan and finish, in GB."""


def n_puts(*, n_tasks: int, n_arrays: int, n_rows: int, n_columns: int) -> int:
    """Return the number of objects that a gather writes.

    Each task writes one object per measurement and two sidecars. The coordinates are added.

    Args:
        n_tasks: Shards.
        n_arrays: Arrays of pixels.
        n_rows: Rows of the cube.
        n_columns: Columns of the list that become coordinates.
    """
    coordinates = -(-n_rows // ROWS_PER_PUT) * (COORDINATES + n_columns)
    return n_tasks * (n_arrays + 2) + coordinates + PUTS_BESIDE


TRIES_PER_LEASE: Final = 2.5
"""Looks and PUTs for each lease, as simulated with 50 workers: others are faster than many of them."""

ROWS_PER_PUT: Final = 16_384
"""Rows of a coordinate in one object; see `pixel_gather.core.results.row_coordinates`."""

COORDINATES: Final = 20


def usd_on_aws(
    *,
    n_gets: int,
    n_puts: int,
    n_tasks: int,
    n_children: int,
    worker_s: float,
    worker_mib: int,
    beside_s: float,
    is_inline: bool,
) -> dict[str, float]:
    """Return the price of a planned or finished gather, by service.

    Args:
        n_gets: GET requests for sources. Those for control files are added.
        n_puts: PUT requests.
        n_tasks: Shards.
        n_children: Children of the map: each is one invocation.
        worker_s: Billed seconds of all workers, their starts included.
        worker_mib: Memory of a worker.
        beside_s: Seconds of plan and finish, drawing included.
        is_inline: Whether the map is inline: it has items instead of children.
    """
    n_transitions = n_children * TRANSITIONS_PER_CHILD + TRANSITIONS_BESIDE
    if is_inline:
        n_transitions = n_children * TRANSITIONS_PER_ITEM + TRANSITIONS_BESIDE_INLINE
    gb_s = worker_s * worker_mib / 1024 + beside_s * _BESIDE_GB
    return {
        "s3": (n_gets + n_tasks * GETS_PER_TASK + GETS_BESIDE) * USD_PER_GET + n_puts * USD_PER_PUT,
        "lambda": gb_s * USD_PER_GB_S + (n_children + 2 + is_inline) * USD_PER_INVOCATION,
        "step_functions": n_transitions * USD_PER_TRANSITION,
    }


def ledger_usd(*, n_workers: int, seconds: float, per_s: float) -> float:
    """Return the price of sharing the requests that a host allows; see `pixel_gather.core.host_leases`.

    Args:
        n_workers: Workers that share them.
        seconds: How long they do.
        per_s: Requests a second; infinite where nothing is shared.
    """
    if per_s == inf:
        return 0.0
    n_leases = n_workers * (1 + seconds / lease_s(n_workers, per_s))
    return n_leases * TRIES_PER_LEASE * (USD_PER_GET + USD_PER_PUT)


def usd_per_gb_from(region: str, *, to: str) -> float:
    """Return S3's price for a GB (10^9 bytes) that is read from another Region.

    For an unknown Region, the highest known price.
    """
    if {region, to} == _NEAR:
        return 0.01
    return _USD_PER_GB_FROM.get(region, max(_USD_PER_GB_FROM.values()))


def dollars(usd: float) -> str:
    """Return dollars with four decimals, or with more if two digits of a small sum need them."""
    decimals = 4 if usd <= 0 else min(max(4, 1 - floor(log10(usd))), _MOST_DECIMALS)
    return f"${usd:,.{decimals}f}"
