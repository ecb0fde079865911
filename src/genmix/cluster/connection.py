"""Connect this process to a Ray cluster."""

from __future__ import annotations

import logging
import os
import socket
from contextlib import suppress

from genmix.cluster.signals import own_signals
from genmix.core.optional import require
from genmix.core.text import describe_error
from genmix.errors import InputError

ADDRESS = "RAY_ADDRESS"
"""An environment variable of Ray with the address of a cluster."""

SKIPPED = "RAY_DEDUP_LOGS_SKIP_REGEX"
"""An environment variable of Ray: a pattern of messages that Ray does not print."""

DEATHS = "A worker died or was killed while executing a task"
"""How Ray's message about a dead worker begins. genmix reports each death in a sentence of its own."""

CONNECTION_LIMIT = 5.0
"""Seconds within which the head of a cluster must accept a connection."""


def connect(address: str | None) -> bool:
    """Connect to a cluster; without an address, use ``$RAY_ADDRESS`` or start one on this machine.

    A connection that the process already has is used instead. Returns whether the connection is new. If it
    is, the caller must close it.
    """
    os.environ.setdefault(SKIPPED, DEATHS)  # Ray reads it when it is imported
    ray = require("ray", extra="ray", what="the engine ray")
    if ray.is_initialized():
        if address not in (None, "auto"):
            _check_connection(address)
        return False
    # Like Ray, prefer the variable to auto.
    variable = os.environ.get(ADDRESS) if address in (None, "auto") else None
    where = variable or address or "local"
    _refuse_client(where, bool(variable))
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    options = {"include_dashboard": False} if where == "local" else {}
    try:
        _check_reachable(where)
        with own_signals():
            ray.init(where, log_to_driver=False, logging_level=logging.CRITICAL, **options)
    except Exception as error:  # Ray raises many types
        raise _connection_error(where, bool(variable), error) from error
    except KeyboardInterrupt:
        if ray.is_initialized():
            ray.shutdown()
        raise
    return True


def _connection_error(where: str, is_variable: bool, error: Exception) -> InputError:
    if where == "auto" and "Could not find any running Ray instance" in str(error):
        otherwise = f"unset {ADDRESS}" if is_variable else "leave out the address"
        return InputError(
            "no Ray cluster is running on this machine; start one with 'ray start --head', or "
            f"{otherwise}."
        )
    source, otherwise = "", "correct the address"
    if is_variable:
        source, otherwise = f", the address in {ADDRESS}", f"correct or unset {ADDRESS}"
    return InputError(
        f"cannot connect to the Ray cluster at {where}{source} ({describe_error(error)}); start it, or "
        f"{otherwise}."
    )


def _refuse_client(address: str, is_variable: bool = False) -> None:
    if address.startswith("ray://"):
        first = f"unset {ADDRESS}, and " if is_variable else ""
        raise InputError(
            f"{address} is a Ray client address, and Ray's client cannot stream results; {first}start "
            "genmix on a node of the cluster, with the address auto."
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
