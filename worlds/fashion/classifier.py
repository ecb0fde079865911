"""A small classifier of Fashion-MNIST, whose last hidden layer is an encoder trained on the task."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .data import batches

DIMENSION = 64


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(64, 64, 3, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Dropout(0.3),
            nn.Linear(64 * 49, DIMENSION),
            nn.ReLU(),
        )
        self.head = nn.Linear(DIMENSION, 10)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.features(images))

    def train_on(
        self, images: Tensor, labels: Tensor, epochs: int, size: int, generator: torch.Generator
    ) -> None:
        self.train()
        optimizer = torch.optim.Adam(self.parameters(), lr=1e-3)
        for _ in range(epochs):
            for real, label in batches(images, labels, size, generator):
                optimizer.zero_grad()
                F.cross_entropy(self(real), label).backward()
                optimizer.step()
        self.eval()


def save(classifier: Classifier, path: Path) -> None:
    """The weights as plain arrays."""
    np.savez(path, **{name: value.cpu().numpy() for name, value in classifier.state_dict().items()})


def load(path: Path) -> Classifier:
    classifier = Classifier()
    with np.load(path, allow_pickle=False) as weights:
        classifier.load_state_dict(
            {name: torch.from_numpy(weights[name]) for name in weights.files}
        )
    return classifier.eval()
