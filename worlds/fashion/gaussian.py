"""A Gaussian of the principal components of the pixels: it matches the moments and nothing else."""

from __future__ import annotations

import torch
from torch import Tensor

COMPONENTS = 100


class PcaGaussian:
    """An unconditional generator, which accepts labels only to have the same interface as the others."""

    def fit(self, images: Tensor) -> None:
        pixels = images.flatten(1).double()
        self.mean = pixels.mean(0)
        spread, axes = torch.linalg.eigh(torch.cov(pixels.T, correction=0))
        spread, axes = spread[-COMPONENTS:], axes[:, -COMPONENTS:]
        self.axes = axes * spread.clamp(min=0).sqrt()

    @torch.inference_mode()
    def sample(self, labels: Tensor, generator: torch.Generator) -> Tensor:
        noise = torch.randn(len(labels), COMPONENTS, generator=generator, device=labels.device)
        pixels = self.mean + noise.double() @ self.axes.T
        return pixels.clamp(0, 1).view(-1, 1, 28, 28)
