"""SciPy's SLSQP on our loss and gradient: the off-the-shelf solver for a smooth problem."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from genmix.solvers.loss import Loss

Array = NDArray[np.float64]


def solve(loss: Loss, start: Array, tolerance: float = 1e-14, steps: int = 200) -> Array:
    """The mixture that SLSQP finds.

    The loss is divided by its magnitude, so that the tolerance is relative. The values of the tangent
    plane at the vertices serve as the gradient; on the simplex, they equal it up to a constant.
    """
    unit = loss.expand(start).magnitude or 1.0

    def value_and_slope(alpha: Array) -> tuple[float, Array]:
        here = loss.expand(_feasible(alpha))
        return here.value / unit, here.gradient / unit

    found = minimize(
        value_and_slope,
        start,
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * len(start),
        constraints={
            "type": "eq",
            "fun": lambda alpha: alpha.sum() - 1,
            "jac": lambda alpha: np.ones_like(alpha),
        },
        options={"ftol": tolerance, "maxiter": steps},
    )
    return _feasible(found.x)


def _feasible(alpha: Array) -> Array:
    positive: Array = np.maximum(alpha, 0.0)
    total: float = positive.sum()
    return positive / total
