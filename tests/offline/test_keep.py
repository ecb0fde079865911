"""``gx.keep``: known answers, groups, and what it refuses."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

import genmix as gx
from genmix.core.arrays import like, to_numpy
from genmix.errors import InputError
from tests.support.conformance import DEVICES
from tests.support.keep_judges import JUDGES, make_case

RNG = np.random.default_rng(0)
X = RNG.standard_normal((24, 4))
REAL = RNG.standard_normal((20, 4))


# -- known answers -----------------------------------------------------------------------------------


def test_duplicates_are_kept_only_if_nothing_else_is_left() -> None:
    rows = np.eye(4)[[0, 0, 0, 1, 1, 2, 3]]
    kept = gx.keep(rows, 4, gx.Vendi())
    assert sorted(np.argmax(rows[kept.indices], axis=1)) == [0, 1, 2, 3]
    assert float(kept.score) == pytest.approx(4)  # type: ignore[arg-type]
    assert kept.bound == pytest.approx(4)
    more = gx.keep(rows, 6, gx.Vendi())
    assert sorted(np.argmax(rows[more.indices], axis=1)) == [0, 0, 1, 1, 2, 3]


def test_identical_samples_score_one() -> None:
    kept = gx.keep(np.ones((6, 3)), 3, gx.Vendi())
    assert float(kept.score) == pytest.approx(1)  # type: ignore[arg-type]
    assert kept.bound == pytest.approx(1)
    distance = gx.keep(np.ones((6, 4)), 3, gx.FrechetDistance(REAL))
    assert distance.gap == pytest.approx(0, abs=1e-6)


def test_all_samples_can_be_kept() -> None:
    kept = gx.keep(X, len(X), gx.Vendi())
    assert kept.indices.tolist() == list(range(len(X)))
    assert len(kept.dropped) == 0
    assert kept.gap == 0
    assert float(kept.score) == float(gx.score({"a": X}, gx.Vendi()).pooled["vendi"])  # type: ignore[arg-type]


def test_one_sample_is_the_best_single_one() -> None:
    cost = RNG.uniform(1, 2, len(X))
    assert gx.keep(X, 1, gx.Cost(), cost=cost).indices.tolist() == [int(np.argmin(cost))]
    singles = [gx.keep(X[[j]], 1, gx.KernelDistance(REAL)).loss for j in range(3)]
    assert len(set(singles)) == 3
    fixed = gx.KernelDistance(REAL, gx.Gaussian(1.0))
    losses = [gx.keep(X[[j]], 1, fixed).loss for j in range(len(X))]
    assert gx.keep(X, 1, fixed).loss == pytest.approx(min(losses))


def test_a_linear_objective_keeps_the_best_ratings() -> None:
    quality = RNG.uniform(0, 1, len(X))
    kept = gx.keep(X, 5, gx.Quality(), quality=quality)
    assert set(kept.indices) == set(np.argsort(-quality)[:5])
    assert kept.gap < 1e-12


def test_a_fidelity_term_drops_outliers_that_diversity_alone_keeps() -> None:
    rows = np.concatenate([0.3 * RNG.standard_normal((24, 4)), 30 * np.eye(4)])
    real = 0.3 * RNG.standard_normal((60, 4))
    alone = gx.keep(rows, 8, gx.Vendi(kernel=gx.Gaussian(1.0)))
    guarded = gx.keep(rows, 8, gx.Vendi(kernel=gx.Gaussian(1.0)) + 5 * gx.Precision(real))
    assert set(range(24, 28)) <= set(alone.indices)
    assert not set(range(24, 28)) & set(guarded.indices)


# -- results -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", JUDGES)
def test_scores_are_those_of_the_kept_samples(name: str) -> None:
    case, k = make_case(name, 5, 8)
    objective = JUDGES[name][0](case.reference)
    kept = gx.keep(case.X, k, objective, quality=case.quality, cost=case.cost, encoder="mine")
    rows = kept.indices
    table = gx.score(
        {"a": case.X[rows]},
        kept.objective,
        quality={"a": case.quality[rows]},
        cost={"a": case.cost[rows]},
        encoder="mine",
        reference=case.reference,
        k=2,
    )
    scores = kept.score if isinstance(kept.score, dict) else {kept.score.name: kept.score}
    for key, score in scores.items():
        if key != "coverage":  # the table has the expected coverage of draws
            assert float(score) == pytest.approx(float(table.pooled[key]), abs=1e-9)
            assert score.details["encoder"] == "mine"
    assert np.array_equal(np.union1d(kept.indices, kept.dropped), np.arange(len(case.X)))


def test_coverage_is_that_of_the_kept_set() -> None:
    kept = gx.keep(X, 6, gx.Coverage(REAL, k=3))
    alone = gx.score({"a": X[kept.indices]}, gx.Vendi(), reference=REAL, k=3).pooled["coverage"]
    assert float(kept.score) == float(alone)  # type: ignore[arg-type]
    assert "at" not in kept.score.details  # type: ignore[union-attr]


def test_the_result_says_whether_the_bound_is_tight() -> None:
    rng = np.random.default_rng(1)
    few = gx.keep(rng.standard_normal((30, 20)), 10, gx.Vendi())
    many = gx.keep(rng.standard_normal((300, 3)), 100, gx.Vendi())
    assert not few.is_bound_tight
    assert "the bound is loose" in str(few)
    assert many.is_bound_tight
    assert "loose" not in str(many)
    assert many.bound is not None
    assert many.bound / float(many.score) < 1.001  # type: ignore[arg-type]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["vendi", "vendi_infinity", "frechet", "kd", "coverage", "sum"])
def test_numpy_equals_torch(name: str, device: str) -> None:
    case, k = make_case(name, 6, 9)
    objective, extra = JUDGES[name][0](case.reference), (case.quality, case.cost)
    one = gx.keep(case.X, k, objective, quality=extra[0], cost=extra[1])
    rows = torch.as_tensor(case.X, device=device)
    other = gx.keep(rows, k, objective, quality=extra[0], cost=extra[1])
    assert np.array_equal(one.indices, other.indices)
    assert one.loss == pytest.approx(other.loss, abs=1e-12)
    assert one.loss_bound == pytest.approx(other.loss_bound, abs=1e-9)


def test_single_precision_and_lists_are_accepted() -> None:
    single = gx.keep(X.astype(np.float32), 5, gx.Vendi())
    assert np.array_equal(single.indices, gx.keep(X.tolist(), 5, gx.Vendi()).indices)


def test_the_same_seed_keeps_the_same_samples() -> None:
    one, other = (gx.keep(X, 7, gx.FrechetDistance(REAL), seed=3) for _ in range(2))
    assert np.array_equal(one.indices, other.indices)
    assert (one.loss, one.loss_bound) == (other.loss, other.loss_bound)


def test_a_start_is_never_made_worse() -> None:
    best = gx.keep(X, 6, gx.Vendi(), tolerance=0)
    again = gx.keep(X, 6, gx.Vendi(), start=best.indices, tolerance=10.0)
    assert again.loss <= best.loss + 1e-12


# -- groups ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_group_counts_hold_and_no_feasible_subset_beats_the_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, labels = rng.standard_normal((9, 3)), np.array(list("aaaabbbcc"))
    limits = {"at_least": {"c": 2}, "at_most": {"a": 1}}
    kept = gx.keep(rows, 5, gx.Vendi(), groups=labels, **limits)  # type: ignore[arg-type]
    counts = {label: int(np.sum(labels[kept.indices] == label)) for label in "abc"}
    assert counts["c"] == 2
    assert counts["a"] <= 1
    allowed = [
        gx.keep(rows[list(s)], 5, gx.Vendi()).loss
        for s in itertools.combinations(range(9), 5)
        if sum(labels[list(s)] == "c") == 2 and sum(labels[list(s)] == "a") <= 1
    ]
    assert kept.loss_bound <= min(allowed) + 1e-12
    assert kept.loss == pytest.approx(min(allowed), rel=1e-2)


def test_one_count_applies_to_every_group() -> None:
    labels = np.repeat([0, 1, 2, 3], 6)
    kept = gx.keep(X, 8, gx.Vendi(), groups=labels, at_least=2)
    assert np.bincount(labels[kept.indices]).tolist() == [2, 2, 2, 2]
    spread = gx.keep(X, 10, gx.KernelDistance(REAL), groups=labels.tolist(), at_most=3)
    assert np.bincount(labels[spread.indices]).max() <= 3


# -- objectives from elsewhere -----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Mine(gx.Vendi):
    """An objective of another package, which inherits a fast loss."""


class Other(gx.Objective):
    """An objective without a fast loss."""

    name = "other"
    maximise = True

    def tally(self, arms: int, sample: Any) -> Any:
        return gx.Vendi().tally(arms, sample)


def test_any_objective_works_through_its_own_statistics() -> None:
    slow, fast = gx.keep(X[:10], 4, Other()), gx.keep(X[:10], 4, gx.Vendi())
    assert slow.loss == pytest.approx(fast.loss)
    assert slow.loss_bound == pytest.approx(fast.loss_bound, abs=0.05)
    assert slow.bound is None
    assert gx.keep(X[:10], 4, Mine()).loss == fast.loss
    with pytest.raises(InputError, match="at most 1000 samples"):
        gx.keep(np.ones((1001, 2)), 4, Other())


# -- bad input ---------------------------------------------------------------------------------------

NAN = X.copy()
NAN[3, 1] = np.nan
ZERO = X.copy()
ZERO[2] = 0
LABELS = ["a"] * 20 + ["b"] * 4

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "too many": ({"k": 25}, "k is 25, but there are only 24 samples; pass a smaller k."),
    "none": ({"k": 0}, "k is 0; pass a whole number of at least 1."),
    "half": ({"k": 2.5}, "k is 2.5; pass a whole number of at least 1."),
    "nan": (
        {"X": NAN},
        "X, sample 3: the embedding contains NaN or infinity; leave this sample out.",
    ),
    "empty": ({"X": np.ones((0, 4))}, "X is empty"),
    "zero": ({"X": ZERO}, "sample 2"),
    "class": ({"objective": gx.Vendi}, "Vendi is not an objective; pass one, e.g. Vendi()."),
    "quality": ({"objective": gx.Quality()}, "X: the objective needs a quality"),
    "ratings": ({"quality": [1.0]}, "X: quality has shape (1,), but the number of samples is 24"),
    "pairs": (
        {"k": 1, "objective": gx.RKE(unbiased=True)},
        "k is 1, but the objective needs at least 2 samples; pass a larger k.",
    ),
    "no labels": (
        {"at_least": 1},
        "at_least needs groups; pass groups= with one label per sample.",
    ),
    "no counts": ({"groups": LABELS}, "groups has no counts; pass at_least= or at_most= as well."),
    "few labels": (
        {"groups": ["a"], "at_least": 1},
        "groups has 1 label, but there are 24 samples; pass one per sample.",
    ),
    "unknown group": (
        {"groups": LABELS, "at_most": {"c": 3}},
        "at_most names group 'c', which has no samples; use 'a', 'b'.",
    ),
    "small group": (
        {"groups": LABELS, "at_least": {"b": 5}},
        "at_least is 5 for group 'b', which has 4 samples; pass at most 4.",
    ),
    "crossed": (
        {"groups": LABELS, "at_least": 3, "at_most": {"a": 2}},
        "group 'a' has at_least 3 and at_most 2; make at_most the larger one.",
    ),
    "too much": (
        {"k": 5, "groups": LABELS, "at_least": 3},
        "at_least requires 6 samples, but k is 5; pass smaller counts or a larger k.",
    ),
    "too little": (
        {"k": 5, "groups": LABELS, "at_most": 2},
        "at_most allows only 4 samples, but k is 5; pass larger counts or a smaller k.",
    ),
    "negative": (
        {"groups": LABELS, "at_least": {"a": -1}},
        "at_least for group 'a' is -1; pass a whole number of at least 0.",
    ),
    "short start": (
        {"start": [1, 2]},
        "start is not a set of 5 indices; pass k different whole numbers.",
    ),
    "doubled start": ({"start": [1, 2, 3, 4, 4]}, "start is not a set of 5 indices"),
    "outside": (
        {"start": [1, 2, 3, 4, 99]},
        "start contains index 99, but there are 24 samples; pass indices from 0 to 23.",
    ),
    "infeasible start": (
        {"start": range(5), "groups": LABELS, "at_least": 1},
        "start does not satisfy the counts of the groups; pass a set that does.",
    ),
    "tolerance": ({"tolerance": -1}, "tolerance is -1; pass a number of at least 0."),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_refused_in_one_sentence(name: str) -> None:
    changes, words = REFUSED[name]
    arguments = {"X": X, "k": 5, "objective": gx.Vendi()} | changes
    with pytest.raises(InputError) as caught:
        gx.keep(arguments.pop("X"), arguments.pop("k"), arguments.pop("objective"), **arguments)
    assert words in str(caught.value)
    assert str(caught.value).count("\n") == 0


def test_inputs_are_not_modified() -> None:
    rows = like(X.copy(), X)
    before = to_numpy(rows).copy()
    gx.keep(rows, 5, gx.FrechetDistance(REAL) + gx.Vendi())
    assert np.array_equal(rows, before)
