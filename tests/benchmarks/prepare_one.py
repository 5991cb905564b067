"""What a user of one engine makes once and keeps, made in a process of its own that warms no run."""

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.child import run_module
from benchmarks.engines import ENGINES
from benchmarks.run_one import cpu_s, found


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """What making it took, imports included."""

    took_s: float
    took_cpu_s: float


def prepare_one(
    engine: str, hrefs: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> Preparation | None:
    """Write to a folder what the engine wants to be there, or do nothing where it wants nothing.

    Raises:
        subprocess.CalledProcessError: It failed; what it wrote to standard error went there.
    """
    function = ENGINES[engine].prepare
    if function is None:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    values: dict[str, Any] = {"function": function, "hrefs": list(hrefs), "folder": str(folder)}
    return Preparation(**run_module("prepare_one", given=values, more=environment))


def main() -> None:
    """Do what standard input describes."""
    began_s = time.monotonic()
    values = json.load(sys.stdin)
    found(values["function"])(values["hrefs"], Path(values["folder"]))
    made = Preparation(took_s=time.monotonic() - began_s, took_cpu_s=cpu_s())
    sys.stdout.write(f"\n{json.dumps(asdict(made))}")
    sys.stdout.flush()
    os._exit(0)  # rustac's threads sometimes crash while the interpreter shuts down


if __name__ == "__main__":
    main()
