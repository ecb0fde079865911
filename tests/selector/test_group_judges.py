"""Weights by group against independent judges: CVXPY on quadratics, and closed forms for pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import genmix as gx

ARMS = ("a", "b", "c")
SHARES = {"travel": 0.5, "food": 0.2, "code": 0.3}


def told(**options: Any) -> tuple[gx.Selector, dict[tuple[str, str], Any]]:
    """A selector of groups with a quadratic loss, and the unit samples of each cell."""
    rng = np.random.default_rng(7)
    selector = gx.Selector(
        ARMS,
        gx.RKE(gx.Cosine()),
        gx.MixtureGreedy(),
        groups=SHARES,
        warm_start=3,
        resolve_growth=0.0,
        **options,
    )
    cells: dict[tuple[str, str], Any] = {}
    for group in SHARES:
        for arm in ARMS:
            rows = rng.standard_normal((int(rng.integers(3, 9)), 6)) + rng.standard_normal(6)
            cells[group, arm] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
            for row in cells[group, arm]:
                selector.tell(selector.ask_from(arm, group=group), row)
    return selector, cells


def moments(cells: dict[tuple[str, str], Any], pooling: float) -> list[Any]:
    """The moment of each cell, shrunk toward that of its arm."""
    found = []
    for (_, arm), rows in cells.items():
        every = np.vstack([each for (_, other), each in cells.items() if other == arm])
        own, whole = rows.T @ rows, every.T @ every / len(every)
        found.append((own + pooling * whole) / (len(rows) + pooling))
    return found


@pytest.mark.parametrize(
    ("pooling", "limits"),
    [(0.0, {}), (3.0, {}), (3.0, {"at_most": {"b": 0.15}, "at_least": {"c": 0.4}})],
)
def test_the_selectors_cell_weights_and_gap_agree_with_cvxpy(
    pooling: float, limits: dict[str, Any]
) -> None:
    cp = pytest.importorskip("cvxpy")
    selector, cells = told(pooling=pooling, **limits)
    shrunk = np.array([moment.ravel() for moment in moments(cells, pooling)])
    w = cp.Variable(len(cells), nonneg=True)
    by_group = cp.reshape(w, (len(SHARES), len(ARMS)), order="C")
    rules = [cp.sum(by_group, axis=1) == np.array(list(SHARES.values()))]
    total = dict(zip(ARMS, cp.sum(by_group, axis=0), strict=True))
    rules += [total[arm] <= most for arm, most in limits.get("at_most", {}).items()]
    rules += [total[arm] >= least for arm, least in limits.get("at_least", {}).items()]
    problem = cp.Problem(cp.Minimize(cp.sum_squares(shrunk.T @ w)), rules)
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    weights = np.array([selector.weights_by_group[g][a] * SHARES[g] for g, a in cells])
    loss = float(np.sum((shrunk.T @ weights) ** 2))
    assert selector.score is not None
    assert 1 / selector.score == pytest.approx(loss, abs=1e-12)
    assert loss == pytest.approx(problem.value, abs=1e-7)
    assert loss - selector.gap <= problem.value + 1e-9
    assert weights == pytest.approx(w.value, abs=1e-4)


def test_pairs_separate_the_groups_and_have_a_closed_form() -> None:
    # The arms share their answers between the groups. Only pairs with the prompt tell the groups apart, so
    # each group has its own optimum: weights in proportion to the numbers of answers.
    modes = {
        ("travel", "a"): [0, 1, 2], ("travel", "b"): [3],
        ("food", "a"): [0], ("food", "b"): [1, 2, 3, 4],
    }  # fmt: skip
    prompts = {"travel": 0, "food": 1}
    joint = gx.Joint(2, prompt=gx.Cosine(), output=gx.Cosine())
    selector = gx.Selector(
        ["a", "b"],
        gx.Vendi(kernel=joint),
        gx.MixtureGreedy(),
        groups={"travel": 0.5, "food": 0.5},
        warm_start=12,
        resolve_growth=0.0,
    )
    for turn in range(12):
        for (group, arm), own in modes.items():
            row = np.concatenate([np.eye(2)[prompts[group]], np.eye(5)[own[turn % len(own)]]])
            selector.tell(selector.ask_from(arm, group=group), row)
    expected = {"travel": {"a": 3 / 4, "b": 1 / 4}, "food": {"a": 1 / 5, "b": 4 / 5}}
    for group, weights in expected.items():
        assert selector.weights_by_group[group] == pytest.approx(weights, abs=1e-6)
    score: Any = selector.score
    assert score == pytest.approx(
        2 * np.sqrt(4 * 5), rel=1e-9
    )  # exp of log 2 + (log 4 + log 5) / 2
    assert score.details["prompts"] == pytest.approx(2, rel=1e-9)
    assert score.details["prompt entropy"] == pytest.approx(np.log(2), rel=1e-9)
    assert score.details["conditional"] == pytest.approx(np.sqrt(20), rel=1e-9)
    assert selector.gap < 1e-7
