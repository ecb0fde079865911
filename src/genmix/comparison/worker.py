"""A process that makes runs of a comparison: ``python -m genmix.comparison.worker PLAN FOLDER``.

It reads places in the plan's list of runs from standard input, one a line, and answers each with the
same line when the run is on disk. It ends with its standard input, so none outlives its parent.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from queue import Queue

from threadpoolctl import threadpool_limits

from genmix.comparison.cell import play
from genmix.comparison.plan import Plan
from genmix.comparison.store import Store
from genmix.core import state


def make(plan: Plan, place: int, store: Store) -> None:
    """Make one run, on one thread: so that results do not depend on how many work at a time."""
    label, repeat = plan.cells[place]
    with threadpool_limits(1):
        store.write(plan.key(label, repeat), play(plan, label, repeat))


def main(file: Path, folder: Path) -> None:
    plan = Plan.from_plain(state.load(file))
    store = Store(folder)
    asked: Queue[str] = Queue()
    threading.Thread(target=_listen, args=(asked,), daemon=True).start()
    while True:
        line = asked.get()
        make(plan, int(line), store)
        print(line, flush=True)


def _listen(asked: Queue[str]) -> None:
    """Take orders, and end at once when there is nobody left to give any."""
    for line in sys.stdin:
        asked.put(line.strip())
    os._exit(0)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
