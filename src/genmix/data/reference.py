"""References for comparison: samples, a feature file, or moments ``(mu, sigma, n)``."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from genmix.core.arrays import Array, Vector, as_matrix, check_spread, is_torch, namespace, to_numpy
from genmix.core.description import Description
from genmix.data.features import Content, Statistics, read_file
from genmix.data.shard_files import shard_paths
from genmix.data.shards import Shards
from genmix.errors import InputError, whole


class _Quiet(Description):
    """A description whose repr shows its size instead of its arrays."""

    def __repr__(self) -> str:
        return f"<{self}>"


@dataclass(frozen=True, eq=False, repr=False)
class Samples(_Quiet):
    """Reference embeddings ``(n, d)``."""

    points: Array

    @property
    def dimension(self) -> int:
        return int(self.points.shape[1])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Let numpy, and everything that accepts embeddings, use the points."""
        return np.array(to_numpy(self.points), dtype=dtype, copy=copy)

    def __str__(self) -> str:
        return f"{self.points.shape[0]} reference samples of dimension {self.dimension}"


@dataclass(frozen=True, eq=False, repr=False)
class Moments(_Quiet):
    """Mean ``(d,)`` and covariance ``(d, d)`` normalized by 1/n; n is None if unknown."""

    mean: Array
    covariance: Array
    n: int | None

    def __post_init__(self) -> None:
        is_count = self.n is None or isinstance(self.n, int)
        if not is_count or tuple(self.covariance.shape) != 2 * tuple(self.mean.shape):
            raise InputError(
                "the moments of the reference do not fit together; compute them again."
            )

    @property
    def dimension(self) -> int:
        return int(self.mean.shape[0])

    def __str__(self) -> str:
        size = "an unknown number of" if self.n is None else str(self.n)
        return f"moments of {size} reference samples of dimension {self.dimension}"


def samples_of(reference: object) -> Samples:
    """Return the reference as samples, as needed for kernels and nearest neighbors."""
    found = to_reference(reference)
    if isinstance(found, Moments):
        raise InputError(
            "the reference contains only moments, but this objective needs samples; "
            "pass the reference samples."
        )
    return found


def moments_of(reference: object) -> Moments:
    """Return the reference as mean and 1/n covariance, as needed for the Fréchet distance."""
    found = to_reference(reference)
    if isinstance(found, Moments):
        variances = np.diagonal(to_numpy(found.covariance))
        check_spread(math.sqrt(max(float(variances.max()), 0.0)), "the reference")
        return found
    points = found.points
    xp = namespace(points)
    mean = xp.mean(points, axis=0)
    centered = points - mean
    check_spread(float(xp.max(xp.abs(centered))), "the reference")
    return Moments(mean, centered.mT @ centered / points.shape[0], int(points.shape[0]))


def to_reference(reference: object) -> Samples | Moments:
    """Convert whatever an objective accepts as a reference: samples, a tuple of moments, or a file."""
    if isinstance(reference, Samples | Moments):
        return reference
    if isinstance(reference, str | os.PathLike):
        return read_features(reference)
    if isinstance(reference, Shards):
        return _of_shards(reference)
    if isinstance(reference, tuple) and len(reference) in (2, 3):
        return _moments(*reference)
    return Samples(as_matrix(reference, "the reference"))


def _moments(mean: Any, covariance: Any, n: int | None = None) -> Moments:
    """Validate moments from FID tools and rescale the 1/(n−1) covariance to 1/n if n is known."""
    mean = as_matrix(_row(mean), "the reference mean")[0, :]
    covariance = as_matrix(_square(covariance), "the reference covariance")
    d = mean.shape[0]
    if tuple(covariance.shape) != (d, d):
        raise InputError(
            f"the reference covariance has shape {tuple(covariance.shape)}, but the mean has "
            f"{d} dimensions; pass a covariance of shape ({d}, {d})."
        )
    plain = to_numpy(covariance)
    spectrum = np.linalg.eigvalsh((plain + plain.T) / 2)
    if not np.allclose(plain, plain.T, atol=1e-6 * abs(plain).max()) or (
        spectrum[0] < -1e-6 * max(spectrum[-1], 0)
    ):
        raise InputError(
            "the reference covariance is not symmetric positive semidefinite; check its source."
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
    """Read samples or moments from a feature file.

    Parameters
    ----------
    path : str or path
        ``.npy``; ``.npz`` as written by dgm-eval, clean-fid, pytorch-fid, Mixture-UCB or genmix;
        Parquet or JSON Lines with an ``embedding`` field; a torch ``.pt`` file with a tensor; or a folder
        of ``.npy``, ``.npz`` or Parquet files (see :class:`Shards`), of which only the moments are
        computed if they do not fit in memory. Nothing is ever unpickled.
    key : str, optional
        The array, column or field to read if the file contains several.

    Returns
    -------
    Samples or Moments
        ``points`` of shape ``(n, d)``, or ``mean`` ``(d,)`` and ``covariance`` ``(d, d)``.
        Every objective that needs a reference accepts either, or the path itself. Samples can also be
        used like an array of embeddings, e.g. in :func:`genmix.keep`.

    Raises
    ------
    InputError
        If the file is missing, corrupt, ambiguous, or contains something other than numbers.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np
    >>> import genmix as gx
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "real.npy"
    ...     np.save(file, np.eye(3))
    ...     gx.read_features(file)
    <3 reference samples of dimension 3>
    """
    if os.path.isdir(path) and shard_paths(Path(path)):
        return _of_shards(Shards(path, key))
    return as_reference(read_file(path, key))


def _of_shards(shards: Shards) -> Samples | Moments:
    """Return samples if they fit in memory, else their moments."""
    if shards.fits_in_memory:
        return Samples(shards.load())
    return Moments(*shard_moments(shards), len(shards))


def shard_moments(shards: Shards) -> tuple[Vector, Any]:
    """Return the mean and the 1/n covariance, block by block (Chan's rule)."""
    count, mean, sums = 0, np.zeros(shards.shape[1]), np.zeros(2 * shards.shape[1:])
    for file in shards.files:
        for _, block in file.blocks():
            more, center = len(block), block.mean(axis=0)
            apart, centered = center - mean, block - center
            sums += centered.T @ centered + np.outer(apart, apart) * count * more / (count + more)
            count += more
            mean = mean + apart * more / count
    return mean, sums / count


def as_reference(content: Content | Shards) -> Samples | Moments:
    """Convert the content of a feature file or a folder of shards to a reference."""
    if isinstance(content, Shards):
        return _of_shards(content)
    if isinstance(content, Statistics):
        return _moments(content.mu, content.sigma, content.n)
    return Samples(content)
