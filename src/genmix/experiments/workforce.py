"""Runs of a comparison made in several processes, and what is finished kept."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, Queue
from tempfile import TemporaryDirectory
from typing import Any

from genmix import state
from genmix.description import Description, has_missing
from genmix.errors import InputError
from genmix.experiments.plan import Plan
from genmix.experiments.store import Store
from genmix.experiments.worker import make

Progress = Callable[[int, int], None]
"""Takes how many runs are finished, and of how many."""


def make_all(plan: Plan, store: Store, workers: int, progress: Progress) -> None:
    """Make every run of the plan that is not there yet."""
    cells = plan.cells
    keys = [plan.key(*cell) for cell in cells]
    missing = {key: place for place, key in enumerate(keys) if not store.has(key)}
    places = sorted(missing.values())
    done = len(set(keys)) - len(places)
    total = len(set(keys))
    progress(done, total)
    finished = _alone(plan, store, places)
    if workers > 1 and len(places) > 1 and _travels(plan):
        finished = _together(plan, store, places, min(workers, len(places)))
    for _ in finished:
        done += 1
        progress(done, total)


def _alone(plan: Plan, store: Store, places: Sequence[int]) -> Iterator[int]:
    for place in places:
        make(plan, place, store)
        yield place


def _travels(plan: Plan) -> bool:
    """Whether other processes know all that the plan names: no functions or classes of the user's."""
    parts: list[Any] = [plan.objective, *plan.variants.values()]
    return all(_is_ours(part) for part in parts)


def _is_ours(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_is_ours, value))
    if isinstance(value, Description):
        ours = type(value).__module__.startswith("genmix.")
        return ours and all(_is_ours(part) for part in vars(value).values())
    return not callable(value) and has_missing(value) is None


def _together(plan: Plan, store: Store, places: Sequence[int], workers: int) -> Iterator[int]:
    """Runs in the order in which processes finish them; a failing one ends all."""
    todo: Queue[int] = Queue()
    for place in places:
        todo.put(place)
    answers: Queue[int | str] = Queue()
    with TemporaryDirectory() as scratch:
        file = Path(scratch, "plan.npz")
        state.save(file, plan.plain())
        with _processes([str(file), str(store.folder)], workers) as crew:
            for each in crew:
                threading.Thread(target=_feed, args=(each, todo, answers), daemon=True).start()
            for _ in places:
                answer = answers.get()
                if isinstance(answer, str):
                    raise InputError(f"a run of the comparison failed: {answer}.")
                yield answer


@contextmanager
def _processes(arguments: list[str], workers: int) -> Iterator[list[subprocess.Popen[str]]]:
    command = [sys.executable, "-m", "genmix.experiments.worker", *arguments]
    # One thread from the start: a library that began with more may keep memory for them.
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    places = os.pathsep.join(part for part in sys.path if part)
    environment = {**os.environ, **threads, "PYTHONPATH": places}
    crew = []
    try:
        for _ in range(workers):
            crew.append(
                subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    env=environment,
                    start_new_session=True,  # Ctrl-C is for us; it ends them with us
                )
            )
        yield crew
    finally:
        for each in crew:
            each.kill()
        for each in crew:
            each.wait()
            for pipe in (each.stdin, each.stdout, each.stderr):
                with suppress(OSError):
                    pipe.close()  # type: ignore[union-attr]


def _feed(worker: subprocess.Popen[str], todo: Queue[int], answers: Queue[int | str]) -> None:
    """Hand one run after the other to a worker; tell what it answers, or its last words."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    assert worker.stderr is not None
    while True:
        try:
            place = todo.get_nowait()
        except Empty:
            return
        try:
            worker.stdin.write(f"{place}\n")
            worker.stdin.flush()
            answered = worker.stdout.readline().strip() == str(place)
        except (OSError, ValueError):
            answered = False
        if not answered:
            words = ""
            with suppress(OSError, ValueError):
                words = worker.stderr.read().strip()
            answers.put(words.splitlines()[-1] if words else "its process was ended")
            return
        answers.put(place)
