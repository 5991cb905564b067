"""Every figure that an estimate uses, with its unit and source.

Published figures are from AWS or from the report of 2018 that this tool is compared with. Measured figures
are from the benchmarks in ``tests/benchmarks``, on x86 and never on AWS. All others are called assumed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pixel_gather.core.errors import RequestError


@dataclass(slots=True)
class Figure:
    """An input number of the model. It changes only by `use_measured`."""

    value: float
    unit: str
    source: str

    def __str__(self) -> str:
        """Return the figure and its source, as a plan shows them."""
        return f"{_shown(self.value, self.unit)} ({self.source})"


def _shown(value: float, unit: str) -> str:
    for step, prefix in ((1e9, "G"), (1e6, "M"), (1, ""), (1e-3, "m"), (1e-6, "µ")):
        if value >= step and unit in ("B/s", "s"):
            return f"{value / step:,g} {prefix}{unit}"
    return f"{value:,g} {unit}"


NETWORK: Final = Figure(78e6, "B/s", "AWS: 625 Mbit/s a Lambda environment")
NETWORK_HERE: Final = Figure(1.25e9, "B/s", "assumed: 10 Gbit/s, as many machines on EC2 have")
CONNECTION: Final = Figure(85e6, "B/s", "AWS: one request at a time for each 85-90 MB/s that is wanted")
FIRST_BYTE: Final = Figure(0.030, "s", "report of 2018: median time to open a file, one thread")
GETS_UNTIL_LATE: Final = Figure(1278, "GETs", "report of 2018: how many had one such answer")
LATE: Final = Figure(0.1, "s", "measured: bench_peers, at most 0.06 s with hedged requests; 1 s without")
S3_GETS: Final = Figure(5500, "GETs/s", "AWS: of one prefix, more only gradually")

CHILDREN: Final = Figure(100, "children/s", "AWS: a Distributed Map of STANDARD children")
ACCOUNT: Final = Figure(1000, "workers", "AWS: an account's concurrency at first")
BURST: Final = Figure(1000, "new workers", "AWS: a function, in 10 s")
BURST_EVERY: Final = Figure(10, "s", "AWS: as above")
ONE_VCPU: Final = Figure(1769, "MiB", "AWS: memory that comes with one vCPU")

COLD_START: Final = Figure(1.0, "s", "assumed, with imports of 0.15 s measured")
CHILD: Final = Figure(0.1, "s", "assumed: Step Functions, for a child's start, Task and end")
ITEM: Final = Figure(0.05, "s", "assumed: Step Functions, for the Task of an item of an inline Map")
STEPS: Final = Figure(0.3, "s", "assumed: Step Functions, for all but a Map Run and its children")
MAP_RUN: Final = Figure(0.2, "s", "assumed: Step Functions, for the start and end of a Map Run")
"""A user of AWS reported 7 s for 100 children that do nothing (re:Post, "Why is Step Function's Distributed
Map slow?"). An inline Map has none of it."""

DECODING: Final = Figure(400e6, "B/s", "measured: DEFLATE with predictor 2, one vCPU of x86")
CPU_PER_GET: Final = Figure(0.2e-3, "s", "measured: bench_peers, one vCPU of x86")
CPU_PER_SOURCE: Final = Figure(0.4e-3, "s", "measured: bench_peers, Python around a source")
CPU_PER_ROW: Final = Figure(
    1.6e-3, "s", "measured: bench_gather, rest of 2.55 CPU s per 1,000 compressed tiles; one vCPU of x86"
)
"""The rest after requests, Python around a source, plan and finish: hand-overs, digests, the store and the
kernel. With decoding, statistics and compression below, all figures make 5.3 CPU s per 1,000 decoded tiles.
5.54 were measured in the same rounds. tests/benchmarks/README.md has later runs."""

TLS: Final = Figure(370e6, "B/s", "measured: TLS costs 1.1 ms of CPU for 406 KB")
COMPRESSING: Final = Figure(420e6, "B/s", "measured: decision 0003, blosc-lz4, one vCPU of x86")
RATIO: Final = Figure(1.37, "times smaller", "measured: decision 0003, blosc-lz4 of Landsat-like tiles")
MEASURING: Final = Figure(3.1e9, "B/s", "measured: statistics and digest, one vCPU of x86")

PLAN_PER_SOURCE: Final = Figure(26e-6, "s", "measured: bench_scale")
FINISH_PER_SOURCE: Final = Figure(48e-6, "s", "measured: bench_scale, and 8 µs for the table of rows")
DRAWING: Final = Figure(4.0, "s", "measured: the report of 1,278 sources, and of 100,000")

PLAN_ROUND_TRIPS: Final = Figure(11, "requests", "counted: those of a plan that follow one another")
CHILD_ROUND_TRIPS: Final = Figure(2, "requests", "counted: the plan, and whether a shard is committed")
TASK_ROUND_TRIPS: Final = Figure(1, "requests", "counted: its sidecar is put")
FINISH_ROUND_TRIPS: Final = Figure(5, "requests", "counted: those of a finish that follow one another")
"""The plan, the look at what is there, lost shards, the check before the PUTs, and the commit."""

SIDECARS_AHEAD: Final = Figure(32, "sidecars", "counted: read at one time by the finish")
HEADERS_FIRST: Final = Figure(8, "sidecars", "counted: those of headers, read beside the first others")
HEADERS_AHEAD: Final = Figure(32, "sidecars", "counted: those of further headers, read at one time")
PUTS_AHEAD: Final = Figure(64, "objects", "counted: put at one time by the finish")

MEASURABLE: Final = ("ACCOUNT", "CHILD", "COLD_START", "FIRST_BYTE", "MAP_RUN", "STEPS")
"""Names of the figures above that a check of a deployment measures."""

_HIGHEST_MEASURED: Final = 1_000_000


def use_measured(values: Mapping[str, float]) -> None:
    """Take figures of this process's model from a deployment's own account.

    Args:
        values: By names of `MEASURABLE`, in the figures' units.

    Raises:
        RequestError: A name or a number is wrong. No figure has changed.
    """
    for name, value in values.items():
        field, lowest = f"measured.{name}", 1 if name == "ACCOUNT" else 0
        if name not in MEASURABLE:
            raise RequestError(f"is no figure of the model: take {', '.join(MEASURABLE)}", field=field)
        if not lowest <= value <= _HIGHEST_MEASURED:
            raise RequestError(
                f"it is {value:g}; write a number from {lowest} to {_HIGHEST_MEASURED:,}", field=field
            )
    figures = globals()
    for name, value in values.items():
        figures[name].value = float(value)
        figures[name].source = "measured in this account by a gather of samples"
