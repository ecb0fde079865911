"""The classifiers of the downstream item."""

from __future__ import annotations

import numpy as np
import pytest

from genmix.paper.student import Scaling, nearest_neighbor, softmax_regression


def test_softmax_regression_agrees_with_scikit_learn() -> None:
    linear = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=60)
    rows = rng.standard_normal((60, 4)) + 1.5 * np.eye(3, 4)[labels]
    new = rng.standard_normal((500, 4))
    judge = linear.LogisticRegression(C=1 / 3.0, tol=1e-8, max_iter=2000).fit(rows, labels)
    ours = softmax_regression(rows, labels, 3, penalty=3.0)(new)
    assert np.mean(ours == judge.predict(new)) > 0.99


def test_classes_without_samples_are_not_predicted() -> None:
    rows = np.array([[0.0, 1.0], [1.0, 0.0]])
    for fit in (softmax_regression, nearest_neighbor):
        assert fit(rows, np.array([1, 4]), 6)(rows).tolist() == [1, 4]


def test_the_nearest_neighbor_is_the_nearest() -> None:
    rng = np.random.default_rng(1)
    rows, new, labels = rng.standard_normal((20, 3)), rng.standard_normal((30, 3)), np.arange(20)
    nearest = [int(np.argmin(np.linalg.norm(rows - row, axis=1))) for row in new]
    assert nearest_neighbor(rows, labels, 20)(new).tolist() == nearest


def test_scaling_leaves_constant_features_finite() -> None:
    rows = np.column_stack([np.arange(5.0), np.full(5, 3.0)])
    scaled = Scaling.of(rows)(rows)
    assert scaled.std(axis=0) == pytest.approx([1.0, 0.0])
    assert scaled.mean(axis=0) == pytest.approx([0.0, 0.0])
