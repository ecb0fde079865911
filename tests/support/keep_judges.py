"""Brute force for ``keep``: the losses of all subsets, from textbook formulas on the kernel matrix."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import genmix as gx
from tests.support.conformance import own_kernel

SIGMA = 1.5


@dataclass(frozen=True)
class Case:
    """Samples, and everything that an objective may need."""

    X: Any
    reference: Any
    quality: Any
    cost: Any

    def subsets(self, k: int) -> Any:
        """All subsets of k samples, one per row."""
        return np.array(list(itertools.combinations(range(len(self.X)), k)))


Losses = Callable[[Case, Any], Any]
"""From a case and subsets ``(m, k)`` to the loss of each subset."""


def make_case(name: str, seed: int, most: int) -> tuple[Case, int]:
    """A random world with at most ``most`` samples, sometimes with duplicates, and the k to keep."""
    rng = np.random.default_rng([seed, sum(map(ord, name))])
    n = int(rng.integers(5, most + 1))
    k, d = int(rng.integers(2, n)), int(rng.integers(2, 6))
    X = rng.standard_normal((n, d)) * rng.uniform(0.3, 1.5, d) + 0.5 * rng.standard_normal(d)
    if rng.random() < 0.3:
        X[1] = X[0]
    if name == "inception":
        X = rng.dirichlet(np.full(d, 0.4), n)
    reference = rng.standard_normal((12, d))
    return Case(X, reference, rng.uniform(0, 1, n), rng.uniform(0, 2, n)), k


def cosine(x: Any, y: Any) -> Any:
    unit = [z / np.linalg.norm(z, axis=1, keepdims=True) for z in (x, y)]
    return unit[0] @ unit[1].T


def gaussian(x: Any, y: Any) -> Any:
    return np.exp(-((x[:, None] - y[None]) ** 2).sum(-1) / (2 * SIGMA**2))


def polynomial(x: Any, y: Any) -> Any:
    return (x @ y.T / x.shape[1] + 1) ** 3


def own_normalized(x: Any, y: Any) -> Any:
    own = [np.sqrt(np.diag(own_kernel(z, z))) for z in (x, y)]
    return own_kernel(x, y) / np.outer(*own)


def vendi(order: float, kernel: Callable[[Any, Any], Any]) -> Losses:
    def losses(case: Case, sets: Any) -> Any:
        gram = kernel(case.X, case.X)[sets[:, :, None], sets[:, None, :]]
        values = np.maximum(np.linalg.eigvalsh(gram / sets.shape[1]), 0)
        values[values < 1e-13] = 0
        if order == math.inf:
            return values.max(1)
        if order == 1:
            return np.sum(values * np.log(np.where(values > 0, values, 1)), 1)
        constant = 1.0 if order <= 4 else 0.0
        return (np.sum(values**order, 1) - constant) / (order - 1)

    return losses


def rke(kernel: Callable[[Any, Any], Any], unbiased: bool = False) -> Losses:
    def losses(case: Case, sets: Any) -> Any:
        return _pair_means(kernel(case.X, case.X) ** 2, sets, unbiased)

    return losses


def kernel_distance(kernel: Callable[[Any, Any], Any], unbiased: bool = False) -> Losses:
    def losses(case: Case, sets: Any) -> Any:
        real = kernel(case.reference, case.reference)
        every = np.arange(len(real))[None, :]
        cross = kernel(case.X, case.reference).mean(1)[sets].mean(1)
        own = _pair_means(kernel(case.X, case.X), sets, unbiased)
        return own - 2 * cross + _pair_means(real, every, unbiased)[0]

    return losses


def _pair_means(matrix: Any, sets: Any, unbiased: bool) -> Any:
    k = sets.shape[1]
    pairs = matrix[sets[:, :, None], sets[:, None, :]]
    if not unbiased:
        return pairs.mean((1, 2))
    return (pairs.sum((1, 2)) - np.trace(pairs, axis1=1, axis2=2)) / (k * (k - 1))


def frechet(case: Case, sets: Any) -> Any:
    return _frechet(case, sets, ddof=0)


def _frechet(case: Case, sets: Any, ddof: int) -> Any:
    real = np.cov(case.reference, rowvar=False, ddof=ddof)
    values, basis = np.linalg.eigh(real)
    root = (basis * np.sqrt(values)) @ basis.T
    rows = case.X[sets]
    means = rows.mean(1)
    centered = rows - means[:, None]
    covariances = centered.transpose(0, 2, 1) @ centered / (sets.shape[1] - ddof)
    products = np.linalg.eigvalsh(root @ covariances @ root)
    products[products < 1e-14] = 0
    overlap = np.sqrt(products).sum(1)
    apart = ((means - case.reference.mean(0)) ** 2).sum(1)
    return apart + np.trace(covariances, axis1=1, axis2=2) + values.sum() - 2 * overlap


def inception(case: Case, sets: Any) -> Any:
    safe = np.where(case.X > 0, case.X, 1)
    entropies = -np.sum(safe * np.log(safe), 1)
    means = case.X[sets].mean(1)
    safe = np.where(means > 0, means, 1)
    return np.sum(safe * np.log(safe), 1) + entropies[sets].mean(1)


def inside_balls(case: Case, k: int) -> Any:
    """Whether ball j of the reference contains sample i."""
    apart = np.linalg.norm(case.reference[:, None] - case.reference[None], axis=-1)
    radii = np.sort(apart, axis=1)[:, k]
    return np.linalg.norm(case.X[:, None] - case.reference[None], axis=-1) < radii


def coverage(case: Case, sets: Any) -> Any:
    return -inside_balls(case, 2)[sets].any(1).mean(1)


def mean_of(values: Callable[[Case], Any]) -> Losses:
    return lambda case, sets: values(case)[sets].mean(1)


precision = mean_of(lambda case: -inside_balls(case, 2).any(1).astype(float))
density = mean_of(lambda case: -inside_balls(case, 2).sum(1) / 2)
quality = mean_of(lambda case: -case.quality)
cost = mean_of(lambda case: case.cost)


def quality_vendi(case: Case, sets: Any) -> Any:
    return vendi(1, cosine)(case, sets) - np.log(case.quality[sets].mean(1))


def total(*terms: tuple[float, Losses]) -> Losses:
    return lambda case, sets: sum(weight * losses(case, sets) for weight, losses in terms)


GAUSSIAN = gx.Gaussian(SIGMA)

JUDGES: dict[str, tuple[Callable[[Any], gx.Objective], Losses]] = {
    "vendi": (lambda real: gx.Vendi(), vendi(1, cosine)),
    "vendi_half": (lambda real: gx.Vendi(0.5), vendi(0.5, cosine)),
    "vendi_1.2": (lambda real: gx.Vendi(1.2), vendi(1.2, cosine)),
    "vendi_2": (lambda real: gx.Vendi(2), vendi(2, cosine)),
    "vendi_3": (lambda real: gx.Vendi(3), vendi(3, cosine)),
    "vendi_5": (lambda real: gx.Vendi(5), vendi(5, cosine)),
    "vendi_infinity": (lambda real: gx.Vendi(math.inf), vendi(math.inf, cosine)),
    "vendi_gaussian": (lambda real: gx.Vendi(kernel=GAUSSIAN), vendi(1, gaussian)),
    "vendi_own": (lambda real: gx.Vendi(kernel=own_kernel), vendi(1, own_normalized)),
    "rke": (lambda real: gx.RKE(GAUSSIAN), rke(gaussian)),
    "rke_cosine": (lambda real: gx.RKE(gx.Cosine()), rke(cosine)),
    "rke_unbiased": (lambda real: gx.RKE(GAUSSIAN, unbiased=True), rke(gaussian, True)),
    "kd": (lambda real: gx.KernelDistance(real, GAUSSIAN), kernel_distance(gaussian)),
    "kd_cosine": (lambda real: gx.KernelDistance(real, gx.Cosine()), kernel_distance(cosine)),
    "kd_polynomial": (
        lambda real: gx.KernelDistance(real, gx.Polynomial()),
        kernel_distance(polynomial),
    ),
    "kd_unbiased": (
        lambda real: gx.KernelDistance(real, GAUSSIAN, unbiased=True),
        kernel_distance(gaussian, True),
    ),
    "frechet": (gx.FrechetDistance, frechet),
    "frechet_ddof1": (lambda real: gx.FrechetDistance(real, ddof=1), frechet),
    "quality_vendi": (lambda real: gx.QualityVendi(), quality_vendi),
    "inception": (lambda real: gx.InceptionScore(), inception),
    "coverage": (lambda real: gx.Coverage(real, k=2), coverage),
    "precision": (lambda real: gx.Precision(real, k=2), precision),
    "quality": (lambda real: gx.Quality(), quality),
    "cost": (lambda real: gx.Cost(), cost),
    "sum": (
        lambda real: (
            gx.Vendi() + 0.3 * gx.Precision(real, k=2) + 0.2 * gx.Quality() + 0.1 * gx.Cost()
        ),
        total((1, vendi(1, cosine)), (0.3, precision), (0.2, quality), (0.1, cost)),
    ),
    "sum_of_distances": (
        lambda real: (
            gx.FrechetDistance(real)
            + 2 * gx.KernelDistance(real, GAUSSIAN)
            + 0.3 * gx.Coverage(real, k=2)
            + 0.1 * gx.Density(real, k=2)
            + (-0.1) * gx.Cost()
        ),
        total(
            (1, frechet),
            (2, kernel_distance(gaussian)),
            (0.3, coverage),
            (0.1, density),
            (-0.1, cost),
        ),
    ),
}
"""Name → objective, given a reference, and the losses by brute force."""


def scores_ddof1(case: Case, sets: Any) -> Any:
    """The Fréchet distances with 1/(n−1), which are scores but not losses."""
    return _frechet(case, sets, ddof=1)
