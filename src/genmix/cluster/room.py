"""Say why a worker did not start: whether any node of the cluster is large enough."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress

from genmix.cluster.resources import Resources
from genmix.core.threads import in_thread

Node = Mapping[str, float]
"""The resources of a node by name."""

PATIENCE = 2.0
"""Seconds to wait for the list of nodes; the cluster may be gone."""


async def why_not_started(worker: str, limit: float, needs: Resources) -> str:
    """Return a sentence about a worker that did not start within ``limit`` seconds."""
    return not_started(worker, limit, needs, await in_thread(living_nodes))


def living_nodes() -> list[Node]:
    """Return the resources of each node; none if the cluster does not answer."""
    import ray

    found: list[Node] = []

    def read() -> None:
        with suppress(Exception):  # Ray raises many types
            found.extend(node["Resources"] for node in ray.nodes() if node["Alive"])

    # Not even the end of the process waits for a daemon thread.
    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(PATIENCE)
    return list(found)


def not_started(worker: str, limit: float, needs: Resources, nodes: Sequence[Node]) -> str:
    reason = missing(needs, nodes)
    late = f"{worker} did not start within {limit:g} seconds"
    if reason is None:
        return f"{late}; check that a node of the cluster has room for its resources."
    return f"{late}: {reason}; request fewer resources, or add a node that has enough."


def missing(needs: Resources, nodes: Sequence[Node]) -> str | None:
    """Return what no node has, even if it is idle; None if a node has everything, or there is no node."""
    wanted = {"CPU": needs.num_cpus, "GPU": needs.num_gpus}
    if not nodes or any(_has_all(node, wanted) for node in nodes):
        return None
    for unit, amount in wanted.items():
        most = max(node.get(unit, 0.0) for node in nodes)
        if amount > most:
            available = f"more than {most:g}" if most else "any"
            return f"it needs {_counted(amount, unit)}, and no node of the cluster has {available}"
    both = " and ".join(_counted(amount, unit) for unit, amount in wanted.items())
    return f"it needs {both}, and no node of the cluster has both"


def _has_all(node: Node, wanted: Mapping[str, float]) -> bool:
    return all(node.get(unit, 0.0) >= amount for unit, amount in wanted.items())


def _counted(amount: float, unit: str) -> str:
    return f"{amount:g} {unit}{'' if amount == 1 else 's'}"
