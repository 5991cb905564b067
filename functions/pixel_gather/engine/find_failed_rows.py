"""The rows of a cube that an append tries again, because some of their sources could not be read.

A source that could not be read once may be there later. So an append reads it again, and puts pixels and
coordinates in its own row; see `pixel_gather.engine.place_tried_rows`. The row's other sources are not
touched: what was read once never changes.
"""

from bisect import bisect
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import replace
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from pixel_gather.core.errors import AppendRunningError
from pixel_gather.core.model.chip import Chip
from pixel_gather.core.model.outcome import Outcome
from pixel_gather.core.model.scaling import SCALING_COLUMNS
from pixel_gather.core.model.source import CubeRow, Source
from pixel_gather.core.model.status import Status
from pixel_gather.core.plan.cube_plan import Append, CubePlan, slot_of_mask
from pixel_gather.core.plan.cube_template import CubeTemplate
from pixel_gather.core.plan.plan_again import Again
from pixel_gather.core.results.contributors import CONTRIBUTORS, scenes_from_lines
from pixel_gather.core.results.row_evidence import ChipValues, column_value, rows_from_values

if TYPE_CHECKING:  # not needed to run
    from pixel_gather.core.results.receipt import Receipt
    from pixel_gather.core.results.row_coordinates import Values

MOST_TRIES: Final = 5
"""How often a source is read in all, the first time included, if nobody asks for more."""

PASSING: Final = frozenset(
    (
        Status.MISSING,
        Status.DENIED,
        Status.CORRUPT,
        Status.TIMED_OUT,
        Status.CHANGED,
        Status.LOST,
        Status.UNMASKED,
    )
)
"""What may be otherwise at the next try. A file that is outside the window, unlike the cube or unsupported
will be so again."""

CHOOSE_PIXELS: Final = ("window", "bands", "overview", "masked")
"""Fields of a request that say which pixels of its sources are wanted."""

INHERITED: Final = ("nodata", "grid", "mask", "values")
"""Fields that an append takes from its cube if it leaves them out. Other values are refused."""

_S3: Final = "s3://"


def digest_again(digest: str, version: int) -> str:
    """Return the digest of another try of a gather that the cube has already.

    Args:
        digest: From `pixel_gather.core.plan.plan.gather_digest`.
        version: The version that the try makes. So each try has a digest of its own.
    """
    half = len(digest) // 2  # the request's; the other half is the list's
    return digest[:half] + sha256(f"{digest} {version}".encode()).hexdigest()[:half]


def chooses_same_pixels(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two requests that added rows to one cube, as JSON values, want the same pixels."""
    return all(one.get(name) == other.get(name) for name in CHOOSE_PIXELS) and all(
        _inherit_alike(name, one, other) for name in INHERITED
    )


def _inherit_alike(name: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether a field is the same, or is left out by one of them, and so the cube's for both."""
    ours, theirs = one.get(name), other.get(name)
    takes_any_grid = name == "grid" and "same" in (ours, theirs)  # left out, sources on other grids are read
    return ours == theirs or (None in (ours, theirs) and not takes_any_grid)


@dataclass(kw_only=True)
class FailedRows:
    """Rows of a cube with sources that could not be read. They are collected while the table passes by."""

    template: CubeTemplate
    n_rows: int
    """Rows of the cube. The table of an append that was not committed has more."""

    asks_for_all: bool
    """Whether a source is wanted whatever its status, and however often it was tried."""

    rows: dict[int, CubeRow] = field(default_factory=dict)
    """By their number. Sources that are not tried again are None."""

    n_tries: dict[int, int] = field(default_factory=dict)
    """How often the sources of these rows were tried."""

    _alike: dict[Any, CubeRow] = field(default_factory=dict)
    """Rows of chips. Those of one image are the same but for their chips, of which there may be a million."""

    _chips: "list[tuple[Values, ChipValues]]" = field(default_factory=list)
    """Numbers of rows of chips, ascending, and their chips."""

    _told: "dict[int, Mapping[str, Values]]" = field(default_factory=dict)
    """What the table tells of each of these rows that is reduced."""

    _sizes: "np.ndarray[Any, np.dtype[np.float64]]" = field(default_factory=lambda: np.zeros(3))
    """Of the sources that were read: their number, and the bytes received for pixels and for headers."""

    def watch(self, batches: Iterator[Mapping[str, "Values"]]) -> Iterator[Mapping[str, "Values"]]:
        """Yield the batches of the table of rows, and note what has failed."""
        start = 0
        for batch in batches:
            self._note(start, batch)
            start += len(batch["href"])
            yield batch

    def added_to(self, append: Append, *, stored: Collection[str]) -> Append:
        """Return an append that tries the rows again, too.

        Args:
            append: Where its new rows go.
            stored: Keys of the cube's shards.
        """
        places = {row // self.template.layout.shard[0] for row in self.rows}
        keys = {key for at in places for key in self.template.keys_at(at)}
        rows, reduces = sorted(self.rows), self.template.reduce is not None
        return replace(
            append,
            again=tuple(rows),
            n_tries=tuple(self.n_tries[row] for row in rows),
            n_again=self.n_sources,
            n_beside=len(self._read_before),
            scenes_again=tuple(len(self.rows[row].members) for row in rows) if reduces else (),
            tails=tuple(sorted(keys.intersection(stored))),
        )

    def listed(self, plan: CubePlan) -> Callable[[int], CubeRow]:
        """Return what gives rows for the list of a plan. Those reduced anew have their outcomes so far."""

        def listed_row(row: int) -> CubeRow:
            told = self._told.get(row)
            return replace(
                self.rows[row],
                chip=self._chip_of(row),
                packed_outcomes=None
                if told is None
                else msgspec.msgpack.encode(rows_from_values(plan, told)[0][1]),
            )

        return listed_row

    @property
    def n_sources(self) -> int:
        """Sources that are tried again."""
        return len(self._to_read) - len(self._read_before)

    @property
    def _to_read(self) -> list[Source]:
        scenes = [scene for row in self.rows.values() for scene in row.members or (row,)]
        return [each for scene in scenes for each in scene.sources if each is not None]

    @property
    def _read_before(self) -> list[str]:
        """The versions of the sources that are read again beside those that have failed."""
        scenes = [scene for row in self.rows.values() for scene in row.members]
        return [each for scene in scenes for each in scene.etags if each is not None]

    @property
    def size(self) -> Again:
        """What trying them again amounts to, for an estimate."""
        hrefs = [each.href for each in self._to_read]
        n, nbytes, header_nbytes = self._sizes.tolist()
        return Again(
            n_sources=len(hrefs),
            n_by_bucket=Counter(each.split("/")[2] for each in hrefs if each.startswith(_S3)),
            mean_nbytes=nbytes / max(n, 1),
            mean_open_nbytes=header_nbytes / max(n, 1),
        )

    def leave_to_others(self, request: Mapping[str, Any], receipt: "Receipt", *, settles: bool) -> None:
        """Leave out the rows whose own request wants other pixels, or other tokens, than this one.

        Args:
            request: The request that reads, as JSON values.
            receipt: The cube's. It says which rows were added by which request.
            settles: Keep them among the rows, without sources to read.
        """
        for row in [row for row in self.rows if not may_read(request, request_of_row(receipt, row))]:
            if settles and self.template.reduce is not None:
                raise AppendRunningError(
                    "an earlier append stopped while it tried failed rows again: run an append with the "
                    "request that first added these rows, then repeat this one"
                )
            if settles:
                self.rows[row] = CubeRow(time_us=None, sources=(None,) * len(self.template.slots))
            else:
                del self.rows[row]

    def _note(self, start: int, batch: Mapping[str, "Values"]) -> None:
        if CONTRIBUTORS in batch:
            self._note_reduced(start, batch)
            return
        slots, n = self.template.slots, min(len(batch["href"]), max(self.n_rows - start, 0))
        slot_of = [each.slot for each in self.template.measurements]
        first = [slot_of.index(slot) for slot in range(len(slots))]
        hrefs, etags = (batch[name][:n].reshape(n, len(slots)) for name in ("href", "etag"))
        status = batch["status"][:n].reshape(n, len(slot_of))[:, first]
        wanted = ~np.isin(status, (Status.OK, Status.ABSENT)) & (hrefs != "")
        told = batch.get("tries", np.ones(batch["href"].shape, dtype="int64"))  # earlier tables have none
        n_tries = told[:n].reshape(n, len(slots))
        if not self.asks_for_all:
            wanted &= np.isin(status, tuple(PASSING)) & (n_tries < MOST_TRIES)
        if self.template.chips is not None:
            self._keep_chips(start, batch, wanted)
        for row in np.flatnonzero(wanted.any(axis=1)).tolist():
            sources = tuple(
                Source(href=hrefs[row, at], band=slot.name, columns=self._claims(batch, row, at))
                if wanted[row, at]
                else None
                for at, slot in enumerate(slots)
            )
            mask, etag = self._mask_of(hrefs[row], status[row], etags[row])
            found = CubeRow(time_us=None, sources=sources, mask=mask, mask_etag=etag)
            if self.template.chips is not None:
                found = self._alike.setdefault((tuple(hrefs[row]), tuple(wanted[row]), etag), found)
            self.rows[start + row] = found
            self.n_tries[start + row] = int(n_tries[row][wanted[row]].max())
        is_read = (status == Status.OK).ravel()
        nbytes, header_nbytes = (batch[name][:n].ravel()[is_read].sum() for name in ("bytes", "header_bytes"))
        self._sizes += is_read.sum(), nbytes - header_nbytes, header_nbytes

    def _keep_chips(
        self, start: int, batch: Mapping[str, "Values"], wanted: "np.ndarray[Any, np.dtype[np.bool_]]"
    ) -> None:
        """Keep the chips of the wanted rows. Rows whose chip is not known exactly are wanted no more."""
        axis, window = self.template.chips, self.template.slots[0].window
        assert axis is not None  # noqa: S101 # the caller's
        told = batch.get("chip_crs", np.full(len(batch["href"]), ""))  # earlier tables have none
        wanted[told[: len(wanted)] == ""] = False
        which = np.flatnonzero(wanted.any(axis=1))
        if len(which):
            chips = ChipValues(axis, (window.width, window.height), batch, which=which)
            self._chips.append((start + which, chips))

    def _chip_of(self, row: int) -> Chip | None:
        at = bisect(self._chips, row, key=lambda each: each[0][0]) - 1
        if at < 0:
            return None
        numbers, chips = self._chips[at]
        return chips[int(np.searchsorted(numbers, row))]

    def _note_reduced(self, start: int, batch: Mapping[str, "Values"]) -> None:
        """Note the rows that lack sources. All sources of such a row are read again."""
        template = self.template
        if template.n_strips > 1:  # each strip would decide by itself
            return
        if not template.layout.is_sharded:  # an object that is replaced keeps no former pixels
            return
        names = [each.name for each in template.of_scenes.slots]
        n = min(len(batch["href"]), max(self.n_rows - start, 0))
        for row, lines in enumerate(batch[CONTRIBUTORS][:n].tolist()):
            members, outcomes = scenes_from_lines(lines, names)
            known = [each for of_scene in outcomes for each in of_scene]
            failed = [each for each in known if each.status.is_failure]
            if not self.asks_for_all:
                failed = [each for each in failed if each.status in PASSING and each.tries < MOST_TRIES]
            if failed:
                self.rows[start + row] = self._row_anew(members, outcomes)
                self._told[start + row] = {name: values[row : row + 1] for name, values in batch.items()}
                self.n_tries[start + row] = max(each.tries for each in failed)
            was_read = [each.cost for each in known if each.status is Status.OK]
            nbytes = np.array([(1, each.data_nbytes, each.header_nbytes) for each in was_read])
            self._sizes += nbytes.sum(axis=0) if was_read else 0

    def _row_anew(self, members: Sequence[CubeRow], outcomes: Sequence[Sequence[Outcome]]) -> CubeRow:
        """Return a row with all of its scenes. What was read before has to be there in the same version."""
        etags = [
            tuple((each.etag or "") if each.status is Status.OK else None for each in of_scene)
            for of_scene in outcomes
        ]
        there = {each.band for scene in members for each in scene.sources if each is not None}
        return CubeRow(
            time_us=None,
            sources=tuple(
                Source(href="", band=each.name) if each.name in there else None
                for each in self.template.slots
            ),
            members=tuple(
                replace(scene, etags=versions) for scene, versions in zip(members, etags, strict=True)
            ),
        )

    def _claims(self, batch: Mapping[str, "Values"], row: int, slot: int) -> dict[str, Any]:
        """Return what the list says of a source's values. Cubes of raw values need none of it."""
        if self.template.values == "raw":
            return {}
        found = {}
        for column in self.template.columns:
            if column.name in SCALING_COLUMNS:
                value = batch[column.name][row]
                value = value[slot] if np.ndim(value) else value
                found[column.name] = column_value(value.item(), column.dtype)
        return found

    def _mask_of(
        self, hrefs: Sequence[str], status: Sequence[int], etags: Sequence[str]
    ) -> tuple[Source | None, str | None]:
        """Return the source of a row's mask, and its version if it was read before."""
        if self.template.mask is None:
            return None, None
        slot = slot_of_mask(self.template.mask, self.template.measurements)
        if not hrefs[slot]:
            return None, None
        source = Source(href=hrefs[slot], band=self.template.slots[slot].name)
        return source, (etags[slot] or None) if status[slot] == Status.OK else None


def request_of_row(receipt: "Receipt", row: int) -> Mapping[str, Any]:
    """Return the request that has added a row."""
    return next((each.request for each in receipt.appends if row in range(*each.rows)), receipt.request)


def may_read(request: Mapping[str, Any], own: Mapping[str, Any]) -> bool:
    """Return whether a request reads rows as the one that added them: the same pixels, by equal tokens."""
    return chooses_same_pixels(request, own) and _sign_of(request) == _sign_of(own)


def _sign_of(request: Mapping[str, Any]) -> Any:
    return request.get("sources", {}).get("sign", "none")
