"""Groups of prompts: the weights of the arms in each group, and what to use there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genmix.charts.axes import short_name
from genmix.core.plain import by_name
from genmix.core.text import counted, listed, number, percent
from genmix.errors import GenmixError
from genmix.journal.prompts import prompt_of_ticket, prompts_of
from genmix.journal.reader import JournalReader
from genmix.journal.schema import embedding_of
from genmix.objectives import Objective
from genmix.offline.mixture import Mixture, optimal_mixture
from genmix.report.convergence import SIMILAR_SCORE
from genmix.report.facts import Facts
from genmix.runs.snapshot import read_snapshot

LEVELS = 10
"""Number of colors of the heat map."""
FEW_SAMPLES = 10
"""With fewer samples from an arm in a group, the report says nothing about that arm alone."""
MAX_GROUPS = 100
MAX_UNANSWERED = 20

Rows = dict[str, dict[str, NDArray[Any]]]


@dataclass(frozen=True)
class Cell:
    """The weight of an arm in a group."""

    weight: str
    level: int
    """Index of its color, from 0."""
    samples: int


@dataclass(frozen=True)
class GroupRow:
    """One group of prompts."""

    name: str
    samples: int
    cells: list[Cell]
    score: str
    """Score of the best mixture of the group's samples."""
    advice: str


@dataclass(frozen=True)
class GroupSection:
    """What the report says about the groups of prompts."""

    arms: list[str]
    score_title: str
    rows: list[GroupRow]
    unanswered: list[str]
    """Prompts that every arm failed to answer."""
    note: str


def group_section(facts: Facts) -> GroupSection | None:
    """Return the section on prompts; None if there is nothing to say about them."""
    with JournalReader.open(facts.folder) as journal:
        prompts = {prompt.id: prompt for prompt in prompts_of(journal)}
        if not prompts:
            return None
        ids = prompt_of_ticket(journal)
        rows: dict[str, dict[str, list[Any]]] = {}
        for row in journal.told_rows():
            group = prompts[ids[row["id"]]].group
            if group is not None:
                arms = rows.setdefault(group, {})
                arms.setdefault(row["arm"], []).append(embedding_of(row))
        weights, objective = _weights(journal, facts)
    lacking = [_unanswered(each) for each in facts.unanswered[:MAX_UNANSWERED]]
    arrays = {g: {a: np.stack(each) for a, each in arms.items()} for g, arms in rows.items()}
    names = [group for group in weights if group in arrays][:MAX_GROUPS]
    found = {group: _mixture(arrays[group], objective) for group in names}
    title = next((_title(mixture) for mixture in found.values() if mixture), "")
    lines = [
        _row(group, weights[group], arrays[group], found[group], facts.labels) for group in names
    ]
    if not lines and not lacking:
        return None
    return GroupSection(facts.labels, title, lines, lacking, _note(len(weights)))


def groups_of_samples(facts: Facts) -> list[str | None] | None:
    """Return the group of every sample that the report examines; None if the prompts have no groups."""
    if not facts.weights_by_group:
        return None
    with JournalReader.open(facts.folder) as journal:
        groups = {prompt.id: prompt.group for prompt in prompts_of(journal)}
        ids = prompt_of_ticket(journal)
    return [groups[ids[row["ticket"]]] for row in facts.subset.rows]


def _weights(
    journal: JournalReader, facts: Facts
) -> tuple[dict[str, dict[str, float]], Objective | None]:
    """Return the weights by group at the last snapshot, and the objective if it can be read."""
    try:
        saved = read_snapshot(journal)
    except GenmixError:
        saved = None
    if saved is None:
        return facts.weights_by_group, None
    return saved.selector.weights_by_group, saved.selector.objective


def _mixture(rows: dict[str, NDArray[Any]], objective: Objective | None) -> Mixture | None:
    """Return the best mixture of a group's own samples; None if it cannot be computed from them."""
    if objective is None:
        return None
    enough = {arm: x for arm, x in rows.items() if len(x) >= max(objective.least_samples, 2)}
    try:
        return optimal_mixture(enough, objective) if enough else None
    except GenmixError:  # e.g. the objective needs the quality of each sample
        return None


def _title(mixture: Mixture) -> str:
    name, score = next(iter(by_name(mixture.score).items()))
    return f"{short_name(name)} {'↑' if score.maximise else '↓'}"


def _row(
    group: str,
    weights: dict[str, float],
    rows: dict[str, NDArray[Any]],
    mixture: Mixture | None,
    labels: list[str],
) -> GroupRow:
    cells = [
        Cell(percent(w), round(LEVELS * w), len(rows.get(arm, ())))
        for arm in labels
        for w in [weights.get(arm, 0.0)]
    ]
    score = "–" if mixture is None else number(_value(mixture.score))
    total = sum(cell.samples for cell in cells)
    return GroupRow(group, total, cells, score, _advice(group, weights, rows, mixture))


def _value(score: Any) -> float:
    return float(next(iter(by_name(score).values())))


def _advice(
    group: str,
    weights: dict[str, float],
    rows: dict[str, NDArray[Any]],
    mixture: Mixture | None,
) -> str:
    """Say which arms to use for a group, and whether one of them is enough."""
    shares = sorted(((w, arm) for arm, w in weights.items() if w >= 0.01), reverse=True)
    used = listed(f"{arm} ({percent(w)})" for w, arm in shares)
    if mixture is None or not shares:
        return f"For {group}, use {used}." if shares else f"There is too little data for {group}."
    losses = {
        arm: loss for arm, loss in mixture.single_losses.items() if len(rows[arm]) >= FEW_SAMPLES
    }
    if not losses:
        return f"For {group}, use {used}; no arm has {counted(FEW_SAMPLES, 'sample')} there yet."
    together = _value(mixture.score)
    best = min(losses, key=lambda arm: losses[arm])
    for arm in (shares[0][1], best):
        alone = _value(mixture.single_scores[arm]) if arm in losses else 0.0
        if arm in losses and abs(alone - together) <= SIMILAR_SCORE * abs(together):
            return f"For {group}, use {arm}: alone it is as good as the mixture."
    if len(shares) == 1:
        return f"For {group}, use {used}."
    alone = _value(mixture.single_scores[best])
    return f"For {group}, use {used}: together {number(together)}, {best} alone {number(alone)}."


def _unanswered(found: dict[str, Any]) -> str:
    return f"{found['prompt']} (every arm failed: {listed(found['failed'])})"


def _note(groups: int) -> str:
    text = (
        "The run draws from these weights. Scores use only each group's own samples; an arm with few samples "
        "in a group looks worse than it is."
    )
    hidden = groups - MAX_GROUPS
    return f"{text} {counted(hidden, 'more group')} not shown." if hidden > 0 else text
