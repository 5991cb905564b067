"""Join a ranking's rules with what reads files: the same for the command line and for a function."""

from pixel_gather.core.ports import LevelReader, SourceLimiter
from pixel_gather.features.rank.kept_ranges import KeptRanges
from pixel_gather.features.rank.measure import SceneReader
from pixel_gather.features.rank.ranker import Ranker
from pixel_gather.features.rank.ranking_request import RankingRequest
from pixel_gather.features.rank.rounds import KeptStatistics, Rounds
from pixel_gather.features.rank.shapes import AreaShapes
from pixel_gather.io.crs import RasterioProjector
from pixel_gather.tables.pixel_gate import MOST_PIXELS, PixelGate


def make_ranker(
    request: RankingRequest,
    *,
    reader: LevelReader,
    limiter: SourceLimiter,
    ranges: KeptRanges,
    kept: KeptStatistics,
    source_timeout_s: float,
    most_ahead: int,
    most_pixels: int = MOST_PIXELS,
) -> Ranker:
    """Return what ranks scenes.

    The reader reads through ``ranges``. The time-out is that of one scene at one level.
    """

    def learn(first: int, stop: int, nbytes: int) -> None:
        ranges.learn(first_tile=first, stop=stop, nbytes=nbytes)

    shapes = AreaShapes(request.area, RasterioProjector())
    return Ranker(
        rounds=Rounds(request, kept),
        scenes=SceneReader(
            request=request, reader=reader, shapes=shapes, on_level=learn, gate=PixelGate(most_pixels)
        ),
        limiter=limiter,
        forget=ranges.forget,
        source_timeout_s=source_timeout_s,
        most_ahead=most_ahead,
    )
