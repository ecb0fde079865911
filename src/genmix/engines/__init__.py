"""Where generation and embedding happen: in this process, or on a Ray cluster."""

from __future__ import annotations

from genmix.engines.base import Engine
from genmix.engines.local import LocalEngine

ENGINES = ("local", "ray")


def open_engine(name: str, address: str | None = None, start_limit: float = 60.0) -> Engine:
    """Return the engine with this name, connected to its cluster.

    ``start_limit`` is how many seconds a worker may take to start.
    """
    if name == "local":
        return LocalEngine()
    from genmix.engines.ray_engine import RayEngine

    return RayEngine.connect(address, start_limit)
