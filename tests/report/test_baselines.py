"""The mixture against single arms and even shares: only what is more than size and chance counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.report.advice import advise
from genmix.report.baselines import compare_with_baseline
from genmix.report.facts import Facts
from genmix.report.sampling import SampleSubset
from genmix.report.scoring import Term
from genmix.report.sentences import score_sentences

EVEN = {"a": 1.0, "b": 1.0, "c": 1.0}
OBJECTIVES = {
    "vendi": gx.Vendi(),
    "rke": gx.RKE(gx.Gaussian(5.0)),
    "fd": gx.FrechetDistance(np.random.default_rng(99).normal(size=(500, 16))),
}


def drawn(pools: dict[str, Any]) -> SampleSubset:
    rows = np.concatenate(list(pools.values()))
    arms = np.repeat(list(pools), [len(pool) for pool in pools.values()])
    return SampleSubset([{"quality": None, "cost": None} for _ in rows], arms, rows, len(rows))


def identical(seed: int, n: int = 100) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {arm: rng.normal(size=(n, 16)) for arm in EVEN}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_mixture_of_identical_arms_is_not_better_than_one(name: str) -> None:
    """Three arms have three times the samples of one: scored on all samples, they would always win."""
    objective = OBJECTIVES[name]
    better = 0
    for seed in range(20):
        found = compare_with_baseline(drawn(identical(seed)), objective, EVEN, {"a": 1.0})
        assert found is not None
        assert found.size == 50
        better += bool(found.improvement(Term(objective.name, objective.maximise)))
    assert better <= 3


@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_mixture_of_arms_that_need_each_other_is(name: str) -> None:
    objective = OBJECTIVES[name]
    pools = identical(0)
    for k, pool in enumerate(pools.values()):
        pool[:, np.arange(16) % 3 != k] *= 0.1
        if name == "rke":
            pool[:, k] += 8.0
    found = compare_with_baseline(drawn(pools), objective, EVEN, {"a": 1.0})
    assert found is not None
    assert (found.improvement(Term(objective.name, objective.maximise)) or 0.0) > 0.05


def test_sets_are_of_the_shares_and_half_of_what_there_is() -> None:
    """Every sample of an arm is the same unit vector: the score tells the shares of the set."""
    pools = {
        arm: np.tile(np.eye(3)[k], (n, 1)) for k, (arm, n) in enumerate([("a", 60), ("b", 30)])
    }
    found = compare_with_baseline(
        drawn(pools), gx.RKE(gx.Cosine()), {"a": 0.5, "b": 0.5}, {"a": 1.0}
    )
    assert found is not None
    assert found.size == 30
    assert found.mixture["rke"] == pytest.approx(2.0)
    assert found.baseline["rke"] == pytest.approx(1.0)
    assert found.std["rke"] == pytest.approx(0.0, abs=1e-12)


def test_too_few_samples_tell_nothing() -> None:
    pools = identical(0, 9)
    assert compare_with_baseline(drawn(pools), gx.Vendi(), EVEN, {"a": 1.0}) is None
    assert compare_with_baseline(drawn(pools), gx.Vendi(), EVEN, {"missing": 1.0}) is None


def run_of(folder: Path, pools: dict[str, Any], samples: int, **more: Any) -> Facts:
    arms = {}
    for arm, pool in pools.items():
        np.save(folder / f"{arm}.npy", pool)
        arms[arm] = {"kind": "recorded", "path": str(folder / f"{arm}.npy")}
    study = {"arms": arms, "objective": "vendi", "budget": {"samples": samples}}
    return Facts(gx.run(study | more, folder / "run").folder)


def test_a_report_of_identical_arms_claims_nothing(tmp_path: Path) -> None:
    facts = run_of(tmp_path, identical(1, 400), 300)
    [words] = score_sentences(facts)
    assert "better" not in words
    assert words.count("cannot be distinguished from") == 2
    assert "drop" not in {step.kind for step in advise(facts)}


def test_quality_and_cost_go_with_their_samples(tmp_path: Path) -> None:
    pools = {arm: np.eye(4)[np.arange(200) % 4] for arm in "ab"}
    arms = {}
    for k, (arm, pool) in enumerate(pools.items()):
        np.save(tmp_path / f"{arm}.npy", pool)
        arms[arm] = {"kind": "recorded", "path": str(tmp_path / f"{arm}.npy"), "cost": 1.0 + 8 * k}
    objective = [{"vendi": {}}, {"cost": {"weight": 0.001}}]
    study = {"arms": arms, "objective": objective, "budget": {"samples": 120}}
    facts = Facts(gx.run(study, tmp_path / "run").folder)
    assert facts.vs_uniform is not None
    assert facts.vs_uniform.baseline["cost"] == pytest.approx(5.0, rel=0.1)  # a set may be odd
