"""The rows of a cube of chips: how they become two axes, and a task's part of their list. Pure."""

from collections.abc import Iterator, Sequence
from copy import replace

from msgspec import Struct

from pixel_gather.core.model.chip import Chip
from pixel_gather.core.model.source import CubeRow, ListColumn


class ChipAxis(Struct, frozen=True, kw_only=True):
    """How rows become chips and images.

    All steps count rows: each image of the first chip, then each of the second. Only the arrays have an axis
    of chips and one of images. Their bytes are those of an array of rows, as each chunk holds whole chips.
    """

    n_images: int
    """Rows of each chip: the length of the second axis."""

    id_dtype: str
    """``int64`` or ``string``."""

    columns: tuple[ListColumn, ...]
    """Columns of the table of chips, which become coordinates of the first axis."""

    def grown_by(self, other: "ChipAxis") -> "ChipAxis":
        """Return the axis with the chips of another table, too. Their columns have the same names."""
        there = {each.name: each for each in other.columns}
        return replace(self, columns=tuple(each.grown_by(there[each.name]) for each in self.columns))

    def folded(self, lengths: Sequence[int]) -> tuple[int, ...]:
        """Return lengths that begin with a number of rows, with two axes in its place."""
        rows, *others = lengths
        return rows // self.n_images, self.n_images, *others


class ChipRows(Struct, frozen=True, kw_only=True):
    """Some chips and all images: a task's part of the list. Each image is stored once, not once a chip."""

    chips: tuple[Chip, ...]
    images: tuple[CubeRow, ...]

    def rows(self) -> list[CubeRow]:
        """Return the rows: all images of the first chip, then those of the second."""
        return [row for chip in self.chips for row in rows_of_chip(chip, self.images)]


def rows_of_chip(chip: Chip, images: Sequence[CubeRow]) -> Iterator[CubeRow]:
    """Yield a row of a chip for each image."""
    for image in images:
        # not by `replace`, which takes three times as long
        yield CubeRow(
            time_us=image.time_us,
            sources=image.sources,
            chip=chip,
            is_asked=image.is_asked,
            mask=image.mask,
            mask_etag=image.mask_etag,
        )
