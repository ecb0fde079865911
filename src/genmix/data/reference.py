"""What a mixture is compared with: samples, a features file, or moments ``(mu, sigma, n)``."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from genmix.core.arrays import Array, as_matrix, is_torch, namespace, to_numpy
from genmix.core.description import Description
from genmix.data.features import Content, Statistics, read_file
from genmix.errors import InputError, whole


class _Quiet(Description):
    """A description that prints its size instead of its arrays."""

    def __repr__(self) -> str:
        return f"<{self}>"


@dataclass(frozen=True, eq=False, repr=False)
class Samples(_Quiet):
    """Reference embeddings ``(n, d)``."""

    points: Array

    @property
    def dimension(self) -> int:
        return int(self.points.shape[1])

    def __str__(self) -> str:
        return f"{self.points.shape[0]} reference samples of dimension {self.dimension}"


@dataclass(frozen=True, eq=False, repr=False)
class Moments(_Quiet):
    """Mean ``(d,)`` and covariance ``(d, d)`` normalised by 1/n; n is None where nobody stated it."""

    mean: Array
    covariance: Array
    n: int | None

    @property
    def dimension(self) -> int:
        return int(self.mean.shape[0])

    def __str__(self) -> str:
        size = "an unstated number of" if self.n is None else str(self.n)
        return f"moments of {size} reference samples of dimension {self.dimension}"


def samples_of(reference: object) -> Samples:
    """The reference as samples, which kernels and nearest neighbours need."""
    found = _read(reference)
    if isinstance(found, Moments):
        raise InputError(
            "the reference holds moments only: this objective needs reference samples."
        )
    return found


def moments_of(reference: object) -> Moments:
    """The reference as mean and 1/n covariance, which the Fréchet distance needs."""
    found = _read(reference)
    if isinstance(found, Moments):
        return found
    points = found.points
    xp = namespace(points)
    mean = xp.mean(points, axis=0)
    centred = points - mean
    return Moments(mean, centred.mT @ centred / points.shape[0], int(points.shape[0]))


def _read(reference: object) -> Samples | Moments:
    if isinstance(reference, Samples | Moments):
        return reference
    if isinstance(reference, str | os.PathLike):
        return read_features(reference)
    if isinstance(reference, tuple) and len(reference) in (2, 3):
        return _moments(*reference)
    return Samples(as_matrix(reference, "the reference"))


def _moments(mean: Any, covariance: Any, n: int | None = None) -> Moments:
    """Moments as tools write them: the covariance is np.cov's 1/(n−1), rescaled to 1/n if n is known."""
    mean = as_matrix(_row(mean), "the reference mean")[0, :]
    covariance = as_matrix(_square(covariance), "the reference covariance")
    d = mean.shape[0]
    if tuple(covariance.shape) != (d, d):
        raise InputError(
            f"the reference covariance has shape {tuple(covariance.shape)}: "
            f"a mean of {d} dimensions needs ({d}, {d})."
        )
    plain = to_numpy(covariance)
    spectrum = np.linalg.eigvalsh((plain + plain.T) / 2)
    if not np.allclose(plain, plain.T, atol=1e-6 * abs(plain).max()) or (
        spectrum[0] < -1e-6 * max(spectrum[-1], 0)
    ):
        raise InputError(
            "the reference covariance is not symmetric positive semidefinite: check it."
        )
    if n is not None:
        n = whole(n, "the reference's n", 2)
        covariance = covariance * ((n - 1) / n)
    return Moments(mean, (covariance + covariance.mT) / 2, n)


def _row(mean: Any) -> Any:
    return mean[None, :] if is_torch(mean) else np.reshape(mean, (1, -1))


def _square(covariance: Any) -> Any:
    return np.reshape(covariance, (1, -1)) if np.ndim(covariance) < 2 else covariance


def read_features(path: str | os.PathLike[str], key: str | None = None) -> Samples | Moments:
    """Samples or moments from a feature file.

    ``.npy``; ``.npz`` (dgm-eval, clean-fid, pytorch-fid, Mixture-UCB, or our own statistics); Parquet and
    JSON lines with an ``embedding``; torch's ``.pt`` with a tensor. ``key`` names the array, column or
    field where there are several.
    """
    return as_reference(read_file(path, key))


def as_reference(content: Content) -> Samples | Moments:
    """What a feature file holds, as a reference."""
    if isinstance(content, Statistics):
        return _moments(content.mu, content.sigma, content.n)
    return Samples(content)
