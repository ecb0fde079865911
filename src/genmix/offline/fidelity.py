"""What choosing some of the samples does to their fidelity: precision, density, quality, distance, cost.

Each measure is a number per sample. The mean over random sets of k of N samples is known exactly, so that a
chosen set can be compared with them without drawing any.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from genmix.core.arrays import Array, Vector, to_numpy
from genmix.core.streams import private_stream
from genmix.core.text import number
from genmix.data.shards import fits_in_memory
from genmix.data.streamed_rows import StreamedRows, blocks_of, per_row
from genmix.errors import InputError
from genmix.kernels.balls import Balls
from genmix.kernels.distances import squared_distances
from genmix.objectives import Batch, Objective, Sum
from genmix.solvers.subsets import Indices

NEIGHBORS = 5
"""Number of neighbors for precision and density."""

LARGEST_RADIUS = 1.5
"""Largest radius of a neighborhood of other samples, as a multiple of the median."""

MAX_CENTERS = 2000
"""Largest number of samples, drawn at random, around which neighborhoods are computed."""

MANY_SAMPLES = 20_000
"""Number of samples above which centers are drawn from all of them instead of the distinct ones.

The same holds for samples that would be read in blocks if they were in files.
"""

BLOCK = 1000
"""Number of samples whose nearest neighbors are found at once."""

NOISE_FACTOR = 3.0
"""Number of standard errors by which a mean must be below that of all samples to count as a fall."""

ROUNDING = 1e-12
"""A relative difference between two means below this is a rounding error."""

GUARDED = ("precision", "quality")
"""Measures whose fall is a warning."""


@dataclass(frozen=True)
class Change:
    """The mean of a measure over the kept samples, the dropped samples, and all of them."""

    name: str
    kept: float
    dropped: float | None
    """None if nothing was dropped."""
    all: float
    noise: float
    """The standard error of the mean over a random set of the same size."""
    lowest: float
    """The smallest value of a kept sample."""
    count: int
    """Number of kept samples."""

    @property
    def is_fall(self) -> bool:
        """Whether fidelity fell by more than the noise, and not because of a single sample.

        A rare bad sample that a random set happens to contain can move its mean by more than three
        standard errors.
        """
        fall = self.all - self.kept - max(self.all - self.lowest, 0.0) / self.count
        least = max(NOISE_FACTOR * self.noise, ROUNDING * abs(self.all))
        return self.name in GUARDED and fall > least

    def warning(self, count: int, compared_with: str) -> str:
        """Say in a sentence what fell, and how it was measured."""
        how = {
            "precision": f"the share of samples within {compared_with} (precision)",
            "quality": "the mean quality",
        }[self.name]
        return (
            f"{how} is {number(self.kept)} for the kept samples and {number(self.all)} for all samples; for "
            f"random sets of {count}, it varies by {number(self.noise, 2)} (one standard error)."
        )


@dataclass(frozen=True)
class Fidelity:
    """Measures of every sample, and what precision compares with."""

    measures: dict[str, Vector]
    compared_with: str

    def changes(self, kept: Indices) -> list[Change]:
        """Compare a set with all samples."""
        return [_change(name, values, kept) for name, values in self.measures.items()]


def _change(name: str, values: Vector, kept: Indices) -> Change:
    size, count = len(values), len(kept)
    is_kept = np.zeros(size, dtype=bool)
    is_kept[kept] = True
    variance = float(np.var(values, ddof=1)) if size > 1 else 0.0
    return Change(
        name=name,
        kept=float(np.mean(values[is_kept])),
        dropped=float(np.mean(values[~is_kept])) if count < size else None,
        all=float(np.mean(values)),
        noise=math.sqrt(variance / count * (1 - count / size)),
        lowest=float(np.min(values[is_kept])),
        count=count,
    )


def measure_fidelity(batch: Batch, reference: Array | None = None, seed: int = 0) -> Fidelity:
    """Measure every sample, against a reference if there is one and against the other samples otherwise.

    ``precision`` is 1 for a sample that is inside the 5-nearest-neighbor ball of a reference sample, or of
    another sample, and 0 otherwise. ``density`` is the number of such balls divided by 5. ``distance`` is
    the distance to the nearest of those samples. Quality and cost are included if the batch has them.

    The balls of other samples have at most 1.5 times the median radius. Otherwise, those of outliers would
    be so large that they contain other outliers.
    """
    rows = batch.embeddings
    if not isinstance(rows, StreamedRows):
        rows = np.asarray(to_numpy(rows), dtype=np.float64)
    against = "the neighborhoods of other samples"
    if reference is not None:
        against = "the neighborhoods of the reference"
    measures = _neighborhoods(rows, reference, seed)
    for name, values in (("quality", batch.quality), ("cost", batch.cost)):
        if values is not None:
            measures[name] = np.asarray(values, dtype=np.float64)
    return Fidelity(measures, against)


def reference_points(objective: Objective) -> Array | None:
    """Return the samples that a term of the objective compares with; None if there are none."""
    parts = [part for _, part in objective.terms] if isinstance(objective, Sum) else [objective]
    found = (getattr(getattr(part, "reference", None), "points", None) for part in parts)
    return next((points for points in found if points is not None), None)


def _neighborhoods(rows: Any, reference: Array | None, seed: int) -> dict[str, Vector]:
    """Return precision, density and the nearest distance; nothing if there are too few distinct samples."""
    own: Any = None
    if reference is None and not (len(rows) <= MANY_SAMPLES and fits_in_memory(*rows.shape)):
        centers, own = _drawn_centers(rows, seed)
    elif reference is None:
        centers, own = np.unique(rows, axis=0, return_inverse=True)
        own = own.reshape(-1)
    else:
        centers = np.asarray(to_numpy(reference), dtype=np.float64)
    if len(centers) > MAX_CENTERS:
        rng = private_stream(seed, "fidelity centers")
        chosen = np.sort(rng.permutation(len(centers))[:MAX_CENTERS])
        if own is not None:
            position = np.full(len(centers), -1)
            position[chosen] = np.arange(MAX_CENTERS)
            own = position[own]
        centers = centers[chosen]
    if len(centers) < NEIGHBORS + 2:
        return {}
    try:
        balls = Balls.around(centers, NEIGHBORS)
        if own is not None:
            largest = LARGEST_RADIUS**2 * np.median(balls.radii)  # radii are squared
            balls = replace(balls, radii=np.minimum(balls.radii, largest))
        hits = per_row(rows, balls.hits)
    except InputError:  # the samples differ by so little that distances underflow
        return {}
    if own is not None:
        hits = hits - ((own >= 0) & (balls.radii[own] > 0))  # a ball contains its own center
    return {
        "precision": (hits > 0).astype(float),
        "density": hits / NEIGHBORS,
        "distance": _nearest(rows, centers, own),
    }


def _drawn_centers(rows: Any, seed: int) -> tuple[Any, Any]:
    """Draw distinct centers from many samples, and find the center that each sample equals; −1 if none.

    Sorting all samples, as is done for few, would take long and all of them in memory.
    """
    order = private_stream(seed, "fidelity centers").permutation(len(rows))
    centers = np.unique(rows[np.sort(order[:MAX_CENTERS]), :], axis=0) + 0.0  # no −0
    index = {row.tobytes(): k for k, row in enumerate(centers)}
    own = per_row(rows, lambda block: np.array([index.get(r.tobytes(), -1) for r in block + 0.0]))
    return centers, own


def _nearest(rows: Any, centers: Any, own: Any) -> Vector:
    """Return the distance of each row to the nearest center other than itself."""
    found = np.empty(len(rows))
    for part, block in blocks_of(rows):
        found[part] = _nearest_in(block, centers, None if own is None else own[part])
    return found


def _nearest_in(rows: Any, centers: Any, own: Any) -> Vector:
    found = np.empty(len(rows))
    for start in range(0, len(rows), BLOCK):
        square = squared_distances(rows[start : start + BLOCK], centers)
        if own is not None:
            mine = own[start : start + BLOCK]
            inside = np.flatnonzero(mine >= 0)
            square[inside, mine[inside]] = np.inf
        found[start : start + BLOCK] = np.sqrt(square.min(axis=1))
    return found
