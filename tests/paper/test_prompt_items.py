"""The item on prompts: on a world where arms specialize, and on made-up scores."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from genmix.paper import Settings, prompt_table
from genmix.paper.prompt_table import (
    BASELINES,
    ONE,
    ONE_ORACLE,
    ORACLE,
    PER_GROUP,
    POOLING,
    SHORT,
    Result,
    best_baseline,
    chosen_pooling,
    paired_tests,
    pooling_label,
    pooling_rows,
    relevance,
    run_world,
)
from tests.support.prompted_world import specialists


def test_a_mixture_per_group_is_better_where_arms_specialize(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompt_table, "QUICK_TIMES", (20, 50))
    monkeypatch.setattr(prompt_table, "QUICK_REPEATS", 3)
    world = specialists()
    objective = prompt_table.objectives_for(world)["Vendi, outputs"]
    settings = Settings(quick=True, out=tmp_path)
    found = run_world(settings, world, "Vendi, outputs", objective)
    assert found.times == (20, 50)
    assert found.scores[ONE].shape == (3, 2)
    assert found.best == pytest.approx(8, rel=1e-5)
    assert found.best_for_all == pytest.approx(4 * math.sqrt(3), rel=1e-5)
    assert np.all(found.regret[ORACLE] == 0)
    assert np.all(found.regret[ONE_ORACLE] > 0)
    assert {PER_GROUP, SHORT, *BASELINES} < set(found.scores)
    rows = paired_tests(found)
    [row] = [
        r for r in rows if (r["policy"], r["other"], r["t"]) == (PER_GROUP, "one-arm greedy", 50)
    ]
    assert row["gain_percent"] > 20
    assert found.regret[PER_GROUP][:, -1].mean() < found.regret["uniform"][:, -1].mean()


def test_relevance_is_the_cosine_with_the_prompt() -> None:
    world = specialists()
    assert world.prompts is not None
    turned = np.hstack([0.6 * np.eye(4), np.full((4, 1), 0.8), np.zeros((4, 3))])
    object.__setattr__(world.prompts, "embeddings", turned)
    assert relevance(world)["a"][:3].tolist() == [0.6, 0.0, 0.0]


def made_up(**scores: float) -> Result:
    """Scores with these means, or 1, at two times, and a little noise in every repeat."""
    labels = [*BASELINES, PER_GROUP, ORACLE, *prompt_table.OURS, *map(pooling_label, POOLING)]
    rng = np.random.default_rng(0)
    curves = {}
    for label in labels:
        noise = rng.normal(scale=0.01, size=(20, 2))
        curves[label] = scores.get(label, 1.0) + noise - noise.mean(axis=0)
    return Result("w", "RKE, outputs", (10, 20), curves, curves, 1.0, 1.0, 3.0)


def test_pooling_is_chosen_on_the_even_seeds_and_judged_on_the_odd_ones() -> None:
    result = made_up()
    result.scores[pooling_label(1.0)][0::2] = 1.5  # lucky where it is chosen
    result.scores[pooling_label(10.0)][1::2] = 2.0  # good where it is judged
    rows = pooling_rows([result])
    assert chosen_pooling(rows, "outputs", half="first") == 1.0
    assert chosen_pooling(rows, "outputs", half="second") == 10.0
    ones = [r["gain_percent"] for r in rows if r["pooling"] == math.inf]
    assert ones == [0.0] * 4
    text = prompt_table._choice(rows, "outputs", [result])
    assert "the even seeds choose κ = 1." in text
    assert "the best κ there is 10" in text


def test_verdicts_follow_the_corrected_tests() -> None:
    result = made_up(**{"DAK-UCB": 1.2, "uniform": 0.8})
    assert best_baseline(result, 0) == "DAK-UCB"
    rows = [row for row in paired_tests(result) if row["policy"] == PER_GROUP]
    verdicts = {row["other"]: row["verdict"] for row in rows}
    assert verdicts["DAK-UCB"] == "worse"
    assert verdicts["uniform"] == "better"
    assert verdicts[ONE] == "no significant difference"
    [row] = [r for r in rows if r["other"] == "DAK-UCB" and r["t"] == 10]
    assert row["gain_percent"] == pytest.approx(100 * (1 / 1.2 - 1))
    assert row["low"] < row["gain_percent"] < row["high"]
    text = prompt_table._against_best([result], paired_tests(result), PER_GROUP)
    assert "better in 0, worse in 2 and no significant difference in 0 of 2" in text
