"""The emulator's process: ministack with our additions, on one loopback port.

It prints one line of JSON with its port and work folder when it is ready. It runs in its own session, so that
the supervisor can end it together with the Lambda workers that it starts.
"""

import asyncio
import json
import os
import resource
import signal
import socket
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from hypercorn.asyncio import serve
from hypercorn.config import Config

from pixel_gather_emulator.end_with_caller import kill_group, wait_until_input_closes
from pixel_gather_emulator.supervisor import HOST


def main() -> None:
    """Serve until killed, or until the supervisor ends."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)  # the supervisor ignores them; Lambda workers must not
    threading.Thread(target=_end_with_the_supervisor, daemon=True).start()
    listening = socket.create_server((HOST, int(os.environ["PIXEL_GATHER_EMULATOR_PORT"])), backlog=1024)
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    port = listening.getsockname()[1]
    os.environ["GATEWAY_PORT"] = str(port)
    os.environ["AWS_ENDPOINT_URL"] = f"https://{HOST}:{port}"
    _raise_open_files_limit()

    from ministack.app import app  # noqa: PLC0415 - reads the environment as it is imported

    from pixel_gather_emulator.additions import apply_additions  # noqa: PLC0415 - as above

    apply_additions(max_workers=int(os.environ["PIXEL_GATHER_EMULATOR_MAX_WORKERS"]))
    config = Config()
    config.bind = [f"fd://{listening.detach()}"]  # ministack itself would also take port 443
    config.certfile = os.environ["MINISTACK_SSL_CERT"]
    config.keyfile = os.environ["MINISTACK_SSL_KEY"]
    config.keep_alive_timeout = 75
    config.keep_alive_max_requests = 1_000_000
    config.backlog = 1024
    config.loglevel = "WARNING"
    asyncio.run(_serve(app, config, port))


async def _serve(app: Any, config: Config, port: int) -> None:
    async def announced(scope: Any, receive: Any, send: Any) -> None:
        async def send_and_announce(message: Any) -> None:
            await send(message)
            if message["type"] == "lifespan.startup.complete":
                work = str(Path(tempfile.gettempdir()).parent)
                sys.stdout.write(json.dumps({"port": port, "work": work}) + "\n")
                sys.stdout.flush()
                os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # nobody reads any further

        await app(scope, receive, send_and_announce)

    await serve(announced, config)


def _raise_open_files_limit() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _end_with_the_supervisor() -> None:
    wait_until_input_closes()
    kill_group(os.getpid())


if __name__ == "__main__":
    main()
