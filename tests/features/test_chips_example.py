"""The example of docs/chips.md: what its page says of the trained model holds."""

import re
from pathlib import Path

import numpy as np

from support.chips_figure import train_example

PAGE = Path(__file__).parents[2] / "docs/chips.md"


def test_the_example_trains_a_model_that_holds_at_other_places(tmp_path: Path) -> None:
    """Its accuracy is the one on the page, well above the commoner label, and no place is in both parts."""
    trained = train_example(tmp_path)
    first, last = trained["curve"][0], trained["curve"][-1]
    is_cloud = trained["held_out"][1]
    commoner = max(is_cloud.mean(), 1 - is_cloud.mean())
    said = re.search(
        r"right for (\d+) % of the (\d+) held-out chips.*?commoner label would be right for (\d+) %",
        " ".join(PAGE.read_text(encoding="utf-8").split()),
    )

    assert said is not None
    assert [int(each) for each in said.groups()] == [
        round(last[1] * 100),
        len(is_cloud),
        round(commoner * 100),
    ]
    assert last[1] > commoner + 0.2
    assert last[0] > first[0]
    known, others = (trained["parts"][name].columns for name in ("train", "test"))
    km = np.hypot(
        (known["lon"][:, None] - others["lon"]) * np.cos(np.radians(others["lat"])),
        known["lat"][:, None] - others["lat"],
    )
    assert km.min() * 111.2 > trained["APART_KM"]
