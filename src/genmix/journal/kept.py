"""The samples that a run keeps, in ``kept.json`` next to its journal.

The file can be lost: which samples are kept follows from the journal and the study. During a run, it
contains the scores of the best set so far, without the samples.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from genmix.core.atomic import write_json
from genmix.core.plain import finite, plain_scores
from genmix.errors import InputError
from genmix.journal.reader import JournalReader
from genmix.journal.schema import corrupt, embedding_of
from genmix.objectives import Batch, Objective
from genmix.offline.keep import keep, rows_of, set_scores
from genmix.offline.keeping import Baselines, Rules
from genmix.offline.predict_keep import predict
from genmix.offline.sample_losses import step_work
from genmix.solvers.subset import SubsetProgress

KEPT = "kept.json"
SMALL_DIMENSION = 512
"""Up to this dimension, linear algebra runs on one thread, so that all sessions compute the same set."""

MOST_PREDICTED = 5000
"""Number of samples up to which the end of a run predicts what more samples are worth."""

LIVE_TOLERANCE = 0.02
"""Tolerance of the search for the best set so far."""

LIVE_WORK = 1e10
"""Maximum number of floating-point operations per step of this search; about two seconds on one core."""

Plain = dict[str, Any]


def keep_rules(journal: JournalReader) -> Rules | None:
    """Return how many samples the study of a run keeps; None if it keeps all."""
    found = journal.study().get("keep")
    try:
        return None if found is None else Rules(**found)
    except (TypeError, ValueError) as error:
        raise corrupt(journal.path, "its study has an invalid 'keep'") from error


def read_kept(folder: Path) -> Plain | None:
    """Return the content of ``kept.json``; None if there is no readable file."""
    try:
        found = json.loads((folder / KEPT).read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def current_kept(journal: JournalReader) -> Plain | None:
    """Return the kept set of a run if it was chosen from all samples under the current study."""
    found = read_kept(journal.path.parent)
    expected = _origin(journal) | {"is_final": True}
    is_current = found is not None and all(found.get(key) == expected[key] for key in expected)
    return found if is_current and found is not None and _has_valid_ids(found, journal) else None


def _origin(journal: JournalReader) -> Plain:
    """What the kept set of a run follows from."""
    return {
        "run": journal.meta("run"),
        "keep": journal.study().get("keep"),
        "samples": sum(journal.told_counts().values()),
    }


def _has_valid_ids(found: Plain, journal: JournalReader) -> bool:
    ids = found.get("ids")
    if ids is None:
        return isinstance(found.get("problem"), str)
    told = {ticket for ticket, *_ in journal.told_numbers()}
    return isinstance(ids, list) and all(isinstance(i, int) and i in told for i in ids)


def choose_kept(journal: JournalReader, objective: Objective, seed: int) -> Plain:
    """Choose the samples to keep; the result has ``ids``, or a ``problem`` if that is not possible."""
    rules = keep_rules(journal)
    assert rules is not None
    found: Plain = {"problem": None}
    chosen: list[int] | None = None
    try:
        ids, arms, batch = told_batch(journal)
        objective.check(batch, "the samples")
        candidates = rules.candidates(batch)
        count = min(rules.count(len(batch)), len(candidates))
        with _threads(batch):
            baselines = Baselines.of(
                batch, objective, count, encoder=journal.meta("encoder"), seed=seed
            )
            selection = baselines.keep(candidates, seed=seed)
        rows = selection.kept.indices
        chosen = sorted(ids[i] for i in rows)
        found |= selection.as_dict() | {
            "arms": dict(Counter(arms[i] for i in rows)),
        }
    except InputError as error:
        found["problem"] = str(error)
    return found | _origin(journal) | {"is_final": True, "ids": chosen}


def _prediction(journal: JournalReader, objective: Objective, seed: int) -> Plain | None:
    """Predict what a quarter more samples are worth; None if there are too few samples or very many."""
    rules, (_, _, batch) = keep_rules(journal), told_batch(journal)
    if rules is None or len(batch) > MOST_PREDICTED:
        return None
    fixed = objective.fix_bandwidths([batch.embeddings])
    try:
        with _threads(batch):
            found = predict(batch, fixed, rules, max(len(batch) // 4, 1), seed)
    except InputError:
        return None
    plain: Plain = finite(found.as_dict() | {"text": str(found)})
    return plain


def write_kept(
    journal: JournalReader, objective: Objective, seed: int, advice: str
) -> Plain | None:
    """Choose the samples to keep, unless a complete search has done so, and write ``kept.json``.

    What more samples are worth is predicted afterward, so that Ctrl-C costs only the prediction. Return
    None if the study keeps all samples.
    """
    if keep_rules(journal) is None:
        return None
    path, found = journal.path.with_name(KEPT), current_kept(journal)
    if found is None or found.get("interrupted"):
        found = choose_kept(journal, objective, seed)
        write_json(path, found, advice)
    if found["ids"] is None or found.get("interrupted") or "prediction" in found:
        return found
    with suppress(KeyboardInterrupt):  # a resumed run predicts again
        prediction = {"prediction": _prediction(journal, objective, seed)}
        found = {**found, **prediction, "ids": found["ids"]}
        write_json(path, found, advice)
    return found


def told_batch(journal: JournalReader) -> tuple[Sequence[int], Sequence[str], Batch]:
    """Return the tickets, the arms, and the embeddings, quality and cost of all told samples."""
    told = journal.told_numbers()
    if not told:
        raise InputError("there are no samples yet; continue the run.")
    tickets, arms, quality, cost = zip(*told, strict=True)
    found = np.stack([embedding_of(row) for row in journal.samples_of(tickets)])
    rows = found.astype(np.float64)
    return tickets, arms, Batch(rows, _numbers(quality), _numbers(cost))


def _numbers(values: Sequence[float | None]) -> Any:
    return None if None in values else np.array(values, dtype=np.float64)


def _threads(batch: Batch) -> AbstractContextManager[Any]:
    is_small = batch.embeddings.shape[1] <= SMALL_DIMENSION
    return threadpool_limits(1, "blas") if is_small else nullcontext()


# -- during the run ----------------------------------------------------------------------------------


def predict_kept(folder: Path, objective: Objective, samples: int, more: int, seed: int) -> Plain:
    """Predict, from the first ``samples`` of a run, what the next ones are worth for the kept set.

    Raises
    ------
    InputError
        If there are too few samples, or if they have no quality.
    """
    with JournalReader.open(folder) as journal, journal.snapshot():
        rules = keep_rules(journal)
        _, _, batch = told_batch(journal)
    assert rules is not None
    first = rows_of(batch, np.arange(samples))
    fixed = objective.fix_bandwidths([first.embeddings])
    with _threads(batch):
        return finite(predict(first, fixed, rules, more, seed).as_dict())  # type: ignore[no-any-return]


def write_kept_so_far(
    folder: Path, objective: Objective, progress: Callable[[SubsetProgress], None]
) -> None:
    """Score the best set of the samples so far, roughly, and write ``kept.json`` without the samples.

    Nothing is written if a single step of the search would take too long.
    ``progress`` ends the search with the best set so far if it raises KeyboardInterrupt.
    """
    with JournalReader.open(folder) as journal, journal.snapshot():
        rules, origin = keep_rules(journal), _origin(journal)
        _, _, batch = told_batch(journal)
    assert rules is not None
    candidates = rules.candidates(batch)
    count = rules.count(len(batch))
    dimension = int(batch.embeddings.shape[1])
    if count >= len(candidates) or step_work(objective, len(candidates), dimension) > LIVE_WORK:
        return
    part = rows_of(batch, candidates)
    found = keep(
        part.embeddings,
        count,
        objective,
        quality=part.quality,
        cost=part.cost,
        tolerance=LIVE_TOLERANCE,
        progress=progress,
    )
    every = set_scores(found.objective, batch, None)[1]
    content = {
        "is_final": False,
        "count": count,
        "scores": plain_scores(found.score),
        "all_scores": plain_scores(every),
        "bound": finite(found.bound),
    }
    write_json(folder / KEPT, origin | content)
