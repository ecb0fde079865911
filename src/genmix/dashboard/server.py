"""Serve the dashboard with uvicorn."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genmix.core.listening import cannot_listen
from genmix.core.optional import require_all
from genmix.errors import InputError

if TYPE_CHECKING:
    import uvicorn

SHORTEST_TOKEN = 16
"""Minimum length of a token that other machines can try to guess."""


def serve(
    folders: Sequence[str],
    host: str,
    port: int,
    token: str | None,
    announce: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve folders, each written ``FOLDER`` or ``NAME=FOLDER``, until Ctrl-C.

    ``announce`` is called with the URL once the server accepts connections.
    """
    require_all(("starlette", "uvicorn"), extra="dashboard", what="the dashboard")
    from genmix.dashboard.runs_folder import named_folders

    roots = named_folders(folders)
    _check_token(token, host)
    listening = listen(host, port)
    server = make_server(listening, roots, host, token, announce)
    with suppress(KeyboardInterrupt):  # the normal way to stop it
        server.run(sockets=[listening])


def _check_token(token: str | None, host: str) -> None:
    from genmix.dashboard.security import is_loopback

    if token is not None and not token.strip():
        raise InputError("The token is empty; set one that is hard to guess.")
    if is_loopback(host):
        return
    if token is None:
        raise InputError(
            f"Other machines can reach {host}; set a token with --token or GENMIX_DASHBOARD_TOKEN."
        )
    if len(token.strip()) < SHORTEST_TOKEN:
        raise InputError(
            f"Other machines can reach {host}, and the token has fewer than {SHORTEST_TOKEN} "
            "characters; choose a longer one, e.g. with `openssl rand -hex 16`."
        )


def listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        raise cannot_listen("listen", host, port, error) from error
    # Connections inherit this option. asyncio sets it only on sockets that it creates itself.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def make_server(
    listening: socket.socket,
    root: Path | Mapping[str, Path],
    host: str,
    token: str | None,
    announce: Callable[[str], None] = lambda url: None,
) -> uvicorn.Server:
    """Build the server for a listening socket; pass the same socket to its ``run`` method."""
    import uvicorn

    from genmix.dashboard import connections
    from genmix.dashboard.app import make_app
    from genmix.dashboard.security import Access

    port = listening.getsockname()[1]
    servers: list[Any] = []

    class Protocol(connections.LimitedProtocol):
        most = connections.connection_limit()

    config = uvicorn.Config(
        make_app(root, Access(host, port, token), lambda: bool(servers[0].should_exit)),
        http=Protocol,
        loop="asyncio",
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=connections.ACCEPTED_AT_ONCE,
        timeout_graceful_shutdown=3,
    )

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            loop = asyncio.get_running_loop()
            connections.log_exhaustion_once(loop)
            await super().startup(sockets)
            listening.listen(connections.QUEUE_LENGTH)
            self.sweeping = loop.create_task(connections.sweep(self.server_state.connections))
            shown = f"[{host}]" if ":" in host else host
            announce(f"http://{shown}:{port}/")

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            self.sweeping.cancel()
            await super().shutdown(sockets)

    servers.append(Server(config))
    logging.getLogger("uvicorn.error").addFilter(connections.LOG_ONCE)
    return servers[0]  # type: ignore[no-any-return]
