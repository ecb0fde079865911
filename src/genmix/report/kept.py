"""The section on the samples that a run keeps: what keeping changed, and some kept and dropped samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from genmix.charts.axes import short_name
from genmix.core.text import counted, listed, number, percent
from genmix.journal.kept import choose_kept, current_kept, keep_rules
from genmix.journal.reader import JournalReader
from genmix.kernels.distances import squared_distances
from genmix.offline.keeping import ADVICE, bound_sentence
from genmix.offline.predict_keep import prediction_sentences
from genmix.report.facts import Facts
from genmix.report.gallery import ShownSample, show

MAX_COMPARED = 3000
"""Maximum number of samples whose distances are computed to find examples."""

UNUSUAL, PAIRS = 8, 4
"""Number of unusual samples and of pairs to show."""

MAX_CARDS = 2
"""Maximum number of scores on cards."""

SAME = 1e-10
"""A squared distance up to this is due to rounding errors."""

TITLES = {
    "precision": "Precision ↑",
    "density": "Density ↑",
    "distance": "Distance to the nearest",
    "quality": "Quality ↑",
    "cost": "Cost per sample",
}


class Line(NamedTuple):
    """One line of the table: a mean over the kept samples, and what it is compared with."""

    title: str
    kept: str
    dropped: str
    all: str
    random: str
    is_fall: bool = False


class ArmShare(NamedTuple):
    """How many samples of an arm are kept."""

    arm: str
    samples: int
    kept: int
    share: str
    """Its share of the kept samples."""


class Card(NamedTuple):
    """A score of the kept samples, with a title and a note."""

    title: str
    value: str
    note: str


class Pair(NamedTuple):
    """A dropped sample and the kept sample that is closest to it."""

    distance: str
    samples: list[ShownSample]


@dataclass(frozen=True)
class KeptSection:
    """What the report says about the kept samples."""

    lead: str
    sentences: list[str]
    lines: list[Line]
    arms: list[ArmShare]
    unusual: list[ShownSample]
    pairs: list[Pair]
    note: str = ""
    """What the numbers in the table mean."""
    count: int | None = None
    """The number of kept samples; None if all are kept."""
    cards: tuple[Card, ...] = ()


def kept_section(facts: Facts) -> KeptSection | None:
    """Describe the kept samples; None if the study keeps all of them."""
    found = _kept(facts)
    if found is None:
        return None
    if found["ids"] is None:
        text = f"All samples are kept: {found['problem']}"
        return KeptSection(text, [], [], [], [], [])
    examples = _Examples.of(facts, set(found["ids"]))
    return KeptSection(
        _lead(found),
        [
            bound_sentence(found),
            *prediction_sentences(found),
            *_cost_sentences(facts, found),
            *fidelity_sentences(found),
            *examples.copy_sentences(),
        ],
        [*_score_lines(found), *_measure_lines(found)],
        _arm_shares(facts, found),
        examples.unusual(),
        examples.pairs(),
        f"Precision and density: in {found['compared_with']}. Random sets have the size of the kept set; "
        "after ±, how much they vary (one standard deviation).",
        found["count"],
        tuple(_cards(found)),
    )


def _kept(facts: Facts) -> dict[str, Any] | None:
    with JournalReader.open(facts.folder) as journal:
        if keep_rules(journal) is None:
            return None
        found = current_kept(journal)
        if found is None and facts.pool is not None:
            found = choose_kept(journal, facts.pool.objective, facts.study.get("seed", 0))
    return found


# -- sentences and tables ----------------------------------------------------------------------------


def _lead(found: dict[str, Any]) -> str:
    count, names = found["count"], list(found["scores"])
    scores = [
        f"{short_name(name)} {number(found['scores'][name]['value'])}, compared with "
        f"{number(found['all_scores'][name]['value'])} for all samples and "
        f"{number(found['random_scores'][name]['mean'])} for "
        f"{'a random one' if count == 1 else f'{count:,} random ones'}"
        for name in names
    ]
    which = "the one that scores best" if count == 1 else "those that score best together"
    return (
        f"The run keeps {count:,} of its {counted(found['samples'], 'sample')}, {which}: "
        f"{'; '.join(scores)}."
    )


def _cards(found: dict[str, Any]) -> Iterator[Card]:
    for name, score in list(found["scores"].items())[:MAX_CARDS]:
        arrow = "↑" if score["maximise"] else "↓"
        title = f"{short_name(name)} {arrow} of the {counted(found['count'], 'kept sample')}"
        every = number(found["all_scores"][name]["value"])
        yield Card(title, number(score["value"]), f"all {found['samples']:,} samples: {every}")


def _cost_sentences(facts: Facts, found: dict[str, Any]) -> list[str]:
    """Say what a kept sample costs, which includes the samples that are dropped and failed attempts."""
    if not facts.cost or not found["count"]:
        return []
    each = number(facts.cost / found["count"])
    return [f"The whole run costs {each} per kept sample, including dropped samples and failures."]


def fidelity_sentences(found: dict[str, Any]) -> list[str]:
    """Say whether keeping reduced precision or quality, and how that was measured."""
    guarded = [name for name in ("precision", "quality") if name in found["measures"]]
    if found["warnings"]:
        words = [text[0].upper() + text[1:] for text in found["warnings"]]
        advice = found.get("advice", ADVICE)
        words += [f"{advice[0].upper()}{advice[1:]}."] if advice else []
        return [f"Keeping reduced fidelity. {' '.join(words)}"]
    if not guarded:
        return []
    return [
        f"Diversity alone prefers outliers, but {listed(guarded)} did not fall by more than the noise, i.e. "
        "three standard errors of a random set of the same size."
    ]


def _score_lines(found: dict[str, Any]) -> list[Line]:
    lines = []
    for name, score in found["scores"].items():
        arrow, drawn = "↑" if score["maximise"] else "↓", found["random_scores"][name]
        every = number(found["all_scores"][name]["value"])
        random = f"{number(drawn['mean'])} ± {number(drawn['sd'], 2)}"
        lines.append(
            Line(f"{short_name(name)} {arrow}", number(score["value"]), "–", every, random)
        )
    return lines


def _measure_lines(found: dict[str, Any]) -> list[Line]:
    measured = found["measures"]
    has_cost = any(measured.get("cost", {}).get(key) for key in ("kept", "all"))
    terms = {name.split(" ")[0] for name in found["scores"]}
    where = "reference sample" if "reference" in found["compared_with"] else "other sample"
    lines = []
    for name, each in measured.items():
        if (name == "cost" and not has_cost) or (name == "quality" and "quality" in terms):
            continue
        title = f"{TITLES[name]} {where}" if name == "distance" else TITLES[name]
        random = f"{number(each['all'])} ± {number(each['noise'], 2)}"
        kept, dropped, every = (number(each[key]) for key in ("kept", "dropped", "all"))
        lines.append(Line(title, kept, dropped, every, random, each["is_fall"]))
    return lines


def _arm_shares(facts: Facts, found: dict[str, Any]) -> list[ArmShare]:
    kept, count = found["arms"], max(found["count"], 1)
    return [
        ArmShare(arm, facts.counts[arm], kept.get(arm, 0), percent(kept.get(arm, 0) / count))
        for arm in facts.labels
        if facts.counts[arm]
    ]


# -- examples ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Examples:
    """Distances between some of the samples."""

    facts: Facts
    rows: list[dict[str, Any]]
    arms: list[str]
    is_kept: NDArray[np.bool_]
    square: NDArray[np.float64]
    """Squared distances between all pairs; infinite for a sample and itself."""

    @classmethod
    def of(cls, facts: Facts, ids: set[int]) -> _Examples:
        subset = facts.subset
        chosen = subset.stratified(MAX_COMPARED).tolist()
        rows = [subset.rows[i] for i in chosen]
        points = subset.outputs[chosen]
        if facts.compares_directions:
            lengths = np.linalg.norm(points, axis=1, keepdims=True)
            points = points / np.where(lengths > 0, lengths, 1.0)
        square = squared_distances(points, points)
        np.fill_diagonal(square, np.inf)
        kept = np.array([row["ticket"] in ids for row in rows], dtype=bool)
        return cls(facts, rows, subset.arms[chosen].tolist(), kept, square)

    def unusual(self) -> list[ShownSample]:
        """Return the kept samples that are farthest from every other sample."""
        nearest = np.min(self.square, axis=1)
        order = [i for i in np.argsort(-nearest, kind="stable").tolist() if self.is_kept[i]]
        return self._shown([i for i in order if self._has_content(i)][:UNUSUAL])

    def pairs(self) -> list[Pair]:
        """Return the dropped samples that are closest to a kept one without being equal to it."""
        found: list[Pair] = []
        seen: set[Any] = set()
        for square, one, other in self._dropped():
            content = self.rows[one]["text"] or one
            is_new = not {content, ("kept", other)} & seen and self._has_content(one)
            if square > SAME and is_new and len(found) < PAIRS:
                seen |= {content, ("kept", other)}
                found.append(Pair(number(float(np.sqrt(square)), 3), self._shown([one, other])))
        return found

    def copy_sentences(self) -> list[str]:
        """Say how many dropped samples have the same embedding as a kept one."""
        count = sum(square <= SAME for square, _, _ in self._dropped())
        if not count:
            return []
        which = (
            "" if len(self.rows) == self.facts.samples else f" out of {len(self.rows):,} compared"
        )
        return [f"Dropped samples with the same embedding as a kept one: {count:,}{which}."]

    def _dropped(self) -> list[tuple[float, int, int]]:
        """Return the squared distance from each dropped sample to the nearest kept one, closest first."""
        dropped, kept = np.flatnonzero(~self.is_kept), np.flatnonzero(self.is_kept)
        if not len(dropped) or not len(kept):
            return []
        between = self.square[np.ix_(dropped, kept)]
        nearest = between.argmin(axis=1)
        found = zip(
            between.min(axis=1).tolist(), dropped.tolist(), kept[nearest].tolist(), strict=True
        )
        return sorted(found)

    def _has_content(self, i: int) -> bool:
        return any(self.rows[i][key] is not None for key in ("text", "image", "source"))

    def _shown(self, indices: list[int]) -> list[ShownSample]:
        return [show(self.rows[i], self.arms[i], self.facts.folder) for i in indices]
