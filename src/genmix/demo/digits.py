"""A small world to try genmix on: five generative models fitted on scikit-learn's digits.

Half of the 1797 images fits the models and the encoder; the other half is the reference.
Nothing is downloaded: the images come with scikit-learn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.neighbors import KernelDensity
from sklearn.neural_network import BernoulliRBM, MLPClassifier
from sklearn.utils import check_random_state

Images = NDArray[np.float64]
"""Images ``(n, 64)``, each pixel from 0 to 1."""

Sample = Callable[[int, np.random.Generator], Images]
"""Draws n independent images."""

GIBBS_STEPS = 100
HIDDEN = 64
EMBEDDING = f"{HIDDEN} hidden units of a digit classifier"


@dataclass(frozen=True)
class World:
    """Fitted generators, the encoder all of them share, and the embedded held-out digits."""

    samplers: dict[str, Sample]
    encode: Callable[[Images], NDArray[np.float64]]
    reference: NDArray[np.float64]


def gaussian_mixture(images: Images, seed: int, components: int) -> Sample:
    """Gaussians in the leading principal components; a single one is the PCA-Gaussian."""
    pca = PCA(20, random_state=seed).fit(images)
    model = GaussianMixture(components, random_state=seed).fit(pca.transform(images))

    def sample(n: int, rng: np.random.Generator) -> Images:
        coordinates, _ = model.set_params(random_state=new_seed(rng)).sample(n)
        return np.asarray(np.clip(pca.inverse_transform(coordinates), 0, 1))

    return sample


def kernel_density(images: Images, seed: int) -> Sample:
    """A Gaussian around every image, in the leading principal components; cross-validated width."""
    pca = PCA(30, random_state=seed).fit(images)
    widths = {"bandwidth": np.geomspace(0.05, 1, 10)}
    model = GridSearchCV(KernelDensity(), widths).fit(pca.transform(images)).best_estimator_

    def sample(n: int, rng: np.random.Generator) -> Images:
        coordinates = model.sample(n, random_state=new_seed(rng))
        return np.asarray(np.clip(pca.inverse_transform(coordinates), 0, 1))

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
    model = MLPClassifier((HIDDEN,), "tanh", max_iter=500, random_state=seed).fit(images, labels)
    weights, intercepts = model.coefs_[0], model.intercepts_[0]
    return lambda batch: np.tanh(batch @ weights + intercepts)


def new_seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31))


def logistic(x: Images) -> Images:
    return np.asarray(1 / (1 + np.exp(-x)))


class Recipe(NamedTuple):
    """The digits that a generator gets to see, and how it is fitted."""

    digits: range
    fit: Callable[[Images, int], Sample]

    @property
    def knows(self) -> str:
        return f"{self.digits[0]}-{self.digits[-1]}"


RECIPES = {
    "gaussian-mixture": Recipe(range(10), partial(gaussian_mixture, components=10)),
    "pca-gaussian": Recipe(range(10), partial(gaussian_mixture, components=1)),
    "rbm": Recipe(range(10), boltzmann_machine),
    "kde-most-digits": Recipe(range(3, 10), kernel_density),
    "kde-three-digits": Recipe(range(3), kernel_density),
}


def make_world(seed: int) -> World:
    """Split the digits, fit the generators and the encoder."""
    images, labels = load_digits(return_X_y=True)
    images, held_out, labels, _ = train_test_split(
        images / 16, labels, test_size=0.5, stratify=labels, random_state=seed
    )
    samplers = {
        name: recipe.fit(images[np.isin(labels, recipe.digits)], seed)
        for name, recipe in RECIPES.items()
    }
    encode = classifier_features(images, labels, seed)
    return World(samplers, encode, encode(held_out))
