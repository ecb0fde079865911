"""A class-conditional variational autoencoder: smooth, blurry images."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .data import batches

LATENT = 16


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 32, 4, 2, 1),
            nn.SiLU(),
            nn.Conv2d(32, 64, 4, 2, 1),
            nn.SiLU(),
            nn.Flatten(),
        )
        self.head = nn.Sequential(
            nn.Linear(64 * 49 + 10, 256), nn.SiLU(), nn.Linear(256, 2 * LATENT)
        )

    def forward(self, images: Tensor, classes: Tensor) -> tuple[Tensor, Tensor]:
        return self.head(torch.cat([self.features(images), classes], 1)).chunk(2, 1)


class Decoder(nn.Module):
    """Logits of the pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(LATENT + 10, 128 * 49),
            nn.SiLU(),
            nn.Unflatten(1, (128, 7, 7)),
            nn.ConvTranspose2d(128, 64, 4, 2, 1),
            nn.SiLU(),
            nn.ConvTranspose2d(64, 32, 4, 2, 1),
            nn.SiLU(),
            nn.Conv2d(32, 1, 3, padding=1),
        )

    def forward(self, latent: Tensor, classes: Tensor) -> Tensor:
        return self.layers(torch.cat([latent, classes], 1))


class Vae:
    def __init__(self, device: torch.device) -> None:
        self.encoder, self.decoder = Encoder().to(device), Decoder().to(device)

    def train(
        self, images: Tensor, labels: Tensor, epochs: int, size: int, generator: torch.Generator
    ) -> None:
        weights = [*self.encoder.parameters(), *self.decoder.parameters()]
        optimizer = torch.optim.Adam(weights, lr=1e-3)
        for _ in range(epochs):
            for real, label in batches(images, labels, size, generator):
                optimizer.zero_grad()
                self.loss(real, one_hot(label), generator).backward()
                optimizer.step()

    def loss(self, real: Tensor, classes: Tensor, generator: torch.Generator) -> Tensor:
        """The negative evidence lower bound, per image."""
        mean, log_variance = self.encoder(real, classes)
        noise = torch.randn(mean.shape, generator=generator, device=mean.device)
        logits = self.decoder(mean + noise * (log_variance / 2).exp(), classes)
        misfit = F.binary_cross_entropy_with_logits(logits, real, reduction="sum")
        divergence = 0.5 * (mean**2 + log_variance.exp() - 1 - log_variance).sum()
        return (misfit + divergence) / len(real)

    @torch.inference_mode()
    def sample(self, labels: Tensor, generator: torch.Generator) -> Tensor:
        latent = torch.randn(len(labels), LATENT, generator=generator, device=labels.device)
        return self.decoder(latent, one_hot(labels)).sigmoid()


def one_hot(labels: Tensor) -> Tensor:
    return F.one_hot(labels, 10).float()
