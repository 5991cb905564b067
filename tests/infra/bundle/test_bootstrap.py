"""An emulated package runs its handler as on Lambda, with Lambda's modules and within its memory."""

import json
import os
import platform
import queue
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

import infra
from infra.bundle.bundle import runtime
from support.local_server import Answer, Asked, serving

HERE: Final = platform.machine()
WAIT_S: Final = 60.0
"""Time limit of every wait, for the slowest machine."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the packages run on Linux only"),
]

HANDLER: Final = """\
import os, subprocess, sys, threading, time

def can_import(name):
    try:
        return __import__(name).__file__ or ""
    except ImportError:
        return None

def tell(event, context):
    command = [sys.executable, "-P", "-s", "-c", "import sys; sys.exit(__import__('pytest') is None)"]
    paths = os.pathsep.join(entry for entry in sys.path if entry)
    child = subprocess.run(command, env={"PYTHONPATH": paths}, capture_output=True)
    return {
        "event": event,
        "id": context.aws_request_id,
        "imported": {name: can_import(name) for name in ("boto3", "pytest", "ministack")},
        "child": child.returncode,
        "environment": {name: os.environ.get(name) for name in ("AWS_EXECUTION_ENV", "LAMBDA_RUNTIME_DIR")},
    }

def fail(event, context):
    raise type("StoreError", (Exception,), {})("busy")

def hold(event, context):
    for _ in range(event["threads"]):
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    held = bytearray(event["mib"] << 20)
    time.sleep(event["seconds"])
    return len(held) >> 20

def hold_in_a_child(event, context):
    program = f"import time; held = b'x' * ({event['mib']} << 20); time.sleep({event['seconds']})"
    return subprocess.run([sys.executable, "-c", program]).returncode
"""


@cache
def runtime_here() -> Path:
    """Return the folder of Lambda's own Python packages. uv is asked once for what the lock has of them."""
    return runtime(HERE)


class RuntimeApi:
    """A fake of Lambda's runtime API. It hands out events in sequence and records the answers."""

    address: str
    """Host and port."""

    def __init__(self) -> None:
        self.events: queue.Queue[dict[str, Any]] = queue.Queue()
        self.answers: queue.Queue[tuple[str, Any]] = queue.Queue()

    def answer(self, asked: Asked) -> Answer:
        """Answer the runtime's client."""
        if asked.method == "POST":
            self.answers.put((asked.path.rpartition("/")[2], json.loads(asked.body)))
            return Answer(status=202)
        headers = {
            "Lambda-Runtime-Aws-Request-Id": "request-1",
            "Lambda-Runtime-Deadline-Ms": str(int(time.time() * 1000) + 60_000),
            "Lambda-Runtime-Invoked-Function-Arn": "arn:aws:lambda:x:1:function:probe",
            "Content-Type": "application/json",  # without it the client crashes
        }
        return Answer(status=200, body=json.dumps(self.events.get()).encode(), headers=headers)


@pytest.fixture
def api() -> Iterator[RuntimeApi]:
    """Serve the runtime API."""
    opened = RuntimeApi()
    with serving(opened.answer) as server:
        opened.address = server.root.removeprefix("http://")
        yield opened


type Start = Callable[..., AbstractContextManager[subprocess.Popen[bytes]]]


@pytest.fixture
def start(tmp_path: Path, api: RuntimeApi) -> Start:
    """Return a function that starts a package as the emulator does."""
    made = Path(infra.__path__[0]) / "bundle"
    (tmp_path / "bootstrap").write_bytes((made / "bootstrap.sh").read_bytes())
    (tmp_path / "bootstrap").chmod(0o755)
    (tmp_path / "emulated_runtime.py").write_bytes((made / "emulated_runtime.py").read_bytes())
    (tmp_path / "probe.py").write_text(HANDLER)
    (tmp_path / "wheels").write_text(runtime_here().name)

    @contextmanager
    def start(
        handler: str, *, memory_mib: int, through: tuple[str, ...] = ()
    ) -> Iterator[subprocess.Popen[bytes]]:
        environment = {
            **os.environ,
            "PIXEL_GATHER_EMULATOR_PYTHON": sys.executable,
            "PIXEL_GATHER_EMULATOR_RUNTIME": str(runtime_here()),
            "AWS_LAMBDA_RUNTIME_API": api.address,
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(memory_mib),
            "LAMBDA_TASK_ROOT": str(tmp_path),
            "_HANDLER": f"probe.{handler}",
        }
        with subprocess.Popen(  # noqa: S603 # our own words
            [*through, str(tmp_path / "bootstrap")],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    return start


@pytest.mark.long
def test_bootstrap_gives_the_handler_lambdas_modules_and_no_others(start: Start, api: RuntimeApi) -> None:
    """Neither the handler nor its child processes can import the project's environment."""
    api.events.put({"a": 1})

    with start("tell", memory_mib=512):
        what, answer = api.answers.get(timeout=WAIT_S)

    assert (what, answer["event"], answer["id"]) == ("response", {"a": 1}, "request-1")
    assert answer["imported"]["boto3"].startswith(str(runtime_here()))
    assert answer["imported"]["pytest"] is answer["imported"]["ministack"] is None
    assert answer["child"] == 1
    assert answer["environment"] == {
        "AWS_EXECUTION_ENV": "AWS_Lambda_python3.13",
        "LAMBDA_RUNTIME_DIR": str(runtime_here()),
    }


def test_bootstrap_tells_errors_by_class_and_goes_on(start: Start, api: RuntimeApi) -> None:
    """Errors are reported with their class, by which Step Functions decides on a retry."""
    api.events.put({})
    api.events.put({})

    with start("fail", memory_mib=512):
        answers = [api.answers.get(timeout=WAIT_S) for _ in range(2)]

    assert [(what, answer["errorType"]) for what, answer in answers] == [("error", "StoreError")] * 2


@pytest.mark.long
@pytest.mark.parametrize("handler", ["hold", "hold_in_a_child"])
def test_bootstrap_kills_a_function_over_its_memory(start: Start, api: RuntimeApi, handler: str) -> None:
    """The function is killed by a signal, whichever of its processes uses the memory.

    The log has the reason.
    """
    api.events.put({"mib": 256, "seconds": 600, "threads": 0})

    with start(handler, memory_mib=128) as process:
        said, _ = process.communicate(timeout=WAIT_S)

    assert process.returncode == -signal.SIGKILL
    assert re.search(rb"Memory used: \d+ MB of 128 MB. Runtime killed.", said)
    assert api.answers.empty()


@pytest.mark.long
def test_bootstrap_kills_a_function_that_was_idle_before(start: Start, api: RuntimeApi) -> None:
    """An idle function is looked at less often, but again and again."""
    api.events.put({"mib": 1, "seconds": 0, "threads": 0})

    with start("hold", memory_mib=128) as process:
        api.answers.get(timeout=WAIT_S)
        time.sleep(1)
        api.events.put({"mib": 256, "seconds": 600, "threads": 0})
        said, _ = process.communicate(timeout=WAIT_S)

    assert process.returncode == -signal.SIGKILL
    assert re.search(rb"Memory used: \d+ MB of 128 MB. Runtime killed.", said)


def test_bootstrap_lets_a_function_use_its_memory(start: Start, api: RuntimeApi) -> None:
    """Untouched stacks of threads do not count."""
    api.events.put({"mib": 128, "seconds": 0.5, "threads": 64})

    with start("hold", memory_mib=256):
        answer = api.answers.get(timeout=WAIT_S)

    assert answer == ("response", 128)


def test_bootstrap_ends_with_its_parent(start: Start, api: RuntimeApi) -> None:
    """Functions end when their emulator is killed."""
    api.events.put({})
    program = "import subprocess, sys; print(subprocess.Popen(sys.argv[1]).pid, flush=True); input()"

    with start("tell", memory_mib=512, through=(sys.executable, "-c", program)) as parent:
        assert parent.stdout is not None
        function = int(parent.stdout.readline())
        api.answers.get(timeout=WAIT_S)
        was_running = is_running(function)
    deadline = time.monotonic() + WAIT_S
    while is_running(function) and time.monotonic() < deadline:
        time.sleep(0.05)

    assert was_running
    assert not is_running(function)


def is_running(process: int) -> bool:
    """Return whether a process exists and is not a zombie."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
