"""A small world to try genmix on: five generative models fitted on scikit-learn's digits.

Half of the 1797 images fits the models and the encoder; the other half is the reference.
Nothing is downloaded: the images come with scikit-learn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from genmix.errors import InputError

try:
    from sklearn.datasets import load_digits
    from sklearn.decomposition import PCA
    from sklearn.metrics import pairwise_distances
    from sklearn.mixture import GaussianMixture
    from sklearn.model_selection import GridSearchCV, train_test_split
    from sklearn.neighbors import KernelDensity
    from sklearn.neural_network import BernoulliRBM, MLPClassifier
    from sklearn.utils import check_random_state
except ImportError as error:
    raise InputError("the demo needs scikit-learn: run pip install 'genmix[demo]'.") from error

Images = NDArray[np.float64]
"""Images ``(n, 64)``, each pixel from 0 to 1."""

Sample = Callable[[int, np.random.Generator], Images]
"""Draws n independent images."""

GIBBS_STEPS = 100
HIDDEN = 64


@dataclass(frozen=True)
class Generator:
    """A fitted model and the digits it was fitted on."""

    knows: str
    sample: Sample


@dataclass(frozen=True)
class World:
    """Generators, the encoder all of them share, and the embedded held-out digits."""

    generators: dict[str, Generator]
    encode: Callable[[Images], NDArray[np.float64]]
    reference: NDArray[np.float64]
    embedding: str = f"{HIDDEN} hidden units of a digit classifier"

    @property
    def median_distance(self) -> float:
        """The median distance between two reference embeddings."""
        distances = pairwise_distances(self.reference)
        return float(np.median(distances[np.triu_indices_from(distances, k=1)]))


def make_world(seed: int) -> World:
    """Split the digits, fit the generators and the encoder."""
    images, labels = load_digits(return_X_y=True)
    images, held_out, labels, _ = train_test_split(
        images / 16, labels, test_size=0.5, stratify=labels, random_state=seed
    )
    few = labels <= 2
    generators = {
        "gaussian-mixture": Generator("0-9", gaussian_mixture(images, 10, 20, seed)),
        "pca-gaussian": Generator("0-9", gaussian_mixture(images, 1, 20, seed)),
        "rbm": Generator("0-9", boltzmann_machine(images, seed)),
        "kde-most-digits": Generator("3-9", kernel_density(images[~few], 30, seed)),
        "kde-three-digits": Generator("0-2", kernel_density(images[few], 30, seed)),
    }
    encode = classifier_features(images, labels, seed)
    return World(generators, encode, encode(held_out))


def gaussian_mixture(images: Images, components: int, dimensions: int, seed: int) -> Sample:
    """Gaussians in the leading principal components; a single one is the PCA-Gaussian."""
    pca = PCA(dimensions, random_state=seed).fit(images)
    model = GaussianMixture(components, random_state=seed).fit(pca.transform(images))

    def sample(n: int, rng: np.random.Generator) -> Images:
        coordinates, _ = model.set_params(random_state=new_seed(rng)).sample(n)
        return np.clip(pca.inverse_transform(coordinates), 0, 1)

    return sample


def kernel_density(images: Images, dimensions: int, seed: int) -> Sample:
    """A Gaussian around every image, in the leading principal components; cross-validated width."""
    pca = PCA(dimensions, random_state=seed).fit(images)
    widths = {"bandwidth": np.geomspace(0.05, 1, 10)}
    model = GridSearchCV(KernelDensity(), widths).fit(pca.transform(images)).best_estimator_

    def sample(n: int, rng: np.random.Generator) -> Images:
        coordinates = model.sample(n, random_state=new_seed(rng))
        return np.clip(pca.inverse_transform(coordinates), 0, 1)

    return sample


def boltzmann_machine(images: Images, seed: int) -> Sample:
    """A restricted Boltzmann machine; a Gibbs chain of its own for every sample."""
    model = BernoulliRBM(64, learning_rate=0.01, n_iter=100, random_state=seed).fit(images)
    mean = images.mean(axis=0)

    def sample(n: int, rng: np.random.Generator) -> Images:
        model.random_state_ = check_random_state(new_seed(rng))
        visible = rng.random((n, len(mean))) < mean
        for _ in range(GIBBS_STEPS):
            visible = model.gibbs(visible)
        chances = model.transform(visible.astype(float))
        hidden = rng.random(chances.shape) < chances
        return logistic(hidden @ model.components_ + model.intercept_visible_)

    return sample


def classifier_features(
    images: Images, labels: NDArray[np.int_], seed: int
) -> Callable[[Images], NDArray[np.float64]]:
    """The hidden layer of a digit classifier, as FID uses that of an image classifier."""
    model = MLPClassifier((HIDDEN,), max_iter=500, random_state=seed).fit(images, labels)
    weights, intercepts = model.coefs_[0], model.intercepts_[0]
    return lambda batch: np.maximum(batch @ weights + intercepts, 0)


def new_seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31))


def logistic(x: Images) -> Images:
    return np.asarray(1 / (1 + np.exp(-x)))
