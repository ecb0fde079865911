"""What the report says: each sentence only where it is true."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.report.facts import Arm, Facts, Mixed, Term, Then, gather
from genmix.report.baselines import Rival
from genmix.report.sentences import (
    compared,
    cost_words,
    end_words,
    gain,
    mixture_words,
    next_steps,
    number,
    percent,
    score_words,
    settled,
    settled_words,
    told_apart,
)
from tests.support.report_runs import feature_run


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Facts:
    return gather(feature_run(tmp_path_factory.mktemp("run")).folder)


def changed(facts: Facts, label: str, **values: Any) -> Facts:
    """The same facts, but for one arm."""
    arms = tuple(replace(a, **values) if a.label == label else a for a in facts.arms)
    return replace(facts, arms=arms)


def kinds(facts: Facts) -> list[str]:
    return [step.kind for step in next_steps(facts)]


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
    assert [percent(x) for x in shares] == ["0 %", "<1 %", "<1 %", "1 %", "26 %", "100 %"]


@pytest.mark.parametrize(
    "share, words",
    [
        (0.1234, "is 12 % better than"),
        (-0.0123, "is 1.2 % worse than"),
        (0.0001, "cannot be told from"),
        (3.5, "is 350 % better than"),
        (None, "stands beside"),
    ],
)
def test_comparisons(share: float | None, words: str) -> None:
    assert compared(share) == words


def test_better_depends_on_the_direction() -> None:
    up, down = Term("x", True), Term("x", False)
    assert gain(up, {"x": 3.0}, {"x": 2.0}) == pytest.approx(0.5)
    assert gain(down, {"x": 3.0}, {"x": 2.0}) == pytest.approx(-0.5)
    assert gain(up, {"x": -1.0}, {"x": -2.0}) == pytest.approx(0.5)
    assert gain(up, {"x": 1.0}, {"x": 0.0}) is None
    assert gain(up, {}, {"x": 1.0}) is None


def test_the_mixture_in_words(facts: Facts) -> None:
    weights = {"a": 0.7, "b": 0.298, "c": 0.002}
    found = mixture_words(replace(facts, weights=weights))
    assert found == (
        "The mixture: 70 % a and 30 % b. Next to nothing of c. Out of it at the end: flat, tall and dot."
    )
    many = {f"m{i}": 0.05 for i in range(20)}
    assert "12 more arms" in mixture_words(replace(facts, weights=many))
    assert "no mixture yet" in mixture_words(replace(facts, weights=None))


def test_the_score_against_the_best_arm_and_even_shares(facts: Facts) -> None:
    scores = Mixed({"vendi": 3.0}, -1.0)
    best = replace(facts.arms[0], label="star", single={"vendi": 2.0}, loss=-9.0)
    arms = (best, *facts.arms[1:])
    weights = dict.fromkeys((arm.label for arm in arms), 1 / 3)
    told = replace(
        facts,
        mixture=scores,
        arms=arms,
        weights=weights,
        against_best_arm=rival(40, 2.7, 1.8, 0.1),
        against_even=rival(1200, 2.8, 3.5, 0.4),
    )
    assert score_words(told) == [
        "It scores Vendi 3 ↑. In sets of 40 samples it is 50 % better than the best arm alone, star "
        "(2.7 against 1.8). In sets of 1,200 samples it cannot be told from an even mixture (2.8 "
        "against 3.5)."
    ]
    unknown = replace(told, against_best_arm=None, against_even=None)
    assert score_words(unknown) == ["It scores Vendi 3 ↑."]
    assert score_words(replace(facts, mixture=None)) == []


def rival(size: int, mixture: float, other: float, spread: float) -> Rival:
    return Rival(size, {"vendi": mixture}, {"vendi": other}, {"vendi": spread})


def test_a_difference_within_chance_is_none() -> None:
    up = Term("vendi", True)
    assert told_apart(up, rival(9, 2.2, 2.0, 0.09)) == pytest.approx(0.1)
    assert told_apart(up, rival(9, 2.2, 2.0, 0.11)) == 0.0
    assert told_apart(Term("vendi", False), rival(9, 2.2, 2.0, 0.01)) == pytest.approx(-0.1)
    assert told_apart(Term("fd", False), rival(9, 2.2, 2.0, 0.01)) is None


def test_what_it_cost(facts: Facts) -> None:
    found = cost_words(replace(facts, seconds=125.0, cost=6.0, failures=1200, tokens=(10, 20000)))
    assert found == (
        "300 samples in 2 min 05 s at a cost of 6, 0.02 a sample; 10 tokens in and 20,000 out; "
        "1,200 attempts failed."
    )
    assert "cost" not in cost_words(replace(facts, cost=None))


@pytest.mark.parametrize(
    "status, words", [("finished", "is finished: why."), ("trouble", "had to stop: why.")]
)
def test_how_it_ended(facts: Facts, status: str, words: str) -> None:
    assert end_words(replace(facts, status=status, reason="why")).endswith(words)
    assert "The run was killed" in end_words(replace(facts, status="unfinished"))
    assert "The run goes on" in end_words(replace(facts, status="unfinished", runs=True))
    stopped = replace(facts, status="interrupted", reason="interrupted")
    assert end_words(stopped) == "The run was interrupted."


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
    then = Then(240, moved, {"vendi": score})
    mixture, best = Mixed({"vendi": 2.0}, 0.0), {"vendi": 2.0}
    found = settled(replace(facts, mixture=mixture, best=best, then=then))
    assert found.verdict == verdict
    assert "the last 60 samples" in found.why


def test_a_score_that_stays_zero_has_converged(facts: Facts) -> None:
    zero = replace(facts, mixture=Mixed({"vendi": 0.0}, 0.0))
    assert settled(replace(zero, then=Then(240, 0.3, {"vendi": 0.0}))).verdict == "yes"
    assert settled(replace(facts, then=Then(240, 0.01, {}))).verdict == "yes"
    assert settled(replace(facts, then=Then(240, 0.3, {}))).verdict == "no"


def test_weights_that_were_not_solved_again_have_not_converged(facts: Facts) -> None:
    still = replace(facts, mixture=Mixed({"vendi": 2.0}, 0.0), then=Then(240, 0.0, {"vendi": 2.0}))
    found = settled(replace(still, best={"vendi": 2.1}))
    assert found.verdict == "no"
    assert "were not solved again for the last samples, and would score 5.0% better" in found.why
    assert settled(replace(still, best={"vendi": 2.01})).verdict == "yes"
    assert settled(replace(still, best={"vendi": 2.1}, policy="mixture-ucb")).verdict == "yes"


def test_convergence_that_cannot_be_known(facts: Facts) -> None:
    assert settled(replace(facts, then=None)).verdict == "unknown"
    assert settled(replace(facts, policy="uniform")).verdict == "unknown"
    assert settled(replace(facts, weights=None)).verdict == "no"
    assert "gap" not in settled_words(replace(facts, policy="uniform"))
    assert "at most" in settled_words(facts)


def test_a_run_that_converged_says_use_it(facts: Facts) -> None:
    assert kinds(facts) == ["drop", "use"]
    drop, use = next_steps(facts)
    assert drop.words.startswith("Drop dot (seen in ")
    assert "samples.jsonl" in use.words


def test_an_arm_seen_too_seldom_is_not_dropped(facts: Facts) -> None:
    steps = {s.kind: s.words for s in next_steps(changed(facts, "dot", may_be_needed=True))}
    assert "drop" not in steps
    assert steps["look"].startswith("The mixture uses next to nothing of dot (")
    assert steps["look"].endswith("of it to be sure: raise warm_start before you drop it.")


def test_a_run_that_did_not_converge_wants_a_larger_budget(facts: Facts) -> None:
    found = replace(facts, then=Then(240, 0.4, {"vendi": 1.0}))
    steps = {step.kind: step.words for step in next_steps(found)}
    assert "twice the samples (600)" in steps["budget"]
    assert "use" not in steps


def test_arms_that_are_used_up_want_more_samples(tmp_path: Path) -> None:
    arms = {}
    for k, (arm, size) in enumerate([("a", 20), ("b", 200)]):
        np.save(tmp_path / f"{arm}.npy", np.random.default_rng(k).normal(size=(size, 3)))
        path = str(tmp_path / f"{arm}.npy")
        arms[arm] = {"kind": "recorded", "path": path, "exhausted": "retire"}
    study = {"arms": arms, "objective": "vendi", "budget": {"samples": 150}, "warm_start": 5}
    found = gather(gx.run(study, tmp_path / "run").folder)
    assert found.used_up == ("a",)
    far = replace(found, weights={"a": 0.5, "b": 0.5}, then=Then(20, 0.4, {"vendi": 1.0}))
    (step,) = [s for s in next_steps(far) if s.kind == "budget"]
    assert step.words.startswith("a has no more samples to give: record more")


def test_a_run_that_goes_on_is_waited_for(facts: Facts) -> None:
    going = replace(facts, status="unfinished", runs=True)
    assert next_steps(going)[0].kind == "wait"
    assert not any("resume" in step.words for step in next_steps(going))


@pytest.mark.parametrize("policy", ["one-arm-greedy", "uniform"])
def test_a_poor_mixture_makes_no_arm_spare(tmp_path: Path, policy: str) -> None:
    """What the best mixture loses without an arm counts, not what this one does."""
    arms = {}
    for arm, directions in (("a", [0, 1]), ("b", [2]), ("c", [3])):
        rows = np.eye(4)[np.random.default_rng(0).choice(directions, size=200)]
        np.save(tmp_path / f"{arm}.npy", rows)
        arms[arm] = {"kind": "recorded", "path": str(tmp_path / f"{arm}.npy")}
    study = {"arms": arms, "objective": "vendi", "budget": {"samples": 150}, "policy": policy}
    found = gather(gx.run(study, tmp_path / "run").folder)
    assert all((arm.leave_one_out or 0.0) > 0.2 for arm in found.arms)
    assert not {"drop", "single"} & set(kinds(found))
    assert "before the weights settled" not in settled_words(replace(found, policy="uniform"))


def test_an_arm_that_failed_comes_first(facts: Facts) -> None:
    found = changed(facts, "tall", failures=9, suspensions=2, last_failure="401: no.", count=1)
    first = next_steps(found)[0]
    assert first.kind == "failed"
    assert first.words == (
        "tall failed in 9 of 10 attempts and was suspended 2×: mend it, or leave it out. "
        "The last failure: 401: no."
    )
    rare = changed(facts, "tall", failures=2, last_failure="a hiccup", count=100)
    assert "failed" not in kinds(rare)


def test_a_run_that_was_interrupted_can_go_on(facts: Facts) -> None:
    steps = next_steps(replace(facts, status="interrupted"))
    assert steps[0].kind == "resume"
    assert steps[0].words == f"Go on with the run: genmix resume {facts.folder}"
    spaced = replace(facts, status="interrupted", folder=Path("my runs/first"))
    assert next_steps(spaced)[0].words.endswith("genmix resume 'my runs/first'")
    here = replace(facts, status="interrupted", folder=Path("."))
    assert next_steps(here)[0].words.endswith(shlex.quote(str(Path.cwd())))
    assert "budget" not in [step.kind for step in steps]


def test_arms_that_replace_each_other_may_go_one_at_a_time(facts: Facts) -> None:
    assert facts.mixture is not None
    same = dict(facts.best)
    found = changed(facts, "flat", without=same)
    words = [step.words for step in next_steps(found) if step.kind == "drop"]
    assert any("You may drop flat: other arms can take the place of it" in w for w in words)
    both = changed(found, "tall", without=same)
    words = [step.words for step in next_steps(both) if step.kind == "drop"]
    assert any("any one of them, not all," in w for w in words)


def test_an_arm_that_is_needed_is_never_dropped(facts: Facts) -> None:
    needed: Arm = facts.arm("flat")
    assert needed.leave_one_out is not None
    assert needed.leave_one_out > 0.01
    assert not any("flat" in step.words for step in next_steps(facts) if step.kind == "drop")


def test_a_single_arm_that_does_it_all(facts: Facts) -> None:
    found = changed(facts, "flat", loss=-99.0)
    assert "single" in kinds(replace(found, against_best_arm=rival(100, 2.01, 2.0, 0.005)))
    assert "single" not in kinds(replace(found, against_best_arm=rival(100, 2.01, 2.0, 0.5)))
    assert "single" not in kinds(replace(found, against_best_arm=rival(100, 2.1, 2.0, 0.005)))
    assert "single" not in kinds(replace(found, against_best_arm=None))
    assert "single" not in kinds(facts)


def test_one_arm_alone(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.random.default_rng(0).normal(size=(100, 3)))
    study = {
        "arms": {"a": {"kind": "recorded", "path": str(tmp_path / "a.npy")}},
        "objective": "vendi",
        "budget": {"samples": 50},
    }
    found = gather(gx.run(study, tmp_path / "run").folder)
    assert mixture_words(found) == "The mixture: 100 % a."
    assert score_words(found)[0].endswith("↑.")
    assert "a was the only arm" in settled_words(found)
    assert kinds(found) == ["use"]
