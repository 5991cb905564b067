"""Every command ends soon after a signal, whatever it waits for."""

import os
import re
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import batched, cycle
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest

from pixel_gather_cli.main import command
from support.command_line import leaf_commands
from support.forked_commands import start_command

_COMMANDS = (
    "bench area --catalog s3://bucket/catalog.parquet",
    "bench blocks --cube s3://bucket/cube.zarr --to NEW",
    "bench ingest http://HOST/large.bin --to NEW",
    "bench suite LIST --to NEW --times 1",
    "bench threads LIST --to NEW --times 1",
    "budget",
    "cancel 3f9c2ab417d0e865",
    "catalog --items s3://bucket/items.json --to NEW/a.parquet",
    "catalog --stac http://HOST/stac --to NEW/b.parquet",
    "check",
    "compact s3://bucket/cube.zarr",
    "drill LIST --point 11,46",
    "export s3://bucket/cube.zarr --to NEW.gif",
    "forget s3://bucket/cube.zarr --before 2",
    "index LIST --to NEW/headers.parquet",
    "index LOCAL --to s3://bucket/headers.parquet",
    "join s3://bucket/cube.zarr --to NEW",
    "join s3://bucket/tiles/*.zarr --to NEW",
    "limit 3f9c2ab417d0e865 --workers 5",
    "list",
    "ls s3://bucket/",
    "plan --sources LIST --tile centre",
    "plan --prefix s3://bucket/ --tile centre",
    "presence s3://bucket/cube.zarr --by month",
    "rank LIST --by b1",
    "redrive 3f9c2ab417d0e865",
    "replay s3://bucket/cube.zarr",
    "report s3://bucket/cube.zarr --to NEW",
    "run --sources LIST --tile centre --to NEW",
    "run --sources LOCAL --tile centre --to s3://bucket/cube.zarr",
    "schedule add daily --stac http://HOST/ --assets red --point 11,46 --every EVERY --append-to a",
    "schedule list",
    "schedule remove daily",
    "search --catalog s3://bucket/catalog.parquet",
    "search --stac http://HOST/stac --bbox 11,46,12,47",
    "status 3f9c2ab417d0e865",
    "submit --sources LIST --tile centre",
    "verify s3://bucket/cube.zarr",
    "versions s3://bucket/cube.zarr",
    "view s3://bucket/cube.zarr --no-open",
    "virtual --sources LIST --tile centre --to NEW",
    "watch 3f9c2ab417d0e865",
    "points PLOTS --id plot_id --sources LIST --to NEW.parquet",
    "zones FIELDS --id field --sources LIST --to NEW.parquet",
    "series --point=-105,39 --sources LIST",
    "retry s3://bucket/cube",
)
_AT_A_TIME = 6
"""Commands that wait at one time. Of more, the first may give up before the last has asked."""

_LOCAL_ONLY = {"completion", "emulate"}
_SAID = "said.txt"
_DEMO = Path(__file__).parents[1] / "data/demo"
_FILE = Path(__file__).parents[1] / "data/series/files/stactools-noaa-cdr"


@contextmanager
def _silent_server() -> Iterator[tuple[int, threading.Event]]:
    """Accept connections and never answer. Yield the port, and whether somebody has connected."""
    with socket.create_server(("127.0.0.1", 0)) as listening, ExitStack() as connections:
        is_asked = threading.Event()

        def accept() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:  # closed
                    return
                connections.enter_context(connection)
                is_asked.set()

        threading.Thread(target=accept, daemon=True).start()
        yield listening.getsockname()[1], is_asked
        listening.shutdown(socket.SHUT_RDWR)


def _started(line: str, port: int, folder: Path) -> ForkServerProcess:
    """Start a command for which the server is S3, AWS and every web server."""
    folder.mkdir()
    local = min(_FILE.glob("heat_content_anomaly_0-2000*.tif"))
    (folder / "list.txt").write_text("s3://bucket/a.tif\n")
    (folder / "local.txt").write_text(f"{local}\n")
    values = {
        "HOST": f"127.0.0.1:{port}",
        "LIST": f"{folder}/list.txt",
        "LOCAL": f"{folder}/local.txt",
        "NEW": f"{folder}/new",
        "EVERY": "rate(1 day)",
        "PLOTS": f"{_DEMO}/plots.csv",
        "FIELDS": f"{_DEMO}/fields.geojson",
    }
    words = [re.sub("|".join(values), lambda found: values[found[0]], word) for word in line.split()]
    aws = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "eu-central-1",
        "AWS_DEFAULT_REGION": "eu-central-1",
    }
    environment = {name: text for name, text in os.environ.items() if not name.startswith("AWS_")} | aws
    return start_command(words, environment=environment, out=folder / _SAID, err=folder / _SAID)


def _end_of(process: ForkServerProcess, folder: Path) -> tuple[int | None, str]:
    """Return the exit code and what was said, and kill a process that goes on for two minutes."""
    process.join(120)
    process.kill()
    process.join()
    return process.exitcode, (folder / _SAID).read_text()


@pytest.mark.long
def test_every_command_ends_on_a_signal_while_no_server_answers(tmp_path: Path) -> None:
    """Requests wait inside libraries, which know no signals. The process ends all the same, and says so."""
    numbers = dict(zip(_COMMANDS, cycle((signal.SIGINT, signal.SIGTERM)), strict=False))
    ended: dict[str, tuple[int | None, str]] = {}
    for lines in batched(_COMMANDS, _AT_A_TIME, strict=False):
        with ExitStack() as servers:
            running = {}
            for line in lines:
                port, is_asked = servers.enter_context(_silent_server())
                folder = tmp_path / str(_COMMANDS.index(line))
                running[line] = (_started(line, port, folder), is_asked, folder)
            for line, (process, is_asked, folder) in running.items():
                while not is_asked.wait(0.05):
                    assert process.is_alive(), (line, (folder / _SAID).read_text())
            time.sleep(0.5)  # until it waits for the answer
            for line, (process, _, folder) in running.items():
                assert process.is_alive(), (line, (folder / _SAID).read_text())
                os.kill(process.pid or 0, numbers[line])
            ended |= {line: _end_of(process, folder) for line, (process, _, folder) in running.items()}

    assert {line: end for line, end in ended.items() if end[0] != 128 + numbers[line]} == {}
    assert {line: said for line, (_, said) in ended.items() if "Repeat the command" not in said} == {}
    assert {
        line: said for line, (_, said) in ended.items() if "Traceback" in said or "panicked" in said
    } == {}


def test_every_command_is_driven_against_a_silent_server() -> None:
    """A new command comes with a line here, unless it asks no server."""
    names = {name for name, _ in leaf_commands(command)}

    assert {name for name in names if any(f"{line} ".startswith(f"{name} ") for line in _COMMANDS)} == (
        names - _LOCAL_ONLY
    )
