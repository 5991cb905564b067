"""The process between the caller and the emulator. It cleans up in whatever way the caller ends.

It owns the work folder, and the process group of the emulator and its Lambda workers. Its standard input is a
pipe from the caller, with one line: the settings. When the pipe closes, it kills the whole group and removes
the folder. The pipe closes when the caller closes it, ends or is killed.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Final

from msgspec import Struct

from pixel_gather_emulator.certificates import write_certificates
from pixel_gather_emulator.end_with_caller import kill_group, wait_until_input_closes

FOLDER_PREFIX: Final = "pixel-gather-emulator-"
LOG: Final = "emulator.log"
HOST: Final = "127.0.0.1"
LOOPBACK: Final = f"{HOST},localhost"
"""Hosts that are reached without a proxy."""

CLOCK: Final = "clock"
"""File in the work folder: by how many seconds the clock of schedules is ahead of the machine's."""

LOG_TAIL: Final = 4000

_REMOVALS: Final = 20
"""How often the folder is removed, as a dying process may still write into it."""


class SupervisorSettings(Struct, frozen=True, kw_only=True):
    """The supervisor's settings, sent as one line of JSON."""

    port: int
    """0 for a free one."""

    access_key: str
    secret_key: str
    region: str
    account: str
    max_workers: int
    wait_scale: float
    environment: dict[str, str]
    """Further variables of the emulator and its Lambda workers."""


def main() -> None:
    """Run the emulator until standard input closes or it ends by itself."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the caller decides, by closing the pipe
    settings = SupervisorSettings(**json.loads(sys.stdin.readline()))
    work = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX))
    try:
        server, was_asked = _start(settings, work), threading.Event()
        threading.Thread(target=_kill_when_asked, args=[server.pid, was_asked], daemon=True).start()
        server.wait()
        kill_group(server.pid)  # the workers of one that ended by itself
        if not was_asked.is_set():
            sys.stderr.write((work / LOG).read_text(errors="replace")[-LOG_TAIL:])
    finally:
        _remove(work)


def _start(settings: SupervisorSettings, work: Path) -> subprocess.Popen[bytes]:
    for name in ("tls", "tmp", "home"):
        (work / name).mkdir()
    certificates = write_certificates(work / "tls", os.environ)
    with (work / LOG).open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "pixel_gather_emulator.server"],
            stdin=subprocess.PIPE,  # closes with this process: see server.py
            stdout=sys.stdout.fileno(),
            stderr=log,
            env=server_environment(settings, work, bundle=certificates.bundle),
            start_new_session=True,
        )


def server_environment(settings: SupervisorSettings, work: Path, *, bundle: Path) -> dict[str, str]:
    """Return the environment of ministack, which passes it on to every Lambda worker."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "MINISTACK_"))}
    trust = {name: str(bundle) for name in ("AWS_CA_BUNDLE", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")}
    return {
        **kept,
        **trust,
        "AUTH": "true",
        "USE_SSL": "1",
        "MINISTACK_SSL_CERT": str(work / "tls" / "certificate.pem"),
        "MINISTACK_SSL_KEY": str(work / "tls" / "key.pem"),
        "MINISTACK_ACCOUNT_ID": settings.account,
        "MINISTACK_REGION": settings.region,
        "AWS_ACCESS_KEY_ID": settings.access_key,
        "AWS_SECRET_ACCESS_KEY": settings.secret_key,
        "AWS_EC2_METADATA_DISABLED": "true",
        "TMPDIR": str(work / "tmp"),
        "HOME": str(work / "home"),
        "S3_DATA_DIR": str(work / "tmp" / "s3"),
        "STATE_DIR": str(work / "tmp" / "state"),
        "SFTP_ENABLED": "0",
        "IOT_MTLS_ENABLED": "0",
        "LAMBDA_EXECUTOR": "local",
        "SFN_WAIT_SCALE": str(settings.wait_scale),
        "NO_PROXY": LOOPBACK,
        "no_proxy": LOOPBACK,
        "PIXEL_GATHER_EMULATOR_PORT": str(settings.port),
        "PIXEL_GATHER_EMULATOR_MAX_WORKERS": str(settings.max_workers),
        "PIXEL_GATHER_EMULATOR_PYTHON": sys.executable,
        **settings.environment,
    }


def _kill_when_asked(group: int, was_asked: threading.Event) -> None:
    wait_until_input_closes()
    was_asked.set()
    kill_group(group)


def _remove(folder: Path) -> None:
    for _ in range(_REMOVALS):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.1)


if __name__ == "__main__":
    main()
