"""Merges the lines of a zone on several images of one acquisition, as if they were one image.

Of each zone of which an image shows a part, or lacks pixels, the image's pieces tell the cells and their
values. A cell that two images show counts once: the first image with a value there has it, as in a mosaic.
If an image shows the whole zone, its line stands for the pass: that of the tile furthest west, then north,
and those of its other processings. More images may take its place, but never bring back a line that was left
out.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from pixel_gather.core.scenes.duplicates import SAME_TIME_US
from pixel_gather.tables.acquisitions import Groups, group_images
from pixel_gather.tables.features import Floats, Integers
from pixel_gather.tables.part_folder import (
    ImageRecord,
    Lines,
    LineStatus,
    n_piece_values,
    piece_columns,
    piece_dtype,
)
from pixel_gather.tables.read_bands import Mask

type _Place = tuple[int, int, int]
"""Where pieces are: the record, the first piece, and after the last one."""

type Combine = Callable[[Floats, Mask, Floats, Integers], tuple[Floats, list[Floats]]]
"""Takes values, whether they count, their coverage, and the first cell of each zone. Returns the size that
counts, and each column."""

_MOST_TOGETHER: Final = 1_000_000
"""Pieces in memory at one time, unless one zone has more. Each takes some 150 bytes while it is sorted."""

_HAS_NO_REASON: Final = (LineStatus.OK, LineStatus.NODATA, LineStatus.MASKED)


_NO_PIECES: Final = np.zeros(0, piece_dtype(0))


class MergedLines(NamedTuple):
    """Lines of some features, in any order."""

    image: Integers
    """Of each line: the first image that has a part in it; -1 for none."""

    lines: Lines
    n_images: Integers
    others: Integers
    """The images besides the first, a number of `LineMerger.others`; -1 for none."""


@dataclass(slots=True, kw_only=True)
class LineMerger:
    """Merges lines of one table."""

    combine: Combine
    records: Sequence[ImageRecord]
    pieces: Callable[[int], Lines]
    """Returns the pieces of a record that has some, in the order of features."""

    others: list[str] = field(default_factory=list)
    """Their addresses."""

    _groups: Groups = field(init=False)
    _tiles: Integers = field(init=False)
    """The tile of each image: a number in the order of places."""

    _times: Integers = field(init=False)
    _numbers: dict[bytes, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Find the acquisitions."""
        self._groups = group_images(self.records)
        tiles = {place: at for at, place in enumerate(sorted({each.place for each in self.records}))}
        self._tiles = np.array([tiles[each.place] for each in self.records], np.int64)
        self._times = np.array([each.time_us or 0 for each in self.records], np.int64)

    def merge(self, start: int, stop: int, image: Integers, lines: Lines) -> MergedLines:
        """Return the lines of some features.

        They are [start, stop). Each line has the record of its image; -1 for none. Features that have pieces
        need no lines.
        """
        order = np.argsort(lines["feature"], kind="stable")
        image, lines = image[order], lines[order]
        parts = []
        for first, last, places in self._spans(start, stop):
            some = slice(*np.searchsorted(lines["feature"], [first, last]))
            parts.append(self._merge_span(places, image[some], lines[some]))
        return MergedLines(*(np.concatenate(each) for each in zip(*parts, strict=True)))

    def _spans(self, start: int, stop: int) -> Iterator[tuple[int, int, list[_Place]]]:
        """Yield ranges of features with so many pieces, and where these are."""
        places = list(self._pieces_of(start, stop))
        if sum(last - first for _, first, last in places) <= _MOST_TOGETHER or stop - start == 1:
            yield start, stop, places
            return
        middle = (start + stop) // 2
        yield from self._spans(start, middle)
        yield from self._spans(middle, stop)

    def _pieces_of(self, start: int, stop: int) -> Iterator[_Place]:
        """Yield where pieces of some features are."""
        for index, record in enumerate(self.records):
            if record.n_pieces:
                first, last = np.searchsorted(self.pieces(index)["feature"], [start, stop]).tolist()
                if last > first:
                    yield index, first, last

    def _merge_span(self, places: Sequence[_Place], image: Integers, lines: Lines) -> MergedLines:
        n = len(self.records)
        of = np.repeat([each[0] for each in places], [last - first for _, first, last in places]).astype(int)
        pieces = np.concatenate(
            [np.array(self.pieces(index)[first:last]) for index, first, last in places] or [_NO_PIECES]
        )
        # Which lines have no pieces, and may stand for the whole zone?
        pair = pieces["feature"] * n + of
        is_alone = pieces["whole"] < 0
        line_pair = np.where(image >= 0, lines["feature"] * n + image, -1)
        has_pieces = np.isin(line_pair, pair[~is_alone])
        is_merged = (image >= 0) & ~has_pieces & ~np.isin(line_pair, pair[is_alone])
        is_merged &= np.isin(lines["status"], _HAS_NO_REASON)
        line_pass = lines["feature"] * n + self._groups.passes[image]
        best = self._best_of(line_pass, lines["status"] == LineStatus.NODATA, image, among=is_merged)
        is_whole = lines["status"][best] != LineStatus.NODATA
        # Pieces of other zones make a line; a line without data is needed only where nothing else is.
        piece_pass = pieces["feature"] * n + self._groups.passes[of]
        wanted = ~is_alone & ~np.isin(piece_pass, line_pass[best][is_whole])
        stays = ~has_pieces & ~is_merged
        stays[best[is_whole | ~np.isin(line_pass[best], piece_pass[wanted])]] = True
        there = MergedLines(
            image[stays], lines[stays], (image[stays] >= 0).astype(np.int64), np.full(int(stays.sum()), -1)
        )
        if not wanted.any():
            return there
        key = pieces["feature"] * n + self._groups.acquisitions[of]
        made = self._combine_cells(pieces[wanted], key[wanted], of[wanted], lines.dtype)
        return MergedLines(*(np.concatenate(pair) for pair in zip(there, made, strict=True)))

    def _best_of(self, key: Integers, is_last: Mask, image: Integers, *, among: Mask) -> Integers:
        """Return which lines stand for each key: of its first tile, the first scene in all its processings.

        Args:
            key: Of each line.
            is_last: Lines that stand for a key only if it has no others.
            image: Of each line.
            among: The lines to choose from.
        """
        which = np.flatnonzero(among)
        tiles, times = self._tiles[image], self._times[image]
        order = which[np.lexsort((times[which], tiles[which], is_last[which], key[which]))]
        is_first = np.append(True, np.diff(key[order]) != 0)[: len(order)]
        first = order[is_first][np.cumsum(is_first) - 1]
        is_best = (is_last[order] == is_last[first]) & (tiles[order] == tiles[first])
        best: Integers = order[is_best & (times[order] - times[first] < SAME_TIME_US)]
        return best

    def _combine_cells(
        self, pieces: Lines, key: Integers, of: Integers, dtype: np.dtype[np.void]
    ) -> MergedLines:
        """Return a line for each key. Of a cell that is there twice, the first one with a value counts."""
        keys, at = np.unique(key, return_inverse=True)
        lines = np.zeros(len(keys), dtype)
        lines["feature"], lines["reason"] = keys // len(self.records), -1
        whole = np.zeros(len(keys))
        np.maximum.at(whole, at, pieces["whole"])
        valid = np.full(len(keys), np.inf)
        has_data, has_value = np.zeros(len(keys), np.bool_), np.zeros(len(keys), np.bool_)
        used: list[Integers] = []
        n_values = n_piece_values(piece_columns(pieces))
        for number in range(n_values):
            values = pieces[f"v{number}"]
            is_known = np.isfinite(values)
            order = np.lexsort((self._groups.ranks[of], ~is_known, pieces["col"], pieces["row"], at))
            cells = np.stack([at, pieces["row"], pieces["col"]])[:, order]
            chosen = order[np.append(True, (cells[:, 1:] != cells[:, :-1]).any(axis=0))]
            starts = np.searchsorted(at[chosen], np.arange(len(keys)))
            known, coverage = is_known[chosen], pieces["coverage"][chosen].astype(np.float64)
            total, columns = self.combine(values[chosen], known & pieces["is_kept"][chosen], coverage, starts)
            whole = np.maximum(whole, np.add.reduceat(coverage, starts))
            valid = np.minimum(valid, total / whole)
            has_value |= total > 0
            has_data |= np.logical_or.reduceat(known, starts)
            used.append(at[chosen][known] * len(self.records) + self._groups.ranks[of[chosen]][known])
            for index, column in enumerate(columns, number * len(columns)):
                lines[f"v{index}"] = column
        status = np.where(has_data, LineStatus.MASKED, LineStatus.NODATA)
        lines["status"] = np.where(has_value, LineStatus.OK, status)
        lines["valid"] = np.minimum(valid, 1.0)
        return MergedLines(*self._images_of(np.unique(np.concatenate(used)), lines))

    def _images_of(self, used: Integers, lines: Lines) -> tuple[Integers, Lines, Integers, Integers]:
        """Return the first image of each line, the lines, how many images they are of, and the others.

        Args:
            used: The line times the number of records, and the rank of an image in it. Each line has one.
            lines: The lines.
        """
        images = np.argsort(self._groups.ranks)[used % len(self.records)]
        starts = np.searchsorted(used // len(self.records), np.arange(len(lines) + 1))
        n_images, others = np.diff(starts), np.full(len(lines), -1)
        for line in np.flatnonzero(n_images > 1).tolist():
            some = images[starts[line] + 1 : starts[line + 1]]
            number = self._numbers.setdefault(some.tobytes(), len(self.others))
            if number == len(self.others):
                self.others.append(" ".join(self.records[each].hrefs[0] for each in some.tolist()))
            others[line] = number
        return images[starts[:-1]], lines, n_images, others
