"""Measures joining: requests, bytes, seconds and dollars for 1 to 10,000 cubes.

``PYTHONPATH=tests uv run python -m benchmarks.bench_join`` makes one cube of 20 shards, puts it under many
prefixes of an S3 server on loopback, and joins them. The server is moto, in a process of its own. It counts
every request by what it was for. ``--figure FOLDER`` draws ``join.png`` and ``join-dark.png``.
"""

import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import numpy as np

from benchmarks.output import parser_of, put
from pixel_gather import StoreSettings, join, open_joined, presence
from pixel_gather.core.estimate.pricing import USD_PER_GET, USD_PER_PUT
from pixel_gather.core.process_usage import peak_rss_mib
from pixel_gather_bench.experiment import markdown
from support.joined_cubes import gather_member

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pixel_gather.io.pictures.theme import Theme

SIZES: Final = (1, 100, 1_000, 10_000)
N_ROWS: Final = 80
_BUCKET: Final = "arrays"
_REGION: Final = "us-east-1"
_SLICE_ROW: Final = 3


@dataclass(frozen=True, kw_only=True)
class Step:
    """What one call took."""

    seconds: float
    cpu_s: float
    """CPU of this process. The server is another one."""

    gets: int
    puts: int
    """Other requests than GET and HEAD, which S3 bills as PUTs."""

    nbytes: int
    """Bytes that were sent and received in bodies."""

    shard_requests: int
    """Requests for objects with pixels."""

    @property
    def usd(self) -> float:
        """Price of the requests."""
        return self.gets * USD_PER_GET + self.puts * USD_PER_PUT


@dataclass(frozen=True, kw_only=True)
class Joining:
    """Joining some cubes, and what follows."""

    n_cubes: int
    n_shards: int
    n_rows: int
    peak_mib: float
    steps: dict[str, Step]


def measure(sizes: Sequence[int], *, most_copied: int) -> Iterator[Joining]:
    """Join, open, read and add; see the table.

    Args:
        sizes: Numbers of cubes.
        most_copied: Copy the shards of no more cubes than this.
    """
    os.environ |= {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y", "AWS_REGION": _REGION}
    with _server() as (endpoint, tell):
        stores = StoreSettings(endpoint=endpoint)
        with tempfile.TemporaryDirectory() as folder:
            gather_member(Path(folder, "c.zarr"), n_rows=N_ROWS, folder=Path(folder))
            tell(("cubes", (folder, max(sizes) + 1)))
        warm = join([f"s3://{_BUCKET}/tiles/000000.zarr"], to=f"s3://{_BUCKET}/warm", stores=stores)
        open_joined(warm.place, stores=stores)  # imports
        for n in sizes:
            yield _measure(n, stores=stores, tell=tell, copies=n <= most_copied)


def _measure(n: int, *, stores: StoreSettings, tell: Any, copies: bool) -> Joining:
    places = [f"s3://{_BUCKET}/tiles/{k:06d}.zarr" for k in range(n)]
    to = f"s3://{_BUCKET}/joined{n}.icechunk"
    steps: dict[str, Step] = {}

    @contextmanager
    def step(name: str) -> Iterator[None]:
        tell(("forget", None))
        began, cpu = time.perf_counter(), time.process_time()
        yield
        seconds, cpu_s = time.perf_counter() - began, time.process_time() - cpu
        steps[name] = Step(seconds=seconds, cpu_s=cpu_s, **tell(("counted", None)))

    with step("join"):
        joined = join(places, to=to, stores=stores)
    with step("open"):
        whole = open_joined(to, stores=stores)
    with step("read a row"):
        read = whole.band_1[n * N_ROWS // 2 + _SLICE_ROW].values
    assert np.isfinite(read).any()  # a benchmark that reads nothing measures nothing
    with step("presence by day"):
        presence(to, "day", stores=stores)
    with step("add one"):
        join([f"s3://{_BUCKET}/tiles/{n:06d}.zarr"], to=to, mode="add", stores=stores)
    if copies:
        with step("copy"):
            join(places, to=f"s3://{_BUCKET}/copied{n}.zarr", mode="copy", stores=stores)
    return Joining(
        n_cubes=n, n_shards=joined.n_shards, n_rows=joined.n_rows, peak_mib=peak_rss_mib(), steps=steps
    )


@contextmanager
def _server() -> Iterator[tuple[str, Any]]:
    """Start the server. Yields its address and what sends it a command and returns the answer."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs,), daemon=True)
    process.start()

    def tell(command: tuple[str, Any]) -> Any:
        ours.send(command)
        return ours.recv()

    try:
        yield ours.recv(), tell
    finally:
        ours.send(("end", None))
        process.join()


def _serve(pipe: Connection) -> None:
    from moto.s3.models import s3_backends  # noqa: PLC0415 # in the server's process alone

    from support.counted_s3 import counted_s3  # noqa: PLC0415 # as above

    with counted_s3() as server:
        pipe.send(server.endpoint)
        backend: Any = s3_backends["123456789012"]["aws"]
        while (command := pipe.recv())[0] != "end":
            name, value = command
            answer: Any = None
            if name == "cubes":
                _put_cubes(backend, *value)
            elif name == "forget":
                server.forget()
            else:
                answer = _counted(server.asked, server.sent_nbytes + server.received_nbytes)
            pipe.send(answer)


def _put_cubes(backend: Any, folder: str, n: int) -> None:
    """Put one cube under many prefixes. The ETags of its table are those that S3 gives."""
    import hashlib  # noqa: PLC0415 # in the server's process alone

    import arro3.io  # noqa: PLC0415 # as above

    backend.create_bucket(_BUCKET, _REGION)
    cube = Path(folder, "c.zarr")
    content = {str(file.relative_to(cube)): file.read_bytes() for file in cube.rglob("*") if file.is_file()}
    table = arro3.io.read_parquet(content["rows.parquet"]).read_all()
    told = json.loads(table.schema.metadata[b"pixel_gather"])
    told["shards"] = [
        (key, len(content[key]), f'"{hashlib.md5(content[key]).hexdigest()}"')  # noqa: S324 # S3's ETag
        for key, _, _ in told["shards"]
    ]
    file = Path(folder, "rows.parquet")
    metadata = {"pixel_gather": json.dumps(told)}
    arro3.io.write_parquet(table, file, compression="zstd(3)", key_value_metadata=metadata)
    content["rows.parquet"] = file.read_bytes()
    files = ("zarr.json", "rows.parquet", "receipt.json")
    needed = [key for key in content if key in files or key.startswith("band_1/c/")]
    for k in range(n):
        for key in needed:
            backend.put_object(_BUCKET, f"tiles/{k:06d}.zarr/{key}", content[key])


def _counted(asked: Sequence[tuple[str, str]], nbytes: int) -> dict[str, int]:
    gets = sum(method in ("GET", "HEAD") and "list-type" not in path for method, path in asked)
    return {
        "gets": gets,
        "puts": len(asked) - gets,
        "nbytes": nbytes,
        "shard_requests": sum("/band_1/c/" in path for _, path in asked),
    }


def table(found: Sequence[Joining]) -> Iterator[str]:
    """Yield the lines of a table: one row for each call."""
    rows = [("call", "cubes", "shards", "GETs", "PUTs", "for shards", "MB", "seconds", "CPU s", "USD")]
    for name in dict.fromkeys(name for each in found for name in each.steps):
        for each in found:
            step = each.steps.get(name)
            if step is not None:
                rows.append(
                    (
                        name,
                        f"{each.n_cubes:,}",
                        f"{each.n_shards:,}",
                        f"{step.gets:,}",
                        f"{step.puts:,}",
                        f"{step.shard_requests:,}",
                        f"{step.nbytes / 1e6:,.2f}",
                        f"{step.seconds:,.2f}",
                        f"{step.cpu_s:,.2f}",
                        f"{step.usd:.6f}" if step.usd < 0.01 else f"{step.usd:.4f}",  # a cent
                    )
                )
    yield from markdown(rows)


def write_figure(found: Sequence[Joining], folder: Path) -> None:
    """Draw requests, bytes and seconds of a join against the number of cubes, in both themes."""
    from pixel_gather_bench.figures.look import put_in_both_themes  # noqa: PLC0415 # matplotlib takes 0.5 s

    put_in_both_themes(partial(_draw, found), folder, "join")


def _draw(found: Sequence[Joining], theme: "Theme") -> "Figure":
    from pixel_gather_bench.figures.look import finish_axes, legend_above, log_ticks, new_figure, note_below  # noqa: PLC0415 # as above

    figure, axes = new_figure(1, 3, height_in=3.4)
    drawn: tuple[tuple[str, Callable[[Step], float]], ...] = (
        ("requests", lambda step: step.gets + step.puts),
        ("megabytes", lambda step: step.nbytes / 1e6),
        ("seconds of CPU", lambda step: step.cpu_s),
    )
    kinds = (("join", theme.blue, "o"), ("add one", theme.vermilion, "s"), ("open", theme.muted, "^"))
    for ax, (what, value) in zip(axes.flat, drawn, strict=True):
        for name, color, marker in kinds:
            xs = [each.n_cubes for each in found]
            ys = [value(each.steps[name]) for each in found]
            ax.plot(xs, ys, color=color, marker=marker, markersize=4.5, label=name)
        ax.set_xscale("log")
        ax.set_yscale("log")
        finish_axes(ax, title=what, x_label="cubes joined", y_label=what)
        log_ticks(ax.xaxis, [each.n_cubes for each in found])
    legend_above(figure, axes[0, 0])
    n_shards = found[0].n_shards // found[0].n_cubes
    note_below(
        figure,
        f"Cubes of {N_ROWS} rows in {n_shards} shards on an S3 server on the same two cores (moto). Joining "
        "reads two small files of each cube; no request is for a shard.",
        theme,
    )
    return figure


def main() -> None:
    """Measure, and print the table."""
    parser = parser_of(main)
    parser.add_argument("--cubes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--most-copied", type=int, default=100, help="copy the shards of at most N cubes")
    parser.add_argument("--figure", type=Path, help="draw into this folder")
    given = parser.parse_args()
    found = []
    for each in measure(given.cubes, most_copied=given.most_copied):
        click.echo(f"{each.n_cubes:,} cubes: {each.steps['join'].seconds:.1f} s", err=True)
        found.append(each)
    put(table(found), found, given.json)
    if given.figure is not None:
        given.figure.mkdir(parents=True, exist_ok=True)
        write_figure(found, given.figure)


if __name__ == "__main__":
    main()
