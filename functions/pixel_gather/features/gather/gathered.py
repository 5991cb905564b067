"""What a gather in this process returns."""

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from pixel_gather.core.model.plurals import counted
from pixel_gather.core.model.shown import shown
from pixel_gather.core.results.report import Report
from pixel_gather.features.report.notebook import notebook_html
from pixel_gather.in_process.places import open_existing
from pixel_gather.io.store.object_store import Store
from pixel_gather.io.store.store_settings import StoreSettings

if TYPE_CHECKING:
    import xarray as xr

    from pixel_gather.features.view.view import ViewedCube


def what_was_added(gathered: "Gathered") -> tuple[int, str]:
    """Return how many rows or chips an append has added, and the word for one of them."""
    n, n_images = gathered.n_appended or 0, gathered.report.images_per_chip
    return (n, "row") if n_images is None else (n // n_images, "chip")


class Gathered(Struct, frozen=True, kw_only=True):
    """A finished gather."""

    place: str
    """Location of the cube: a local path, or ``s3://bucket/prefix``."""

    report: Report
    was_complete: bool
    """Whether another call completed the cube, before or meanwhile, or an append had nothing to add."""

    n_appended: int | None = None
    """Rows that an append has added, of chips one for each image of each; None for a new cube."""

    n_retried: int = 0
    """Sources of earlier rows that it has tried again, because they could not be read before."""

    n_recovered: int = 0
    """How many of them it has read."""

    page: str | None = None
    """Location of the HTML report; None if it was not or could not be drawn."""

    stores: StoreSettings = msgspec.field(default_factory=StoreSettings)
    """How to access the location."""

    def __repr__(self) -> str:
        said = "was complete" if self.was_complete else "is complete"
        if self.n_appended is not None:
            n, what = what_was_added(self)
            said = f"has {counted(n, f'more {what}')}"
        return shown(f"Gathered: {self.place} {said}", repr(self.report)[1:-1].splitlines(), most=8)

    def open(self) -> "xr.Dataset":
        """Open the cube with xarray; see `pixel_gather.open_cube`. Pixels are read when they are used.

        Raises:
            MissingExtraError: xarray is not installed.
        """
        from pixel_gather.features.open.open_cube import open_cube  # noqa: PLC0415 # zarr, which a gather does not need

        return open_cube(self.place, stores=self.stores)

    def view(self, *, open_browser: bool = True) -> "ViewedCube":
        """Show the cube's pixels in a browser; see `pixel_gather.view`. Returns at once.

        Args:
            open_browser: Open the page in the default browser.
        """
        from pixel_gather.features.view.view import view  # noqa: PLC0415 # a server, which a gather does not need

        return view(self.place, open_browser=open_browser, stores=self.stores)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the first picture, and a table."""

        def open_store() -> Store:
            return open_existing(self.place, self.stores)[0]

        return notebook_html(open_store, self.report, place=self.place, page=self.page)
