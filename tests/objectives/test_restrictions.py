"""Restrictions of a loss (faces, slices, the pooled set) keep its score, value and inflation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.objectives import Sum
from genmix.solvers.loss import Loss, SliceLoss, SumLoss
from tests.support.conformance import OBJECTIVES, make_world
from tests.support.helpers import pool_of

every_objective = pytest.mark.parametrize("name", OBJECTIVES)

WEIGHTS = np.array([0.3, 0.7])
PADDED = np.array([0.3, 0.0, 0.7])


def loss_of(name: str) -> tuple[gx.Objective, Loss]:
    world = make_world(name)
    pool = pool_of(world.objective, world.arms, world.quality, world.cost)
    return pool.objective, pool.tally.loss(range(len(pool.arms)))


def scores(objective: gx.Objective, loss: Loss, alpha: Any) -> list[float]:
    found = objective.scores(loss, alpha, {})
    return [float(score) for score in (found.values() if isinstance(found, dict) else [found])]


@every_objective
def test_a_face_has_the_score_of_the_padded_weights(name: str) -> None:
    objective, loss = loss_of(name)
    face = loss.face([0, 2])
    assert face.size == 2
    assert face.value(WEIGHTS) == pytest.approx(loss.value(PADDED), rel=1e-9, abs=1e-12)
    assert face.score(WEIGHTS) == pytest.approx(loss.score(PADDED), rel=1e-9)
    assert scores(objective, face, WEIGHTS) == pytest.approx(scores(objective, loss, PADDED))
    assert face.inflation(WEIGHTS) == pytest.approx(loss.inflation(PADDED), rel=1e-6, abs=1e-12)


@every_objective
def test_a_face_of_a_face_is_a_face(name: str) -> None:
    _, loss = loss_of(name)
    vertex = np.eye(3)[2]
    assert loss.face([0, 2]).face([1]).score(np.ones(1)) == pytest.approx(loss.score(vertex))


@every_objective
def test_a_slice_has_the_score_of_the_whole_weights(name: str) -> None:
    _, loss = loss_of(name)
    whole = np.array([0.75 * 0.4, 0.25, 0.75 * 0.6])
    part = SliceLoss(loss, 1, 0.25)
    assert part.score(np.array([0.4, 0.6])) == pytest.approx(loss.score(whole), rel=1e-12)
    assert part.inflation(np.array([0.4, 0.6])) == pytest.approx(loss.inflation(whole), rel=1e-9)


@pytest.mark.parametrize("name", [n for n in OBJECTIVES if not n.endswith(("unbiased", "ddof1"))])
def test_the_pooled_loss_has_the_score_of_the_shares(name: str) -> None:
    """Unbiased estimators are not linear in the pairs' weights, so a pooled set differs there."""
    world = make_world(name)
    pool = pool_of(world.objective, world.arms, world.quality, world.cost)
    shares = np.array(pool.tally.counts) / sum(pool.tally.counts)
    whole = pool.tally.loss(range(3))
    assert pool.tally.pooled().score(np.ones(1)) == pytest.approx(whole.score(shares), rel=1e-9)


def test_a_vendi_score_reads_the_same_through_a_face() -> None:
    pool = pool_of(gx.Vendi(), [np.eye(4)[:1], np.eye(4)[1:3], np.eye(4)[3:]])
    loss = pool.tally.loss([0, 1, 2])
    assert loss.face([0, 1]).score(np.array([1 / 3, 2 / 3])) == pytest.approx(3.0)


def test_every_loss_states_its_score() -> None:
    """A new loss cannot inherit the wrong score: the base class has none."""
    assert "score" in Loss.__abstractmethods__


def test_a_sum_scores_its_terms() -> None:
    objective, loss = loss_of("sum")
    assert isinstance(objective, Sum)
    assert isinstance(loss, SumLoss)
    face = loss.face([0, 2])
    assert face.score(WEIGHTS) == face.value(WEIGHTS)
