"""Start the emulator and end it again."""

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import boto3
from botocore.config import Config

from pixel_gather_emulator.certificates import BUNDLE_VARIABLES
from pixel_gather_emulator.supervisor import HOST, LOG, LOG_TAIL, LOOPBACK, Settings

REGION: Final = "us-east-1"
ACCOUNT: Final = "000000000000"

_END_S: Final = 120.0
"""Most of it is removing the folder, which a busy machine takes half a minute for."""


class EmulatorError(Exception):
    """The emulator did not start, or the stack could not be deployed into it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Emulator:
    """A running emulator."""

    endpoint: str
    """Of every service, such as ``https://127.0.0.1:43211``."""

    work: Path
    """Its folder; goes when the emulator ends."""

    access_key: str
    secret_key: str = field(repr=False)
    supervisor: subprocess.Popen[bytes] = field(repr=False)
    region: str = REGION
    account: str = ACCOUNT

    @property
    def bundle(self) -> Path:
        """The PEM file that trusts the emulator's certificate and all that was trusted before."""
        return self.work / "tls" / "bundle.pem"

    @property
    def log(self) -> Path:
        """What the emulator says about its own work."""
        return self.work / LOG

    @property
    def variables(self) -> Mapping[str, str]:
        """The variables that lead the AWS CLI, boto3, the CDK and obstore to the emulator."""
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
        """Return a whole environment for a child process.

        Args:
            base: This process's environment by default; its ``AWS_`` variables are left out, because a
                profile, a session token or an endpoint of one service would lead elsewhere.
        """
        kept = os.environ if base is None else base
        return {
            **{name: value for name, value in kept.items() if not name.startswith("AWS_")},
            **self.variables,
        }

    def client(self, service: str, **options: Any) -> Any:
        """Return a boto3 client of the operator, whom every policy allows everything."""
        session = boto3.Session(
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            region_name=self.region,
        )
        settings = Config(proxies={}, retries={"mode": "standard"}, **options)
        return session.client(service, endpoint_url=self.endpoint, verify=str(self.bundle), config=settings)

    def log_tail(self) -> str:
        """Return the end of the log."""
        return self.log.read_text(errors="replace")[-LOG_TAIL:]

    def wait(self) -> None:
        """Return once the emulator has ended by itself, which it should not."""
        self.supervisor.wait()


@contextmanager
def emulator(
    *,
    port: int = 0,
    max_workers: int | None = None,
    wait_scale: float = 1.0,
    environment: Mapping[str, str] | None = None,
) -> Generator[Emulator]:
    """Run an emulator, bound to loopback, for as long as the context lasts.

    It ends with this process too, however that ends; nothing is left behind but for a supervisor that
    is itself killed in the middle of removing the folder.

    Args:
        port: 0 for one that is free.
        max_workers: Most children of a Distributed Map at one time, each with a Lambda worker process
            of its own; one per core and four at least where None. AWS has no such limit below 10,000.
        wait_scale: Factor for the waits of state machines, retries included.
        environment: Further variables of the Lambda workers.

    Raises:
        EmulatorError: It did not start; the message ends with what it said.
    """
    settings = Settings(
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


def _once_ready(supervisor: subprocess.Popen[bytes], settings: Settings) -> Emulator:
    if supervisor.stdin is None or supervisor.stdout is None:
        raise TypeError("both were asked for")
    supervisor.stdin.write(settings.to_line())
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
