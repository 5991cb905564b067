"""What each level of a scene takes, before any pixel is read: the plan of a ranking. Pure."""

from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from pixel_gather.core.estimate.assumptions import DECODING
from pixel_gather.core.model.plurals import counted, size
from pixel_gather.core.model.source import Cost
from pixel_gather.core.text_table import in_columns
from pixel_gather.features.rank.forecast import RoundForecast
from pixel_gather.features.rank.usable_levels import LevelCost

_GETS_PER_FILE: Final = 2
"""One for the header, one for the tiles. If the coarsest overview follows the header, one is enough."""

_TITLES: Final = (
    "level",
    "factor",
    "pixels",
    "bytes",
    "of full",
    "in all",
    "requests",
    "seconds",
    "dollars",
    "read",
)


class RankingPlan(Struct, frozen=True, kw_only=True):
    """What a ranking would take if it read every scene at one level. From the headers of one scene."""

    n_scenes: int
    n_files: int
    """Files of one scene."""

    like: str
    """Id of the scene whose headers were read. The others are taken to be like it."""

    levels: tuple[LevelCost, ...]
    """Coarsest first."""

    in_flight: int
    """Requests at one time."""

    def forecast(self, level: LevelCost) -> RoundForecast:
        """Return what all scenes take at one level."""
        like = Cost(
            requests=_GETS_PER_FILE * self.n_files,
            nbytes=level.nbytes,
            decode_s=level.decoded_nbytes / DECODING.value,
        )
        return RoundForecast.of(like, n_scenes=self.n_scenes, in_flight=self.in_flight, reads_on=False)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        full = self.levels[-1].nbytes
        return {
            "scenes": self.n_scenes,
            "files": self.n_scenes * self.n_files,
            "like": self.like,
            "levels": [
                {
                    "level": each.name,
                    "factor": each.factor,
                    "pixels": each.n_pixels,
                    "bytes": each.nbytes,
                    "share_of_full": each.nbytes / full if full else None,
                    "read": each.why_not is None,
                    "why_not": each.why_not,
                    "all_scenes": self.forecast(each).to_json(),
                }
                for each in self.levels
            ],
        }


def plan_text(plan: dict[str, Any]) -> str:
    """Return a plan of `RankingPlan.to_json` as a table."""
    lines: list[Sequence[str]] = [_TITLES]
    for each in plan["levels"]:
        total = each["all_scenes"]
        share = each["share_of_full"]
        lines.append(
            (
                each["level"],
                f"{each['factor']:.4g}",
                f"{each['pixels']:,}",
                f"{each['bytes']:,}",
                "" if share is None else f"{100 * share:.1f} %",
                size(total["bytes"]),
                f"{total['requests']:,}",
                f"{total['seconds']:,.2f}",
                f"{total['usd']:.6f}",
                "yes" if each["read"] else f"no: {each['why_not']}",
            )
        )
    about = f"{counted(plan['scenes'], 'scene')} like {plan['like']}, {counted(plan['files'], 'file')}"
    return f"{about}. Pixels and bytes are those of one scene.\n\n" + "\n".join(in_columns(lines)) + "\n"
