"""Start, resume and watch runs."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from genmix.core.optional import in_notebook
from genmix.encoders.references import Note
from genmix.errors import GenmixError
from genmix.journal.journal import Journal
from genmix.journal.reader import JournalReader
from genmix.runs import prepare, result
from genmix.runs.execution import (
    Callback,
    Execution,
    Options,
    check_address,
    open_engine_of,
    warn_of_network,
    wrap_up,
)
from genmix.runs.interrupts import Interrupts
from genmix.runs.new_folder import DefaultFolder, NewFolder
from genmix.runs.result import Run
from genmix.runs.resume import Update, continue_run
from genmix.runs.spending.estimate import estimate
from genmix.runs.spending.supply import check_supply
from genmix.study.study import Study

__all__ = [
    "Callback",
    "Options",
    "check_address",
    "continue_run",
    "is_finished",
    "resume",
    "run",
    "start",
]

# -- public functions --------------------------------------------------------------------------------


def run(
    study: str | os.PathLike[str] | dict[str, Any] | Study,
    out: str | os.PathLike[str] | None = None,
    *,
    engine: str | None = None,
    address: str | None = None,
    callbacks: Sequence[Callback] = (),
    note: Note = lambda line: None,
    progress: bool | None = None,
) -> Run:
    """Run a study until its budget is spent.

    The run asks the selector for an arm, generates and embeds a sample, tells the selector, and repeats.
    Every step is journaled in the run folder, so that an interrupted run can be resumed. At the end, the
    folder contains the data set, the weights, a summary and a report.

    Parameters
    ----------
    study : str, path, dict or Study
        A study file or its folder, a dict with the same keys, or a Study. A dict can contain Python
        objects: functions as arms and encoder, objectives, kernels and policies, and arrays as references.
    out : str or path, optional
        The run folder, which must be new or empty. Default: ``runs/NAME``, or the first of
        ``runs/NAME-2``, ``runs/NAME-3`` and so on that is free.
    engine : {"local", "ray"}, optional
        Where to generate. Overrides the study's engine.
    address : str, optional
        The address of the Ray cluster, e.g. ``"auto"`` on one of its nodes. Default: ``$RAY_ADDRESS``, or
        a cluster on this machine that is stopped at the end.
    callbacks : sequence of callables, optional
        Each is called with the running study after every event. If it has a ``finish`` method, that
        method is called with the finished run.
    note : callable, optional
        Called with progress messages, e.g. ``print``.
    progress : bool, optional
        Whether to show a live view. Default: in notebooks only.

    Returns
    -------
    Run
        The finished run, or an interrupted one after Ctrl-C.

    Warns
    -----
    UserWarning
        If the run had to stop early (its status is ``trouble``), and for every arm that never delivered a
        sample.

    Raises
    ------
    InputError
        If the study is invalid or cannot start. In this case, nothing is written.
    StorageError
        If the run folder cannot be written, e.g. because the disk is full.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import genmix as gx
    >>> folder = tempfile.TemporaryDirectory()
    >>> arms = {}
    >>> for seed, arm in enumerate(("cats", "dogs")):
    ...     points = np.random.default_rng(seed).normal(size=(100, 4))
    ...     np.save(f"{folder.name}/{arm}.npy", points)
    ...     arms[arm] = {"kind": "recorded", "path": f"{folder.name}/{arm}.npy"}
    >>> study = {"arms": arms, "objective": "vendi", "budget": {"samples": 60}}
    >>> run = gx.run(study, f"{folder.name}/run")
    >>> run.status
    'finished'
    >>> sum(run.counts.values())
    60
    >>> folder.cleanup()
    """
    plan = prepare.Plan.of(study).with_engine(engine)
    check_address(plan.study, address)
    folder = NewFolder(Path(out)) if out is not None else DefaultFolder(plan.study.name, note)
    with _progress_view(progress) as views:
        found = start(plan, folder, Options([*views, *callbacks], note, address=address))
    if not progress:
        _warn_of_failures(found)
    return found


def resume(
    folder: str | os.PathLike[str] | Run,
    *,
    samples: int | None = None,
    cost: float | None = None,
    time: float | str | None = None,
    study: str | os.PathLike[str] | dict[str, Any] | Study | None = None,
    engine: str | None = None,
    address: str | None = None,
    callbacks: Sequence[Callback] = (),
    note: Note = lambda line: None,
    progress: bool | None = None,
) -> Run:
    """Continue a run that was interrupted or killed, extend a finished one, or change its study.

    Samples that were already generated are never generated or paid for again. Without a new budget or a
    changed study, only the results of a finished run are written again.

    With one sample in flight and a budget of samples, an extended run equals the run that had the larger
    budget from the start, bit for bit.

    Parameters
    ----------
    folder : str, path or Run
        The run, or its folder.
    samples, cost, time : optional
        New limits for the whole run, including what it has already used. Time is in seconds, or written
        as in a study, e.g. ``"1h"``. Limits that are not given stay as they are.
    study : str, path, dict or Study, optional
        A changed study. New arms join with a warm start, removed arms retire, and changed prices,
        weights, retries, limits and stopping rules apply. The seed, the encoder, the objective, the policy
        and what the arms generate must stay the same. The paths in a dict are relative to the folder in
        which the run was started. If the study contains Python objects, pass it with the same objects:
        a journal cannot store them. If its budget is the one that was passed before, the limits that the
        run got since then stay.
    engine, address, callbacks, note, progress
        As for :func:`genmix.run`. A run can continue on another engine.

    Returns
    -------
    Run

    Raises
    ------
    InputError
        If the folder is not a run folder, is in use, or its study cannot start or cannot be changed like
        this. In this case, the run stays as it was.
    StorageError
        If the journal is corrupt or the folder cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import genmix as gx
    >>> folder = tempfile.TemporaryDirectory()
    >>> np.save(f"{folder.name}/cats.npy", np.random.default_rng(0).normal(size=(100, 4)))
    >>> arms = {"cats": {"kind": "recorded", "path": f"{folder.name}/cats.npy"}}
    >>> study = {"arms": arms, "objective": "vendi", "budget": {"samples": 60}}
    >>> def stop(live):
    ...     if live.told == 30:
    ...         live.loop.stop("interrupted")
    >>> gx.run(study, f"{folder.name}/run", callbacks=[stop]).status
    'interrupted'
    >>> run = gx.resume(f"{folder.name}/run")
    >>> run.status, run.counts
    ('finished', {'cats': 60})

    Now 20 more:

    >>> gx.resume(run, samples=80).counts
    {'cats': 80}
    >>> folder.cleanup()
    """
    place = folder.folder if isinstance(folder, Run) else Path(folder)
    update = Update(study, samples, cost, time, engine)
    with _progress_view(progress) as views:
        options = Options([*views, *callbacks], note, address=address)
        found = continue_run(place, options, update)
    if not progress:
        _warn_of_failures(found)
    return found


def _warn_of_failures(found: Run) -> None:
    """Warn the caller of ``run`` or ``resume`` of a run that stopped early, and of arms without a sample."""
    for line in result.failures_of(found):
        warnings.warn(line, stacklevel=3)


@contextmanager
def _progress_view(progress: bool | None) -> Iterator[list[Callback]]:
    """Provide the live view for a notebook or a terminal, if requested."""
    if in_notebook() and progress is not False:
        from genmix.cli.live.notebook import NotebookView

        yield [NotebookView()]
    elif progress:
        from rich.console import Console

        from genmix.cli.live.lasting_output import lasting_output
        from genmix.cli.live.terminal import make_view

        with lasting_output(), make_view(Console(stderr=True)) as view:
            yield [view]
    else:
        yield []


def is_finished(folder: Path) -> bool:
    """Return whether a run has spent its budget; False if its journal cannot be read."""
    with suppress(GenmixError), JournalReader.open(folder) as journal:
        return result.is_finished(journal)
    return False


# -- starting ----------------------------------------------------------------------------------------


def start(plan: prepare.Plan, folder: Path | NewFolder, options: Options) -> Run:
    """Start a new run in ``folder``. Nothing is written there if the study cannot start."""
    place = folder if isinstance(folder, NewFolder) else NewFolder(folder)
    place.check()
    warn_of_network(place.path, options)
    with open_engine_of(plan.study, options) as engine:
        parts = prepare.Parts.build(plan, options.note, engine=engine)
        check_supply(plan.study, parts.generators)
        for line in (*plan.notes, *estimate(plan.study, parts.generators).warnings):
            options.note(line)
        prepare.load_encoder(parts.selector.objective, parts.encoder, options.note)
        interrupts = Interrupts()

        async def begin() -> Run:
            await prepare.ping_all(parts.generators)
            with place.locked(interrupts.are_received) as own:
                meta = prepare.metadata(plan, own, parts)
                prompts = parts.prompts, parts.prompt_embeddings
                with Journal.create(own, meta, *prompts) as journal:
                    return await Execution(journal, plan.study, parts, options, interrupts).run()

        found = interrupts.run(parts.closing(begin()))
    return wrap_up(found, options)
