"""The saved state of a run's selector, which spares a resumed run the replay of its journal."""

from __future__ import annotations

from dataclasses import dataclass

from genmix.core import state
from genmix.core.description import names_function
from genmix.errors import GenmixError, StorageError
from genmix.journal.reader import JournalReader
from genmix.objectives import Objective
from genmix.selector.selector import Selector

SNAPSHOT = "selector.npz"

SMALL_DIMENSION = 512
"""Up to this dimension, linear algebra runs on one thread. More threads gain nothing, and they stall for
seconds while generators keep the other cores busy. This is a constant so that all sessions compute
identical results."""


@dataclass(frozen=True)
class Snapshot:
    """The state of a selector at one step of its run."""

    selector: Selector
    step: int
    is_small: bool
    """Whether its matrices are small."""
    among: list[str] | None = None
    """The arms to draw from; None for all."""


def read_snapshot(journal: JournalReader, objective: Objective | None = None) -> Snapshot | None:
    """Read the snapshot next to a journal; return None if there is none.

    If the objective contains a function, which cannot be saved, there is none without ``objective``.

    Raises
    ------
    StorageError
        If the snapshot is damaged, from another version or from another run. The journal suffices.
    """
    path = journal.path.with_name(SNAPSHOT)
    if not path.exists():
        return None
    try:
        saved = state.load(path)
        run, step = saved["run"], saved["step"]
        is_complete = not names_function(saved["selector"]["objective"])
        if not is_complete and objective is None:
            return None
        selector = Selector.from_state_dict(saved["selector"], None if is_complete else objective)
        dimension, among = saved["selector"]["dimension"] or 0, saved.get("among")
    except GenmixError as error:
        raise StorageError(str(error)) from error
    except (KeyError, TypeError) as error:
        raise StorageError("it is not the snapshot of a run") from error
    if among is not None and not isinstance(among, list):
        raise StorageError("it is not the snapshot of a run")
    if run != journal.meta("run") or not isinstance(step, int) or step > journal.last_step():
        raise StorageError("it does not belong to this journal")
    return Snapshot(selector, step, 0 < dimension <= SMALL_DIMENSION, among)
