"""``python -m pixel_gather_bench.blocks.child``: one process of one measurement.

Reads its job from standard input, says ``ready`` once everything is imported and the pixels are in memory,
waits for another line, works, and answers with one line of JSON.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import asdict

from pixel_gather.errors import GatherError
from pixel_gather.read.read_shard import Pixels
from pixel_gather_bench.blocks.job import BlockJob, ReadAnswer, WriteAnswer
from pixel_gather_bench.blocks.write import load, write


def main() -> None:
    """Do one job."""
    job = BlockJob.from_line(sys.stdin.readline())
    pixels = load(job)
    work: Callable[[BlockJob, Pixels], WriteAnswer | ReadAnswer] = write
    if job.phase == "read":
        from pixel_gather_bench.blocks.read import read  # noqa: PLC0415 # who writes needs no zarr

        work = read
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    if not sys.stdin.readline():
        return  # who started us is gone
    try:
        answer = asdict(work(job, pixels))
    except (GatherError, ValueError) as error:
        answer = {"refused": str(error)}
    sys.stdout.write(f"{json.dumps(answer)}\n")


if __name__ == "__main__":
    main()
