"""Small classifiers: softmax regression with an L2 penalty, and the nearest neighbor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from genmix.core.optional import require

Rows = NDArray[np.float64]
Labels = NDArray[np.int64]
Classifier = Callable[[Rows], Labels]


@dataclass(frozen=True)
class Scaling:
    """Shifts and scales each feature to mean 0 and standard deviation 1 on some rows."""

    mean: Rows
    deviation: Rows

    @classmethod
    def of(cls, rows: Rows) -> Scaling:
        deviation = rows.std(axis=0)
        return cls(rows.mean(axis=0), np.where(deviation > 0, deviation, 1.0))

    def __call__(self, rows: Rows) -> Rows:
        return (rows - self.mean) / self.deviation


def softmax_regression(
    rows: Rows, labels: Labels, classes: int, penalty: float = 10.0
) -> Classifier:
    """Minimize ``Σ_i −log p(y_i | x_i) + ½ penalty ‖W‖²``; the intercepts are not penalized."""
    optimize = require("scipy.optimize", "paper", "softmax regression")
    dimension, target = rows.shape[1], np.eye(classes)[labels]

    def loss(flat: Rows) -> tuple[float, Rows]:
        weights = flat.reshape(dimension + 1, classes)
        logits = rows @ weights[:-1] + weights[-1]
        logits -= logits.max(axis=1, keepdims=True)
        total = np.log(np.exp(logits).sum(axis=1, keepdims=True))
        error = np.exp(logits - total) - target
        value = float(np.sum(total[:, 0]) - np.sum(logits * target))
        value += 0.5 * penalty * float(np.sum(weights[:-1] ** 2))
        slope = np.vstack([rows.T @ error + penalty * weights[:-1], error.sum(axis=0)])
        return value, slope.ravel()

    start = np.zeros((dimension + 1) * classes)
    found = optimize.minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 500})
    weights = found.x.reshape(dimension + 1, classes)
    return lambda new: np.argmax(new @ weights[:-1] + weights[-1], axis=1)


def nearest_neighbor(rows: Rows, labels: Labels, classes: int) -> Classifier:
    """Return the label of the nearest row."""
    squares = np.sum(rows**2, axis=1)
    return lambda new: labels[np.argmin(squares - 2 * new @ rows.T, axis=1)]


STUDENTS: dict[str, Callable[[Rows, Labels, int], Classifier]] = {
    "softmax regression": softmax_regression,
    "nearest neighbor": nearest_neighbor,
}
