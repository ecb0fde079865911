"""Say why a worker did not start: whether any node of the cluster could ever have room for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from genmix.core.resources import Resources


def not_started(worker: str, limit: float, needs: Resources) -> str:
    """Return a sentence about a worker that did not start within ``limit`` seconds."""
    import ray

    reason = None
    with suppress(Exception):  # the cluster may be gone
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        reason = missing(needs, nodes)
    late = f"{worker} did not start within {limit:g} seconds"
    if reason is None:
        return f"{late}; check that a node of the cluster has room for its resources."
    return f"{late}: {reason}; lower its resources, or add a node that has them."


def missing(needs: Resources, nodes: Sequence[Mapping[str, float]]) -> str | None:
    """Return what no node has, even if it is idle; None if a node has everything, or there is no node."""
    wanted = {"CPU": needs.num_cpus, "GPU": needs.num_gpus}
    if not nodes or any(_has_all(node, wanted) for node in nodes):
        return None
    for unit, amount in wanted.items():
        most = max(node.get(unit, 0.0) for node in nodes)
        if amount > most:
            return f"it needs {_counted(amount, unit)}, and no node of the cluster has more than {most:g}"
    both = " and ".join(_counted(amount, unit) for unit, amount in wanted.items())
    return f"it needs {both}, and no node of the cluster has both"


def _has_all(node: Mapping[str, float], wanted: Mapping[str, float]) -> bool:
    return all(node.get(unit, 0.0) >= amount for unit, amount in wanted.items())


def _counted(amount: float, unit: str) -> str:
    return f"{amount:g} {unit}{'' if amount == 1 else 's'}"
