"""Jobs for worker processes, in a module that takes no time to import there."""

from __future__ import annotations

import os
import signal
import time
from typing import Any


def die(shared: Any, job: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def slow_square(shared: Any, job: int) -> int:
    time.sleep(0.05)
    return job**2


def with_lock(shared: Any, job: int) -> int:
    assert shared.acquire(blocking=False)
    shared.release()
    return job
