"""Run one function in its own interpreter, and report its result and its peak memory.

``python -m bench.child bench.growth:feed '[...]'`` prints both as JSON.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import resource
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Answer:
    value: Any
    peak: float
    """Peak resident memory in MiB, including the interpreter and its libraries."""


def in_child(function: str, *arguments: Any) -> Answer:
    """Call ``module:function`` with plain arguments in a fresh interpreter."""
    command = [sys.executable, "-m", "bench.child", function, json.dumps(arguments)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return Answer(**json.loads(done.stdout.splitlines()[-1]))


def peak_mebibytes() -> float:
    """The peak resident memory of this process so far, in MiB."""
    status = Path("/proc/self/status")
    # Preferred over getrusage, which also counts the process that started this one.
    if status.exists():
        for line in status.read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 1024)


def fresh_peak_mebibytes() -> float:
    """Reset the peak to the memory that is resident now, if the system supports it."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    return peak_mebibytes()


if __name__ == "__main__":
    module, _, name = sys.argv[1].partition(":")
    value = getattr(importlib.import_module(module), name)(*json.loads(sys.argv[2]))
    print(json.dumps({"value": value, "peak": peak_mebibytes()}))
