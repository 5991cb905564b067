"""A list of scenes as groups: each row of the cube has all scenes of a month, a day or a value. Pure."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any

from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.source import CubeRow, ListColumn, Source
from pixel_gather.core.plan.cube_plan import Append
from pixel_gather.core.plan.table_view import TableOverList, TableView
from pixel_gather.core.ports import Projector, SourceTable
from pixel_gather.core.time_range import PERIODS, before_utc_us, start_of_period

if TYPE_CHECKING:  # pydantic costs a worker 0.2 s of its start
    from pixel_gather.core.request.request import GatherRequest


class ReducedTable(TableOverList, frozen=True, kw_only=True, dict=True):
    """Implements `pixel_gather.core.ports.SourceTable`: each row is a group, with its scenes as members."""

    by: str
    order: str | None
    """Column that orders the scenes of a group, the least first, or after a minus the most first."""

    mask: str | None
    """Name of the mask's band, which no row of the cube has."""

    longitude: float = 0.0
    """Of the middle of the window, for solar days."""

    def __post_init__(self) -> None:
        """Refuse what the list does not have."""
        if self._is_period and not self.table.has_time:
            raise RequestError(f"{self.by} needs a time in every row of the list", field="reduce.by")
        if not self._is_period:
            self._column(self.by, "reduce.by")
        if self.order is not None:
            self._column(self.order.removeprefix("-"), "reduce.order")

    @property
    def _is_period(self) -> bool:
        return self.by in PERIODS

    def _column(self, name: str, field: str) -> ListColumn:
        """Return a column of the list with one value for each scene."""
        found = next((each for each in self.table.columns if each.name == name), None)
        if found is None:
            there = ", ".join(each.name for each in self.table.columns) or "none"
            its = f"write {', '.join(PERIODS)} or one of its" if field == "reduce.by" else "its"
            raise RequestError(f"the list has no column {name}; {its} columns: {there}", field=field)
        if found.varies_in_row:
            raise RequestError(f"{name} has several values in one scene", field=field)
        return found

    @cached_property
    def _groups(self) -> Mapping[Any, list[int]]:
        """The numbers of the list's rows by their group, ascending."""
        found: dict[Any, list[int]] = defaultdict(list)
        key = self._period_of if self._is_period else _value_of(self.by)
        for index, row in enumerate(self.table.rows(0, self.table.n_rows)):
            value = key(row)
            if value is None:
                raise RequestError(f"{self.by} has no value in row {index} of the list", field="reduce.by")
            found[value].append(index)
        return {value: found[value] for value in sorted(found)}

    def _period_of(self, row: CubeRow) -> int | None:
        """Return the first microsecond of the period that a scene belongs to."""
        if row.time_us is None:
            return None
        if self.by == "solar-day":
            return start_of_period(row.time_us + before_utc_us(self.longitude), "day")
        return start_of_period(row.time_us, self.by)

    @cached_property
    def _in_groups(self) -> TableView:
        return TableView(
            table=self.table,
            bands=self.table.bands,
            slot_order=tuple(range(max(len(self.table.bands), 1))),
            kept=[*chain.from_iterable(self._groups.values())],
        )

    @cached_property
    def _stops(self) -> list[int]:
        return [0, *accumulate(map(len, self._groups.values()))]

    @property
    def digest(self) -> str:
        """Digest of the whole list. The request says how it is grouped."""
        return self.table.digest

    @property
    def n_rows(self) -> int:
        """Number of groups."""
        return len(self._groups)

    @property
    def n_scenes(self) -> int:
        """Number of the list's rows."""
        return self.table.n_rows

    @property
    def groups(self) -> Sequence[Any]:
        """What the scenes of each row have in common: the first microsecond of a period, or a value."""
        return [*self._groups]

    def n_scenes_of(self, row: int) -> int:
        """Return how many scenes a row has."""
        return self._stops[row + 1] - self._stops[row]

    def most_in(self, n_rows: int, *, append: Append | None = None) -> int:
        """Return the most scenes that one shard has.

        Args:
            n_rows: Rows of a shard.
            append: Where the rows go, and which rows of the cube are reduced anew beside them.
        """
        append = append or Append()
        of_rows = [(append.first_row + row, self.n_scenes_of(row)) for row in range(self.n_rows)]
        return most_scenes([*of_rows, *zip(append.again, append.scenes_again, strict=True)], n_rows)

    @property
    def has_time(self) -> bool:
        """Whether the rows are periods."""
        return self._is_period

    @property
    def n_timeless(self) -> int:
        """Always 0: groups have a time, or none of them has."""
        return 0

    @property
    def columns(self) -> tuple[ListColumn, ...]:
        """The column that the scenes of a row have in common."""
        return () if self._is_period else (self._column(self.by, "reduce.by"),)

    @property
    def scene_columns(self) -> tuple[ListColumn, ...]:
        """The list's columns."""
        return self.table.columns

    def rows(self, start: int, stop: int) -> Iterator[CubeRow]:
        """Yield groups [start, stop)."""
        keys = list(self._groups)
        stored: list[str | None] = [each for each in self.bands if each != self.mask]
        stored = stored or [None]
        for number in range(start, stop):
            members = tuple(self._sort_members(self._in_groups.rows(*self._stops[number : number + 2])))
            there = {each.band for member in members for each in member.sources if each is not None}
            key = keys[number]
            told = {} if self._is_period else {self.by: key}
            scene = key if self.by == "scene" else None
            yield CubeRow(
                time_us=key if self._is_period else None,
                sources=tuple(
                    Source(href="", band=band, scene=scene, columns=told) if band in there else None
                    for band in stored
                ),
                members=members,
            )

    def _sort_members(self, members: Iterator[CubeRow]) -> list[CubeRow]:
        """Return the scenes of a group in their order. Those without a value are last."""
        rows = sorted(members, key=_href_of)
        name = (self.order or "").removeprefix("-")
        if not name:
            return sorted(rows, key=lambda row: row.time_us or 0)
        value = _value_of(name)
        with_value = [row for row in rows if value(row) is not None]
        in_order = sorted(with_value, key=value, reverse=self.order != name)  # equal ones stay by href
        return in_order + [row for row in rows if value(row) is None]


def most_scenes(n_by_row: Iterable[tuple[int, int]], shard_rows: int) -> int:
    """Return the most scenes of one shard, from the number of scenes of each row."""
    found = Counter[int]()
    for row, n in n_by_row:
        found[row // shard_rows] += n
    return max(found.values(), default=0)


def columns_of_scenes(table: SourceTable) -> tuple[ListColumn, ...]:
    """Return the columns of a list, whether it is in groups or not."""
    return table.scene_columns if isinstance(table, ReducedTable) else table.columns


def _value_of(name: str) -> Callable[[CubeRow], Any]:
    """Return what takes the value of a column from a scene."""

    def value(row: CubeRow) -> Any:
        source = next((each for each in row.sources if each is not None), None)
        if source is None:
            return None
        own = {"time": source.time_us, "scene": source.scene}
        return own[name] if name in own else source.columns.get(name)

    return value


def _href_of(row: CubeRow) -> str:
    return next((each.href for each in row.sources if each is not None), "")


def reduced_table(request: "GatherRequest", table: SourceTable, projector: Projector) -> SourceTable:
    """Return a request's list, in groups if the request reduces them.

    Raises:
        RequestError: The list has no such column, or no time.
    """
    asked = request.reduce
    if asked is None:
        return table
    return ReducedTable(
        table=table,
        by=asked.by,
        order=asked.order,
        mask=None if request.mask is None else request.mask.band,
        longitude=_longitude(request, projector) if asked.by == "solar-day" else 0.0,
    )


def _longitude(request: "GatherRequest", projector: Projector) -> float:
    """Return the longitude of the middle of the window."""
    rule = request.rule()
    if rule.middle is None:
        raise RequestError("solar-day needs a window by bbox or point", field="reduce.by")
    if rule.crs is None:
        raise RequestError("solar-day needs a window whose crs is not source", field="reduce.by")
    x, y = rule.middle
    (longitude,), _ = projector.points([x], [y], source_crs=rule.crs, target_crs="EPSG:4326")
    return longitude
