"""How long a cold process takes on one core: to import, to the first tile, to a first shard of 64 tiles.

``PYTHONPATH=tests uv run python -m benchmarks.bench_startup``; README.md beside this file says what came out.
"""

import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.loopback_server import Behaviour, LoopbackServer, run_server
from benchmarks.output import parser_of, put
from benchmarks.workload import default_folder, make_workload
from infra.bundle.bundle import bundle, runtime
from pixel_gather_bench.interleaving import turned
from support.lambda_functions import ENVIRONMENT

_CHILD: Final = Path(__file__).with_name("startup_child.py")
_REPOSITORY: Final = Path(__file__).resolve().parents[2]
_BARE_PYTHON: Final = str(Path(sys.executable).resolve())
"""Has none of our packages: what a process imports then comes from the folders that it is given."""

_N_TILES: Final = 64
_ENTRIES: Final = {
    "gather_shard": "shard",
    "finish_gather": "finish",
    "plan_gather": "plan",
    "submit": "submit",
    "status": "status",
}
_COMMANDS: Final = (("--help",), ("plan", "--help"), ("run", "--help"), ("--version",))
_ENGINES: Final = {
    "our reader, no worker": ("benchmarks.our_reader:read_tiles", 64),
    "rasterio, modern": ("benchmarks.peers.rasterio_threads:read_modern", 16),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A worker to be measured: its code, and what plans for it."""

    name: str
    folder: str
    """The package as Lambda has it, or folders of modules with colons between them."""

    functions: str
    """Folder of the same version's ``pixel_gather``, in this environment, for the plan."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Every answer by case, in the order of rounds."""

    answers: dict[tuple[str, str], list[dict[str, float]]] = field(default_factory=lambda: defaultdict(list))

    def add(self, table: str, case: str, answer: Mapping[str, float]) -> None:
        """Keep one."""
        self.answers[table, case].append(dict(answer))
        sys.stderr.write(f"{table}: {case}: {_text(answer)}\n")

    def lines(self) -> Iterator[str]:
        """Yield tables of medians in Markdown."""
        table = ""
        for (name, case), answers in self.answers.items():
            keys = list(answers[0])
            if name != table:
                table = name
                yield f"\n### {name}\n"
                yield f"| case | {' | '.join(map(_heading, keys))} |"
                yield f"| --- |{' --- |' * len(keys)}"
            cells = (_spread(key, [answer[key] for answer in answers]) for key in keys)
            yield f"| {case} | {' | '.join(cells)} |"


def measure_imports(packages: Sequence[Package], *, repeats: int, figures: Figures) -> None:
    """Import what each function starts with, from its package, with its modules compiled and not."""
    with tempfile.TemporaryDirectory() as scratch:
        cases = dict(_import_cases(packages, Path(scratch)))
        for round_index in range(-1, repeats):
            for case, (python, folders, modules) in turned(cases.items(), round_index):
                answer = _run("import", folders, {"modules": modules}, python=python)
                if round_index >= 0:
                    figures.add("import", case, answer)


def _import_cases(
    packages: Sequence[Package], scratch: Path
) -> Iterator[tuple[str, tuple[list[str], str, list[str]]]]:
    """Yield name, interpreter, folders and modules."""
    bare, ours = [_BARE_PYTHON, "-I", "-S", "-B"], [sys.executable]
    for package in packages:
        yield f"gather_shard, {package.name}", (bare, package.folder, ["handlers.gather_shard"])
    first = packages[0].folder
    if ":" not in first:
        plain = scratch / "plain"
        shutil.copytree(first, plain, ignore=shutil.ignore_patterns("__pycache__"), copy_function=os.link)
        yield "gather_shard, without .pyc", (bare, str(plain), ["handlers.gather_shard"])
    yield "gather_shard, source tree", (ours, str(_REPOSITORY / "functions"), ["handlers.gather_shard"])
    for module, name in _ENTRIES.items():
        if name != "shard":
            yield (
                module,
                (bare, f"{_bundle(name)}:{runtime(platform.machine())}", [f"handlers.{module}"]),
            )
    for library in ("numpy", "obstore", "imagecodecs", "boto3", "rasterio", "zarr", "xarray"):
        yield f"{library} alone", (ours, "", [library])


def measure_commands(*, repeats: int, figures: Figures) -> None:
    """Run the command line as a user does, from start to end."""
    program = str(Path(sys.executable).with_name("pixel-gather"))
    words: dict[str, list[str]] = {
        "python -c pass": [sys.executable, "-c", "pass"],
        **{f"pixel-gather {' '.join(given)}": [program, *given] for given in _COMMANDS},
    }
    for round_index in range(-1, repeats):
        for case, command in turned(words.items(), round_index):
            started_s = time.monotonic()
            subprocess.run(command, stdout=subprocess.DEVNULL, check=True)  # noqa: S603 # our own words
            if round_index >= 0:
                figures.add("command", case, {"wall_s": time.monotonic() - started_s})


def measure_first_tile(
    packages: Sequence[Package], *, ttfb_ms: float, repeats: int, figures: Figures
) -> None:
    """Fill a first shard from a server in another core's process, by each worker and by the peers."""
    with _servers(packages) as servers:
        plans = [_planned(package, *server) for package, server in zip(packages, servers, strict=True)]
        for _, server in servers:
            server.behave(Behaviour(ttfb_s=ttfb_ms / 1000))
        url, names = servers[0][1].url, list(make_workload(default_folder(), n_files=_N_TILES))
        for round_index in range(-1, repeats):
            answers = {
                f"worker, {package.name}": _run(
                    "worker",
                    package.folder,
                    plan,
                    python=[_BARE_PYTHON, "-I", "-S", "-B"],
                    endpoint=server.url,
                )
                for package, plan, (_, server) in turned(
                    zip(packages, plans, servers, strict=True), round_index
                )
            }
            for engine, (function, concurrency) in _ENGINES.items():
                for n_tiles in (1, _N_TILES):
                    given = {
                        "engine": function,
                        "concurrency": min(concurrency, n_tiles),
                        "hrefs": [f"{url}/0/{name}" for name in names[:n_tiles]],
                    }
                    folders = f"{_REPOSITORY / 'functions'}:{_REPOSITORY / 'tests'}"
                    answer = _run("tiles", folders, given, python=[sys.executable])
                    answers[f"{engine}, {n_tiles} tiles"] = answer
            if round_index >= 0:
                for case, answer in answers.items():
                    figures.add("worker" if case.startswith("worker") else "peer", case, answer)


@contextmanager
def _servers(packages: Sequence[Package]) -> Iterator[list[tuple[Path, LoopbackServer]]]:
    """Serve the benchmark's files, and each package's control files beside them, from the other cores."""
    cores = os.sched_getaffinity(0)
    make_workload(default_folder(), n_files=_N_TILES)
    files = [path for path in default_folder().iterdir() if path.suffix == ".tif"]
    from contextlib import ExitStack  # noqa: PLC0415 # here only

    with ExitStack() as stack:
        opened: list[tuple[Path, LoopbackServer]] = []
        os.sched_setaffinity(0, sorted(cores)[1:] or cores)
        for _ in packages:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            for path in files:
                (folder / path.name).symlink_to(path)
            opened.append((folder, stack.enter_context(run_server(folder))))
        os.sched_setaffinity(0, sorted(cores)[:1])
        try:
            yield opened
        finally:
            os.sched_setaffinity(0, cores)


def _planned(package: Package, folder: Path, server: LoopbackServer) -> dict[str, Any]:
    names = list(make_workload(default_folder(), n_files=_N_TILES))
    with tempfile.TemporaryDirectory() as scratch:
        given = {
            "hrefs": [f"s3://sources/{name}" for name in names],
            "endpoint": server.url,
            "scratch": scratch,
            "served": str(folder),
        }
        return _run("plan", package.functions, given, python=[sys.executable], endpoint=server.url)


def _run(
    mode: str,
    folders: str,
    given: Mapping[str, Any],
    *,
    python: Sequence[str],
    endpoint: str | None = None,
) -> dict[str, Any]:
    """Run `startup_child` in a fresh process and return what it tells."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment |= dict(ENVIRONMENT) | ({"AWS_ENDPOINT_URL": endpoint} if endpoint else {})
    words = [*python, str(_CHILD), mode, str(time.monotonic()), folders, json.dumps(given)]
    done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, check=True)  # noqa: S603 # our own
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def _bundle(name: str) -> str:
    return str(bundle(name, machine=platform.machine(), is_emulated=False))


def _heading(key: str) -> str:
    name, _, unit = key.rpartition("_")
    return f"{name.replace('_', ' ')}, ms" if unit == "s" else key.replace("_", " ")


def _spread(key: str, values: Sequence[float]) -> str:
    factor = 1000 if key.endswith("_s") else 1
    low, middle, high = (factor * each for each in (min(values), statistics.median(values), max(values)))
    return f"{middle:.0f} [{low:.0f}..{high:.0f}]"


def _text(answer: Mapping[str, float]) -> str:
    return ", ".join(f"{_heading(key)} {_spread(key, [value])}" for key, value in answer.items())


def main() -> None:
    """Measure, print tables as Markdown to standard output and progress to standard error."""
    parser = parser_of(main, repeats=7)
    add = parser.add_argument
    add("--ttfb", type=float, default=15, metavar="MS", help="delay to the first byte")
    add(
        "--tables",
        nargs="+",
        choices=["import", "command", "worker"],
        default=["import", "command", "worker"],
    )
    add(
        "--against",
        nargs=3,
        action="append",
        default=[],
        metavar=("NAME", "PACKAGE", "FUNCTIONS"),
        help="another version: its package, and its functions folder",
    )
    add("--only", action="store_true", help="measure those of --against and not this version")
    options = parser.parse_args()
    packages = [
        Package(name=name, folder=folder, functions=functions) for name, folder, functions in options.against
    ]
    if not options.only:
        functions = str(_REPOSITORY / "functions")
        packages.insert(0, Package(name="now", folder=_bundle("shard"), functions=functions))
    figures = Figures()
    cores = os.sched_getaffinity(0)
    if "worker" in options.tables:
        measure_first_tile(packages, ttfb_ms=options.ttfb, repeats=options.repeats, figures=figures)
    os.sched_setaffinity(0, sorted(cores)[:1])
    if "import" in options.tables:
        measure_imports(packages, repeats=options.repeats, figures=figures)
    if "command" in options.tables:
        measure_commands(repeats=options.repeats, figures=figures)
    records = [{"table": t, "case": c, "rounds": r} for (t, c), r in figures.answers.items()]
    put(figures.lines(), records, options.json)


if __name__ == "__main__":
    main()
