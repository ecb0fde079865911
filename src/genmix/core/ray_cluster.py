"""Connect this process to a Ray cluster."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from genmix.core.optional import require
from genmix.core.text import describe_error
from genmix.errors import InputError

ADDRESS = "RAY_ADDRESS"
"""An environment variable of Ray with the address of a cluster."""

CONNECTION_LIMIT = 5.0
"""Seconds within which the head of a cluster must accept a connection."""


def connect(address: str | None) -> bool:
    """Connect to a cluster; without an address, use ``$RAY_ADDRESS`` or start one on this machine.

    A connection that the process already has is used instead. Returns whether the connection is new. If it
    is, the caller must close it.
    """
    ray = require("ray", extra="ray", what="the engine ray")
    if ray.is_initialized():
        if address not in (None, "auto"):
            _check_connection(address)
        return False
    where = address or os.environ.get(ADDRESS) or "local"
    _refuse_client(where)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    options = {"include_dashboard": False} if where == "local" else {}
    try:
        _check_reachable(where)
        with _own_signals():
            ray.init(where, log_to_driver=False, logging_level=logging.CRITICAL, **options)
    except Exception as error:  # Ray raises many types
        raise InputError(
            f"cannot connect to the Ray cluster at {where} ({describe_error(error)}); start it, or "
            "correct the address."
        ) from error
    return True


def _refuse_client(address: str) -> None:
    if address.startswith("ray://"):
        raise InputError(
            f"{address} is a Ray client address, and Ray's client cannot stream results; start genmix on "
            "a node of the cluster, with the address auto."
        )


def _check_reachable(address: str) -> None:
    """Open a connection for a moment, because Ray itself keeps trying for many minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), CONNECTION_LIMIT).close()


def _check_connection(address: str) -> None:
    """Refuse an address other than that of the cluster to which this process is connected."""
    import ray

    _refuse_client(address)
    connected = ray.get_runtime_context().gcs_address
    if _resolved(address) != _resolved(connected):
        raise InputError(
            f"this process is connected to the Ray cluster at {connected}, not to {address}; call "
            "ray.shutdown() first, or omit the address."
        )


def _resolved(address: str) -> tuple[str, str]:
    import ray

    host, _, port = address.rpartition(":")
    with suppress(OSError, UnicodeError):  # a name that is too long raises the latter
        host = socket.gethostbyname(host)
    if host.startswith("127."):  # Ray replaces it when it connects
        host = ray.util.get_node_ip_address()
    return host, port


@contextmanager
def _own_signals() -> Iterator[None]:
    """Keep the handler of SIGTERM, which Ray replaces."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
