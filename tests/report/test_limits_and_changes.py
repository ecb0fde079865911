"""What the report says about limits on the weights, changes during the run, and what is missing."""

from __future__ import annotations

import html
from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.charts.axes import linear_axis
from genmix.core.text import number
from genmix.errors import InputError
from genmix.journal.study_changes import arms_in_order, change_in_words
from genmix.monitoring.facts import arm_names
from genmix.monitoring.monitor import RunMonitor
from genmix.report import advice, kept, run_chart
from genmix.report.advice import advise
from genmix.report.convergence import Convergence, convergence_sentence
from genmix.report.facts import Facts
from genmix.report.figures import FIGURES, why_missing
from genmix.report.frontier import cost_frontier
from genmix.report.page import render_page
from genmix.report.sentences import (
    change_sentences,
    cost_sentence,
    limit_sentences,
    money_sentences,
)
from genmix.selector.limits import Limits
from tests.report.test_budget import rows_in, study
from tests.report.test_sentences import changed as with_arm
from tests.support.report_runs import altered, feature_run

LIMITS = {"at_least": {"cheap": 0.1}, "at_most": {"big": 0.5}}


@pytest.fixture(autouse=True)
def _no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GENMIX_REPORT", "off")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Facts, Facts]:
    """A run with limits, and the same run after its first arm and its limits were removed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GENMIX_REPORT", "off")
        folder = tmp_path_factory.mktemp("limits")
        plain = study({"samples": 80, "cost": 100.0}) | {"weights": LIMITS, "warm_start": 10}
        run = gx.run(plain, folder / "run")
        before = altered(Facts(run.folder))  # computes everything, while the folder is unchanged
        later = study({"samples": 90, "cost": 100.0}) | {"warm_start": 10}
        del later["arms"]["big"]
        return before, Facts(gx.resume(run, study=later).folder)


# -- limits ------------------------------------------------------------------------------------------


def test_limits_and_those_that_are_reached_are_named(runs: tuple[Facts, Facts]) -> None:
    facts, changed = runs
    assert limit_sentences(facts) == [
        "The study asks for at least 10% cheap and at most 50% big; the mixture reaches the limit of big."
    ]
    assert limit_sentences(changed) == []
    loose = altered(facts, limits=Limits(at_most={"big": 0.9}))
    [text] = limit_sentences(loose)
    assert text.endswith("at most 90% big; the mixture does not reach this limit.")
    assert " within the limits." in convergence_sentence(facts)


def test_more_money_does_not_help_within_the_limits(runs: tuple[Facts, Facts]) -> None:
    summary = runs[0]._summary | {"price_of_money": 0.0}
    [text] = money_sentences(altered(runs[0], _summary=summary))
    assert text.endswith("more money would not improve it within the limits on the weights.")
    assert runs[0].frontier is not None
    best = max(point.score for point in runs[0].frontier.points)
    assert runs[0].mixture is not None
    assert best == pytest.approx(runs[0].mixture.scores["vendi"], rel=1e-3)


@pytest.mark.parametrize(
    "limits", [Limits(), Limits({"a": 0.2}, {"c": 0.5}), Limits(at_most={"a": 0.3, "b": 0.4})]
)
def test_the_frontier_is_within_the_limits_and_best_there(limits: Limits) -> None:
    rng = np.random.default_rng(0)
    scales = {"a": [1, 0.1, 0.1], "b": [0.1, 1, 0.1], "c": [0.3, 0.3, 1]}
    arms = {arm: rng.normal(size=(60, 3)) * scale for arm, scale in scales.items()}
    pool = gx.optimal_mixture(arms, gx.Vendi()).pool
    cost = np.array([1.0, 2.0, 5.0])
    frontier = cost_frontier(pool, list("abc"), cost.tolist(), None, limits=limits)
    assert frontier is not None
    lo = np.array([limits.at_least.get(arm, 0.0) for arm in "abc"])
    hi = np.array([limits.at_most.get(arm, 1.0) for arm in "abc"])
    grid = [
        w
        for a in np.linspace(0, 1, 51)
        for b in np.linspace(0, 1 - a, 51)
        if np.all((w := np.array([a, b, 1 - a - b])) >= lo - 1e-9) and np.all(w <= hi + 1e-9)
    ]
    assert min(cost @ w for w in grid) == pytest.approx(frontier.points[-1].cost, abs=0.03)
    for point in frontier.points:
        weights = np.array(list(point.weights.values()))
        assert np.all(weights >= lo - 1e-6)
        assert np.all(weights <= hi + 1e-6)
        cheaper = [w for w in grid if cost @ w <= point.cost + 1e-9]
        assert all(float(pool.score(w)) <= point.score * (1 + 1e-4) for w in cheaper[::7])


# -- changes -----------------------------------------------------------------------------------------


def test_arms_keep_their_order_when_one_is_removed(runs: tuple[Facts, Facts]) -> None:
    before, after = runs
    assert before.labels == after.labels == ["big", "cheap"]
    monitor = RunMonitor(after.folder)
    monitor.refresh()
    assert arm_names(monitor) == ["big", "cheap"]
    assert [arm.weight for arm in after.arms] == [None, 1.0]


def test_arms_that_joined_keep_their_place() -> None:
    def event(arm: str, key: str) -> dict[str, Any]:
        return {"kind": "changed", "arm": arm, "detail": {"key": key}}

    events = [event("b", "arms.b"), event("c", "arms.c"), event("a", "arms.a.price")]
    assert arms_in_order(["z", "a"], events, ["a", "c", "z"]) == ["z", "a", "b", "c"]
    assert arms_in_order([], [event("b", "arms.b.function")], ["a", "b"]) == ["a", "b"]


def test_changes_are_written_in_words(runs: tuple[Facts, Facts]) -> None:
    words = [text.partition("UTC, ")[2] for text in change_sentences(runs[1])]
    assert "big: removed from the study" in words
    assert "weights is now none; it was at least 10% cheap and at most 50% big" in words
    assert "budget.samples is now 90; it was 80" in words
    assert "{" not in " ".join(words)


@pytest.mark.parametrize(
    ("arm", "detail", "words"),
    [
        ("x", {"key": "arms.x", "old": "none", "new": '{"kind": "t"}'}, "added to the study"),
        (
            "x",
            {"key": "arms.x.price", "old": "none", "new": '{"input": 1, "output": null}'},
            "price is now input 1; it was none",
        ),
        (
            None,
            {"key": "stop_when", "old": "{", "new": "[1, 2]"},
            "stop_when is now 1 and 2; it was {",
        ),
        (None, {"key": "weights", "old": "{}", "new": '{"at_least": 3}'}, "weights is now {"),
        (
            "x",
            {"key": "arms.x.function", "why": "its source has changed"},
            "its source has changed",
        ),
    ],
)
def test_single_changes(arm: str | None, detail: dict[str, Any], words: str) -> None:
    found = change_in_words({"kind": "changed", "arm": arm, "detail": detail})
    assert found.startswith(words)


def test_the_only_arm_left_is_not_compared_with_itself(runs: tuple[Facts, Facts]) -> None:
    _, facts = runs
    rows = rows_in(FIGURES["scores"](facts).to_dict())
    assert {row["label"] for row in rows if "label" in row} == {"big", "cheap"}
    assert why_missing(facts, "cost") == "The mixture has only one arm."
    with pytest.raises(InputError, match=r"'frontier'.*: the mixture has only one arm"):
        run_chart(facts.folder, "frontier")


def test_the_page_explains_only_what_it_shows(
    runs: tuple[Facts, Facts], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("genmix.report.page.FIGURES", {})  # charts take seconds
    pages = [html.unescape(render_page(facts)) for facts in runs]
    for term in ("Loss increase", "Interval"):
        assert [f"<dt>{term}</dt>" in page for page in pages] == [True, False]
    assert "Loss increase without it" not in pages[1]
    assert "the mixture reaches the limit of big" in pages[0]
    assert "no mixture of the other arms was found that satisfies the limits" in pages[0]


# -- advice and numbers ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def keeper(tmp_path_factory: pytest.TempPathFactory) -> Facts:
    """A run of three arms, one of which adds nothing, that keeps some of its samples."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GENMIX_REPORT", "off")
        folder = tmp_path_factory.mktemp("keeper")
        return Facts(feature_run(folder, 90, keep={"samples": 20}).folder)


def test_only_arms_that_the_mixture_does_not_need_are_dropped(keeper: Facts) -> None:
    failed = {"failures": 900, "suspensions": 1, "last_failure": "500", "maybe_needed": False}
    needed = max(keeper.arms, key=lambda arm: arm.leave_one_out or 0.0)
    assert "rop" not in advise(with_arm(keeper, needed.label, **failed))[0].text
    assert "Drop it" in advise(with_arm(keeper, "dot", **failed))[0].text
    missing = with_arm(keeper, "dot", **failed, weight=None, count=0)
    assert "otherwise, drop the arm." in advise(missing)[0].text
    removed = altered(missing, study=keeper.study | {"arms": {"flat": {}, "tall": {}}})
    assert not [step for step in advise(removed) if step.kind == "failed"]


def test_kept_samples_are_on_a_card_and_in_the_advice(
    keeper: Facts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("genmix.report.page.FIGURES", {})
    monkeypatch.setattr(advice, "assess_convergence", lambda facts: Convergence("yes", ""))
    page = html.unescape(render_page(keeper))
    assert "<dt>Vendi ↑ of the 20 kept samples</dt>" in page
    assert "samples.jsonl is the data set (only the kept samples, 20 of 90)" in page


def test_one_is_not_many(keeper: Facts) -> None:
    found = {
        "count": 1,
        "samples": 2,
        "scores": {"vendi": {"value": 1.0}},
        "all_scores": {"vendi": {"value": 1.5}},
        "random_scores": {"vendi": {"mean": 1.0}},
    }
    assert kept._lead(found) == (
        "The run keeps 1 of its 2 samples, the one that scores best: Vendi 1, compared with 1.5 for all "
        "samples and 1 for a random one."
    )
    assert "; 1 failed attempt," in cost_sentence(altered(keeper, failures=1))


@pytest.mark.parametrize(
    ("samples", "ticks"), [([1, 3, 2], [1, 2, 3]), ([10, 900], None), ([0.5, 2.0], None)]
)
def test_a_tiny_run_has_whole_ticks(samples: list[float], ticks: list[int] | None) -> None:
    assert linear_axis("samples", samples, 200)["axis"].get("values") == ticks


def test_small_numbers_have_one_format(runs: tuple[Facts, Facts]) -> None:
    facts = altered(runs[0], gap=5.2e-14)
    assert f"at most {number(5.2e-14)} above" in convergence_sentence(facts)
    assert "5.2e−14" in convergence_sentence(facts)


def test_all_samples_include_those_drawn_with_other_weights(runs: tuple[Facts, Facts]) -> None:
    facts = altered(runs[0], pooled_scores={"vendi": 1.0})
    assert convergence_sentence(facts).endswith(
        "All samples together score 1, because they include samples that were drawn with other weights."
    )
