"""The results of a run: the public ``Run``, ``summary.json`` and ``weights.json``."""

from __future__ import annotations

import copy
import json
import math
import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from genmix.core.atomic import write_json
from genmix.core.plain import finite, plain_scores, plain_weights
from genmix.core.text import counted
from genmix.errors import InputError
from genmix.journal.kept import write_kept
from genmix.journal.prompts import unanswered_prompts
from genmix.journal.reader import JournalReader
from genmix.runs.export import DataSet, export
from genmix.runs.inactive import SUSPENDED, inactive_arms, is_suspension
from genmix.runs.session import Session
from genmix.runs.spending.planning import left_out
from genmix.selector.selector import Selector
from genmix.study.sections import Budget
from genmix.study.study import Study

SUMMARY, WEIGHTS = "summary.json", "weights.json"
ENDS = ("finished", "interrupted", "trouble")
NOT_IN_SUMMARY = ("ids", "run", "keep", "is_final", "objective")
"""What the summary omits from ``kept.json``."""


@dataclass(frozen=True)
class Run:
    """A run folder, with the results of a finished or unfinished run. Print it to see them.

    Parameters
    ----------
    folder : str or path
        The run folder.

    Attributes
    ----------
    folder : Path
        The run folder.
    status : str
        ``finished``, ``interrupted``, ``trouble`` (stopped by an error), or ``unfinished`` while it is
        running or after it was killed.
    reason : str or None
        Why the run ended; None if it has not.
    summary : dict
        The content of ``summary.json``.
    weights : dict of str to float
        The weights of the final mixture, by arm.
    score : dict of str to float
        The scores of the final mixture, by objective; empty if there are too few samples.
    counts : dict of str to int
        The number of samples, by arm.
    timeline : list of dict
        Weights and scores over the run; the number of samples grows by about 2% from row to row.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import genmix as gx
    >>> folder = tempfile.TemporaryDirectory()
    >>> np.save(f"{folder.name}/cats.npy", np.random.default_rng(0).normal(size=(100, 4)))
    >>> arms = {"cats": {"kind": "recorded", "path": f"{folder.name}/cats.npy"}}
    >>> study = {"arms": arms, "objective": "vendi", "budget": {"samples": 40}}
    >>> gx.run(study, f"{folder.name}/run").status
    'finished'
    >>> run = gx.Run(f"{folder.name}/run")
    >>> run.weights
    {'cats': 1.0}
    >>> len(list(run.samples()))
    40
    >>> run.timeline[-1]["samples"]
    40
    >>> folder.cleanup()
    """

    folder: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", Path(self.folder))

    @property
    def summary(self) -> dict[str, Any]:
        """The content of ``summary.json``."""
        try:
            content: dict[str, Any] = json.loads((self.folder / SUMMARY).read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(
                f"{self.folder} has no readable {SUMMARY}; write it with `genmix resume {self.folder}`."
            ) from error
        return content

    @property
    def status(self) -> str:
        """``finished``, ``interrupted``, ``trouble`` or ``unfinished``."""
        with JournalReader.open(self.folder) as journal:
            last = journal.events()[-1:]
        return last[0]["kind"] if last and last[0]["kind"] in ENDS else "unfinished"

    @property
    def reason(self) -> str | None:
        """Why the run ended; None if it has not."""
        found: str | None = self.summary["reason"]
        return found

    @property
    def weights(self) -> dict[str, float]:
        """The weights of the final mixture, by arm."""
        found: dict[str, float] = self.summary["weights"]
        return found

    @property
    def score(self) -> dict[str, float]:
        """The scores of the final mixture, by objective; empty if there are too few samples."""
        return {name: found["value"] for name, found in (self.summary["score"] or {}).items()}

    @property
    def counts(self) -> dict[str, int]:
        """The number of samples, by arm."""
        found: dict[str, int] = self.summary["counts"]
        return found

    def samples(self) -> Iterator[dict[str, Any]]:
        """Iterate over all samples in order, with the columns of the exports.

        Yields
        ------
        dict
            One row per sample: ``sample_id``, ``model_name``, ``text`` and so on.
        """
        with JournalReader.open(self.folder) as journal:
            yield from DataSet.of(journal, all=True).rows()

    @property
    def timeline(self) -> list[dict[str, Any]]:
        """Weights and scores over the run; the number of samples grows by about 2% from row to row."""
        with JournalReader.open(self.folder) as journal:
            return journal.timeline()

    def report(self, out: str | os.PathLike[str] | None = None) -> Path:
        """Write the report, a single HTML file.

        Parameters
        ----------
        out : str or path, optional
            The file to write. Default: ``report.html`` in the run folder.

        Returns
        -------
        Path
            The file that was written.
        """
        from genmix.report import write_report

        return write_report(self.folder, out)

    def chart(self, name: str) -> Any:
        """Return a chart from the report.

        Parameters
        ----------
        name : {"scores", "weights", "pooled", "map", "cost", "frontier"}
            The name of the chart.

        Returns
        -------
        altair.Chart
        """
        from genmix.report import run_chart

        return run_chart(self.folder, name)

    def __repr__(self) -> str:
        from genmix.report.notebook_repr import run_text

        return run_text(self)

    def _repr_html_(self) -> str:
        from genmix.report.notebook_repr import run_html

        return run_html(self)


def failures_of(run: Run) -> list[str]:
    """Say why a run had to stop early, and which arms never delivered a sample, one sentence each."""
    summary = run.summary
    if summary["status"] not in ("finished", "trouble"):
        return []
    with JournalReader.open(run.folder) as journal:
        arms, events = journal.meta("study")["arms"], journal.events()
    reasons = {e["arm"]: e["detail"].get("why") for e in events if e["kind"] == "retire"}
    lines = []
    if summary["status"] == "trouble":
        lines.append(
            f"the run in {run.folder} stopped early with {counted(summary['samples'], 'sample')} "
            f"({summary['reason'].rstrip('.')}); fix this, then continue with gx.resume."
        )
    for arm in arms:
        why = summary["last_failure"].get(arm) or reasons.get(arm)
        if not summary["counts"].get(arm) and why is not None:
            lines.append(f"arm {arm!r} never delivered a sample: {why.rstrip('.')}.")
    return lines


# -- the final mixture -------------------------------------------------------------------------------


def is_finished(journal: JournalReader) -> bool:
    """Return whether a run has spent its budget, and nothing has happened since."""
    return [event["kind"] for event in journal.events()[-1:]] == ["finished"]


def completion(
    selector: Selector, warm_start: int, exhausted: Collection[str], budget: Budget
) -> dict[str, Any]:
    """Return how the mixture of a finished run differs from the selector's.

    Exhausted arms are included if their warm start is complete, and arms whose warm start is incomplete
    are excluded. If the run planned its cost, the mixture is the best for the budget per sample; the last
    solve was for what was left at the end.
    """
    counts, active = selector.counts, selector.arms
    included = [a for a in exhausted if a not in active and counts[a] >= warm_start]
    excluded = [a for a in active if counts[a] < warm_start]
    found: dict[str, Any] = {"included": included, "excluded": excluded}
    if selector.mean_cost is not None and budget.cost is not None and budget.samples:
        found["mean_cost"] = budget.cost / budget.samples
    return {key: value for key, value in found.items() if value or key == "mean_cost"}


def complete_mixture(session: Session, found: Mapping[str, Any]) -> None:
    """Replace the selector of a finished run by one with these arms and this mean cost.

    No step is journaled, and the snapshot keeps the original: a run that is extended continues as if it had
    not ended here.
    """
    if not found:
        return
    session.selector = selector = copy.copy(session.selector)
    with session.threads():
        if "mean_cost" in found:
            selector.plan(found["mean_cost"])
            selector.solve()
        for arm in found.get("included", ()):
            selector.add_arm(arm)
        for arm in found.get("excluded", ()):
            if len(selector.arms) > 1:
                with suppress(InputError):  # the policy cannot do without it
                    selector.retire_arm(arm)


def completion_in(journal: JournalReader) -> dict[str, Any]:
    """Return the completion that the last event of a finished run recorded."""
    detail = journal.events()[-1]["detail"] if is_finished(journal) else {}
    return {key: detail[key] for key in ("included", "excluded", "mean_cost") if key in detail}


# -- files -------------------------------------------------------------------------------------------


def write_results(study: Study, session: Session) -> Run:
    """Write the kept samples, the summary, the weights and the data set next to the journal."""
    folder = session.journal.path.parent
    advice = f"free disk space, then run `genmix resume {folder}`"
    kept = write_kept(session.journal, session.selector.objective, study.seed, advice)
    selector = copy.copy(session.selector)
    with session.threads():
        selector.certify()
    summary = summary_of(study, session, selector) | _prompt_facts(study, session, selector)
    if kept is not None:
        summary["kept"] = {key: kept[key] for key in kept if key not in NOT_IN_SUMMARY}
    write_json(folder / SUMMARY, summary, advice)
    write_json(folder / WEIGHTS, plain_weights(session.selector.mixture), advice)
    export(folder, "jsonl")
    return Run(folder)


def summary_of(study: Study, session: Session, selector: Selector) -> dict[str, Any]:
    """Return the facts about a run; ``selector`` has been certified on all samples."""
    journal = session.journal
    events, failures = journal.events(), journal.failures()
    tokens = journal.tokens()
    end = next((e for e in reversed(events) if e["kind"] in ENDS), None)
    active = set(selector.arms)
    inactive = inactive_arms(events).items()
    suspended = [
        a for a, state in inactive if state == SUSPENDED and a in study.arms and a not in active
    ]
    in_use = active.union(suspended)
    return {
        "name": study.name,
        "status": "unfinished" if end is None else end["kind"],
        "reason": None if end is None else end["detail"]["why"],
        "samples": selector.total,
        "counts": selector.counts,
        "weights": selector.mixture,
        "gap": finite(selector.gap),
        "asked": study.budget.model_dump(exclude_none=True),
        "mean_cost": selector.mean_cost,
        "price_of_money": selector.price_of_money,
        "score": plain_scores(selector.score),
        "pooled_score": plain_scores(selector.pooled_score),
        "single_scores": {a: plain_scores(s) for a, s in selector.single_scores.items()},
        "cost": math.fsum(journal.costs()),
        "input_tokens": tokens[0],
        "output_tokens": tokens[1],
        "seconds": journal.running_time(),
        "failures": dict(Counter(failure["arm"] for failure in failures)),
        "last_failure": {failure["arm"]: failure["message"] for failure in failures},
        "suspensions": dict(Counter(e["arm"] for e in events if is_suspension(e))),
        "retired": [arm for arm in selector.counts if arm not in in_use],
        "suspended": suspended,
        "objective": repr(selector.objective),
        "encoder": journal.meta("encoder"),
        "seed": study.seed,
        "genmix": journal.meta("genmix"),
        "numpy": np.__version__,
    }


def _prompt_facts(study: Study, session: Session, selector: Selector) -> dict[str, Any]:
    """Return the weights by group and the prompts that every arm failed to answer, if there are prompts."""
    queue = session.prompts
    if queue is None:
        return {}
    unaffordable = left_out(session.journal)
    arms = [arm for arm in study.arms if arm not in unaffordable]
    facts = {"prompts": len(queue.prompts), "unanswered": unanswered_prompts(queue, arms)}
    if not selector.groups:
        return facts
    scores = {group: plain_scores(found) for group, found in selector.score_by_group.items()}
    return facts | {"weights_by_group": selector.weights_by_group, "score_by_group": scores}
