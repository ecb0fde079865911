"""The dashboard on an address of this machine."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from genmix.core.optional import need
from genmix.errors import InputError


def serve(
    root: Path,
    host: str,
    port: int,
    token: str | None,
    announce: Callable[[str], None] = lambda url: None,
) -> None:
    """Until Ctrl-C; ``announce`` gets the address once it answers there."""
    for module in ("starlette", "uvicorn"):
        need(module, extra="dashboard", what="the dashboard")
    from genmix.dashboard.security import is_loopback

    if not root.is_dir():
        raise InputError(f"{root} is no folder: name the folder that holds the runs.")
    if token is not None and not token.strip():
        raise InputError("the token is empty: give one that is hard to guess.")
    if token is None and not is_loopback(host):
        raise InputError(
            f"{host} can be reached from other machines: give a token with --token, "
            "or in GENMIX_DASHBOARD_TOKEN."
        )
    _serve_on(listen(host, port), root, host, token, announce)


def listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            f"{host} port {port} cannot be listened on ({reason}): name another with --port."
        ) from error
    # Connections inherit it; asyncio leaves sockets that it did not make itself as they are.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def _serve_on(
    listening: socket.socket,
    root: Path,
    host: str,
    token: str | None,
    announce: Callable[[str], None],
) -> None:
    import uvicorn

    from genmix.dashboard.app import make_app
    from genmix.dashboard.security import Access

    port = listening.getsockname()[1]
    servers: list[Any] = []
    app = make_app(root, Access(host, port, token), lambda: bool(servers[0].should_exit))
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        ws="none",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=3,
    )

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            shown = f"[{host}]" if ":" in host else host
            announce(f"http://{shown}:{port}/")

    servers.append(Server(config))
    with suppress(KeyboardInterrupt):  # Ctrl-C is how it ends
        servers[0].run(sockets=[listening])
