"""Runs of a comparison made in several processes, and what is finished kept."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from queue import Empty, Queue
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO

from genmix.comparison.plan import Plan
from genmix.comparison.store import Store
from genmix.comparison.worker import make
from genmix.core import state
from genmix.errors import InputError

Progress = Callable[[int, int], None]
"""Takes how many runs are finished, and of how many."""


def cores() -> int:
    """How many processes can work at once."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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
    if workers > 1 and len(places) > 1 and plan.travels:
        finished = _together(plan, store, places, min(workers, len(places)))
    with closing(finished):  # an interrupt in progress() ends the processes, too
        for _ in finished:
            done += 1
            progress(done, total)


def _alone(plan: Plan, store: Store, places: Sequence[int]) -> Generator[int, None, None]:
    for place in places:
        make(plan, place, store)
        yield place


def _together(
    plan: Plan, store: Store, places: Sequence[int], workers: int
) -> Generator[int, None, None]:
    """Runs in the order in which processes finish them; a failing one ends all."""
    todo: Queue[int] = Queue()
    for place in places:
        todo.put(place)
    answers: Queue[int | str] = Queue()
    with TemporaryDirectory() as scratch:
        file = Path(scratch, "plan.npz")
        state.save(file, plan.plain())
        with _processes([str(file), str(store.folder)], workers) as crew:
            for worker, words in crew:
                threading.Thread(
                    target=_feed, args=(worker, words, todo, answers), daemon=True
                ).start()
            for _ in places:
                answer = answers.get()
                if isinstance(answer, str):
                    raise InputError(f"a run of the comparison failed: {answer}.")
                yield answer


Worker = tuple[subprocess.Popen[str], IO[bytes]]
"""A process, and the file that takes what it complains about: a pipe could fill up and hold it."""


@contextmanager
def _processes(arguments: list[str], workers: int) -> Iterator[list[Worker]]:
    # -P: as in this process, modules of the current folder are not taken for others.
    command = [sys.executable, "-P", "-m", "genmix.comparison.worker", *arguments]
    # One thread from the start: a library that began with more may keep memory for them.
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    places = os.pathsep.join(part for part in sys.path if part)
    environment = {**os.environ, **threads, "PYTHONPATH": places}
    crew: list[Worker] = []
    try:
        for _ in range(workers):
            words: IO[bytes] = TemporaryFile()  # noqa: SIM115 - closed below
            worker = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=words,
                text=True,
                env=environment,
                start_new_session=True,  # Ctrl-C is for us; it ends them with us
            )
            crew.append((worker, words))
        yield crew
    finally:
        for worker, said in crew:
            worker.kill()
            worker.wait()
            for pipe in (worker.stdin, worker.stdout, said):
                with suppress(OSError):
                    pipe.close()  # type: ignore[union-attr]


def _feed(
    worker: subprocess.Popen[str], words: IO[bytes], todo: Queue[int], answers: Queue[int | str]
) -> None:
    """Hand one run after the other to a worker; tell what it answers, or its last words."""
    assert worker.stdin is not None
    assert worker.stdout is not None
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
            answers.put(_last_words(words))
            return
        answers.put(place)


def _last_words(words: IO[bytes]) -> str:
    said = ""
    with suppress(OSError, ValueError):
        words.seek(0)
        said = words.read().decode("utf-8", "replace").strip()
    last = said.splitlines()[-1] if said else "its process was ended"
    return last.removeprefix("genmix.errors.InputError: ").removesuffix(".")
