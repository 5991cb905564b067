"""The first two axes of a cube of chips. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from pixel_gather.core.model.source import ListColumn


@dataclass(frozen=True, slots=True, kw_only=True)
class ChipAxis:
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

    def folded(self, lengths: Sequence[int]) -> tuple[int, ...]:
        """Return lengths that begin with a number of rows, with two axes in its place."""
        rows, *others = lengths
        return rows // self.n_images, self.n_images, *others
