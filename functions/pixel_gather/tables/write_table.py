"""Writes the table: long Parquet, sorted by feature and then time, with two more tables beside it.

A part of the table is put together at a time, from the parts of all images. So memory does not grow with it.
"""

import io
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, override

import numpy as np
import xxhash
from msgspec import Struct

from pixel_gather.core.errors import StoreError
from pixel_gather.io.atomic_write import errors_of_writing
from pixel_gather.tables.base_table import BaseTable
from pixel_gather.tables.features import LONLAT, NO_TIME, Features, Integers
from pixel_gather.tables.merge_zone_lines import Combine, LineMerger
from pixel_gather.tables.part_folder import (
    IMAGE_COLUMNS,
    LISTS,
    NO_LINES,
    ImageRecord,
    Lines,
    LineStatus,
    PartFolder,
    line_dtype,
    piece_columns,
    units_of,
)
from pixel_gather.tables.table_receipt import (
    Written,
    digest_of_images,
    digest_of_path,
    side_path,
    staged_path,
)

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer
    from arro3.core import Array, RecordBatch, Schema, Table

_LINES_TOGETHER: Final = 262_144
_FEATURES_TOGETHER: Final = 200_000
_LINES_IN_GROUP: Final = 65_536
"""Of a row group. One of them, with the footer, is all that a reader fetches of a feature."""

_US_PER_DAY: Final = 86_400_000_000
_NO_IMAGE: Final = -1
_COUNTS: Final = frozenset({"n_lines", "n_requests", "nbytes", "n_unread", "tries", "n_pieces"})
"""Fields of an image's record that are numbers."""


class LineForm(Struct, frozen=True, kw_only=True):
    """What the lines of a table tell."""

    columns: Sequence[str]
    """Names of the values."""

    tolerance_us: int | None = None
    """Longest time between feature and image. Lines then tell both times. None if any image will do."""

    combine: Combine | None = None
    """What merges lines of one acquisition; None if nothing does."""


def write_table(
    path: Path,
    parts: PartFolder,
    features: Features,
    form: LineForm,
    *,
    about: Mapping[str, Any],
    features_digest: Mapping[str, Any],
    base: BaseTable | None = None,
) -> Written:
    """Write the lines of all images, and the table of images.

    A feature without a line gets one that says why. An image that could not be read gets one without a
    feature. The file is replaced when all of it is there. Features are in the order of their ids. The receipt
    so far is metadata ``pixel_gather`` of the table; the table of images has all of it. The base may lie at
    the same path.

    Raises:
        StoreError: A file cannot be written.
    """
    if base is not None:
        base.complete(parts, features.ids)
    new = parts.records.values()
    records = sorted(
        new if base is None else base.merge_records(new),
        key=lambda each: (NO_TIME if each.time_us is None else each.time_us, each.number),
    )
    temporary, is_committed = staged_path(path), False
    beside, of_images = side_path(path, "pieces"), side_path(path, "images")
    try:
        writer = _Writer(parts, features, form, records, base=base)
        _write(writer.schema(about), writer.batches(), temporary)
        # Known only now, so the whole receipt is in the table of images. When it is there, the table counts
        # as written: an append that finds the table or the pieces not yet in place puts them there.
        written = writer.written
        receipt = {**about, "lines": written.n_lines, "statuses": dict(written.n_by_status)}
        receipt["digest"] = written.digest
        receipt["units"] = _units(form.columns, new, base)
        receipt["files"] = {"features": features_digest, "table": digest_of_path(temporary)}
        if (pieces := writer.pieces()) is not None:
            _write(*pieces, staged_path(beside))
            receipt["files"]["pieces"] = digest_of_path(staged_path(beside))
        images = _images_table(records, receipt)
        _write(images.schema, iter(images.to_batches()), staged_path(of_images))
        # Once the table is there, somebody may remove it, to have all images read again. Then the parts must
        # not be used again. If the process is killed right after this, all images are read again, too.
        parts.end()
        staged_path(of_images).replace(of_images)
        is_committed = True
        if pieces is not None:
            staged_path(beside).replace(beside)
        else:  # what is there is of a table that was removed, or that is replaced now
            beside.unlink(missing_ok=True)
        temporary.replace(path)
    except OSError as error:
        if not is_committed:  # else the next append puts them in their places
            for each in (temporary, staged_path(beside)):
                each.unlink(missing_ok=True)
        raise StoreError(f"{path} cannot be written: {error.strerror or error}") from error
    return written


def _units(columns: Sequence[str], new: Collection[ImageRecord], base: BaseTable | None) -> dict[str, str]:
    """Return the units that all images agree on, those of the table that is appended to as well."""
    said = [units_of(columns, new)] if _any_read(new) else []
    if base is not None and _any_read(base.records):
        said.append(base.receipt.get("units", {}))
    return {
        name: unit for each in said for name, unit in each.items() if all(unit == it.get(name) for it in said)
    }


def _any_read(records: Iterable[ImageRecord]) -> bool:
    return any(each.status == "ok" for each in records)


def write_features(path: Path, features: Features) -> dict[str, Any]:
    """Write the features with their own columns as GeoParquet. Return the file's size and digest.

    The file is replaced.

    Raises:
        StoreError: The file cannot be written.
    """
    with errors_of_writing(path):
        schema = _features_schema(features)
        _write_side(schema, _feature_batches(features, schema), path)
        return digest_of_path(path)


class _Writer:
    """Puts the lines together, feature by feature."""

    def __init__(
        self,
        parts: PartFolder,
        features: Features,
        form: LineForm,
        records: Sequence[ImageRecord],
        *,
        base: BaseTable | None,
    ) -> None:
        from arro3.core import Array, DataType  # noqa: PLC0415 # 0.1 s, for Parquet alone

        self._parts = parts
        self._features = features
        self._columns = form.columns
        self._records = records
        self._tolerance_us = form.tolerance_us
        self._dtype = line_dtype(form.columns)
        # What lines repeat is encoded once: scene, address, status and reason.
        self._scenes = Array([each.scene for each in records] or [""], DataType.utf8())
        self._hrefs = Array(
            [each.hrefs[0] if each.hrefs else None for each in records] or [""], DataType.utf8()
        )
        self._times = np.array(
            [NO_TIME if each.time_us is None else each.time_us for each in records] or [NO_TIME]
        )
        # Images that could not be read, and when they were taken. `NO_TIME` is before all times.
        self._failed = [at for at, each in enumerate(records) if each.status != "ok"]
        self._unread_us = np.sort(self._times[self._failed])
        names = [each.name.lower() for each in LineStatus]
        self._codes = {int(each): index for index, each in enumerate(LineStatus)}
        self._statuses = Array(names, DataType.utf8())
        reasons: dict[str, int] = {}
        self._reason_of: list[list[int]] = []
        for record in records:
            own = [*record.reasons, *([record.reason] if record.reason else [])]
            self._reason_of.append([reasons.setdefault(each, len(reasons)) for each in own])
        # Lines of the table that grows. Their reasons are added to those of the new images.
        self._base, self._base_pieces = NO_LINES, dict[int, Lines]()
        if base is not None:
            at = {each.number: index for index, each in enumerate(records)}
            self._base_pieces = base.pieces(parts.path / "base.pieces", at=at)
            self._base = base.lines(
                parts.path / "base", features.ids, at=at, reasons=reasons, pieces=self._base_pieces
            )
        self._merger = None
        if form.combine is not None:
            self._merger = LineMerger(combine=form.combine, records=records, pieces=self._pieces_of)
        self._reasons = Array(list(reasons) or [""], DataType.utf8())
        self._counts = np.zeros(len(LineStatus), np.int64)
        self._hash = xxhash.xxh3_128()
        self._n_lines = 0

    @property
    def written(self) -> Written:
        """What was written so far."""
        names = [each.name.lower() for each in LineStatus]
        counts = {name: n for name, n in zip(names, self._counts.tolist(), strict=True) if n}
        return Written(
            n_lines=self._n_lines,
            n_by_status=counts,
            n_images=len(self._records),
            n_failed=sum(each.status != "ok" for each in self._records),
            last_us=max((each.time_us for each in self._records if each.time_us is not None), default=None),
            digest=self._hash.hexdigest(),
        )

    def schema(self, about: Mapping[str, Any]) -> "Schema":
        """Return the columns of the table."""
        from arro3.core import DataType, Field, Schema  # noqa: PLC0415 # as above

        text = DataType.dictionary(DataType.int32(), DataType.utf8())
        moment = DataType.timestamp("us", tz="UTC")
        merged = [Field("images", DataType.int32()), Field("other_hrefs", text)]
        is_text = self._features.ids.dtype == object
        matched = (
            [Field("feature_time", moment), Field("days_apart", DataType.float64())]
            if self._tolerance_us is not None
            else []
        )
        return Schema(
            [
                Field("id", DataType.utf8() if is_text else DataType.int64()),
                Field("time", moment),
                *matched,
                Field("scene", text),
                Field("href", text),
                *([] if self._merger is None else merged),
                *(Field(name, DataType.float64()) for name in self._columns),
                Field("valid", DataType.float32()),
                Field("status", text),
                Field("reason", text),
            ],
            metadata={"pixel_gather": json.dumps(about)},
        )

    def batches(self) -> Iterator["RecordBatch"]:
        """Yield the lines in their order, some features at a time."""
        schema = self.schema({})
        for start, stop in self._ranges():
            image, lines = self._lines_of_range(start, stop)
            merged = np.zeros((2, len(lines)), np.int64) - 1
            if self._merger is not None:
                image, lines, *more = self._merger.merge(start, stop, image, lines)
                merged = np.stack(more)
            order = np.lexsort((image, lines["feature"]))  # the images are in the order of time
            yield from self._in_groups(image[order], lines[order], merged[:, order], schema)
        image, lines = self._lines_of_failed()
        merged = np.stack([np.ones(len(lines), np.int64), np.full(len(lines), -1)])
        yield from self._in_groups(image, lines, merged, schema)

    def _pieces_of(self, index: int) -> Lines:
        """Return the pieces of a record that has some."""
        found = self._base_pieces.get(index)
        return self._parts.pieces(self._records[index].number) if found is None else found

    def pieces(self) -> "tuple[Schema, Iterator[RecordBatch]] | None":
        """Return the table of pieces: those of all images, which the next append may merge."""
        having = [index for index, each in enumerate(self._records) if each.n_pieces]
        if not having:
            return None
        from arro3.core import Array, RecordBatch  # noqa: PLC0415 # as above

        def batch(index: int, pieces: Lines) -> "RecordBatch":
            columns = {"image": np.full(len(pieces), index, np.int32)}
            columns |= {name: pieces[name] for name in piece_columns(pieces)}
            return RecordBatch.from_pydict(
                {name: Array.from_numpy(np.ascontiguousarray(each)) for name, each in columns.items()}
            )

        def batches() -> "Iterator[RecordBatch]":
            for index in having:
                pieces = self._pieces_of(index)
                for start in range(0, len(pieces), _LINES_IN_GROUP):
                    yield batch(index, pieces[start : start + _LINES_IN_GROUP])

        return batch(0, self._pieces_of(having[0])[:0]).schema, batches()

    def _ranges(self) -> Iterator[tuple[int, int]]:
        """Yield ranges of features of about so many lines."""
        counts = np.zeros(len(self._features), np.int64)
        for record in self._records:
            if record.n_lines and record.number >= 0:
                np.add.at(counts, self._parts.lines(record.number)["feature"], 1)
        for pieces in self._base_pieces.values():
            counts[np.unique(pieces["feature"])] += 1
        if len(self._base):
            np.add.at(counts, self._base["feature"], 1)
        self._lacking = counts == 0
        ends = np.cumsum(np.maximum(counts, 1))
        start = 0
        while start < len(counts):
            before = ends[start - 1] if start else 0
            stop = int(np.searchsorted(ends, before + _LINES_TOGETHER, side="right"))
            stop = min(max(stop, start + 1), start + _FEATURES_TOGETHER)
            yield start, stop
            start = stop

    def _lines_of_range(self, start: int, stop: int) -> tuple[np.ndarray[Any, Any], Lines]:
        """Return the lines of some features, image by image, and which image each is of."""
        images, found = [np.zeros(0, np.int64)], [self._blank(0)]
        if len(self._base):
            first, last = np.searchsorted(self._base["feature"], [start, stop])
            images.append(self._base["image"][first:last].astype(np.int64))
            some = np.zeros(last - first, self._dtype)
            for name in self._dtype.names or ():
                some[name] = self._base[name][first:last]
            found.append(some)
        for index, record in enumerate(self._records):
            if not record.n_lines or record.number < 0:
                continue
            lines = self._parts.lines(record.number)
            first, last = np.searchsorted(lines["feature"], [start, stop])
            if last > first:
                some = np.array(lines[first:last])
                reasons = np.array([*self._reason_of[index], -1])
                some["reason"] = reasons[some["reason"]]
                images.append(np.full(last - first, index))
                found.append(some)
        lacking = np.flatnonzero(self._lacking[start:stop]) + start
        if len(lacking):
            more = self._blank(len(lacking))
            more["feature"] = lacking
            code = LineStatus.OUTSIDE if self._tolerance_us is None else LineStatus.UNMATCHED
            may_be_on_another = self._is_near_unread(start, stop)[lacking - start]
            problems = self._features.problems
            known = 0 if problems is None else problems[lacking]
            why = np.where(may_be_on_another, LineStatus.UNREAD, code)
            unlike = np.where(self._features.is_empty[lacking], LineStatus.EMPTY, why)
            more["status"] = np.where(known, known, unlike)
            images.append(np.full(len(lacking), _NO_IMAGE))
            found.append(more)
        return np.concatenate(images), np.concatenate(found)

    def _is_near_unread(self, start: int, stop: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Return for each of some features whether it may lie on an image that was not read."""
        times, tolerance_us = self._features.times_us, self._tolerance_us
        if not self._failed or tolerance_us is None or times is None:
            return np.full(stop - start, bool(self._failed))
        own = times[start:stop]
        is_known = own != NO_TIME
        around = np.where(is_known, own, 0)
        first = np.searchsorted(self._unread_us, around - tolerance_us, side="left")
        last = np.searchsorted(self._unread_us, around + tolerance_us, side="right")
        return np.asarray(is_known & (last > first))

    def _lines_of_failed(self) -> tuple[np.ndarray[Any, Any], Lines]:
        """Return a line without a feature for each image that could not be read."""
        lines = self._blank(len(self._failed))
        lines["feature"] = -1
        for at, index in enumerate(self._failed):
            lines[at]["status"] = LineStatus[self._records[index].status.upper()]
            lines[at]["reason"] = self._reason_of[index][-1] if self._records[index].reason else -1
        return np.array(self._failed, np.int64), lines

    def _blank(self, n: int) -> Lines:
        lines = np.zeros(n, self._dtype)
        lines["reason"] = -1
        for number in range(len(self._columns)):
            lines[f"v{number}"] = np.nan
        return lines

    def _in_groups(
        self, image: Integers, lines: Lines, merged: Integers, schema: "Schema"
    ) -> Iterator["RecordBatch"]:
        for start in range(0, len(lines), _LINES_IN_GROUP):
            part = slice(start, start + _LINES_IN_GROUP)
            yield self._batch(image[part], lines[part], merged[:, part], schema)

    def _batch(self, image: Integers, lines: Lines, merged: Integers, schema: "Schema") -> "RecordBatch":
        """Return lines as a batch.

        Args:
            image: The record of each line; -1 for none.
            lines: The lines.
            merged: How many images each line is of, and which are the others: (2, line).
            schema: Of the table.
        """
        from arro3.core import Array, DataType, RecordBatch  # noqa: PLC0415 # as above

        feature = lines["feature"]
        codes = np.array([self._codes.get(code, 0) for code in range(256)])[lines["status"]]
        self._counts += np.bincount(codes, minlength=len(self._counts))
        self._n_lines += len(lines)
        self._hash.update(np.ascontiguousarray(lines).tobytes())
        self._hash.update(np.ascontiguousarray(image.astype(np.int64)).tobytes())
        times = np.where(image == _NO_IMAGE, NO_TIME, self._times[image])
        text = DataType.dictionary(DataType.int32(), DataType.utf8())
        matched = []
        if self._tolerance_us is not None and self._features.times_us is not None:
            own = np.where(feature < 0, NO_TIME, self._features.times_us[feature])
            apart = np.where((own == NO_TIME) | (times == NO_TIME), np.nan, (times - own) / _US_PER_DAY)
            matched = [_moments(own), _floats(apart)]
        of_merger = []
        if self._merger is not None:
            others = Array(self._merger.others or [""], DataType.utf8())
            n_images = Array.from_numpy(np.ascontiguousarray(merged[0], np.int32))
            of_merger = [n_images, others.take(_at(merged[1])).cast(text)]
        arrays = [
            _ids(self._features.ids, feature),
            _moments(times),
            *matched,
            self._scenes.take(_at(image)).cast(text),
            self._hrefs.take(_at(image)).cast(text),
            *of_merger,
            *(_floats(lines[f"v{number}"]) for number in range(len(self._columns))),
            Array.from_numpy(np.ascontiguousarray(lines["valid"])),
            self._statuses.take(_at(codes)).cast(text),
            self._reasons.take(_at(lines["reason"])).cast(text),
        ]
        return RecordBatch.from_arrays(arrays, schema=schema)


def _ids(ids: np.ndarray[Any, Any], feature: np.ndarray[Any, Any]) -> "Array":
    from arro3.core import Array, DataType  # noqa: PLC0415 # as above

    if ids.dtype != object and (feature >= 0).all():
        return Array.from_numpy(ids[feature])
    unique, at = np.unique(feature, return_inverse=True)
    kind = DataType.utf8() if ids.dtype == object else DataType.int64()
    values = [None if each < 0 else ids[each] if ids.dtype == object else int(ids[each]) for each in unique]
    return Array(values, kind).take(Array.from_numpy(at.astype(np.int64)))


def _at(indexes: np.ndarray[Any, Any]) -> "Array":
    """Return indexes as an Arrow array; those below 0 are null."""
    from arro3.core import Array, DataType  # noqa: PLC0415 # as above

    if (indexes >= 0).all():
        return Array.from_numpy(np.ascontiguousarray(indexes.astype(np.int64)))
    return Array([None if each < 0 else each for each in indexes.tolist()], DataType.int64())


def _floats(values: np.ndarray[Any, Any]) -> "Array":
    from arro3.core import Array, DataType  # noqa: PLC0415 # as above

    if not np.isnan(values).any():
        return Array.from_numpy(np.ascontiguousarray(values, np.float64))
    return Array([None if each != each else each for each in values.tolist()], DataType.float64())  # noqa: PLR0124 # NaN


def _moments(times: np.ndarray[Any, Any]) -> "Array":
    from arro3.core import Array, DataType  # noqa: PLC0415 # as above

    if (times != NO_TIME).all():
        found = Array.from_numpy(np.ascontiguousarray(times, np.int64))
    else:
        values = [None if each == NO_TIME else each for each in times.tolist()]
        found = Array(values, DataType.int64())
    return found.cast(DataType.timestamp("us", tz="UTC"))


def _images_table(records: Sequence[ImageRecord], receipt: Mapping[str, Any]) -> "Table":
    """Return one line for each image: what became of it."""
    from arro3.core import Array, DataType, Field, Schema, Table  # noqa: PLC0415 # as above

    fields = [Field("time", DataType.timestamp("us", tz="UTC"))]
    times = [NO_TIME if each.time_us is None else each.time_us for each in records]
    arrays, columns = [_moments(np.array(times, np.int64))], []
    for name, of_record in IMAGE_COLUMNS.items():
        values = [getattr(each, of_record) for each in records]
        values = [json.dumps(each) for each in values] if of_record in LISTS else values
        kind = DataType.int64() if of_record in _COUNTS else DataType.utf8()
        columns.append(values)
        fields.append(Field(name, kind))
        arrays.append(Array(values, kind))
    whole = {**receipt, "images": digest_of_images(columns)}
    return Table.from_arrays(arrays, schema=Schema(fields, metadata={"pixel_gather": json.dumps(whole)}))


def _features_schema(features: Features) -> "Schema":
    """Return the columns of the features as GeoParquet: id, their own columns, geometry."""
    from arro3.core import DataType, Field, Schema  # noqa: PLC0415 # as above

    fields = [Field("id", DataType.utf8() if features.ids.dtype == object else DataType.int64())]
    if features.columns is not None:
        fields += [features.columns.schema.field(name) for name in _own_columns(features.columns)]
    fields.append(Field("geometry", DataType.binary()))
    column: dict[str, Any] = {"encoding": "WKB", "geometry_types": []}
    if features.crs != LONLAT:
        column["crs"] = _projjson(features.crs)
    geo = {"version": "1.1.0", "primary_column": "geometry", "columns": {"geometry": column}}
    return Schema(fields, metadata={"geo": json.dumps(geo)})


def _feature_batches(features: Features, schema: "Schema") -> Iterator["RecordBatch"]:
    """Yield the features, some at a time: their shapes as WKB would take more memory than all else."""
    import shapely  # noqa: PLC0415 # for this table alone
    from arro3.core import Array, DataType, RecordBatch  # noqa: PLC0415 # as above

    own = [] if features.columns is None else _own_columns(features.columns)
    for start in range(0, len(features), _LINES_IN_GROUP):
        part = slice(start, min(start + _LINES_IN_GROUP, len(features)))
        n = part.stop - start
        if features.geometries is None:
            shapes = np.full(n, None, object)
            there = ~features.is_empty[part]
            shapes[there] = shapely.points(features.xs[part][there], features.ys[part][there])
            wkbs = list(shapely.to_wkb(shapes))
        else:
            wkbs = features.geometries.wkb(part)
        arrays = [_ids(features.ids, np.arange(start, part.stop))]
        if features.columns is not None:
            rows = features.columns.slice(start, n)
            arrays += [rows.column(name).combine_chunks() for name in own]
        arrays.append(Array(wkbs, DataType.binary()))
        yield RecordBatch.from_arrays(arrays, schema=schema)


def _own_columns(table: "Table") -> list[str]:
    return [name for name in table.column_names if name not in ("id", "geometry")]


def _projjson(crs: str) -> Any:
    from rasterio.crs import CRS  # noqa: PLC0415 # 0.4 s

    return CRS.from_user_input(crs).to_dict(projjson=True)


def _write_side(schema: "Schema", batches: Iterator["RecordBatch"], path: Path) -> None:
    temporary = staged_path(path)
    _write(schema, batches, temporary)
    temporary.replace(path)


def _write(schema: "Schema", batches: Iterator["RecordBatch"], path: Path) -> None:
    from arro3.core import RecordBatchReader  # noqa: PLC0415 # as above
    from arro3.io import write_parquet  # noqa: PLC0415 # as above

    damaged: list[StoreError] = []
    with _KeepsErrors(io.FileIO(path, "w")) as file:
        try:
            write_parquet(
                RecordBatchReader.from_batches(schema, _keep_error(batches, damaged)),
                file,
                compression="zstd(3)",
                max_row_group_size=_LINES_IN_GROUP,
            )
        except Exception as error:
            if damaged:
                raise damaged[0] from error
            raise
    if file.error is not None:
        raise file.error


def _keep_error(batches: Iterator["RecordBatch"], damaged: list[StoreError]) -> Iterator["RecordBatch"]:
    """Yield the batches. Add the error of a damaged part to ``damaged``: arro3 raises another one."""
    try:
        yield from batches
    except StoreError as error:
        damaged.append(error)
        raise


class _KeepsErrors(io.BufferedWriter):
    """A file that drops what cannot be written, and keeps the error: arro3 would panic."""

    error: OSError | None = None

    @override
    def write(self, content: "ReadableBuffer") -> int:
        if self.error is None:
            try:
                return super().write(content)
            except OSError as error:
                self.error = error
        return len(memoryview(content))

    @override
    def flush(self) -> None:
        if self.error is None:
            try:
                super().flush()
            except OSError as error:
                self.error = error
