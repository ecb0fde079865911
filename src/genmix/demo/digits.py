"""Five generators of handwritten digits and an encoder, as plain functions for a study.

``worlds/digits/make.py`` fitted them to half of scikit-learn's digits. Two of the generators can draw
only some of the digits.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

GIBBS_STEPS = 100
SIDE = 8
"""Side length of a digit in pixels."""
ZOOM = 4
"""Side length of the square drawn for each pixel, so that digits are readable in a report."""


@cache
def _parameters() -> dict[str, dict[str, Any]]:
    """Load the fitted arrays, keyed by model and name."""
    found: dict[str, dict[str, Any]] = {}
    with resources.files("genmix.demo").joinpath("models.npz").open("rb") as file:
        for key, array in np.load(file, allow_pickle=False).items():
            model, name = key.split("/")
            found.setdefault(model, {})[name] = array.astype(np.float64)
    return found


def draw(seeds: Sequence[int], model: str) -> list[Any]:
    """Return one image per seed, as uint8 pixels of shape ``(32, 32)``."""
    sample = _from_boltzmann_machine if model == "rbm" else _from_gaussians
    return [_picture(sample(_parameters()[model], np.random.default_rng(seed))) for seed in seeds]


def embed(images: Sequence[bytes]) -> Any:
    """Return hidden-layer activations ``(n, 64)`` of a digit classifier, analogous to FID features."""
    encoder = _parameters()["encoder"]
    pixels = np.stack([_pixels(image) for image in images])
    return np.tanh(pixels @ encoder["matrix"] + encoder["intercepts"])


def _from_gaussians(model: dict[str, Any], rng: np.random.Generator) -> Any:
    """Draw from a mixture of Gaussians in the space of the leading principal components."""
    component = rng.choice(len(model["means"]), p=model["weights"] / model["weights"].sum())
    root = model["roots"][
        component % len(model["roots"])
    ]  # kernel density estimates share one bandwidth
    point = model["means"][component] + root @ rng.standard_normal(len(root))
    return point @ model["components"] + model["center"]


def _from_boltzmann_machine(model: dict[str, Any], rng: np.random.Generator) -> Any:
    """Draw from a restricted Boltzmann machine by running a separate Gibbs chain."""
    weights, start = model["components"], model["start"]
    visible = (rng.random(len(start)) < start).astype(float)
    for _ in range(GIBBS_STEPS):
        chances = _logistic(weights @ visible + model["hidden"])
        hidden = rng.random(len(chances)) < chances
        image = _logistic(hidden @ weights + model["visible"])
        visible = (rng.random(len(image)) < image).astype(float)
    return image


def _logistic(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _picture(pixels: Any) -> Any:
    gray = np.rint(255 * np.clip(pixels, 0, 1)).astype(np.uint8).reshape(SIDE, SIDE)
    return np.kron(gray, np.ones((ZOOM, ZOOM), dtype=np.uint8))


def _pixels(image: bytes) -> Any:
    """Decode an image into its 64 pixel values, from 0 to 1."""
    from PIL import Image

    picture = np.asarray(Image.open(io.BytesIO(image)).convert("L"), dtype=np.float64)
    return picture[::ZOOM, ::ZOOM].reshape(-1) / 255
