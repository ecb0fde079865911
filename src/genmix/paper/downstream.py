"""Beyond the paper: do kept samples help a classifier that is trained on them and tested on real images?

The reference of fashion consists of real images with equal numbers per class, sorted by class, so their
labels are known. One half of them is what a user has: the reference for the mixture and for ``keep``, and the
training set of a teacher that labels the generated samples. The other half is only for the test.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import genmix as gx
from genmix.comparison.presentation import VERDICTS
from genmix.comparison.statistics import LEVEL, holm, mean_interval, paired
from genmix.comparison.worlds import World, load_world
from genmix.paper.beyond_paper import reduced
from genmix.paper.items import Item, ItemOutput, Rows, Settings, in_parallel
from genmix.paper.keep_rivals import (
    facility_location,
    random_choice,
    similarity_threshold,
    unit,
)
from genmix.paper.markdown import plus_minus, table
from genmix.paper.student import STUDENTS, Scaling, softmax_regression
from genmix.paper.subsamples import draw_from

TEACHER_ENCODER = "classifier"
CLASSES = 10
SIZE, QUICK_SIZE = (300, 100), (90, 30)
"""Number of generated samples, and how many of them are kept."""
SEEDS, QUICK_SEEDS = 20, 2

SAME_SIZE, SAME_COST = "equal size", "equal cost"
RULES = {
    "random": random_choice,
    "facility location": facility_location,
    "similarity threshold": similarity_threshold,
}
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Task:
    """The features that the student and ``keep`` see, and those of the teacher, of the same images."""

    seen: World
    taught: World
    size: tuple[int, int]
    seed: int

    @property
    def labels(self) -> Indices:
        """The classes of the real images."""
        return np.repeat(np.arange(CLASSES), len(self.seen.need_reference()) // CLASSES)

    @property
    def sizes(self) -> list[int]:
        return [len(pool) for pool in self.seen.arms.values()]

    def split(self, rng: np.random.Generator) -> tuple[Indices, Indices]:
        """Split the real images into halves with equal numbers per class."""
        rows = np.arange(len(self.labels)).reshape(CLASSES, -1)
        shuffled = rng.permuted(rows, axis=1)
        half = shuffled.shape[1] // 2
        return shuffled[:, :half].ravel(), shuffled[:, half:].ravel()


def downstream(settings: Settings) -> ItemOutput:
    """Train classifiers on equally large and equally expensive sets, and compare their accuracy."""
    task = Task(
        reduced(load_world("fashion", settings.worlds)),
        load_world("fashion", settings.worlds, TEACHER_ENCODER),
        QUICK_SIZE if settings.quick else SIZE,
        settings.seed,
    )
    seeds = range(QUICK_SEEDS if settings.quick else SEEDS)
    results = in_parallel(settings, "downstream", one_seed, task, seeds)
    rows = [
        row
        for student in STUDENTS
        for comparison in (SAME_SIZE, SAME_COST)
        for row in _compared([each["sets"] for each in results], comparison, student)
    ]
    teacher = mean_interval(np.array([each["teacher"] for each in results]))
    text = [_introduction(task, len(seeds), plus_minus(teacher)), _findings(rows, task)]
    for comparison in (SAME_SIZE, SAME_COST):
        for student in STUDENTS:
            mine = [r for r in rows if (r["comparison"], r["student"]) == (comparison, student)]
            text += [f"### {comparison.capitalize()}, {student}", "", _table(mine), ""]
    return ItemOutput({"accuracies": rows}, {"gains": _chart(rows)}, "\n".join(text))


# -- one seed ----------------------------------------------------------------------------------------


def one_seed(task: Task, seed: int) -> dict[str, Any]:
    """Return the accuracy of the teacher, and of each student on each training set."""
    rng = np.random.default_rng([task.seed, seed])
    known, test = task.split(rng)
    real, labels = task.seen.need_reference(), task.labels
    generated = np.concatenate(list(task.seen.arms.values()))
    to_label = np.concatenate(list(task.taught.arms.values()))
    scale = Scaling.of(task.taught.need_reference()[known])
    images = scale(task.taught.need_reference())
    teacher = softmax_regression(images[known], labels[known], CLASSES)
    given = teacher(scale(to_label))
    scale = Scaling.of(real[known])

    def accuracies(rows: Any, of_rows: Indices) -> dict[str, float]:
        fitted = {n: fit(scale(rows), of_rows, CLASSES) for n, fit in STUDENTS.items()}
        return {
            n: 100 * float(np.mean(f(scale(real[test])) == labels[test])) for n, f in fitted.items()
        }

    sets = []
    for each in training_sets(task, real[known], generated, rng):
        rows = each.pop("rows")
        sets.append(each | accuracies(generated[rows], given[rows]))
    some = rng.choice(known, task.size[1], replace=False)
    context = {"comparison": SAME_SIZE, "set": "real images", "n": len(some), "against": None}
    sets.insert(0, context | accuracies(real[some], labels[some]))
    return {"teacher": 100 * float(np.mean(teacher(images[test]) == labels[test])), "sets": sets}


def training_sets(task: Task, reference: Any, generated: Any, rng: np.random.Generator) -> Rows:
    """Return the training sets, each with the set that it is compared with."""
    n, k = task.size
    distance = gx.FrechetDistance(reference)
    mixture = gx.optimal_mixture(task.seen.arms, distance)
    arms = list(task.seen.arms)
    best = min(mixture.single_losses, key=lambda arm: float(mixture.single_losses[arm]))
    weights = {
        "mixture": [mixture.weights[arm] for arm in arms],
        "even": [1.0] * len(arms),
        f"one arm ({best})": [float(arm == best) for arm in arms],
    }
    drawn = {name: draw_from(task.sizes, shares, n, rng) for name, shares in weights.items()}
    found = [_set(SAME_SIZE, name, rows[:k], "mixture, random") for name, rows in drawn.items()]
    for name, rows in drawn.items():
        found.append(_set(SAME_COST, f"{name}, all {n}", rows, f"mixture, all {n}"))
    for source in ("mixture", "even"):
        for name, chosen in _chosen(generated[drawn[source]], k, reference, rng).items():
            rows = drawn[source][chosen]
            found.append(_set(SAME_SIZE, f"{source}, {name}", rows, f"{source}, random"))
            if name != "random":
                found.append(_set(SAME_COST, f"{source}, {name}", rows, f"{source}, all {n}"))
    for m in (3 * k // 2, 2 * k):  # how many samples the kept ones are worth
        rows = drawn["mixture"][:m]
        found.append(_set(SAME_COST, f"mixture, random {m}", rows, f"mixture, all {n}"))
    return found + _cheap_arms(task, drawn["mixture"], rng)


def _set(comparison: str, name: str, rows: Indices, against: str) -> dict[str, Any]:
    other = None if name == against else against
    return {
        "comparison": comparison,
        "set": name,
        "n": len(rows),
        "against": other,
        "rows": rows,
    }


def _chosen(
    samples: Any, k: int, reference: Any, rng: np.random.Generator
) -> Mapping[str, Indices]:
    """Return k samples by every rule and every objective of keep."""
    rows = unit(samples)
    found = {name: rule(rows, k, rng) for name, rule in RULES.items()}
    return found | {
        f"keep {name}": gx.keep(samples, k, objective).indices
        for name, objective in keep_objectives(reference).items()
    }


def keep_objectives(reference: Any) -> dict[str, gx.Objective]:
    return {
        "Vendi": gx.Vendi(),
        "FD": gx.FrechetDistance(reference),
        "KD": gx.KernelDistance(reference, gx.Gaussian("median")),
        "Vendi + precision": gx.Vendi() + gx.Precision(reference),
    }


def _cheap_arms(task: Task, drawn: Indices, rng: np.random.Generator) -> Rows:
    """Return, for each arm, as many samples as the mixture's recorded cost buys, if more and if recorded."""
    if task.seen.costs is None:
        return []
    prices = np.array([task.seen.costs[arm] for arm in task.seen.arms])
    ends = np.cumsum(task.sizes)
    spent = prices[np.searchsorted(ends, drawn, side="right")].sum()
    found = []
    for arm, price, size, end in zip(task.seen.arms, prices, task.sizes, ends, strict=True):
        if spent >= 2 * len(drawn) * price:
            count = min(size, int(spent / price))
            rows = end - size + rng.choice(size, count, replace=False)
            against = f"mixture, all {len(drawn)}"
            found.append(_set(SAME_COST, f"{arm}, at the recorded cost", rows, against))
    return found


# -- tables ------------------------------------------------------------------------------------------


def _compared(results: list[Rows], comparison: str, student: str) -> Rows:
    """Return one row per set, with its paired gain; Holm's correction is for one table."""
    by_name: dict[str, list[dict[str, Any]]] = {}
    for row in (row for rows in results for row in rows if row["comparison"] == comparison):
        by_name.setdefault(row["set"], []).append(row)
    values = {name: np.array([row[student] for row in rows]) for name, rows in by_name.items()}
    found: Rows = []
    for name, rows in by_name.items():
        interval = mean_interval(values[name])
        row = {
            "student": student,
            "comparison": comparison,
            "set": name,
            "n": float(np.mean([each["n"] for each in rows])),
            "accuracy": interval.mean,
            "accuracy_text": plus_minus(interval),
            "against": rows[0]["against"],
        }
        found.append(row | _gain(values[name], values.get(str(rows[0]["against"]))))
    tested = [row for row in found if row["against"] is not None]
    for row, p in zip(tested, holm([row["p"] for row in tested]), strict=True):
        row["p"] = p
        row["verdict"] = VERDICTS[row["gain"] > 0 if p < 1 - LEVEL else None]
    return found


def _gain(mine: Any, theirs: Any) -> dict[str, Any]:
    if theirs is None:
        return {"gain": None, "low": None, "high": None, "p": None, "verdict": None}
    test = paired(mine, theirs)
    gain = test.difference
    return {"gain": gain.mean, "low": gain.low, "high": gain.high, "p": test.t_test}


def _table(rows: Rows) -> str:
    headings = [
        "training set",
        "samples",
        "accuracy in %",
        "against",
        "gain (95%)",
        "p (Holm)",
        "verdict",
    ]
    lines = []
    for row in rows:
        cells = ["–"] * 4
        if row["against"] is not None:
            gain = f"{row['gain']:+.2f} [{row['low']:+.2f}, {row['high']:+.2f}]"
            cells = [row["against"], gain, f"{row['p']:.2g}", row["verdict"]]
        lines.append([row["set"], f"{row['n']:.0f}", row["accuracy_text"], *cells])
    return table(headings, lines)


def _chart(rows: Rows) -> Any:
    from genmix import charts

    drawn = [
        {
            "label": f"{row['set']}, against {row['against']}",
            "mean": row["gain"],
            "low": row["low"],
            "high": row["high"],
            "panel": f"{row['comparison']}, {row['student']}",
        }
        for row in rows
        if row["against"] is not None
    ]
    return charts.intervals(drawn, "gain in accuracy, percentage points → (right is better)")


# -- sentences ---------------------------------------------------------------------------------------


def _introduction(task: Task, seeds: int, teacher: str) -> str:
    n, k = task.size
    half = len(task.labels) // 2
    return (
        f"{n} different samples are generated and {k} of them are kept; {seeds} seeds. The student "
        f"learns from the samples ({task.seen.encoder}) and from the labels of a teacher (softmax "
        f"regression on the features of a network that was trained for the task; {teacher}% of its "
        f"labels of real images are right). Its accuracy is measured on {half} real images that were "
        f"used for nothing else. The other {half} are the reference of the mixture (the one with the "
        "best FD), of `keep` and of precision, and the training set of the teacher.\n\n"
        f"In the tables of equal size, every set has {k} samples, so labeling and training cost the "
        f"same, but a chosen set required {n} generated samples. In the tables of equal cost, every set "
        f"required {n} generated samples, all of which are used unless some are dropped. *At the "
        "recorded cost* means as many samples of a cheap arm as the multiply-adds of the mixture's "
        "samples buy, or its whole pool if that is smaller. *Random* sets of other sizes show how many "
        "samples a kept set is worth. Gains are in percentage points. The seeds share the recorded pools and "
        "the real images, so the intervals do not cover other generators or data.\n"
    )


def _findings(rows: Rows, task: Task) -> str:
    """Say for each choice whether it helped, for each student."""
    lines = []
    for student in STUDENTS:
        for comparison in (SAME_SIZE, SAME_COST):
            mine = [r for r in rows if (r["student"], r["comparison"]) == (student, comparison)]
            for source in ("mixture", "even"):
                chosen = [r for r in mine if r["set"].startswith(f"{source}, ") and r["against"]]
                chosen = [r for r in chosen if r["n"] == task.size[1]]
                if chosen:
                    title = (
                        f"**{student.capitalize()}, {comparison}, against {chosen[0]['against']}**"
                    )
                    lines.append(f"- {title}. {_verdicts(chosen)}")
    return "\n".join(lines) + "\n"


def _verdicts(rows: Rows) -> str:
    """List the sets by verdict."""
    parts = []
    for verdict in VERDICTS.values():
        names = [
            f"{row['set'].split(', ', 1)[1]} ({row['gain']:+.1f})"
            for row in rows
            if row["verdict"] == verdict
        ]
        if names:
            parts.append(f"{verdict.capitalize()}: {', '.join(names)}.")
    return " ".join(parts)


ITEMS = (
    Item(
        "beyond-downstream",
        "Do kept samples help a classifier that is trained on them?",
        "none; this item uses only the recorded worlds",
        "fashion",
        "",
        downstream,
    ),
)
