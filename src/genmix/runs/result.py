"""A finished or interrupted run, and the files that tell what came of it."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from genmix.core.atomic import write_json
from genmix.core.plain import finite, plain_scores, plain_weights
from genmix.errors import InputError
from genmix.runs.export import export, rows
from genmix.runs.journal import Journal
from genmix.runs.session import Session
from genmix.selector.selector import Selector
from genmix.study.config import Study

SUMMARY, WEIGHTS = "summary.json", "weights.json"
ENDS = ("finished", "interrupted", "trouble")


@dataclass(frozen=True)
class Run:
    """A run folder to read from."""

    folder: Path

    @property
    def summary(self) -> dict[str, Any]:
        """What came of it, as ``summary.json`` has it."""
        try:
            content: dict[str, Any] = json.loads((self.folder / SUMMARY).read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(
                f"{self.folder} has no summary: resume the run, which writes one at its end."
            ) from error
        return content

    @property
    def status(self) -> str:
        """finished, interrupted, trouble, or unfinished if it runs or was killed."""
        journal = Journal.open(self.folder, readonly=True)
        try:
            last = journal.events()[-1:]
        finally:
            journal.close()
        return last[0]["kind"] if last and last[0]["kind"] in ENDS else "unfinished"

    @property
    def weights(self) -> dict[str, float]:
        found: dict[str, float] = self.summary["weights"]
        return found

    @property
    def counts(self) -> dict[str, int]:
        found: dict[str, int] = self.summary["counts"]
        return found

    def samples(self) -> Iterator[dict[str, Any]]:
        """Every told sample as the exports have it."""
        journal = Journal.open(self.folder, readonly=True)
        try:
            yield from rows(journal)
        finally:
            journal.close()

    @property
    def timeline(self) -> list[dict[str, Any]]:
        """How weights and scores went: a row whenever the samples had grown by a fiftieth."""
        journal = Journal.open(self.folder, readonly=True)
        try:
            return journal.timeline()
        finally:
            journal.close()

    def report(self, out: str | os.PathLike[str] | None = None) -> Path:
        """Write the report, one HTML file, by default into the run folder; give its path."""
        from genmix.report import write_report

        return write_report(self.folder, out)

    def chart(self, name: str) -> Any:
        """A chart of the report as an Altair chart: scores, weights, pooled, map or cost."""
        from genmix.report import run_chart

        return run_chart(self.folder, name)

    def _repr_html_(self) -> str:
        from genmix.report.notebook import run_html

        return run_html(self)


def write_results(folder: Path, plan: Study, session: Session) -> Run:
    """The summary, the weights and the data set beside the journal; each can be made again from it."""
    selector = session.selector
    advice = "make room, then resume the run"
    write_json(folder / SUMMARY, summary_of(plan, session), advice)
    write_json(folder / WEIGHTS, plain_weights(selector.mixture), advice)
    export(folder, "jsonl")
    return Run(folder)


def summary_of(plan: Study, session: Session) -> dict[str, Any]:
    selector, journal = session.selector, session.journal
    events, failures = journal.events(), journal.failures()
    tokens = journal.tokens()
    end = next((e for e in reversed(events) if e["kind"] in ENDS), None)
    return {
        "name": plan.name,
        "status": "unfinished" if end is None else end["kind"],
        "reason": None if end is None else end["detail"]["why"],
        "samples": sum(selector.counts.values()),
        "counts": selector.counts,
        "weights": selector.mixture,
        "gap": finite(selector.gap),
        "score": plain_scores(selector.score),
        "pooled_score": plain_scores(selector.pooled_score),
        "single_scores": single_scores(selector),
        "cost": math.fsum(journal.spent()),
        "input_tokens": tokens[0],
        "output_tokens": tokens[1],
        "seconds": journal.running_time(),
        "failures": dict(Counter(failure["arm"] for failure in failures)),
        "last_failure": {failure["arm"]: failure["message"] for failure in failures},
        "suspensions": dict(Counter(e["arm"] for e in events if _is_suspension(e))),
        "retired": [arm for arm in selector.counts if arm not in selector.arms],
        "objective": repr(selector.objective),
        "encoder": journal.meta("encoder"),
        "seed": plan.seed,
        "genmix": journal.meta("genmix"),
        "numpy": np.__version__,
    }


def _is_suspension(event: dict[str, Any]) -> bool:
    return event["kind"] in ("retire", "suspend") and "pause" in event["detail"]


def single_scores(selector: Selector) -> dict[str, Any]:
    """What every active arm's own samples score."""
    return {arm: plain_scores(score) for arm, score in selector.single_scores.items()}
