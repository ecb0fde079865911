"""Gaussian arms in many dimensions: separate means, decaying spectra, and a rotation per arm.

The reference is a mixture of the arms plus noise, so that the best mixture is inside the
simplex and its distance is not zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float64]

BLOCK = 256
"""Number of samples of an arm that are drawn at once."""


@dataclass(frozen=True)
class Cloud:
    """The distribution of an arm: ``mean + (z · scales) rotation``."""

    mean: Rows
    scales: Rows
    rotation: Rows

    def draw(self, rng: np.random.Generator, count: int) -> Rows:
        parts = rng.standard_normal((count, len(self.scales))) * self.scales
        return self.mean + parts @ self.rotation


class Stream:
    """The samples of an arm in order, drawn in blocks."""

    def __init__(self, cloud: Cloud, seed: int, arm: int) -> None:
        self._cloud, self._rng = cloud, np.random.default_rng([seed, arm])
        self._block, self._next = cloud.draw(self._rng, BLOCK), 0

    def next(self) -> Rows:
        if self._next == len(self._block):
            self._block, self._next = self._cloud.draw(self._rng, BLOCK), 0
        self._next += 1
        return self._block[self._next - 1]


def clouds(arms: int, d: int, seed: int = 0, alike: float = 0.0) -> list[Cloud]:
    """``alike`` is the fraction of their variance that the arms have in common."""
    rng = np.random.default_rng(seed)
    own = [_cloud(rng, d) for _ in range(arms)]
    if alike == 0:
        return own
    common = _cloud(rng, d)
    mine, ours = np.sqrt(1 - alike), np.sqrt(alike)
    return [
        Cloud(
            mean=mine * cloud.mean + ours * common.mean,
            scales=np.concatenate([mine * cloud.scales, ours * common.scales]),
            rotation=np.concatenate([cloud.rotation, common.rotation]),
        )
        for cloud in own
    ]


def _cloud(rng: np.random.Generator, d: int) -> Cloud:
    return Cloud(
        mean=rng.standard_normal(d) / np.sqrt(d),
        scales=np.arange(1.0, d + 1) ** (-rng.uniform(0.6, 1.4) / 2),
        rotation=np.linalg.qr(rng.standard_normal((d, d)))[0],
    )


def samples(world: list[Cloud], each: int, seed: int = 1) -> dict[str, Rows]:
    """``each`` samples of every arm, by the name of the arm."""
    drawn = {}
    for i, (name, cloud) in enumerate(zip(names(world), world, strict=True)):
        rng, rows = np.random.default_rng([seed, i]), np.empty((each, len(cloud.mean)))
        for start in range(0, each, BLOCK):
            part = rows[start : start + BLOCK]
            part[:] = cloud.draw(rng, len(part))
        drawn[name] = rows
    return drawn


def names(world: list[Cloud]) -> list[str]:
    return [f"arm {i}" for i in range(len(world))]


def reference(world: list[Cloud], count: int, seed: int = 2) -> Rows:
    rng = np.random.default_rng(seed)
    shares = np.arange(len(world), 0, -1.0)
    counts = rng.multinomial(count, shares / shares.sum())
    rows = np.concatenate([cloud.draw(rng, n) for cloud, n in zip(world, counts, strict=True)])
    return rows + 0.02 * rng.standard_normal(rows.shape)
