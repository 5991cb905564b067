"""Names and units of what gathers tell CloudWatch, shared by the handlers and the stack's dashboard.

Handlers write them in the embedded metric format with two dimensions, ``service`` and ``stage``, and no
other: a gather's id, a shard, a source are properties of the record. What is told once for each source goes
there as an array, 100 values a record at most, so that percentiles are true ones. By whom:

- gather shard: the sources' times, counts and failures, ``Requests``, ``Retries``, bytes, ``ShardSeconds``,
  ``SpentUsd``;
- plan: ``GathersRefused``;
- finish: ``GatherSeconds``, ``GatherUsd``, and ``SourcesLost`` for sources whose shard no worker committed.
  Where windows are cut into strips, finish tells all counts of sources: each of them is in several shards.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pixel_gather.model.status import Status

NAMESPACE: Final = "PixelGather"
SERVICE: Final = "pixel-gather"
SERVICE_DIMENSION: Final = "service"
STAGE_DIMENSION: Final = "stage"


class Unit(StrEnum):
    """Units as CloudWatch spells them; dollars have none."""

    SECONDS = "Seconds"
    BYTES = "Bytes"
    COUNT = "Count"
    NONE = "None"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric."""

    name: str
    unit: Unit


SOURCE_OPEN: Final = Metric("SourceOpenSeconds", Unit.SECONDS)
"""From the first request for a source to its header understood; one value a source."""

SOURCE_READ: Final = Metric("SourceReadSeconds", Unit.SECONDS)
"""Waiting for a source's tiles and decoding them; one value a source."""

SOURCE_TOTAL: Final = Metric("SourceTotalSeconds", Unit.SECONDS)
"""Both, with what lies between; one value a source."""

SOURCES_READ: Final = Metric("SourcesRead", Unit.COUNT)
"""Sources whose window was read whole."""

SOURCES_FAILED: Final = Metric("SourcesFailed", Unit.COUNT)
"""Sources that were named and gave no pixels: the sum of `SOURCES_FAILED_BY_STATUS`."""

SOURCES_FAILED_BY_STATUS: Final[Mapping[Status, Metric]] = {
    status: Metric("Sources" + status.name.title().replace("_", ""), Unit.COUNT)
    for status in Status
    if status.is_failure
}
"""``SourcesMissing``, ``SourcesDenied``, ``SourcesTimedOut`` and so on: one for each way to fail."""

REQUESTS: Final = Metric("Requests", Unit.COUNT)
"""Requests to where the sources lie."""

RETRIES: Final = Metric("Retries", Unit.COUNT)
FETCHED: Final = Metric("FetchedBytes", Unit.BYTES)
STORED: Final = Metric("StoredBytes", Unit.BYTES)
"""Written to the cube, compressed."""

SHARD: Final = Metric("ShardSeconds", Unit.SECONDS)
"""Reading, measuring, compressing and storing one shard."""

GATHERS_REFUSED: Final = Metric("GathersRefused", Unit.COUNT)
"""Gathers that their plan refused; their executions count as failed, too."""

GATHER: Final = Metric("GatherSeconds", Unit.SECONDS)
"""From the first source's start to the last one's end."""

GATHER_USD: Final = Metric("GatherUsd", Unit.NONE)
"""Dollars of a finished gather, by the model of `pixel_gather.estimate.pricing`."""

SPENT_USD: Final = Metric("SpentUsd", Unit.NONE)
"""Dollars of one try of a shard, by the same model; of a try that fails, too."""
