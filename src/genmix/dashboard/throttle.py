"""Slow down clients that guess tokens."""

from __future__ import annotations

import hashlib
import ipaddress
import time

MAX_FAILURES = 10
"""Number of different wrong tokens that a client can try before it has to wait."""

WINDOW = 60.0
"""Seconds after which a wrong token no longer counts."""

MAX_CLIENTS = 10_000
"""Maximum number of clients to remember; the oldest are forgotten first."""


class Throttle:
    """Counts the wrong tokens of each client. Repeating the same wrong token is not another guess."""

    def __init__(self) -> None:
        self._failures: dict[str, dict[bytes, float]] = {}
        """Times of the wrong tokens by client; tokens are stored as hashes."""

    def seconds_to_wait(self, client: str) -> float:
        """Return the seconds until the client can try another token; 0 if it can try now."""
        recent = self._recent(network_of(client))
        if len(recent) < MAX_FAILURES:
            return 0.0
        return max(sorted(recent.values())[-MAX_FAILURES] + WINDOW - time.monotonic(), 0.0)

    def record_failure(self, client: str, token: str) -> None:
        network = network_of(client)
        recent = self._recent(network)
        recent[hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()] = time.monotonic()
        self._failures.pop(network, None)
        self._failures[network] = recent
        while len(self._failures) > MAX_CLIENTS:
            del self._failures[next(iter(self._failures))]

    def _recent(self, network: str) -> dict[bytes, float]:
        start = time.monotonic() - WINDOW
        return {k: at for k, at in self._failures.get(network, {}).items() if at > start}


def network_of(client: str) -> str:
    """Return the address of a client; for IPv6 the /64 network, all of which one client can use."""
    try:
        address = ipaddress.ip_address(client.partition("%")[0])
    except ValueError:
        return client
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is None:
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(getattr(address, "ipv4_mapped", None) or address)
