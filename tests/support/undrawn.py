"""Gathers in this process without a report, whose figures take seconds to draw."""

from functools import partial
from typing import Final

from pixel_gather import gather
from pixel_gather.in_process.settings import Settings

gather_undrawn: Final = partial(gather, settings=Settings(draws_report=False))
