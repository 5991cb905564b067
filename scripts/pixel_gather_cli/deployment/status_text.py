"""Formats the status document of a gather or a table as text. Pure."""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from pixel_gather.core.model.plurals import counted
from pixel_gather.core.text_table import in_columns
from pixel_gather_cli.deployment.deployment import Kind
from pixel_gather_cli.option_names import with_option

NOTHING_APPENDED: Final = "nothing: the cube has all of these sources or chips already"
_STATES = {"timed_out": "timed out"}
_PLACES: Final = {
    "table": "table",
    "parquet": "parquet",
    "features_table": "features",
    "images_table": "images",
}
"""Links to the files of a table, and what they are called."""

_NAME_OF_UPLOAD: Final = re.compile(r"\b[0-9a-f]{64}(\.[a-z]+)? line\b")
"""An uploaded list is called by its digest, which its owner does not know."""

_WORDS: Final[Mapping[Kind, str]] = {"gather": "gather", "table": "table job"}


def status_text(document: Mapping[str, Any]) -> str:
    """Return the document as text, one fact per line. A complete ranking is followed by its table."""
    facts = "\n".join(f"{name:<13} {value}" for name, value in _facts(document))
    table = document.get("ranking")
    if table is None:
        return facts
    from pixel_gather.features.rank.table import table_text  # noqa: PLC0415 # a gather's status needs no NumPy

    return f"{facts}\n\n{table_text(table['scenes'], most=table['top'])}".rstrip("\n")


def kind_of(document: Mapping[str, Any]) -> Kind:
    """Tell by its link whether a document or line is of a gather or of a table."""
    itself = str((document.get("links") or {}).get("self"))
    return "table" if "/tables/" in itself else "gather"


def acted_text(line: Mapping[str, Any]) -> str:
    """Return the id and the state of what was started, stopped or redriven."""
    return f"{_WORDS[kind_of(line)]:<13} {line['id']}\n{'state':<13} {state_text(line)}"


def list_text(lines: list[dict[str, Any]], *, kind: Kind = "gather") -> str:
    """Return gathers or tables as text, one per line."""
    rows = [(_WORDS[kind], "state", "submitted", "took")]
    rows += [
        (each["id"], state_text(each), _format_moment(each["submitted_at"]), duration_text(each["seconds"]))
        for each in lines
    ]
    return "\n".join(in_columns(rows))


def state_text(document: Mapping[str, Any]) -> str:
    """Return the state in words."""
    return _STATES.get(document["state"], str(document["state"]))


def shards_text(shards: Mapping[str, int]) -> str:
    """Return how many shards are done, running, pending and failed; zeros are left out."""
    others = [f"{shards[name]:,} {name}" for name in ("running", "pending", "failed") if shards[name]]
    return ", ".join([f"{shards['succeeded']:,} of {shards['total']:,} done", *others])


def word_for_sources(document: Mapping[str, Any]) -> str:
    """Return what a gather's sources are called. Of chips, each image counts once for each chip."""
    return "chip images" if "windows" in (document.get("request") or {}) else "files"


def sources_text(sources: Mapping[str, Any]) -> str:
    """Return how many sources have been read. An estimate starts with ``about``."""
    if sources["failed"] is None:
        return f"about {sources['done']:,} of {sources['total']:,}"
    return f"{sources['done'] - sources['failed']:,} of {sources['total']:,}" + (
        f", {sources['failed']:,} failed" if sources["failed"] else ""
    )


def scenes_text(document: Mapping[str, Any]) -> str:
    """Return how many scenes a table has, and how many of its round it has read."""
    scenes = document["scenes"]
    if scenes["failed"] is not None:
        return f"{scenes['total']:,}" + (f", {scenes['failed']:,} not read" if scenes["failed"] else "")
    read = f"about {scenes['read']:,} of {scenes['wanted']:,}"
    return f"{scenes['total']:,}; {read} in round {document['round']}"


def usd_text(document: Mapping[str, Any]) -> str:
    """Return the dollars so far and the planned dollars, where they are known. After the end, return both.

    Of a table, return the forecast up to the end of its round; after the end, what it has cost.
    """
    usd = document["usd"]
    if not isinstance(usd, Mapping):
        return "" if usd is None else f"about ${usd:.4f}"
    so_far = "" if usd["so_far"] is None else f"about ${usd['so_far']:.4f}"
    planned = "" if usd["planned"] is None else f"${usd['planned']:.4f} planned"
    return (", " if document["result"] else " of ").join(filter(None, (so_far, planned)))


def duration_text(seconds: float) -> str:
    """Return seconds in hours, minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


def _facts(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    took = duration_text(document["seconds"])
    is_running = document["state"] == "running"
    yield _WORDS[kind_of(document)], document["id"]
    yield "state", f"{state_text(document)} {'for' if is_running else 'after'} {took}"
    yield "submitted", _format_moment(document["submitted_at"])
    if document.get("cube"):
        yield "cube", document["cube"]
    yield from _parts(document)
    yield from _lines(document.get("result") or {})
    yield from _added_images(document.get("result") or {})
    appended = _describe_append(document.get("result") or {})
    if appended is not None:
        yield "appended", appended
    is_earlier = appended == NOTHING_APPENDED  # cost and warnings are those of an earlier gather
    if not is_earlier and (usd := usd_text(document)):
        basis = (
            document["usd"]["basis"] if isinstance(document["usd"], Mapping) else "list prices; not a bill"
        )
        yield "cost", f"{usd} ({basis})"
    links = document["links"]
    for name, word in _PLACES.items():
        if name in links:
            yield word, links[name]
    if report := links.get("report_page") or links.get("report"):
        yield "report", report
    if "report_in_console" in links:
        yield "in a browser", links["report_in_console"]
    notes = (document.get("result") or {}).get("notes", ())  # of a table
    for warning in () if is_earlier else (*document.get("warnings", ()), *notes):
        yield "warning", warning
    if document.get("error"):
        detail = _NAME_OF_UPLOAD.sub("the uploaded list, line", document["error"]["detail"])
        yield "error", f"{document['error']['type']}: {with_option(detail)}"
    yield from map(_failure, document.get("failures", ()))


def _failure(failure: Mapping[str, Any]) -> tuple[str, str]:
    """Return which shards a worker has failed to fill, why, and what to do."""
    first, *others = failure["shards"] or ["?"]
    shards = f"shard {first}" + (f" to {others[-1]}" if others else "")
    return shards, f"{failure['error']}: {failure['cause'].rstrip('. ')}. What to do: {failure['advice']}"


def _parts(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what a gather or table consists of, and how much of it is done."""
    if document.get("shards"):
        yield "shards", shards_text(document["shards"])
    if document.get("sources"):
        yield word_for_sources(document), sources_text(document["sources"])
    if document.get("scenes"):
        yield "scenes", scenes_text(document)


def _describe_append(result: Mapping[str, Any]) -> str | None:
    """Return what an append to a cube has added and read again. A ranking, and a new cube, has no append."""
    n_appended, n_retried = result.get("n_appended"), result.get("n_retried", 0)
    if n_appended is None:
        return None
    if n_appended == n_retried == 0:
        return NOTHING_APPENDED
    said = counted(n_appended, "row")
    tried = counted(n_retried, "failed source")
    return f"{said}; of {tried}, {result['n_read_again']:,} were read now" if n_retried else said


def _added_images(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what an append to a table of points or zones has added and read."""
    n_added, n_read = result.get("appended"), result.get("read", 0)
    if n_added is None:
        return
    if n_added == n_read == 0:
        yield "appended", "nothing: no image near a feature is new"
    else:
        yield "appended", f"{counted(n_added, 'image')}; {counted(n_read, 'image')} read"


def _lines(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield how many lines a table of points or zones has, and what they say."""
    if "statuses" in result:
        statuses = ", ".join(f"{n:,} {name}" for name, n in result["statuses"].items())
        yield "lines", f"{result['lines']:,} of {counted(result['features'], 'feature')}: {statuses}"


def _format_moment(text: str) -> str:
    return f"{datetime.fromisoformat(text):%Y-%m-%d %H:%M:%S %Z}"
