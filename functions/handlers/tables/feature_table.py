"""A table of points or zones, opened: its features, its images, and what it would take."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Generator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, closing
from copy import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from msgspec import Struct

from handlers.deployment.admit_request import naming_field, open_table
from handlers.deployment.stores import Deployment
from handlers.tables.committed_tables import CommittedTables
from handlers.tables.table_body import AdmittedTable
from pixel_gather.core.errors import BudgetError
from pixel_gather.core.model.source import Source
from pixel_gather.core.ports import LevelReader
from pixel_gather.io.crs import RasterioProjector
from pixel_gather.io.gdal.settings import GdalSettings
from pixel_gather.io.geotiff.geotiff_settings import GeoTiffSettings
from pixel_gather.io.lists.source_table import SqliteSourceTable
from pixel_gather.io.reader import CogReader
from pixel_gather.io.store.open_list_file import open_list_file
from pixel_gather.tables.base_table import BaseTable, refuse_repeated_ids
from pixel_gather.tables.features import Features
from pixel_gather.tables.first_image import KeepsFirst
from pixel_gather.tables.image_work import ImageWork, WantedImage
from pixel_gather.tables.open_scene import ImageAccess
from pixel_gather.tables.read_features import given_features, read_features
from pixel_gather.tables.scene_filter import SceneFilter
from pixel_gather.tables.table_plan import TablePlan, plan_images
from pixel_gather.tables.table_request import about_of
from pixel_gather.tables.table_values import Values

MOST_FEATURES: Final = 1_000_000
"""In one table. A function holds all of them: a million points took 671 MiB."""

LONGEST_IMAGE_S: Final = 180.0
_DIGEST_LETTERS: Final = 32


WORK_KEY: Final = "work.json"
"""Key of a `TableWork`."""


class TableWork(Struct, frozen=True, kw_only=True):
    """What the workers of a table need beside the features. It is a file among the table's control files."""

    request: Any
    bands: tuple[str, ...]
    """Names of the bands of the list."""

    band_numbers: dict[str, int] = {}
    """Number of the band to read, from 1, by the name of a band whose asset has one, such as ``rgb:3``."""

    of_bands: tuple[str, ...]
    """Names of the values, if the request leaves them to the images."""

    sign: str
    """How links are signed, as in the request's ``sources.sign``."""


class FeatureTable(Struct, frozen=True, kw_only=True):
    """Features, the images of a list, and what is computed of each pair."""

    asked: AdmittedTable
    features: Features
    """As they were given, with what is wrong with them."""

    checked: Features
    """As they are measured."""

    table: SqliteSourceTable
    values: Values
    work: ImageWork
    sign: str
    in_flight: int
    base: BaseTable | None = None
    """Images of the table that is appended to, if it is there."""

    base_etag: str | None = None
    """ETag of that table's result, which changes at each commit. None if the table is not there."""

    @property
    def about(self) -> dict[str, Any]:
        """What decides the table, besides the list and the features."""
        numbers = self.table.band_numbers
        return about_of(self.asked.request, self.asked.kind, self.values, self.work, numbers)

    @property
    def name(self) -> str:
        """Equal for the same request of the same list and features, with their own columns.

        A table that is appended to keeps its features. The name of an append depends also on the last commit
        of the table. If the table has changed, the same request is a new job. It may have to read some images
        again.
        """
        made_of: list[Any] = [self.table.digest, self.features.digest, self.about]
        if self.asked.append_to is None:
            made_of.append(self.features.columns_digest)
        else:
            made_of += [self.asked.append_to, self.base_etag]
        digest = hashlib.sha256(json.dumps(made_of, sort_keys=True, default=str).encode()).hexdigest()
        return f"{self.asked.kind.about['kind']}-{digest[:_DIGEST_LETTERS]}"

    def wanted(self) -> Iterator[WantedImage]:
        """Yield the images to read, with the features that are near them in time."""
        with closing(self.table.rows(0, self.table.n_rows)) as rows:
            for number, row in enumerate(rows if self.base is None else self.base.to_read(rows)):
                yield number, row, self.features.within(row.time_us, self.asked.request.tolerance_us)

    async def plan(self) -> TablePlan:
        """Return what it would take. Reads the headers of some images."""
        return await plan_images(
            self.work,
            self.wanted,
            n_features=len(self.features),
            in_flight=self.in_flight,
            may_all_fail=self.base is not None,
        )


@asynccontextmanager
async def open_feature_table(
    asked: AdmittedTable, deployment: Deployment, *, left_s: float
) -> AsyncIterator[FeatureTable]:
    """Read the features and the list, and open what reads the images.

    Raises:
        RequestError: The features or the list are wrong.
        BudgetError: There are too many features or files.
        TimeoutError: The list takes too long to read.
    """
    request, kind = asked.request, asked.kind
    with naming_field(kind.about["kind"], of="features"):
        features = await asyncio.to_thread(_features, asked, deployment)
        if asked.append_to is not None:
            refuse_repeated_ids(features)
        checked = await asyncio.to_thread(kind.check, features)
        gather = asked.gather(checked, deployment.settings)
    keeps = SceneFilter(checked, RasterioProjector()).meets
    async with AsyncExitStack() as stack:
        table = await stack.enter_async_context(open_table(gather, deployment, left_s=left_s, keeps=keeps))
        signed = await stack.enter_async_context(open_reader(deployment, gather.sources.sign))
        reader = KeepsFirst(signed, timeout_s=LONGEST_IMAGE_S)
        values, base, etag = request.values_for_list, None, None
        if asked.append_to is not None:
            tables = CommittedTables(deployment)
            if (committed := await tables.find(asked.append_to)) is not None:
                folder = Path(stack.enter_context(TemporaryDirectory()))
                base, etag = await tables.load(committed, folder, with_lines=False), committed.etag
        if not values.values and base is not None:
            values = values.of_bands(base.receipt["request"]["values"])
        if not values.values:
            with closing(list_sources(table)) as sources:
                values = values.of_bands(table.bands or await reader.bands_of_first(sources))
        access = access_of(deployment, reader, table.bands, table.band_numbers)
        opened = FeatureTable(
            asked=asked,
            features=replace(features, problems=checked.problems, notes=checked.notes),
            checked=checked,
            table=table,
            values=values,
            work=stack.enter_context(kind.open_work(checked, values, access)),
            sign=gather.sources.sign,
            in_flight=deployment.settings.concurrency,
            base=base,
            base_etag=etag,
        )
        if base is not None:
            base.check({"request": opened.about, "features": features.digest})
        yield opened


def open_reader(deployment: Deployment, sign: str) -> CogReader:
    """Return the reader of images; a context that closes it."""
    settings = GdalSettings.within_memory(deployment.settings.memory_mib, holds_a_shard=False)
    return CogReader.over(deployment.signed_objects(sign), fast=GeoTiffSettings(), fall_back=settings)


def access_of(
    deployment: Deployment, reader: LevelReader, bands: tuple[str, ...], numbers: Mapping[str, int]
) -> ImageAccess:
    """Return how the images of a list are read."""
    return ImageAccess(
        bands=bands,
        band_numbers=numbers,
        reader=reader,
        limiter=deployment.limiter,
        projector=RasterioProjector(),
        timeout_s=LONGEST_IMAGE_S,
    )


def _features(asked: AdmittedTable, deployment: Deployment) -> Features:
    given, columns = asked.request.features, asked.request.columns
    if isinstance(given, str):
        with naming_field(asked.kind.about["kind"], of=given):
            name, file = open_list_file(given, objects=deployment.objects, what="file of features")
            features = read_features(file, name=name, columns=columns)
    else:
        features = given_features(given, columns=columns)
    if len(features) > MOST_FEATURES:
        raise BudgetError(
            f"there are {len(features):,} features, and one table takes at most {MOST_FEATURES:,}: "
            "make one table for each part of them"
        )
    return features


def list_sources(table: SqliteSourceTable) -> Generator[Source]:
    """Yield all files of a list. Close the generator before the table."""
    with closing(table.rows(0, table.n_rows)) as rows:
        for row in rows:
            yield from (source for source in row.sources if source is not None)
