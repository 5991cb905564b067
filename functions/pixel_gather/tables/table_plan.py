"""What a table would take, from the headers of some of its images. Reads no pixel."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from msgspec import Struct

from pixel_gather.core.errors import SourceError
from pixel_gather.core.estimate.assumptions import DECODING
from pixel_gather.core.model.source import Cost
from pixel_gather.tables.image_work import ImageWork, WantedImage
from pixel_gather.tables.open_scene import ImagePlan
from pixel_gather.tables.read_forecast import ReadForecast

_SAMPLES: Final = 8
"""Images that a plan opens."""

_CPU_PER_IMAGE_S: Final = 5e-3
"""Python and NumPy around an image."""

_CPU_PER_LINE_S: Final = 2e-6
"""From pixel to Parquet. Measured on x86 for points: docs/points-and-zones.md."""

_UNOPENED: Final = ImagePlan(n_lines=0, n_tiles=0, n_requests=1, nbytes=0, decoded_nbytes=0)
"""What stands for images of which none can be opened."""


class TablePlan(Struct, frozen=True, kw_only=True):
    """What a table would take, from the headers of some of its images."""

    n_features: int
    n_images: int
    """Images that would be opened."""

    n_far: int
    """Images that would not be opened: they are near no feature in time."""

    n_sampled: int
    n_lines: int
    n_tiles: int
    forecast: ReadForecast

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        return {
            "features": self.n_features,
            "images": self.n_images,
            "not_opened": self.n_far,
            "sampled": self.n_sampled,
            "lines": self.n_lines,
            "tiles": self.n_tiles,
            **self.forecast.to_json(),
        }


async def plan_images(
    work: ImageWork,
    wanted: Callable[[], Iterator[WantedImage]],
    *,
    n_features: int,
    in_flight: int,
    may_all_fail: bool,
) -> TablePlan:
    """Return what a table would take.

    Args:
        work: What opens the images.
        wanted: Returns all images of the list, each with the features that are near it.
        n_features: Of the table.
        in_flight: Requests at one time.
        may_all_fail: Whether the plan goes on if all sampled images fail to open. An append may have few
            images. The append counts their tries, and later ones read them again.

    Raises:
        SourceError: None of the sampled images can be opened.
    """
    is_near = [members is None or len(members) > 0 for _, _, members in wanted()]
    near = [number for number, each in enumerate(is_near) if each]
    chosen = set(near[:: max(1, len(near) // _SAMPLES)][:_SAMPLES])
    plans: list[ImagePlan] = []
    failed: SourceError | None = None
    for number, row, members in wanted():
        if number not in chosen:
            continue
        try:
            plans.append(await work.plan(row, members, cost=Cost()))
        except SourceError as error:
            failed = failed or error
    if not plans and failed is not None and not may_all_fail:
        raise failed
    likely = plans or [_UNOPENED]
    n = len(near)
    lines, tiles, requests, nbytes, decoded = (
        sum(getattr(each, name) for each in likely) / len(likely)
        for name in ("n_lines", "n_tiles", "n_requests", "nbytes", "decoded_nbytes")
    )
    cpu_s = _CPU_PER_IMAGE_S + lines * _CPU_PER_LINE_S + decoded / DECODING.value
    return TablePlan(
        n_features=n_features,
        n_images=n,
        n_far=len(is_near) - n,
        n_sampled=len(plans),
        n_lines=round(n * lines),
        n_tiles=round(n * tiles),
        forecast=ReadForecast.of_each(n, requests, nbytes, cpu_s, in_flight=in_flight),
    )
