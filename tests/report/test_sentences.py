"""What the report says: each sentence only where it is true."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.report.advice import advise
from genmix.report.baselines import BaselineComparison
from genmix.report.convergence import assess_convergence, convergence_sentence
from genmix.report.facts import Arm, EarlierMixture, Facts
from genmix.report.scoring import MixtureScore, Term, improvement
from genmix.report.sentences import (
    compared,
    cost_sentence,
    mixture_sentence,
    number,
    percent,
    score_sentences,
    status_sentence,
)
from tests.support.report_runs import altered, feature_run


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Facts:
    return Facts(feature_run(tmp_path_factory.mktemp("run")).folder)


def changed(facts: Facts, label: str, **values: Any) -> Facts:
    """The same facts, but for one arm."""
    arms = tuple(replace(a, **values) if a.label == label else a for a in facts.arms)
    return altered(facts, arms=arms)


def kinds(facts: Facts) -> list[str]:
    return [step.kind for step in advise(facts)]


@pytest.mark.parametrize(
    "value, shown",
    [
        (None, "–"),
        (float("inf"), "–"),
        (0.0, "0"),
        (0.00012345, "0.0001234"),
        (-1.23456, "−1.235"),
        (123456.7, "123,457"),
        (3.1e9, "3.1e+09"),
    ],
)
def test_numbers(value: float | None, shown: str) -> None:
    assert number(value) == shown


def test_percents() -> None:
    shares = (0.0, 0.0001, 0.0099, 0.01, 0.256, 1.0)
    assert [percent(x) for x in shares] == ["0%", "<1%", "<1%", "1%", "26%", "100%"]


@pytest.mark.parametrize(
    "share, words",
    [
        (0.1234, "is 12% better than"),
        (-0.0123, "is 1.2% worse than"),
        (0.0001, "cannot be distinguished from"),
        (3.5, "is 350% better than"),
        (None, "compares with"),
    ],
)
def test_comparisons(share: float | None, words: str) -> None:
    assert compared(share) == words


def test_better_depends_on_the_direction() -> None:
    up, down = Term("x", True), Term("x", False)
    assert improvement(up, {"x": 3.0}, {"x": 2.0}) == pytest.approx(0.5)
    assert improvement(down, {"x": 3.0}, {"x": 2.0}) == pytest.approx(-0.5)
    assert improvement(up, {"x": -1.0}, {"x": -2.0}) == pytest.approx(0.5)
    assert improvement(up, {"x": 1.0}, {"x": 0.0}) is None
    assert improvement(up, {}, {"x": 1.0}) is None


def test_the_mixture_in_words(facts: Facts) -> None:
    weights = {"a": 0.7, "b": 0.298, "c": 0.002}
    found = mixture_sentence(altered(facts, weights=weights))
    assert found == (
        "The mixture is 70% a and 30% b. It hardly uses c. It no longer includes flat, tall and dot."
    )
    many = {f"m{i}": 0.05 for i in range(20)}
    assert "12 more arms" in mixture_sentence(altered(facts, weights=many))
    assert "no mixture yet" in mixture_sentence(altered(facts, weights=None))


def test_the_score_against_the_best_arm_and_even_shares(facts: Facts) -> None:
    scores = MixtureScore({"vendi": 3.0}, -1.0)
    best = replace(facts.arms[0], label="star", single_scores={"vendi": 2.0}, single_loss=-9.0)
    arms = (best, *facts.arms[1:])
    weights = dict.fromkeys((arm.label for arm in arms), 1 / 3)
    told = altered(
        facts,
        mixture=scores,
        arms=arms,
        weights=weights,
        vs_best_arm=against(40, 2.7, 1.8, 0.1),
        vs_uniform=against(1200, 2.8, 3.5, 0.4),
    )
    assert score_sentences(told) == [
        "Its Vendi is 3 ↑. In sets of 40 samples, it is 50% better than the best single arm, star "
        "(2.7 vs. 1.8). In sets of 1,200 samples, it cannot be distinguished from equal shares "
        "(2.8 vs. 3.5)."
    ]
    unknown = altered(told, vs_best_arm=None, vs_uniform=None)
    assert score_sentences(unknown) == ["Its Vendi is 3 ↑."]
    assert score_sentences(altered(facts, mixture=None)) == []


def against(size: int, mixture: float, baseline: float, std: float) -> BaselineComparison:
    return BaselineComparison(size, {"vendi": mixture}, {"vendi": baseline}, {"vendi": std})


def test_a_difference_within_chance_is_none() -> None:
    up = Term("vendi", True)
    assert against(9, 2.2, 2.0, 0.06).improvement(up) == pytest.approx(0.1)
    assert against(9, 2.2, 2.0, 0.07).improvement(up) == 0.0
    assert against(9, 2.2, 2.0, 0.01).improvement(Term("vendi", False)) == pytest.approx(-0.1)
    assert against(9, 2.2, 2.0, 0.01).improvement(Term("fd", False)) is None


def test_what_it_cost(facts: Facts) -> None:
    found = cost_sentence(
        altered(facts, seconds=125.0, cost=6.0, failures=1200, tokens=(10, 20000))
    )
    assert found == (
        "The run generated 300 samples in 2 min 05 s at a cost of 6 (0.02 per sample); 10 input and "
        "20,000 output tokens; 1,200 failed attempts, all repeated with success."
    )
    assert "cost" not in cost_sentence(altered(facts, cost=None))
    lost = changed(altered(facts, failures=3), "tall", given_up=1)
    assert cost_sentence(lost).endswith("; 3 failed attempts.")


@pytest.mark.parametrize(
    "status, words", [("finished", "run finished: why."), ("trouble", "stopped early: why.")]
)
def test_how_it_ended(facts: Facts, status: str, words: str) -> None:
    assert status_sentence(altered(facts, status=status, reason="why")).endswith(words)
    assert "The run was killed" in status_sentence(altered(facts, status="unfinished"))
    assert "The run is still in progress" in status_sentence(
        altered(facts, status="unfinished", is_running=True)
    )
    stopped = altered(facts, status="interrupted", reason="interrupted")
    assert status_sentence(stopped) == "The run was interrupted."


@pytest.mark.parametrize(
    "moved, score, verdict",
    [
        (0.01, 2.0, "yes"),  # nothing moved
        (0.04, 1.99, "yes"),  # a little of both
        (0.3, 1.9999, "yes"),  # arms that can replace each other: the score is the same
        (0.3, 1.9, "no"),
        (0.04, 1.9, "no"),
        (0.2, 1.99, "no"),
    ],
)
def test_convergence_is_about_weights_and_scores(
    facts: Facts, moved: float, score: float, verdict: str
) -> None:
    earlier = EarlierMixture(240, moved, {"vendi": score})
    mixture, best = MixtureScore({"vendi": 2.0}, 0.0), {"vendi": 2.0}
    found = assess_convergence(altered(facts, mixture=mixture, best_scores=best, earlier=earlier))
    assert found.verdict == verdict
    assert "the last 60 samples" in found.reason


def test_a_score_that_stays_zero_has_converged(facts: Facts) -> None:
    zero = altered(facts, mixture=MixtureScore({"vendi": 0.0}, 0.0))
    assert (
        assess_convergence(altered(zero, earlier=EarlierMixture(240, 0.3, {"vendi": 0.0}))).verdict
        == "yes"
    )
    assert (
        assess_convergence(altered(facts, earlier=EarlierMixture(240, 0.01, {}))).verdict == "yes"
    )
    assert assess_convergence(altered(facts, earlier=EarlierMixture(240, 0.3, {}))).verdict == "no"


def test_weights_that_were_not_solved_again_have_not_converged(facts: Facts) -> None:
    still = altered(
        facts,
        mixture=MixtureScore({"vendi": 2.0}, 0.0),
        earlier=EarlierMixture(240, 0.0, {"vendi": 2.0}),
    )
    found = assess_convergence(altered(still, best_scores={"vendi": 2.1}))
    assert found.verdict == "no"
    assert "solving again would improve the score by 5.0%" in found.reason
    assert assess_convergence(altered(still, best_scores={"vendi": 2.01})).verdict == "yes"
    assert (
        assess_convergence(altered(still, best_scores={"vendi": 2.1}, policy="mixture-ucb")).verdict
        == "yes"
    )


def test_convergence_that_cannot_be_known(facts: Facts) -> None:
    assert assess_convergence(altered(facts, earlier=None)).verdict == "unknown"
    assert assess_convergence(altered(facts, policy="uniform")).verdict == "unknown"
    assert assess_convergence(altered(facts, weights=None)).verdict == "no"
    assert "gap" not in convergence_sentence(altered(facts, policy="uniform"))
    assert "at most" in convergence_sentence(facts)


def test_a_run_that_converged_says_use_it(facts: Facts) -> None:
    assert kinds(facts) == ["drop", "use"]
    drop, use = advise(facts)
    assert drop.text.startswith("Drop dot (")
    assert "samples.jsonl" in use.text


def test_an_arm_seen_too_seldom_is_not_dropped(facts: Facts) -> None:
    steps = {s.kind: s.text for s in advise(changed(facts, "dot", maybe_needed=True))}
    assert "drop" not in steps
    assert steps["look"].startswith("The mixture hardly uses dot (")
    assert steps["look"].endswith("from it to be sure. Increase warm_start before you drop it.")


def test_a_run_that_did_not_converge_wants_a_larger_budget(facts: Facts) -> None:
    found = altered(facts, earlier=EarlierMixture(240, 0.4, {"vendi": 1.0}))
    steps = {step.kind: step.text for step in advise(found)}
    assert steps["budget"].startswith("Extend the run, e.g. to 600 samples, because ")
    assert "use" not in steps


def test_arms_that_are_used_up_want_more_samples(tmp_path: Path) -> None:
    arms = {}
    for k, (arm, size) in enumerate([("a", 20), ("b", 200)]):
        np.save(tmp_path / f"{arm}.npy", np.random.default_rng(k).normal(size=(size, 3)))
        path = str(tmp_path / f"{arm}.npy")
        arms[arm] = {"kind": "recorded", "path": path, "exhausted": "retire"}
    study = {"arms": arms, "objective": "vendi", "budget": {"samples": 150}, "warm_start": 5}
    found = Facts(gx.run(study, tmp_path / "run").folder)
    assert found.exhausted == ["a"]
    far = altered(
        found, weights={"a": 0.5, "b": 0.5}, earlier=EarlierMixture(20, 0.4, {"vendi": 1.0})
    )
    (step,) = [s for s in advise(far) if s.kind == "budget"]
    assert step.text.startswith("a has no samples left. Record more")


def test_a_run_in_progress_is_waited_for(facts: Facts) -> None:
    going = altered(facts, status="unfinished", is_running=True)
    assert advise(going)[0].kind == "wait"
    assert not any("resume" in step.text for step in advise(going))


@pytest.mark.parametrize("policy", ["one-arm-greedy", "uniform"])
def test_a_poor_mixture_makes_no_arm_spare(tmp_path: Path, policy: str) -> None:
    """What the best mixture loses without an arm counts, not what this one does."""
    arms = {}
    for arm, directions in (("a", [0, 1]), ("b", [2]), ("c", [3])):
        rows = np.eye(4)[np.random.default_rng(0).choice(directions, size=200)]
        np.save(tmp_path / f"{arm}.npy", rows)
        arms[arm] = {"kind": "recorded", "path": str(tmp_path / f"{arm}.npy")}
    study = {"arms": arms, "objective": "vendi", "budget": {"samples": 150}, "policy": policy}
    found = Facts(gx.run(study, tmp_path / "run").folder)
    assert all((arm.leave_one_out or 0.0) > 0.2 for arm in found.arms)
    assert not {"drop", "single"} & set(kinds(found))
    assert "before the weights converged" not in convergence_sentence(
        altered(found, policy="uniform")
    )


def test_an_arm_that_failed_comes_first(facts: Facts) -> None:
    found = changed(facts, "tall", failures=9, suspensions=2, last_failure="401: no.", count=1)
    first = advise(found)[0]
    assert first.kind == "failed"
    assert first.text == (
        "tall failed in 9 of 10 attempts and was suspended 2×. Fix it. Last failure: 401: no."
    )
    flaky = {"failures": 40, "last_failure": "503", "count": 100}
    assert "failed" not in kinds(changed(facts, "tall", **flaky))  # all were repeated
    assert "failed" in kinds(changed(facts, "tall", given_up=1, **flaky))
    assert "failed" in kinds(altered(changed(facts, "tall", **flaky), status="interrupted"))
    rare = changed(facts, "tall", failures=2, last_failure="a hiccup", count=100)
    assert "failed" not in kinds(rare)


def test_an_interrupted_run_can_be_continued(facts: Facts) -> None:
    steps = advise(altered(facts, status="interrupted"))
    assert steps[0].kind == "resume"
    assert steps[0].text == f"Continue the run: genmix resume {facts.folder}"
    spaced = altered(facts, status="interrupted", folder=Path("my runs/first"))
    assert advise(spaced)[0].text.endswith("genmix resume 'my runs/first'")
    here = altered(facts, status="interrupted", folder=Path("."))
    assert advise(here)[0].text.endswith(shlex.quote(str(Path.cwd())))
    assert "budget" not in [step.kind for step in steps]


def test_arms_that_replace_each_other_may_go_one_at_a_time(facts: Facts) -> None:
    assert facts.mixture is not None
    same = dict(facts.best_scores)
    found = changed(facts, "flat", scores_without=same)
    words = [step.text for step in advise(found) if step.kind == "drop"]
    assert any("You can drop flat: other arms can replace it at no loss." in w for w in words)
    both = changed(found, "tall", scores_without=same)
    words = [step.text for step in advise(both) if step.kind == "drop"]
    assert any("any one of flat and tall, but not all of them:" in w for w in words)


def test_an_arm_that_is_needed_is_never_dropped(facts: Facts) -> None:
    needed: Arm = facts.arms[0]
    assert needed.label == "flat"
    assert needed.leave_one_out is not None
    assert needed.leave_one_out > 0.01
    assert not any("flat" in step.text for step in advise(facts) if step.kind == "drop")


def test_a_single_arm_that_does_it_all(facts: Facts) -> None:
    found = changed(facts, "flat", single_loss=-99.0)
    assert "single" in kinds(altered(found, vs_best_arm=against(100, 2.01, 2.0, 0.005)))
    assert "single" not in kinds(altered(found, vs_best_arm=against(100, 2.01, 2.0, 0.5)))
    assert "single" not in kinds(altered(found, vs_best_arm=against(100, 2.1, 2.0, 0.005)))
    assert "single" not in kinds(altered(found, vs_best_arm=None))
    assert "single" not in kinds(facts)


def test_one_arm_alone(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.random.default_rng(0).normal(size=(100, 3)))
    study = {
        "arms": {"a": {"kind": "recorded", "path": str(tmp_path / "a.npy")}},
        "objective": "vendi",
        "budget": {"samples": 50},
    }
    found = Facts(gx.run(study, tmp_path / "run").folder)
    assert mixture_sentence(found) == "The mixture is 100% a."
    assert score_sentences(found)[0].endswith("↑.")
    assert "a is the only remaining arm" in convergence_sentence(found)
    assert kinds(found) == ["use"]
