"""Fit the demo's five generators and its encoder: ``python worlds/digits/make.py`` (needs scikit-learn).

The images are the 1797 digits that ship with scikit-learn (UCI Optical Recognition of Handwritten
Digits, CC BY 4.0). The generators and the encoder are fitted on one half; the other half is the reference.
The results are two small files of plain arrays in ``src/genmix/demo``, so that the demo needs only numpy.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.neighbors import KernelDensity
from sklearn.neural_network import BernoulliRBM, MLPClassifier

OUT = Path(__file__).parents[2] / "src" / "genmix" / "demo"
SEED = 0
HIDDEN = 64


def gaussian_mixture(images: Any, components: int) -> dict[str, Any]:
    """Gaussians in the leading principal components."""
    pca = PCA(20, random_state=SEED).fit(images)
    model = GaussianMixture(components, random_state=SEED).fit(pca.transform(images))
    roots = np.linalg.cholesky(model.covariances_)
    return {"means": model.means_, "roots": roots, "weights": model.weights_, **basis(pca)}


def kernel_density(images: Any) -> dict[str, Any]:
    """A Gaussian around every image in the leading principal components, with cross-validated width."""
    pca = PCA(30, random_state=SEED).fit(images)
    points = pca.transform(images)
    widths = {"bandwidth": np.geomspace(0.05, 1, 10)}
    width = GridSearchCV(KernelDensity(), widths).fit(points).best_params_["bandwidth"]
    roots = np.broadcast_to(width * np.eye(30), (1, 30, 30))
    return {
        "means": points,
        "roots": roots,
        "weights": np.full(len(points), 1 / len(points)),
        **basis(pca),
    }


def basis(pca: PCA) -> dict[str, Any]:
    return {"components": pca.components_, "center": pca.mean_}


def boltzmann_machine(images: Any) -> dict[str, Any]:
    model = BernoulliRBM(64, learning_rate=0.01, n_iter=100, random_state=SEED).fit(images)
    return {
        "components": model.components_,
        "hidden": model.intercept_hidden_,
        "visible": model.intercept_visible_,
        "start": images.mean(axis=0),
    }


def main() -> None:
    images, labels = load_digits(return_X_y=True)
    images, held_out, labels, _ = train_test_split(
        images / 16, labels, test_size=0.5, stratify=labels, random_state=SEED
    )
    few = np.isin(labels, range(3))
    models = {
        "gaussian-mixture": gaussian_mixture(images, 10),
        "pca-gaussian": gaussian_mixture(images, 1),
        "rbm": boltzmann_machine(images),
        "kde-most-digits": kernel_density(images[~few]),
        "kde-three-digits": kernel_density(images[few]),
    }
    classifier = MLPClassifier((HIDDEN,), "tanh", max_iter=500, random_state=SEED).fit(
        images, labels
    )
    models["encoder"] = {"matrix": classifier.coefs_[0], "intercepts": classifier.intercepts_[0]}
    arrays = {
        f"{name}/{part}": np.asarray(array, dtype=np.float32)
        for name, parts in models.items()
        for part, array in parts.items()
    }
    np.savez_compressed(OUT / "models.npz", **arrays)
    encoder = {part: arrays[f"encoder/{part}"].astype(np.float64) for part in models["encoder"]}
    features = np.tanh(held_out @ encoder["matrix"] + encoder["intercepts"])
    np.savez(
        OUT / "held-out.npz",
        mu=features.mean(axis=0),
        sigma=np.cov(features, rowvar=False),
        n=len(features),
        encoder=f"{HIDDEN} hidden units of a digit classifier",
    )


if __name__ == "__main__":
    main()
