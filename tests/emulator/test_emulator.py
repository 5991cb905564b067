"""The emulator as a process: it serves one port and leaves nothing behind."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pixel_gather_emulator.deploy import deployed
from pixel_gather_emulator.emulator import Emulator, EmulatorError, emulator

pytestmark = pytest.mark.slow

CALLER = """
import sys, time
from pixel_gather_emulator.emulator import emulator
with emulator() as running:
    print(running.work, flush=True)
    time.sleep(600)
"""
READ = """
import boto3, obstore
from obstore.store import S3Store
print(bytes(obstore.get(S3Store("by-obstore"), "key").bytes()).decode())
print(boto3.client("s3").get_object(Bucket="by-obstore", Key="key")["Body"].read().decode())
"""


def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait until a condition is met. The test's own time-out is the limit."""
    while not is_so():
        time.sleep(0.05)


def named(folder: Path) -> list[int]:
    """Return the processes that have a folder in their environment."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdecimal() and str(folder).encode() in (process / "environ").read_bytes():
                found.append(int(process.name))
        except OSError:
            continue  # it has just ended, or belongs to somebody else
    return found


@pytest.mark.long
def test_environment_leads_boto3_and_obstore_there(running: Emulator) -> None:
    """The environment suffices for both clients, over TLS, and overrides the caller's own."""
    s3 = running.client("s3")
    s3.create_bucket(Bucket="by-obstore")
    s3.put_object(Bucket="by-obstore", Key="key", Body=b"value")
    astray = {
        **os.environ,
        "AWS_PROFILE": "none",
        "AWS_SESSION_TOKEN": "x",
        "AWS_ENDPOINT_URL_S3": "http://x",
    }
    astray |= {"HTTPS_PROXY": "http://127.0.0.1:9", "AWS_CA_BUNDLE": "/dev/null"}

    said = subprocess.run(  # noqa: S603 # our own words
        [sys.executable, "-c", READ],
        env=running.environment(astray),
        capture_output=True,
        text=True,
        check=True,
    )

    assert said.stdout.split() == ["value", "value"]


def test_emulator_speaks_tls_only(running: Emulator) -> None:
    """Plain HTTP is refused by buckets and by the port."""
    host, _, port = running.endpoint.removeprefix("https://").partition(":")
    with socket.create_connection((host, int(port)), timeout=10) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        try:
            answer = plain.recv(100)
        except ConnectionResetError:
            answer = b""

    assert not answer.startswith(b"HTTP")


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks at processes in /proc")
def test_emulator_listens_on_one_loopback_port(running: Emulator) -> None:
    """The port is not reachable from other machines and needs no special right."""
    group = os.getpgid(next(pid for pid in named(running.work) if os.getpgid(pid) == pid))
    sockets = {
        str(link.readlink())
        for pid in named(running.work)
        if os.getpgid(pid) == group
        for link in Path(f"/proc/{pid}/fd").iterdir()
        if link.is_symlink()
    }
    listening = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                listening.add(fields[1])
    port = int(running.endpoint.rpartition(":")[2])

    assert f"0100007F:{port:04X}" in listening
    assert all(address.startswith("0100007F:") for address in listening)  # workers have a Runtime API each
    assert "0100007F:01BB" not in listening


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks at processes in /proc")
def test_emulator_ignores_no_signal_that_lambda_does_not(running: Emulator) -> None:
    """Workers do not inherit the supervisor's ignored signals.

    Otherwise a handler could not end its children.
    """
    (server,) = (pid for pid in named(running.work) if pid == os.getpgid(pid))
    status = Path(f"/proc/{server}/status").read_text().splitlines()
    (ignored,) = (int(line.split()[1], 16) for line in status if line.startswith("SigIgn:"))

    assert not [n for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if ignored >> (n - 1) & 1]


@pytest.mark.long
def test_emulator_leaves_nothing_when_it_ends() -> None:
    """After its end no folder and no process is left."""
    with emulator() as started:
        assert started.work.is_dir()
        assert started.client("s3").list_buckets()["Buckets"] == []

    assert not started.work.exists()
    assert named(started.work) == []


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
def test_emulator_leaves_nothing_when_its_caller_is_killed() -> None:
    """After SIGKILL of the caller nothing is left either."""
    command = [sys.executable, "-c", CALLER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as caller:  # noqa: S603 # as above
        assert caller.stdout is not None
        work = Path(caller.stdout.readline().strip())
        assert len(named(work)) >= 1
        caller.send_signal(signal.SIGKILL)

    wait_until(lambda: not work.exists())
    wait_until(lambda: named(work) == [])


def kill_from_within() -> None:
    """Run an emulator, kill it, and check that the error is noticed."""
    with emulator() as started:
        wait_until(lambda: "services available" in started.log.read_text(errors="replace"))
        (server,) = (pid for pid in named(started.work) if pid == os.getpgid(pid))
        os.kill(server, signal.SIGKILL)
        started.wait()


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
def test_emulator_that_ends_by_itself_shows_its_log() -> None:
    """If the emulator ends early, the caller gets its log at the latest at the end."""
    with pytest.raises(EmulatorError, match=r"(?s)ended by itself.*services available"):
        kill_from_within()


@pytest.mark.long
def test_emulator_that_cannot_start_shows_why() -> None:
    """The error says that the port is taken."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(EmulatorError, match="Address already in use"), emulator(port=port):
            pass


@pytest.mark.long
def test_why_a_deployment_fails_is_told_last() -> None:
    """The emulator's log is long: on a terminal, a reason above it has left the screen."""
    with pytest.raises(EmulatorError) as refused, deployed(context={"max_used": "5"}):
        pass

    assert "max_usd is one" in "\n".join(str(refused.value).splitlines()[-3:])
