"""What timings depend on: processor, threads, versions, date."""

from __future__ import annotations

import datetime
import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

PACKAGES = ("genmix", "numpy", "scipy", "cvxpy", "torch", "daqp", "vendi-score")


def machine() -> dict[str, Any]:
    """The environment that is stored with every report."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "blas": _blas(),
        "threads": {key: value for key, value in os.environ.items() if "NUM_THREADS" in key},
        "load": os.getloadavg(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def _processor() -> str:
    facts = Path("/proc/cpuinfo")
    if facts.exists():
        for line in facts.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def _blas() -> list[dict[str, Any]] | str:
    """Libraries and their threads; without threadpoolctl, the BLAS that numpy was built with."""
    try:
        from threadpoolctl import threadpool_info
    except ImportError:
        built: Any = np.show_config(mode="dicts")
        return str(built["Build Dependencies"]["blas"]["name"])
    keys = ("internal_api", "version", "architecture", "num_threads")
    return [{key: pool.get(key) for key in keys} for pool in threadpool_info()]


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
