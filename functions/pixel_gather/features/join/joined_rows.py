"""Coordinates of joined rows: from the joined array itself, or else from its members' tables. No pixel."""

from collections.abc import Iterable, Sequence
from copy import replace
from typing import Any

import numpy as np

from pixel_gather.core.errors import RequestError, StoreError
from pixel_gather.core.results.join_member import PRESENCE
from pixel_gather.core.results.presence import SOLAR_DAY, Presence, grid_over
from pixel_gather.core.results.row_coordinates import Values
from pixel_gather.core.results.rows_where import NumberedTexts
from pixel_gather.features.join.join_rows import MEMBER, unite_values
from pixel_gather.features.join.joined_group import JoinedGroup
from pixel_gather.features.join.read_members import MemberReader
from pixel_gather.in_process.places import show_place
from pixel_gather.io.crs import RasterioProjector
from pixel_gather.io.event_loop import run


def joined_columns(
    joined: JoinedGroup, names: Iterable[str], *, reader: MemberReader, field: str
) -> dict[str, Values | NumberedTexts]:
    """Return coordinates of the rows that exist, by name. Those that repeat few texts are numbered.

    What the joined array does not hold is read from the members' tables, with a request for each member.

    Raises:
        RequestError: Neither has such a coordinate.
        StoreError: A member is gone, or has other rows now.
    """
    wanted = list(dict.fromkeys(names))
    own = [name for name in wanted if name in joined.columns and name != PRESENCE]
    others = [name for name in wanted if name not in own]
    rows = _existing(joined) if own else ...
    found: dict[str, Values | NumberedTexts] = {}
    for name in own:
        if name == MEMBER:
            found[name] = NumberedTexts(texts=member_places(joined), numbers=joined.array(MEMBER)[rows])
        elif name in joined.record["texts"]:
            repeated = joined.read_numbered(name)
            found[name] = replace(repeated, numbers=repeated.numbers[rows])
        else:
            found[name] = joined.array(name)[rows]
    return found | (_from_tables(joined, others, reader=reader, field=field) if others else {})


def _existing(joined: JoinedGroup) -> Any:
    """Return what selects the rows that exist from all rows of a coordinate."""
    there = joined.presence
    return ... if there.all() else there


def member_places(joined: JoinedGroup) -> Values:
    """Return the place of each member, as users write it."""
    return np.array([show_place(str(place)) for place in joined.members()["place"]], dtype=object)


def make_presence(joined: JoinedGroup, by: str, *, reader: MemberReader) -> Presence:
    """Return a grid of presence of joined rows, made from their coordinates."""

    def read(names: list[str]) -> dict[str, Values | NumberedTexts]:
        return joined_columns(joined, names, reader=reader, field="by")

    return grid_over(by, read=read, longitude=lambda: _longitudes(joined))


def _longitudes(joined: JoinedGroup) -> Values:
    """Return the longitude of the middle of each row's window, in degrees."""
    table = joined.members()
    places = list(zip(table["crs"], table["x"], table["y"], strict=True))
    if any(not crs or np.isnan(x) for crs, x, _ in places):
        raise RequestError(f"{SOLAR_DAY} needs the place of every cube, and some cubes have none", field="by")
    project = RasterioProjector()
    by_place = {
        place: project.longitude(str(place[0]), float(place[1]), float(place[2])) for place in set(places)
    }
    of_members = np.array([by_place[place] for place in places])
    return np.asarray(of_members[joined.array(MEMBER)[_existing(joined)]])


def _from_tables(
    joined: JoinedGroup, names: Sequence[str], *, reader: MemberReader, field: str
) -> dict[str, Values]:
    members = joined.members()
    places: list[str] = [str(each) for each in members["place"]]
    tables = run(reader.tables(places, [*names, PRESENCE]))
    for place, table, n_rows in zip(places, tables, members["n_rows"], strict=True):
        if any(len(values) != n_rows for values in table.values()):
            raise StoreError(
                f"{show_place(place)}: it has changed since it was joined: join the cubes again with "
                "--replace"
            )
    counts = members["n_rows"]
    existing = [each.get(PRESENCE, np.ones(n)) == 1 for each, n in zip(tables, counts, strict=True)]
    tables = [
        {name: values[there] for name, values in table.items()}
        for table, there in zip(tables, existing, strict=True)
    ]
    found: dict[str, Values] = {}
    for name in names:
        if not any(name in table for table in tables):
            own = ", ".join(sorted(set(joined.columns) - {PRESENCE}))
            raise RequestError(
                f"the rows have no coordinate {name!r}; the joined array has {own}, and its members' "
                "rows.parquet have more",
                field=field,
            )
        lengths = [int(there.sum()) for there in existing]
        found[name] = np.concatenate(unite_values(name, [table.get(name) for table in tables], lengths))
    return found
