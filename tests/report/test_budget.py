"""What a report says about the budget: asked, delivered, and what more money would be worth."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.offline.mixture import best_mixture
from genmix.report import run_chart
from genmix.report.advice import advise
from genmix.report.convergence import convergence_sentence
from genmix.report.facts import Facts
from genmix.report.page import render_page
from genmix.report.sentences import (
    fell_short,
    money_sentences,
    score_sentences,
    status_sentence,
)
from tests.support.report_runs import altered


def made(folder: Path, budget: dict[str, Any], **more: Any) -> Facts:
    """The facts about a run."""
    gx.run(study(budget) | more, folder / "run")
    return Facts(folder / "run")


def study(budget: dict[str, Any]) -> dict[str, Any]:
    """An expensive arm with four kinds of samples, and a cheap one with two."""

    def arm(kinds: list[int], cost: float) -> dict[str, Any]:
        async def make(seeds: list[int]) -> list[Any]:
            rows = [np.eye(6)[kinds[seed % len(kinds)]] for seed in seeds]
            return [{"vector": row.tolist(), "cost": cost} for row in rows]

        return {"kind": "callable", "function": make, "price": cost}

    arms = {"big": arm([0, 1, 2, 3], 1.0), "cheap": arm([4, 5], 0.1)}
    return {"arms": arms, "objective": "vendi", "policy": "mixture-greedy", "budget": budget}


@pytest.fixture(autouse=True)
def _no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GENMIX_REPORT", "off")


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Facts:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GENMIX_REPORT", "off")
        return made(tmp_path_factory.mktemp("planned"), {"samples": 80, "cost": 28.0})


def test_a_run_within_its_budget(planned: Facts) -> None:
    assert not fell_short(planned)
    assert status_sentence(planned).startswith("The run finished: it delivered 80 samples for ")
    assert status_sentence(planned).endswith("; the study asked for 80 for at most 28.")
    page = render_page(planned)
    assert 'class="status good"' in page
    assert "The vertical line is the budget, 0.35 per sample." in page


def test_the_price_of_money_is_the_slope_of_the_best_loss(planned: Facts) -> None:
    [text] = money_sentences(planned)
    assert text.startswith(
        "The budget allows a mean cost of 0.35 per sample. With 10% more, the best"
    )
    frontier, price = planned.frontier, planned.price_of_money
    assert frontier is not None
    assert frontier.budget is not None
    assert frontier.raised is not None
    assert price is not None
    assert frontier.budget.cost == pytest.approx(0.35, rel=1e-6)
    assert frontier.raised.cost == pytest.approx(0.385, rel=1e-6)
    # The loss is the negative logarithm of the score, and it is convex in the mean cost.
    gain = float(np.log(frontier.raised.score / frontier.budget.score))
    assert 0.5 * price * 0.035 < gain < price * 0.035


def test_the_gap_is_that_of_the_best_mixture_within_the_budget(planned: Facts) -> None:
    assert planned.gap is not None
    assert planned.gap < 1e-6
    assert "above the minimum over all mixtures of these samples within the budget" in (
        convergence_sentence(planned)
    )
    assert planned.scoring is not None
    assert planned.mixture is not None
    free = best_mixture(planned.scoring.pool)
    assert planned.mixture.loss - free.loss > 0.01  # money limits it


def test_intervals_and_weights_are_in_one_region(tmp_path: Path, planned: Facts) -> None:
    bounded = made(tmp_path, {"samples": 80}, weights={"at_most": {"big": 0.3}})
    for facts in (planned, bounded):
        assert facts.intervals is not None
        assert facts.weights is not None
        for arm, (low, high) in facts.intervals.weights.items():
            assert low - 0.01 <= facts.weights[arm] <= high + 0.01
        assert facts.gap is not None
        assert facts.gap < 1e-6
    assert planned.intervals is not None
    assert planned.intervals.weights["big"][1] <= 0.25 / 0.9 + 1e-6
    assert bounded.intervals is not None
    assert bounded.intervals.weights["big"][1] <= 0.3 + 1e-9


def rows_in(chart: Any) -> list[dict[str, Any]]:
    """All rows of a chart's data."""
    if isinstance(chart, dict):
        own = json.loads(chart["values"]) if isinstance(chart.get("values"), str) else []
        return [*own, *rows_in(list(chart.values()))]
    return [row for part in chart for row in rows_in(part)] if isinstance(chart, list) else []


def test_the_mixtures_along_the_frontier(planned: Facts) -> None:
    rows = rows_in(run_chart(planned.folder, "frontier").to_dict())
    shares = {(round(r["x"], 6), r["arm"]): r["share"] for r in rows if "share" in r}
    assert shares[0.1, "cheap"] == pytest.approx(1.0)
    assert shares[0.35, "big"] == pytest.approx(0.25 / 0.9, rel=1e-5)
    assert [row for row in rows if set(row) == {"x"}] == [{"x": 0.35}]


def test_a_run_that_fell_short_is_amber(tmp_path: Path) -> None:
    facts = made(tmp_path, {"samples": 80, "cost": 6.0})
    assert fell_short(facts)
    assert status_sentence(facts) == (
        "The run fell short: the study asked for 80 samples for at most 6, and the run delivered 60, "
        "because the cost budget of 6 does not cover another sample."
    )
    assert 'class="status warn"' in render_page(facts)
    [advice, *_] = advise(facts)
    assert advice.text == (
        "Raise the cost budget for the 20 missing samples, e.g.: "
        f"gx.resume({str(facts.folder)!r}, study=study, cost=8.4)"
    )
    run = gx.resume(facts.folder, cost=8.4, study=study({"samples": 80, "cost": 6.0}))
    assert sum(run.counts.values()) == 80


def test_money_that_does_not_limit_the_mixture(tmp_path: Path) -> None:
    facts = made(tmp_path, {"samples": 60, "cost": 60.0})
    [text] = money_sentences(facts)
    assert text.endswith("which does not limit the mixture: more money would not improve it.")
    assert "vertical line" not in render_page(facts)


def test_equal_shares_can_cost_too_much(planned: Facts) -> None:
    assert planned.is_uniform_too_expensive  # 0.55 of 0.35 per sample
    assert "equal shares, which cost more than the budget allows (" in score_sentences(planned)[0]
    assert "; equal shares cost more than the budget allows" in render_page(planned)


def test_money_that_reservations_leave_unspent(planned: Facts) -> None:
    plan = replace(planned.limits, prices={"big": 4.0, "cheap": 0.4})
    found = altered(planned, cost=26.5, limits=plan)
    [_, text] = money_sentences(found)
    assert text == (
        "5% of the money is left, because a sample is drawn only if the money covers its largest possible "
        "cost: a sample from cheap costs 0.1 on average, but can cost up to 0.4. To spend more of it, lower "
        "its price."
    )
    study = found.study | {"arms": {"cheap": {"max_tokens": 100, "price": {"input": 1}}}}
    assert money_sentences(altered(found, study=study))[1].endswith("lower its max_tokens.")
    assert len(money_sentences(altered(found, cost=27.8))) == 1
    assert len(money_sentences(altered(found, limits=planned.limits))) == 1


def test_without_a_cost_budget_nothing_is_said_about_money(tmp_path: Path) -> None:
    facts = made(tmp_path, {"samples": 40})
    assert money_sentences(facts) == []
    assert status_sentence(facts) == "The run finished: the budget of 40 samples is spent."
    assert facts.budget_per_sample is None
