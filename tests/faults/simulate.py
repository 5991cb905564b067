"""Runs a range of seeds of the simulation and tells which of them broke the promise."""

import gc
import sys
import time
from typing import Final

from faults.simulation import simulate

_TOLD_EVERY: Final = 500
_COLLECTED_EVERY: Final = 20


def main(first: int, stop: int) -> int:
    """Run seeds [first, stop). Return how many broke the promise."""
    simulate(first)  # makes what is the same in all runs
    gc.collect()
    gc.freeze()  # garbage is looked for in what the runs leave, and not in all modules each time
    gc.disable()
    n_broken = 0
    for n_done, seed in enumerate(range(first, stop), 1):
        try:
            simulate(seed)
        except Exception as error:  # noqa: BLE001 # whatever it is, the seed is told
            n_broken += 1
            sys.stderr.write(f"seed {seed}: {error!r}\n")
        if n_done % _COLLECTED_EVERY == 0:
            gc.collect()
        if n_done % _TOLD_EVERY == 0 or seed == stop - 1:
            sys.stderr.write(f"{n_done} runs in {time.process_time():.0f} s of CPU, {n_broken} broken\n")
    return n_broken


if __name__ == "__main__":
    sys.exit(min(main(int(sys.argv[1]), int(sys.argv[2])), 1))
