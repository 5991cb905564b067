"""Starts the emulator and ends it."""

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import boto3
import msgspec
from botocore.config import Config

from pixel_gather_emulator.certificates import BUNDLE_VARIABLES
from pixel_gather_emulator.supervisor import CLOCK, HOST, LOG, LOG_TAIL, LOOPBACK, SupervisorSettings

REGION: Final = "us-east-1"
ACCOUNT: Final = "000000000000"

_END_S: Final = 120.0
"""Mostly for removing the folder, which takes half a minute on a busy machine."""


class EmulatorError(Exception):
    """The emulator did not start, or the stack could not be deployed into it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Emulator:
    """A running emulator."""

    endpoint: str
    """The address of every service, such as ``https://127.0.0.1:43211``."""

    work: Path
    """The emulator's folder. It is removed when the emulator ends."""

    access_key: str
    secret_key: str = field(repr=False)
    supervisor: subprocess.Popen[bytes] = field(repr=False)
    region: str = REGION
    account: str = ACCOUNT

    @property
    def bundle(self) -> Path:
        """The PEM file of the emulator's authority and of all authorities that were trusted before."""
        return self.work / "tls" / "bundle.pem"

    @property
    def log(self) -> Path:
        """The emulator's log file."""
        return self.work / LOG

    @property
    def variables(self) -> Mapping[str, str]:
        """The variables by which the AWS CLI, boto3, the CDK and obstore find the emulator."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_EC2_METADATA_DISABLED": "true",
            **{name: str(self.bundle) for name in BUNDLE_VARIABLES},
            "NO_PROXY": LOOPBACK,
            "no_proxy": LOOPBACK,
        }

    def environment(self, base: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return a complete environment for a child process, made of ``base`` or of this process's own.

        ``AWS_`` variables of the base are left out. A profile, a session token or the endpoint of one service
        would lead to another place.
        """
        kept = os.environ if base is None else base
        return {
            **{name: value for name, value in kept.items() if not name.startswith("AWS_")},
            **self.variables,
        }

    def client(self, service: str, **options: Any) -> Any:
        """Return a boto3 client with the operator's credentials, which are allowed everything."""
        keys = (self.access_key, self.secret_key)
        return _client(service, self.endpoint, str(self.bundle), *keys, self.region, **options)

    def move_clock(self, seconds: float) -> None:
        """Move the clock of EventBridge Scheduler on. Every schedule that is then due ticks once.

        The clock of the machine and of the functions stays.
        """
        clock = self.work / CLOCK
        moved = float(clock.read_text()) if clock.exists() else 0.0
        clock.with_suffix(".new").write_text(str(moved + seconds))
        clock.with_suffix(".new").replace(clock)

    def log_tail(self) -> str:
        """Return the end of the log."""
        return self.log.read_text(errors="replace")[-LOG_TAIL:]

    def wait(self) -> None:
        """Wait until the emulator ends by itself. Normally it does not."""
        self.supervisor.wait()


@cache
def _client(
    service: str, endpoint: str, bundle: str, access_key: str, secret_key: str, region: str, **options: Any
) -> Any:
    """Return one client for all who ask. Each new one would connect anew."""
    session = _session(access_key, secret_key, region)
    settings = Config(proxies={}, retries={"mode": "standard"}, **options)
    return session.client(service, endpoint_url=endpoint, verify=bundle, config=settings)


@cache
def _session(access_key: str, secret_key: str, region: str) -> boto3.Session:
    """Return one session for all clients. A new one would read the descriptions of AWS's services again."""
    return boto3.Session(aws_access_key_id=access_key, aws_secret_access_key=secret_key, region_name=region)


@contextmanager
def emulator(
    *,
    port: int = 0,
    max_workers: int | None = None,
    wait_scale: float = 1.0,
    environment: Mapping[str, str] | None = None,
) -> Generator[Emulator]:
    """Run an emulator on loopback until the context ends.

    The emulator also ends when this process ends, in whatever way. Files are left only where the supervisor
    is killed while it removes the folder.

    Args:
        port: 0 for a free one.
        max_workers: How many workers of one function run at the same time, each in a process of its own. Also
            how many children of a Distributed Map. None for one per core, but at least four. On AWS the limit
            is 1,000 workers and 10,000 children.
        wait_scale: Factor for the waits of state machines, retries included.
        environment: Further variables of the Lambda workers.

    Raises:
        EmulatorError: The emulator did not start. The message ends with its output.
    """
    settings = SupervisorSettings(
        port=port,
        access_key=f"PGEMULATOR{secrets.token_hex(5).upper()}",
        secret_key=secrets.token_urlsafe(30),
        region=REGION,
        account=ACCOUNT,
        max_workers=max_workers or max(4, os.cpu_count() or 1),
        wait_scale=wait_scale,
        environment=dict(environment or {}),
    )
    supervisor = subprocess.Popen(
        [sys.executable, "-m", "pixel_gather_emulator.supervisor"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # a Ctrl-C in the terminal reaches the caller alone
    )
    with supervisor:
        try:
            yield _once_ready(supervisor, settings)
        finally:
            _, said = supervisor.communicate(timeout=_END_S)
            if said:
                raise EmulatorError(
                    f"the emulator ended by itself; its log ends with:\n{said.decode().strip()}"
                )


def _once_ready(supervisor: subprocess.Popen[bytes], settings: SupervisorSettings) -> Emulator:
    if supervisor.stdin is None or supervisor.stdout is None:
        raise TypeError("both were asked for")
    supervisor.stdin.write(msgspec.json.encode(settings) + b"\n")
    supervisor.stdin.flush()
    line = supervisor.stdout.readline()
    if not line:
        raise EmulatorError("the emulator did not start")
    ready = json.loads(line)
    return Emulator(
        endpoint=f"https://{HOST}:{ready['port']}",
        work=Path(ready["work"]),
        access_key=settings.access_key,
        secret_key=settings.secret_key,
        supervisor=supervisor,
    )
