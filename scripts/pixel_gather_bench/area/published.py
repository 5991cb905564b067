"""Figures of the area service published in 2017 (student project, Copenhagen; Go on Google App Engine)."""

from typing import Final

BOX: Final = (12.584670, 55.660797, 12.5896, 55.663369)
"""West, south, east, north of the published profile."""

N_FOLDERS: Final = 120
N_IMAGES: Final = 13
"""Images in one folder. 120 folders have 1,560 links; the published answer had 1,563."""

LISTING_S: Final = 0.45

CLIENTS: Final = {
    1: "1 m 20.55 s (fastest 1 m 0 s), 383.85 KB, 0.01 requests/s, 4.77 KB/s",
    10: "10 requests in 1 m 7.21 s, 3.75 MB, 0.15 requests/s, 57.11 KB/s, slowest 1 m 9.66 s, 0 errors",
    32: "32 requests in 1 m 19.40 s, 12.00 MB, 0.40 requests/s, 154.70 KB/s, slowest 1 m 19.80 s, 0 errors",
}
MORE_CLIENTS: Final = "panics, no result"

POINT: Final = "3.50 s, 599,168 B, 2,822 allocations"
AREA: Final = "58.64 s, 26,090,912 B, 100,953 allocations; under the profiler 51.63 s, 25,672,448 B, 100,619"
HEAP: Final = "the link's concatenation 512.12 kB of 1.08 MB (46 %); with strings reused 70 s became 50 s"
SEQUENTIAL: Final = "around 60 s for 1,500 links"
POOL: Final = "less than 3 s"
