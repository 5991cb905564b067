"""What requests, seconds and transitions cost on AWS.

Prices are those of us-east-1 for arm64 in November 2026; check them before quoting. Pure.
"""

from typing import Final

PRICES_OF: Final = "us-east-1, arm64, November 2026"
USD_PER_GET: Final = 0.0004 / 1000
USD_PER_PUT: Final = 0.005 / 1000
USD_PER_GB_S: Final = 0.0000133334
"""A GB is 1,024 MiB: Lambda bills a worker of 1,769 MiB as 1.728."""

USD_PER_INVOCATION: Final = 0.20 / 1_000_000
USD_PER_TRANSITION: Final = 0.025 / 1000
TRANSITIONS_PER_CHILD: Final = 3
"""Its start, its one Task, its end."""

TRANSITIONS_BESIDE: Final = 5
"""Start, plan, choice, map, finish."""

GETS_PER_TASK: Final = 9
"""The claim, looked at twice; the plan; the task's part of the list; its sidecar, looked for twice. By the
finish: its part of the list, its sidecar, its headers."""

GETS_BESIDE: Final = 120
"""The plan's, the finish's of its own arrays' metadata and of what the report is drawn from, about."""

PUTS_BESIDE: Final = 41
"""The plan's files, metadata of the cube and its coordinates, pictures and the report, about."""

_NEAR: Final = {"us-east-1", "us-east-2"}
_USD_PER_GB_FROM: Final = {
    "us-east-1": 0.02,
    "us-east-2": 0.02,
    "us-west-1": 0.02,
    "us-west-2": 0.02,
    "ca-central-1": 0.02,
    "eu-central-1": 0.02,
    "eu-north-1": 0.02,
    "eu-south-1": 0.02,
    "eu-west-1": 0.02,
    "eu-west-2": 0.02,
    "eu-west-3": 0.02,
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
"""Transfer out of S3 to another Region."""

_BESIDE_GB: Final = 1769 / 1024
"""Memory of plan and finish."""


def n_puts(*, n_tasks: int, n_measurements: int, n_rows: int, n_columns: int) -> int:
    """Return how many objects a gather puts: of each task one a measurement and two sidecars; coordinates.

    Args:
        n_tasks: Shards.
        n_measurements: Arrays of pixels.
        n_rows: Of the cube.
        n_columns: Of the list.
    """
    coordinates = -(-n_rows // ROWS_PER_PUT) * (COORDINATES + n_columns)
    return n_tasks * (n_measurements + 2) + coordinates + PUTS_BESIDE


ROWS_PER_PUT: Final = 16_384
"""Rows of a coordinate in one object, as `pixel_gather.report.row_coordinates` writes them."""

COORDINATES: Final = 20


def usd_on_aws(
    *,
    n_gets: int,
    n_puts: int,
    n_tasks: int,
    worker_s: float,
    worker_mib: int,
    beside_s: float,
    n_children: int | None = None,
) -> dict[str, float]:
    """Price what was planned or done, by service.

    Args:
        n_gets: GET requests of sources; those of control files are added.
        n_puts: PUT requests.
        n_tasks: Shards.
        worker_s: Seconds that workers are paid for, their starts included.
        worker_mib: Memory of a worker.
        beside_s: Seconds of plan and finish, drawing included.
        n_children: Of the map, each an invocation with some of the shards; None for one a shard.
    """
    n_children = n_tasks if n_children is None else n_children
    gb_s = worker_s * worker_mib / 1024 + beside_s * _BESIDE_GB
    return {
        "s3": (n_gets + n_tasks * GETS_PER_TASK + GETS_BESIDE) * USD_PER_GET + n_puts * USD_PER_PUT,
        "lambda": gb_s * USD_PER_GB_S + (n_children + 2) * USD_PER_INVOCATION,
        "step_functions": (n_children * TRANSITIONS_PER_CHILD + TRANSITIONS_BESIDE) * USD_PER_TRANSITION,
    }


def usd_per_gb_from(region: str, *, to: str) -> float:
    """Return what S3 charges for a GB of 10^9 bytes that is read from another Region.

    Where the price is not known it is the highest that is.
    """
    if {region, to} == _NEAR:
        return 0.01
    return _USD_PER_GB_FROM.get(region, max(_USD_PER_GB_FROM.values()))
