"""Runs a command, and has all its processes stand still now and then, as on a machine that is not quiet.

``uv run python tests/support/stalls.py --for 2.5 --every 10 scripts/test``; no test may fail for that. Linux.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path


def _descendants(root: int) -> set[int]:
    """Return the processes that a process has started, and those that they have, unless they stand still."""
    children, standing = defaultdict[int, list[int]](list), set[int]()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            process, state = int(stat.parent.name), stat.read_text().rpartition(")")[2].split()
            children[int(state[1])].append(process)
            if state[0] == "T":
                standing.add(process)
    found, left = set[int](), [root]
    while left:
        left += (new := children[left.pop()])
        found.update(new)
    return found - standing


def _stop(seconds: float) -> None:
    """Stop all processes, those included that are started meanwhile, and let them go on."""
    stopped: set[int] = set()
    try:
        while new := _descendants(os.getpid()) - stopped:
            stopped |= new
            for each in new:
                with suppress(ProcessLookupError):
                    os.kill(each, signal.SIGSTOP)
        time.sleep(seconds)
    finally:
        for each in stopped:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGCONT)


def main() -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--for", dest="stop_s", type=float, default=2.5, help="mean length of a stop, in seconds"
    )
    parser.add_argument("--every", dest="run_s", type=float, default=10.0, help="mean time between two stops")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if not options.command or not Path("/proc/self/stat").exists():
        parser.error("name a command, on Linux")
    chance = random.Random(options.seed)  # noqa: S311 # a fixed sequence is wanted
    started, n = subprocess.Popen(options.command), 0  # noqa: S603 # the user's own words
    while True:
        try:
            status = started.wait(options.run_s * chance.uniform(0.2, 1.8))
        except subprocess.TimeoutExpired:
            _stop(options.stop_s * chance.uniform(0.6, 1.4))
            n += 1
        else:
            sys.stderr.write(f"all processes stood still {n} times\n")
            return status


if __name__ == "__main__":
    sys.exit(main())
