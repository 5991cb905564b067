"""Streams the sources that a request names by hrefs, by a list file or by a prefix.

Every source is checked, and an error names its line. The list is not kept in memory. Iterating does I/O and
may block, so iterate in a thread without an event loop.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import replace
from typing import BinaryIO, Final

from msgspec import Struct

from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.band_meaning import BandMeaning
from pixel_gather.core.model.source import LeftOut, SearchCost, Source
from pixel_gather.core.request.href_policy import HrefPolicy, check_href, checked_href, parent_of
from pixel_gather.core.request.sources import Sources
from pixel_gather.io.lists.href_band import band_finder
from pixel_gather.io.lists.href_time import AUTO, time_finder
from pixel_gather.io.lists.list_columns import MEANINGFUL, Scalar, check_name, check_value, parse_time
from pixel_gather.io.lists.list_prefix import list_prefix
from pixel_gather.io.lists.parse_list import Record, Records, read_records, table_records
from pixel_gather.io.store.object_store import Objects, Store, open_store
from pixel_gather.io.store.open_list_file import GIVE_A_FOLDER, STDIN, Check, no_deadline, open_list_file
from pixel_gather.io.store.store_settings import StoreSettings

_ROWS: Final = "sources.rows"
_TIME_EXAMPLES: Final = "2024-03-01, 2024-03-01T10:20:30Z, 2024-03 or 20240301"


class SourceList(Struct, frozen=True, kw_only=True):
    """Sources in the order of the list. Can be iterated once."""

    name: str
    """What errors call it: ``sources.csv``, ``stdin``, or a field of the request."""

    is_typed: bool
    """Whether the format stores types. If not, values are text that may stand for numbers."""

    sources: Iterator[Source]
    """Raises RequestError for a wrong line or an empty list, and TimeoutError when ``check`` raises it."""

    notes: Sequence[str] = ()
    """What whoever reads the list should know, such as scenes that were left out; complete once the list has
    been read."""

    left_out: Sequence[LeftOut] | None = None
    """Sources that a search found and that are not read; complete once the list has been read. None if the
    list was not searched for."""

    search_cost: SearchCost | None = None
    """None if the list was not searched for."""

    band_numbers: Mapping[str, int] = {}
    """Which band of its sources each name in ``band`` is, from 1, where the request says so."""

    band_meanings: Mapping[str, BandMeaning] = {}
    """What the catalog says, by the name in ``band``; complete once the list has been read."""


type FindScenes = Callable[[Sources], SourceList]
"""Returns the list of a request's ``sources.stac`` or ``sources.catalog``."""


def named_sources(
    sources: Sources,
    *,
    objects: Objects,
    policy: HrefPolicy,
    list_policy: HrefPolicy,
    find_scenes: FindScenes | None = None,
    check: Check = no_deadline,
) -> SourceList:
    """Return the sources that a request names.

    Lists are read, and a prefix is listed, as ``objects`` reaches stores. ``find_scenes`` is None where no
    catalog can be searched. ``check`` is called repeatedly, also while no source is found.
    """
    if sources.are_searched:
        if find_scenes is None:
            raise RequestError("scenes cannot be searched for here; give a list", field="sources")
        return find_scenes(sources)
    found = _name_sources(sources, objects=objects, policy=policy, list_policy=list_policy, check=check)
    if sources.time is not None or sources.prefix is not None:
        found = _with_times(found, sources.time)
    return found if sources.band is None else _with_bands(found, sources.band)


def _name_sources(
    sources: Sources, *, objects: Objects, policy: HrefPolicy, list_policy: HrefPolicy, check: Check
) -> SourceList:
    if sources.hrefs is not None:
        return sources_of_hrefs(sources.hrefs, policy=policy)
    if sources.rows is not None:
        records = table_records(sources.rows.table, name=_ROWS, check=check)
        return _list_of_records(records, _ROWS, policy)
    if sources.list is not None:
        return open_source_list(
            sources.list, list_policy=list_policy, policy=policy, objects=objects, check=check
        )
    assert sources.prefix is not None  # noqa: S101 # the model has checked that exactly one is given
    return sources_below(
        sources.prefix,
        glob=sources.glob,
        regex=sources.regex,
        policy=policy,
        settings=objects.settings_of(sources.prefix),
        check=check,
    )


def _with_times(found: SourceList, pattern: str | None) -> SourceList:
    """Return the list with times from hrefs for sources that have no time of their own.

    Without a pattern, names of products are looked for, and none of the hrefs needs to have a time.
    """
    find = time_finder(pattern or AUTO)

    def each() -> Iterator[Source]:
        has_any, source = False, None
        for source in found.sources:
            time_us = find(source.href) if source.time_us is None else source.time_us
            has_any = has_any or time_us is not None
            yield replace(source, time_us=time_us)
        if pattern is not None and not has_any and source is not None:
            raise RequestError(
                f"{pattern!r} finds no time in any href, such as {source.href}; write where the time stands, "
                "such as _%Y%m%d_",
                field="sources.time",
            )

    return replace(found, sources=each())


def _with_bands(found: SourceList, pattern: str) -> SourceList:
    """Return the list with bands and scenes from hrefs for sources that have no band of their own."""
    find = band_finder(pattern)

    def each() -> Iterator[Source]:
        for source in found.sources:
            if source.band is not None:
                yield source
                continue
            if (said := find(source.href)) is None:
                raise RequestError(
                    f"{pattern!r} finds no band in {source.href}; write where the band stands, such as "
                    r"_(B\d+)\.tif, or leave such files out",
                    field="sources.band",
                )
            yield replace(source, band=said.band, scene=source.scene or said.scene)

    return replace(found, sources=each())


def sources_of_hrefs(hrefs: Sequence[str], *, policy: HrefPolicy) -> SourceList:
    """Return the sources of hrefs in the request itself.

    A relative href is resolved against the policy's base.
    """
    field = "sources.hrefs"

    def each() -> Iterator[Source]:
        for position, href in enumerate(hrefs):
            yield Source(href=checked_href(href, f"{field}.{position}", policy=policy))

    return SourceList(name=field, is_typed=True, sources=_refuse_none(each(), field, "no source is named"))


def open_source_list(
    place: str,
    *,
    list_policy: HrefPolicy,
    policy: HrefPolicy,
    objects: Objects,
    stdin: BinaryIO | None = None,
    check: Check = no_deadline,
) -> SourceList:
    """Open a list file: text, CSV, JSONL or Parquet, gzipped or not.

    Args:
        place: A href, or ``-`` for standard input.
        list_policy: Where lists may lie. A relative ``place`` is resolved against its base.
        policy: Which sources may be read. Relative hrefs in the list are resolved against the list's folder,
            if sources may lie there. Otherwise, and for standard input, against the policy's base.
        objects: Reads what is remote; belongs to the caller.
        stdin: Read instead of the process's standard input.
        check: Called for every line and request.

    Raises:
        RequestError: The list cannot be read, or is not a list.
        TimeoutError: Raised by ``check``.
    """
    if place.endswith("/"):
        raise RequestError(f"it names a folder: {GIVE_A_FOLDER}", field="sources.list")
    href = place if place == STDIN else checked_href(place, "sources.list", policy=list_policy)
    name, file = open_list_file(href, objects=objects, stdin=stdin, check=check)
    records = read_records(file, name=name, check=check)
    in_folder = policy.within(parent_of(href)) if place != STDIN and _is_read(href, policy) else policy
    return _list_of_records(records, name, in_folder)


def _list_of_records(records: Records, name: str, policy: HrefPolicy) -> SourceList:
    sources = _sources_of_records(records.lines, name, policy)
    return SourceList(
        name=name, is_typed=records.is_typed, sources=_refuse_none(sources, name, "the list names no source")
    )


def sources_below(
    prefix: str,
    *,
    glob: str | None = None,
    regex: str | None = None,
    policy: HrefPolicy,
    settings: StoreSettings,
    open_: Callable[[str, StoreSettings], Store] = open_store,
    check: Check = no_deadline,
) -> SourceList:
    """Return the objects below a folder as sources. The arguments are those of ``list_prefix``."""
    listed = list_prefix(
        prefix, glob=glob, regex=regex, policy=policy, settings=settings, open_=open_, check=check
    )

    def each() -> Iterator[Source]:
        try:
            for item in listed:
                yield Source(href=checked_href(item.href, "prefix", policy=policy))
        except RequestError as error:
            raise RequestError(error.message, field=f"sources.{error.field}") from error

    nothing = (
        f"nothing below {prefix} matches; a prefix is a whole folder, and ** stands for folders below it"
    )
    return SourceList(
        name="sources.prefix", is_typed=True, sources=_refuse_none(each(), "sources.prefix", nothing)
    )


def _refuse_none(sources: Iterator[Source], field: str, message: str) -> Iterator[Source]:
    first = next(sources, None)
    if first is None:
        raise RequestError(message, field=field)
    yield first
    yield from sources


def _is_read(href: str, policy: HrefPolicy) -> bool:
    try:
        check_href(href, policy=policy)
    except ValueError:
        return False
    return True


def _sources_of_records(lines: Iterator[Record], name: str, policy: HrefPolicy) -> Iterator[Source]:
    known_bands: set[str | None] = set()
    for number, record in lines:
        try:
            source = _to_source(record, policy)
            if source.band not in known_bands:
                _add_band(source.band, known_bands)
        except ValueError as error:
            raise RequestError(str(error), field=f"{name} line {number}") from error
        yield source


def _add_band(band: str | None, known: set[str | None]) -> None:
    known.add(band)
    if None in known and len(known) > 1:
        raise ValueError("some lines have a band and some have none; fill the column or leave it out")
    if band is not None:
        check_name(band, what="band")


def _to_source(record: Mapping[str, object], policy: HrefPolicy) -> Source:
    href = record["href"]
    if not isinstance(href, str):
        raise ValueError(f"column href is {href!r}; write s3://bucket/key")  # noqa: TRY004 # the list's fault
    columns: dict[str, Scalar] = {
        name: check_value(name, value) for name, value in record.items() if name not in MEANINGFUL
    }
    return Source(
        href=check_href(href, policy=policy),
        band=_as_text("band", record.get("band")),
        scene=_as_text("scene", record.get("scene")),
        time_us=_to_time_us(record.get("time")),
        columns=columns,
    )


def _as_text(name: str, value: object) -> str | None:
    checked = check_value(name, value)
    if isinstance(checked, (bool, float)):
        raise ValueError(f"column {name} is {checked}; write text")  # noqa: TRY004 # as above
    return None if checked is None else str(checked)


def _to_time_us(value: object) -> int | None:
    text = _as_text("time", value)
    if text is None:
        return None
    try:
        return parse_time(text)
    except (ValueError, OverflowError) as error:
        raise ValueError(
            f"column time is {text[:80]!r}; write ISO 8601, such as {_TIME_EXAMPLES}, or rename the column "
            "to keep it as text"
        ) from error
