"""Microsoft's emulator of Azure's storage, as ``tests/azurite`` locks it."""

import base64
import hashlib
import hmac
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from infra.node_tools import node_environment, node_modules

ACCOUNT: Final = "devstoreaccount1"
KEY: Final = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Azurite's own, which its manual tells."""

_FOLDER: Final = Path(__file__).parents[1] / "azurite"
_VERSION: Final = "2023-11-03"


@contextmanager
def azurite() -> Iterator[str]:
    """Serve blobs in memory on loopback. Yields the endpoint of its account."""
    program = node_modules(_FOLDER) / ".bin/azurite-blob"
    options = ("--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry", "--blobPort", "0")
    with subprocess.Popen(  # noqa: S603 # the locked program
        [program, *options],
        env=node_environment(),
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as server:
        try:
            assert server.stdout is not None
            listens = (re.search(r"listens on (http://\S+)", line) for line in server.stdout)
            address = next(filter(None, listens))[1]
            yield f"{address}/{ACCOUNT}"
        finally:
            os.killpg(server.pid, signal.SIGTERM)  # the command and the Node that it starts
            if server.stdout is not None:
                server.stdout.read()  # to its end, which comes when both have ended


def create_container(endpoint: str, name: str, *, is_public: bool = False) -> None:
    """Create one. Whoever asks may read blobs of a public one."""
    headers = {
        **({"x-ms-blob-public-access": "container"} if is_public else {}),
        "x-ms-date": datetime.now(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT"),
        "x-ms-version": _VERSION,
    }
    told = "".join(f"{key}:{value}\n" for key, value in headers.items())
    signature = _signed("PUT" + "\n" * 12 + f"{told}/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container")
    asked = Request(  # noqa: S310 # our own server
        f"{endpoint}/{name}?restype=container",
        method="PUT",
        headers=headers | {"Authorization": f"SharedKey {ACCOUNT}:{signature}", "Content-Length": "0"},
    )
    urlopen(asked).close()  # noqa: S310 # as above


def sas_token(container: str, permissions: str) -> str:
    """Return a service SAS of a container, signed by the account's key, which ends in an hour.

    https://learn.microsoft.com/rest/api/storageservices/create-service-sas

    Args:
        container: Its name.
        permissions: Letters in the order of that page, such as ``rl`` to read and list.
    """
    expires = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    place = f"/blob/{ACCOUNT}/{container}"
    before = (permissions, "", expires, place, "", "", "", _VERSION, "c")
    signature = _signed("\n".join((*before, *[""] * 7)))  # no snapshot, scope or headers of the answer
    return urlencode({"sp": permissions, "se": expires, "sv": _VERSION, "sr": "c", "sig": signature})


def _signed(text: str) -> str:
    return base64.b64encode(hmac.digest(base64.b64decode(KEY), text.encode(), hashlib.sha256)).decode()
