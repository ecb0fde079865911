"""Corners of ``gx.keep`` for every objective: a right answer by brute force, or one sentence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.errors import InputError
from tests.support.keep_judges import JUDGES, Case, make_case

X = np.random.default_rng(0).standard_normal((8, 3))
LABELS = list("aaabbbcc")


def checked(name: str, case: Case, k: int) -> gx.Kept | None:
    """Keep k samples and compare with brute force; None if they are refused."""
    make, losses = JUDGES[name]
    try:
        kept = gx.keep(case.X, k, make(case.reference), quality=case.quality, cost=case.cost)
    except InputError:
        return None
    found = losses(case, case.subsets(k))
    slack = 1e-7 * max(1.0, float(np.abs(found).max()))
    assert kept.loss == pytest.approx(float(found.min()), abs=slack)
    assert kept.loss_bound <= found.min() + slack
    assert len(kept.indices) == k
    assert not np.intersect1d(kept.indices, kept.dropped).size
    return kept


def small(name: str) -> Case:
    case, _ = make_case(name, 11, 7)
    return case


@pytest.mark.parametrize("name", JUDGES)
def test_one_sample_and_all_samples(name: str) -> None:
    case = small(name)
    needs_two = name in ("rke_unbiased", "kd_unbiased", "frechet_ddof1")
    assert (checked(name, case, 1) is None) == needs_two
    every = checked(name, case, len(case.X))
    assert every is not None
    assert every.gap == pytest.approx(0, abs=1e-12)
    assert every.dropped.size == 0


@pytest.mark.parametrize("name", JUDGES)
def test_copies_of_one_sample(name: str) -> None:
    case = small(name)
    case = replace(case, X=np.repeat(case.X[:1], len(case.X), axis=0))
    assert checked(name, case, 3) is not None


@pytest.mark.parametrize("name", JUDGES)
def test_zero_vectors_are_used_or_refused(name: str) -> None:
    case = small(name)
    rows = case.X.copy()
    rows[[1, 3]] = 0
    needs_directions = "vendi" in name or "cosine" in name or name == "sum"
    needs_directions &= name not in ("vendi_gaussian", "vendi_own")
    is_refused = needs_directions or name == "inception"
    assert (checked(name, replace(case, X=rows), 3) is None) == is_refused


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "fewer samples than k": ({"k": 9}, "k is 9, but there are only 8 samples; pass a smaller k."),
    "infinity": (
        {"X": np.where(X[5, 1] == X, np.inf, X)},
        "X, sample 5: the embedding contains NaN or infinity; leave this sample out.",
    ),
    "zero": (
        {"X": np.where(X[4] == X, 0.0, X)},
        "X, sample 4: the embedding is the zero vector, so it has no direction for a cosine kernel; leave "
        "that sample out or use Gaussian().",
    ),
    "quality": (
        {"quality": [1.0] * 7 + [np.nan]},
        "X, sample 7: the quality is nan; pass a finite number.",
    ),
    "cost": ({"cost": [np.inf] + [1.0] * 7}, "X, sample 0: the cost is inf; pass a finite number."),
    "no labels": (
        {"groups": [], "at_most": 1},
        "groups has 0 labels, but there are 8 samples; pass one per sample.",
    ),
    "empty group": (
        {"groups": LABELS, "at_least": {"d": 1}},
        "at_least names group 'd', which has no samples; use 'a', 'b', 'c'.",
    ),
    "every group excluded": (
        {"groups": LABELS, "at_most": 0},
        "at_most allows only 0 samples, but k is 3; pass larger counts or a smaller k.",
    ),
    "all samples, but not of each group": (
        {"k": 8, "groups": LABELS, "at_most": {"a": 2}},
        "at_most allows only 7 samples, but k is 8; pass larger counts or a smaller k.",
    ),
    "NaN as a label": (
        {"groups": np.array([1.0, 1, 2, 2, np.nan, 3, 3, np.nan]), "at_most": 1},
        "groups, sample 4: the label is NaN; name the sample's group.",
    ),
    "lists as labels": (
        {"groups": [[1]] * 8, "at_most": 1},
        "groups is not a sequence of labels; pass one string or number per sample.",
    ),
    "a number as labels": (
        {"groups": 3, "at_most": 1},
        "groups is not a sequence of labels; pass one string or number per sample.",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_refused_in_one_sentence(name: str) -> None:
    changes, words = REFUSED[name]
    given = {"X": X, "k": 3, "objective": gx.Vendi()} | changes
    with pytest.raises(InputError) as caught:
        gx.keep(given.pop("X"), given.pop("k"), given.pop("objective"), **given)
    assert str(caught.value) == words


def test_groups_that_determine_everything() -> None:
    excluded = gx.keep(X, 5, gx.Vendi(), groups=LABELS, at_most={"a": 0})
    assert excluded.indices.tolist() == [3, 4, 5, 6, 7]
    assert excluded.gap == pytest.approx(0, abs=1e-9)
    every = gx.keep(X, 8, gx.Vendi(), groups=LABELS, at_least=1)
    assert every.indices.tolist() == list(range(8))
    exact = gx.keep(X, 3, gx.Vendi(), groups=LABELS, at_least=1, at_most=1)
    assert [LABELS[i] for i in exact.indices] == ["a", "b", "c"]
    unnamed = gx.keep(X, 4, gx.Vendi(), groups=[None] * 4 + [1] * 4, at_most={None: 1})
    assert np.sum(unnamed.indices < 4) <= 1
