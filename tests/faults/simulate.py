"""Runs a range of seeds of a simulation and tells which of them broke the promise.

The simulation is that of gathers, or with a third argument that of tables or of rankings.
"""

import argparse
import gc
import os
import sys
from collections.abc import Callable, Iterable
from itertools import batched
from typing import Any, Final

from faults import ranking_simulation, simulation, table_simulation

_SEEDS_OF_A_PROCESS: Final = 50
_TOLD_EVERY: Final = 500


def main(first: int, stop: int, simulate: Callable[[int], Any]) -> int:
    """Run seeds [first, stop). Return how many broke the promise.

    The runs leave garbage with the processes that made it. To look for it would take a tenth of the time.
    This process only forks: a run may start threads of libraries, which no fork would have.
    """
    gc.collect()
    gc.freeze()
    gc.disable()
    n_broken = n_done = 0
    for seeds in batched(range(first, stop), _SEEDS_OF_A_PROCESS, strict=False):
        n_broken += _n_broken_of_child(seeds, simulate)
        n_done += len(seeds)
        if n_done % _TOLD_EVERY == 0 or seeds[-1] == stop - 1:
            spent = os.times()
            cpu_s = spent.user + spent.system + spent.children_user + spent.children_system
            sys.stderr.write(f"{n_done} runs in {cpu_s:.0f} s of CPU, {n_broken} broken\n")
    return n_broken


def _n_broken_of_child(seeds: Iterable[int], simulate: Callable[[int], Any]) -> int:
    """Run some seeds in a process of their own. A process that dies breaks the promise, too."""
    pid = os.fork()
    if pid:
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if status < 0:
            sys.stderr.write(f"seeds {seeds}: died of signal {-status}\n")
        return abs(status)
    n_broken = 0
    for seed in seeds:
        try:
            simulate(seed)
        except Exception as error:  # noqa: BLE001 # whatever it is, the seed is told
            n_broken += 1
            sys.stderr.write(f"seed {seed}: {error!r}\n")
    sys.stderr.flush()
    os._exit(n_broken)


if __name__ == "__main__":
    of = {"gathers": simulation, "tables": table_simulation, "rankings": ranking_simulation}
    parser = argparse.ArgumentParser(prog="scripts/simulate", description=__doc__)
    parser.add_argument("first", type=int, help="the first seed")
    parser.add_argument("stop", type=int, help="the seed after the last one")
    parser.add_argument("what", nargs="?", choices=of, default="gathers")
    given = parser.parse_args()
    sys.exit(min(main(given.first, given.stop, of[given.what].simulate), 1))
