"""Names and units of the CloudWatch metrics. The handlers and the stack's dashboard share them.

Handlers write them in the embedded metric format. The only dimensions are ``service`` and ``stage``; the
gather's id, the shard and the source are properties of the record. A metric with one value per source is an
array of at most 100 values per record, so percentiles are exact. Which handler writes which metric:

- gather shard: the sources' times, counts and failures, ``Requests``, ``Retries``, bytes, ``ShardSeconds``,
  ``SpentUsd``;
- plan: ``GathersRefused``;
- watch: ``ScheduleLateness``;
- canary: ``CanaryFailed``;
- finish: ``GatherSeconds``, ``GatherUsd``, and ``SourcesLost`` for sources whose shard no worker committed.
  If windows are cut into strips, each source is in several shards. Finish then writes all counts of sources.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from pixel_gather.core.model.status import Status

NAMESPACE: Final = "PixelGather"
SERVICE: Final = "pixel-gather"
SERVICE_DIMENSION: Final = "service"
STAGE_DIMENSION: Final = "stage"


class Unit(StrEnum):
    """Units as CloudWatch spells them. CloudWatch has no unit for dollars."""

    SECONDS = "Seconds"
    BYTES = "Bytes"
    COUNT = "Count"
    NONE = "None"


class Metric(Struct, frozen=True):
    """One metric."""

    name: str
    unit: Unit


SOURCE_OPEN: Final = Metric("SourceOpenSeconds", Unit.SECONDS)
"""From the first request for a source until its header is decoded. One value per source."""

SOURCE_READ: Final = Metric("SourceReadSeconds", Unit.SECONDS)
"""Waiting for a source's tiles and decoding them. One value per source."""

SOURCE_TOTAL: Final = Metric("SourceTotalSeconds", Unit.SECONDS)
"""From the start of a source to its end. One value per source."""

SOURCES_READ: Final = Metric("SourcesRead", Unit.COUNT)
"""Sources whose window was read whole."""

SOURCES_FAILED: Final = Metric("SourcesFailed", Unit.COUNT)
"""Sources of the list that gave no pixels: the sum of `SOURCES_FAILED_BY_STATUS`."""

SOURCES_FAILED_BY_STATUS: Final[Mapping[Status, Metric]] = {
    status: Metric("Sources" + status.name.title().replace("_", ""), Unit.COUNT)
    for status in Status
    if status.is_failure
}
"""One metric per failure status: ``SourcesMissing``, ``SourcesDenied``, ``SourcesTimedOut`` and so on."""

REQUESTS: Final = Metric("Requests", Unit.COUNT)
"""Requests to the stores and servers of the sources."""

RETRIES: Final = Metric("Retries", Unit.COUNT)
FETCHED: Final = Metric("FetchedBytes", Unit.BYTES)
STORED: Final = Metric("StoredBytes", Unit.BYTES)
"""Bytes written to the cube, compressed."""

SHARD: Final = Metric("ShardSeconds", Unit.SECONDS)
"""Reading, measuring, compressing and storing one shard."""

GATHERS_REFUSED: Final = Metric("GathersRefused", Unit.COUNT)
"""Gathers that were refused when they were planned. Their executions also count as failed."""

GATHER: Final = Metric("GatherSeconds", Unit.SECONDS)
"""From the first source's start to the last one's end."""

GATHER_USD: Final = Metric("GatherUsd", Unit.NONE)
"""Dollars of a finished gather, by the model of `pixel_gather.core.estimate.pricing`."""

SCHEDULE_LATENESS: Final = Metric("ScheduleLateness", Unit.NONE)
"""Age of a schedule's last gather that has succeeded, in its pauses between ticks. A value each hour."""

CANARY_FAILED: Final = Metric("CanaryFailed", Unit.COUNT)
"""1 if a gather of the samples failed or gave other pixels, else 0. A value for each canary."""

SPENT_USD: Final = Metric("SpentUsd", Unit.NONE)
"""Dollars of one try of a shard, failed or not, by the same model."""
