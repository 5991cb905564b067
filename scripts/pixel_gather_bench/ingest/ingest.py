"""``bench ingest``: measures every way in fresh processes, and gives advice."""

import json
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from copy import replace
from pathlib import Path
from typing import Any, Final

import obstore
from msgspec import Struct, to_builtins
from obstore.exceptions import BaseError

from pixel_gather.core.errors import GatherError, RequestError, SourceError, StoreError
from pixel_gather.core.model.plurals import size
from pixel_gather.core.model.source import Cost
from pixel_gather.core.model.status import Status
from pixel_gather.io.event_loop import run
from pixel_gather.io.store.object_store import Objects, Store, folder_and_key, open_place
from pixel_gather.io.store.store_settings import StoreSettings
from pixel_gather_bench.child import run_in_child
from pixel_gather_bench.experiment import (
    about_machine,
    machine_in_words,
    new_folder,
    put_text,
    removed_if_empty,
    rounds,
)
from pixel_gather_bench.ingest.advice import PATTERNS, Advice, advise, beside_the_plan, planned_parts
from pixel_gather_bench.ingest.job import IngestJob, MeasuredWay, WayTrial, one_window_each, random_reads
from pixel_gather_bench.ingest.summary import (
    OF_2022,
    Summary,
    check_contents,
    lines_beside,
    refused_of,
    summarize,
    table_lines,
    write_figure,
)
from pixel_gather_bench.ingest.ways import BY_NAME, WAYS, IngestObject, Way, not_here

_LONGEST_S: Final = 3600
_MEASURE: Final = "pixel_gather_bench.ingest.job:measure"


class IngestRequest(Struct, frozen=True, kw_only=True):
    """What the command was asked for."""

    hrefs: tuple[str, ...]
    """Checked. One object is read whole and at random; of several, one window each is read."""

    stores: StoreSettings
    ways: tuple[str, ...]
    """Names of `WAYS`."""

    sample_nbytes: int
    n_random: int
    most_ahead: int
    times: int
    mount: str | None
    """Path of the one object on a mounted file system."""

    patterns: tuple[str, ...] = tuple(PATTERNS)
    with_published: bool = False
    """Whether the figures published in 2022 are shown beside those of one object."""


class IngestOutcome(Struct, frozen=True, kw_only=True):
    """The result, which is also in a folder."""

    folder: Path
    text: str
    values: dict[str, Any]


def bench_ingest(
    request: IngestRequest, to: Path, *, on_trial: Callable[[WayTrial], None] = lambda _: None
) -> IngestOutcome:
    """Measure, and write ``list.txt``, ``records.json``, ``ingest.txt`` and the figure to a new folder.

    Raises:
        RequestError: An object is not there, is refused, empty, or smaller than a sample.
        StoreError: Two ways read different bytes.
    """
    mounted_nbytes = Path(request.mount).stat().st_size if request.mount is not None else None
    objects = run(_find_objects(request, mounted_nbytes))
    folder = new_folder(to, "ingest")
    with removed_if_empty(folder):
        with tempfile.TemporaryDirectory() as downloads:
            missing = _missing_ways(request, objects, free_nbytes=shutil.disk_usage(downloads).free)
            ways = [way for way in WAYS if way.name in request.ways and way.name not in missing]
            trials = _measure(request, objects, ways, downloads, on_trial)
        check_contents(trials)
        return _write(request, objects, trials, missing | refused_of(trials), folder)


def _missing_ways(
    request: IngestRequest, objects: Sequence[IngestObject], *, free_nbytes: int
) -> dict[str, str]:
    """Return the wanted ways that cannot be measured here, each with the reason."""
    pays = request.stores.requester_pays
    return {
        way.name: reason
        for way in WAYS
        if way.name in request.ways
        and (reason := not_here(way, objects, free_nbytes=free_nbytes, stores_pays=pays)) is not None
    }


async def _find_objects(request: IngestRequest, mounted_nbytes: int | None) -> tuple[IngestObject, ...]:
    """Return the objects as they are now."""
    store = Objects(request.stores)
    found = []
    for href in request.hrefs:
        try:
            answer = await store.get_range(href, 0, 1, etag=None, cost=Cost())
        except SourceError as error:
            reason = "it is empty" if error.status is Status.CORRUPT else error.reason
            raise RequestError(f"cannot be measured: {reason}", field=href) from error
        nbytes = answer.object_nbytes
        if len(request.hrefs) == 1 and nbytes < request.sample_nbytes:
            raise RequestError(
                f"it has {nbytes:,} bytes, less than one sample of {request.sample_nbytes:,}: "
                "give a smaller --sample-bytes",
                field=href,
            )
        if mounted_nbytes not in (None, nbytes):
            raise RequestError(
                f"{request.mount} has {mounted_nbytes:,} bytes, the object {nbytes:,}: "
                "give the object's own path",
                field="mount",
            )
        found.append(IngestObject(href=href, nbytes=nbytes, etag=answer.etag, mounted=request.mount))
    return tuple(found)


def _measure(
    request: IngestRequest,
    objects: tuple[IngestObject, ...],
    ways: Sequence[Way],
    downloads: str,
    on_trial: Callable[[WayTrial], None],
) -> list[WayTrial]:
    """Measure each way once a round."""
    one, sample_nbytes = len(objects) == 1, request.sample_nbytes
    reads = (
        random_reads(objects[0].nbytes, sample_nbytes=sample_nbytes, n=request.n_random)
        if one
        else one_window_each(objects, sample_nbytes=sample_nbytes)
    )
    trials = []
    for number, way in rounds(ways, request.times):
        with tempfile.TemporaryDirectory(dir=downloads) as own:
            job = IngestJob(
                way=way.name,
                phase="whole" if one else "windows",
                objects=objects,
                sample_nbytes=sample_nbytes,
                reads=reads,
                most_ahead=request.most_ahead,
                stores=request.stores,
                folder=own,
            )
            trials.append(replace(_trial(job, way), round=number + 1))
        on_trial(trials[-1])
    order = [way.name for way in ways]
    return sorted(trials, key=lambda each: (order.index(each.way), each.round))


def _trial(job: IngestJob, way: Way) -> WayTrial:
    """Do a job. Read the random ranges in another process, unless the way has the object stored."""
    trial = run_job(job)
    if trial.measured is None or job.phase != "whole" or way.downloads or way.only_forward:
        return trial
    random = run_job(replace(job, phase="random"))
    if random.measured is None:
        return random
    return replace(trial, measured=trial.measured.with_random(random.measured))


def run_job(job: IngestJob) -> WayTrial:
    """Do a job in a fresh process, which ends with this call whatever happens."""
    try:
        measured = run_in_child(_MEASURE, job, MeasuredWay, name=job.way, longest_s=_LONGEST_S)
    except GatherError as error:
        return WayTrial(way=job.way, round=1, refused=str(error).removeprefix(f"{job.way}: "))
    return WayTrial(way=job.way, round=1, measured=measured)


def _write(
    request: IngestRequest,
    objects: tuple[IngestObject, ...],
    trials: Sequence[WayTrial],
    missing: dict[str, str],
    folder: Path,
) -> IngestOutcome:
    n, href = len(objects), objects[0].href
    missing = {way.name: missing[way.name] for way in WAYS if way.name in missing}
    reads_nbytes = objects[0].nbytes if n == 1 else request.sample_nbytes * n
    summaries = summarize(trials, nbytes=reads_nbytes)
    advice = advise(summaries, n_random=request.n_random, n_objects=n, patterns=request.patterns)
    planned_nbytes, n_in_flight = (objects[0].nbytes, 1) if n == 1 else (request.sample_nbytes, n)
    parts = planned_parts(planned_nbytes, href=href, n_in_flight=n_in_flight)
    plan = beside_the_plan(summaries, parts, nbytes=planned_nbytes, href=href, n_objects=n)
    about = about_machine()
    lines = [*_report_lines(summaries, objects=objects, missing=missing, advice=advice), "", plan]
    if request.with_published and n == 1:
        lines += ["", *lines_beside(summaries, nbytes=objects[0].nbytes)]
    text = "\n".join((*lines, "", f"{request.times} rounds, medians; {machine_in_words(about)}"))
    values = {
        "objects": [to_builtins(each) for each in objects],
        "sample_bytes": request.sample_nbytes,
        "random_reads": request.n_random,
        "ahead": request.most_ahead,
        "ways": [to_builtins(each) for each in summaries],
        "not_here": missing,
        "advice": [to_builtins(each) for each in advice],
        "plan": {"parts": parts.n, "part_bytes": parts.part_nbytes, "said": plan},
        "trials": [to_builtins(each) for each in trials],
        "published": OF_2022 if request.with_published else None,
        "machine": about,
    }
    put_text(folder / "list.txt", "".join(f"{each.href}\n" for each in objects))
    put_text(folder / "records.json", json.dumps(values, indent=1))
    put_text(folder / "ingest.txt", f"{text}\n")
    if summaries:
        write_figure(summaries, folder, n_objects=n)
    return IngestOutcome(folder=folder, text=text, values=values)


def _report_lines(
    summaries: Sequence[Summary],
    *,
    objects: Sequence[IngestObject],
    missing: dict[str, str],
    advice: Sequence[Advice],
) -> Iterator[str]:
    """Yield what was read, the table of the ways, those that could not be measured, and the advice."""
    if len(objects) == 1:
        href = "".join(each if each.isprintable() else "?" for each in objects[0].href)
        yield f"{href}, {objects[0].nbytes:,} bytes"
    else:
        total = sum(each.nbytes for each in objects)
        yield f"{len(objects):,} objects of {size(total)} in all, one window of each"
    yield ""
    yield from table_lines(summaries, n_objects=len(objects))
    yield ""
    for way, reason in missing.items():
        yield f"not here: {BY_NAME[way].title}: {reason}"
    yield from [""] if missing else []
    for each in advice:
        yield f"{each.pattern}: {each.title} [{each.way}]"
        yield f"    {each.why}"


_PIECE: Final = 8 * 2**20


def make_object(href: str, nbytes: int, stores: StoreSettings) -> bool:
    """Put an object of so many random bytes, unless it is there; return whether it was made.

    Raises:
        RequestError: An object of another size is there, which is not written over.
        StoreError: It cannot be put.
    """
    folder, name = folder_and_key(href)
    try:
        store = open_place(folder, stores)
        found = _size_of(store, name)
        if found is None:
            obstore.put(store, name, _pieces(nbytes))
    except (BaseError, OSError, ValueError) as error:
        said = str(error).partition("\n")[0]
        raise StoreError(f"{href} cannot be made: {said}") from error
    if found not in (None, nbytes):
        raise RequestError(
            f"an object of {found:,} bytes is there, not of {nbytes:,}, "
            "and is not written over: name another",
            field=href,
        )
    return found is None


def _size_of(store: Store, name: str) -> int | None:
    try:
        return obstore.head(store, name)["size"]
    except FileNotFoundError:
        return None


def _pieces(nbytes: int) -> Iterator[bytes]:
    """Yield bytes that no compression makes shorter."""
    draw = random.Random(1)  # noqa: S311 # content, no secret
    for start in range(0, nbytes, _PIECE):
        yield draw.randbytes(min(_PIECE, nbytes - start))
