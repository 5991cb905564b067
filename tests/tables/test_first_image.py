"""The image that says which bands a table has."""

import asyncio
from typing import Any

import numpy as np
import pytest

from pixel_gather.core.errors import SourceError
from pixel_gather.core.model.source import Source
from pixel_gather.tables.first_image import KeepsFirst
from support.fakes import FakeReader

TWO_BANDS = np.zeros((2, 8, 8), dtype="uint8")


def test_an_image_is_waited_for_as_long_as_is_said() -> None:
    """The next one is asked for the bands. If there is none, the reason says how long was waited."""

    class Slow(FakeReader):
        async def open_(self, href: str, **options: Any) -> Any:
            if href == "slow":
                await asyncio.sleep(60)
            return await super().open_(href, **options)

    reader: Any = Slow({"slow": TWO_BANDS, "b": TWO_BANDS})
    first = KeepsFirst(reader, timeout_s=0.05)

    found = asyncio.run(first.bands_of_first([Source(href="slow"), Source(href="b")]))

    assert found == ["b1", "b2"]
    with pytest.raises(SourceError, match=r"slow: not opened within 0\.05 s"):
        asyncio.run(first.bands_of_first([Source(href="slow")]))
