"""The searches and listings that a cube's sources come from, to be asked again. Pure."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pixel_gather.core.time_range import ALL_TIMES, TimeRange, format_range, parse_time_range

_SEARCHES: Final = ("stac", "catalog")


def list_searches(requests: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the requests that search or list a prefix, each once.

    A cube that is kept up to date has a request of every day, which differ in their time range alone. Those
    whose ranges overlap or follow each other become one request of the whole range.

    Raises:
        RequestError: A time range is wrong.
    """
    ranges: dict[str, list[TimeRange]] = {}
    for request in requests:
        sources = request.get("sources")
        if not isinstance(sources, Mapping) or not {*_SEARCHES, "prefix"} & sources.keys():
            continue
        without, times = _without_times(sources)
        key = json.dumps([without, _where(request)], sort_keys=True, default=str)
        ranges.setdefault(key, []).append(times)
    for key, found in ranges.items():
        sources, where = json.loads(key)
        for times in _merge_ranges(found):
            yield {"sources": _with_times(sources, times)} | where


def _where(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a request that say its window. A grid with an exact box is one, too."""
    grid = request.get("grid")
    if isinstance(grid, Mapping) and "shape" in grid:
        return {"grid": grid}
    return {"window": request.get("window")}


def _without_times(sources: Mapping[str, Any]) -> tuple[dict[str, Any], TimeRange]:
    for kind in _SEARCHES:
        if kind in sources:
            rest = {**sources[kind]}
            text = rest.pop("datetime", None)
            times = ALL_TIMES if text is None else parse_time_range(text)
            return {**sources, kind: rest}, times
    return dict(sources), ALL_TIMES


def _with_times(sources: dict[str, Any], times: TimeRange) -> dict[str, Any]:
    text = format_range(times)
    for kind in _SEARCHES:
        if kind in sources and text is not None:
            return {**sources, kind: {**sources[kind], "datetime": text}}
    return sources


def _merge_ranges(ranges: Sequence[TimeRange]) -> Iterator[TimeRange]:
    """Yield the union of time ranges, those without a gap between them as one."""
    in_order = sorted(ranges, key=lambda each: each.start_us)
    start_us, stop_us = in_order[0].start_us, in_order[0].stop_us
    for each in in_order[1:]:
        if each.start_us > stop_us + 1:
            yield TimeRange(start_us=start_us, stop_us=stop_us)
            start_us = each.start_us
        stop_us = max(stop_us, each.stop_us)
    yield TimeRange(start_us=start_us, stop_us=stop_us)
