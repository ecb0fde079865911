"""Serve the dashboard with uvicorn."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from genmix.core.optional import require
from genmix.errors import InputError


def serve(
    root: Path,
    host: str,
    port: int,
    token: str | None,
    announce: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve until Ctrl-C. ``announce`` is called with the URL once the server accepts connections."""
    for module in ("starlette", "uvicorn"):
        require(module, extra="dashboard", what="the dashboard")
    from genmix.dashboard.security import is_loopback

    if not root.is_dir():
        raise InputError(f"{root} is not a folder; pass the folder that contains the runs.")
    if token is not None and not token.strip():
        raise InputError("The token is empty; set one that is hard to guess.")
    if token is None and not is_loopback(host):
        raise InputError(
            f"Other machines can reach {host}; set a token with --token or GENMIX_DASHBOARD_TOKEN."
        )
    _serve_on(listen(host, port), root, host, token, announce)


def listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            f"could not listen on {host} port {port} ({reason}); choose another port with --port."
        ) from error
    # Connections inherit this option. asyncio sets it only on sockets that it creates itself.
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
    with suppress(KeyboardInterrupt):  # the normal way to stop it
        servers[0].run(sockets=[listening])
