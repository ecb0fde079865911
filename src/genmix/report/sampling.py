"""The samples that a report examines individually: all samples of a small run, or a subset of a large one.

``innovation_of`` compares the directions of the arms, and ``project`` maps embeddings to two dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genmix.core.streams import private_stream
from genmix.diagnosis.innovation import innovation_gaps
from genmix.errors import InputError
from genmix.journal.reader import JournalReader
from genmix.journal.schema import embedding_of
from genmix.objectives import Batch

MAX_SAMPLES = 10_000
MAX_BYTES = 100_000_000
"""Maximum total size of the embeddings, unless that leaves fewer than ``MIN_SAMPLES`` samples."""
MIN_SAMPLES = 500
MIN_PER_ARM = 20
MAX_POINTS = 2000
"""Maximum number of samples on the map."""

MAX_INNOVATION_DIMENSION = 1000
"""In higher dimensions, innovation is computed in the span of this many samples."""


@dataclass(frozen=True)
class SampleSubset:
    """Samples of all arms, in the order in which they were told."""

    rows: list[dict[str, Any]]
    arms: NDArray[np.str_]
    embeddings: NDArray[np.float64]
    total: int
    """Number of samples in the run."""
    prompt_columns: int = 0
    """How many columns of the embeddings are those of the prompts."""

    @property
    def outputs(self) -> NDArray[np.float64]:
        """The embeddings of the samples alone, without those of their prompts."""
        return self.embeddings[:, self.prompt_columns :]

    @property
    def is_complete(self) -> bool:
        return len(self.rows) == self.total

    def stratified(self, size: int, seed: int = 0) -> NDArray[np.int64]:
        """Draw at most ``size`` samples, stratified by arm, and return their indices."""
        return stratified(self.arms.tolist(), size, seed)


def draw_subset(journal: JournalReader, size: int = MAX_SAMPLES) -> SampleSubset:
    """Draw at most ``size`` samples, fewer in high dimensions; the draw is deterministic."""
    told = [(ticket, arm) for ticket, arm, _, _ in journal.told_numbers()]
    first = journal.samples_of([ticket for ticket, _ in told[:1]])
    dimension = next((len(embedding_of(row)) for row in first), 0)
    size = min(size, max(MIN_SAMPLES, MAX_BYTES // (8 * max(dimension, 1))))
    kept = [told[i] for i in stratified([arm for _, arm in told], size)]
    rows: list[dict[str, Any]] = []
    embeddings = np.empty((len(kept), dimension))
    for i, row in enumerate(journal.samples_of([ticket for ticket, _ in kept])):
        embeddings[i] = embedding_of(row)
        del row["embedding"]
        rows.append(row)
    arms = np.array([arm for _, arm in kept], dtype=str)
    return SampleSubset(rows, arms, embeddings, len(told), journal.prompt_columns)


def stratified(arms: Sequence[str], size: int, seed: int = 0) -> NDArray[np.int64]:
    """Draw at most ``size`` samples, stratified by arm, with some from each; return their indices."""
    if len(arms) <= size:
        return np.arange(len(arms))
    labels = np.array(arms)
    rng = private_stream(seed, "report sample")
    kept = [
        rng.permutation(np.flatnonzero(labels == arm))[:quota]
        for arm, quota in _quotas(labels, size).items()
    ]
    return np.sort(np.concatenate(kept))


def _quotas(labels: NDArray[np.str_], size: int) -> dict[str, int]:
    names, counts = np.unique(labels, return_counts=True)
    least = min(MIN_PER_ARM, max(size // len(names), 1))
    sizes = dict(zip(names.tolist(), counts.tolist(), strict=True))
    floor = {arm: min(n, least) for arm, n in sizes.items()}
    remaining = max(size - sum(floor.values()), 0)
    others = sum(sizes.values()) - sum(floor.values())
    return {arm: floor[arm] + (n - floor[arm]) * remaining // others for arm, n in sizes.items()}


# -- innovation --------------------------------------------------------------------------------------


def innovation_sample(subset: SampleSubset) -> NDArray[np.int64]:
    """Return the samples that innovation uses, as indices into the subset."""
    is_large = subset.outputs.shape[1] > MAX_INNOVATION_DIMENSION
    return subset.stratified(MAX_INNOVATION_DIMENSION if is_large else len(subset.rows))


def innovation_of(subset: SampleSubset, arms: Sequence[str]) -> dict[str, float]:
    """Return ``λ_max(S_i − Σ S_j)`` for every arm with samples; nothing if there is only one."""
    rows, owners = subset.outputs, subset.arms
    if rows.shape[1] > MAX_INNOVATION_DIMENSION:
        indices = innovation_sample(subset)
        rows, owners = rows[indices], owners[indices]
        rows = rows @ np.linalg.qr(rows.T)[0]  # preserves lengths and angles
    found = {arm: rows[owners == arm] for arm in arms if (owners == arm).any()}
    if len(found) < 2:
        return {}
    try:
        return innovation_gaps({arm: Batch(mine) for arm, mine in found.items()})
    except InputError:  # a zero vector has no direction
        return {}


# -- the map -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Projection:
    """Points ``(n, 2)``, and the share of the variance along each axis."""

    points: NDArray[np.float64]
    shares: tuple[float, float]


def project(rows: NDArray[np.float64]) -> Projection:
    """Project rows ``(n, d)`` onto their first two principal components.

    The largest entry of each component is positive, so that signs do not depend on the library.
    """
    count, dimension = rows.shape
    if count < 2 or dimension == 0:
        return Projection(np.zeros((count, 2)), (0.0, 0.0))
    centered = rows - rows.mean(axis=0)
    components = _components(centered)
    points = np.zeros((count, 2))
    points[:, : components.shape[1]] = centered @ components
    total = float(np.sum(centered**2))
    shares = np.sum(points**2, axis=0) / total if total > 0 else np.zeros(2)
    return Projection(points, (float(shares[0]), float(shares[1])))


def _components(centered: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the first two eigenvectors of the covariance ``(d, 2)``, from the smaller Gram matrix."""
    count, dimension = centered.shape
    if dimension <= count:
        vectors = np.linalg.eigh(centered.T @ centered)[1][:, ::-1][:, :2]
    else:
        left = np.linalg.eigh(centered @ centered.T)[1][:, ::-1][:, :2]
        vectors = centered.T @ left
        norms = np.linalg.norm(vectors, axis=0)
        vectors = vectors / np.where(norms > 0, norms, 1.0)
    largest = vectors[np.argmax(np.abs(vectors), axis=0), np.arange(vectors.shape[1])]
    signed: NDArray[np.float64] = vectors * np.where(largest < 0, -1.0, 1.0)
    return signed
