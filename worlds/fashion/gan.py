"""A class-conditional generative adversarial network: sharp images, but not always of every kind.

A small DCGAN with hinge loss, spectral normalization and a projection discriminator. Samples are drawn
with the moving average of the generator's weights.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import spectral_norm
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from .data import batches

LATENT = 64


def widened(inputs: int, outputs: int) -> nn.Sequential:
    """Doubles the side length; copying pixels before a convolution avoids checkerboard artifacts."""
    return nn.Sequential(
        nn.Upsample(scale_factor=2),
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    )


class Generator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.classes = nn.Embedding(10, 32)
        self.layers = nn.Sequential(
            nn.Linear(LATENT + 32, 128 * 49, bias=False),
            nn.Unflatten(1, (128, 7, 7)),
            nn.BatchNorm2d(128),
            nn.ReLU(),
            widened(128, 128),
            widened(128, 64),
            nn.Conv2d(64, 1, 3, padding=1),
            nn.Tanh(),
        )

    def forward(self, latent: Tensor, labels: Tensor) -> Tensor:
        return self.layers(torch.cat([latent, self.classes(labels)], 1))


class Discriminator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            spectral_norm(nn.Conv2d(1, 64, 4, 2, 1)),
            nn.LeakyReLU(0.1),
            spectral_norm(nn.Conv2d(64, 128, 4, 2, 1)),
            nn.LeakyReLU(0.1),
            spectral_norm(nn.Conv2d(128, 256, 3, 1, 1)),
            nn.LeakyReLU(0.1),
        )
        self.real = spectral_norm(nn.Linear(256, 1))
        self.classes = spectral_norm(nn.Embedding(10, 256))

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        features = self.features(images).sum((2, 3))
        return self.real(features).squeeze(1) + (self.classes(labels) * features).sum(1)


class Gan:
    def __init__(self, device: torch.device) -> None:
        self.generator, self.discriminator = Generator().to(device), Discriminator().to(device)
        average = get_ema_multi_avg_fn(0.999)
        self.average = AveragedModel(self.generator, multi_avg_fn=average, use_buffers=True)

    def train(
        self, images: Tensor, labels: Tensor, epochs: int, size: int, generator: torch.Generator
    ) -> None:
        make = torch.optim.Adam(self.generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
        judge = torch.optim.Adam(self.discriminator.parameters(), lr=2e-4, betas=(0.5, 0.999))
        for _ in range(epochs):
            for real, label in batches(images * 2 - 1, labels, size, generator):
                fake = self.generator(latents(len(real), generator), label)
                judge.zero_grad()
                self.judging_loss(real, fake.detach(), label).backward()
                judge.step()
                make.zero_grad()
                (-self.discriminator(fake, label).mean()).backward()
                make.step()
                self.average.update_parameters(self.generator)
        self.average.eval()

    def judging_loss(self, real: Tensor, fake: Tensor, labels: Tensor) -> Tensor:
        of_real = self.discriminator(real, labels)
        of_fake = self.discriminator(fake, labels)
        return F.relu(1 - of_real).mean() + F.relu(1 + of_fake).mean()

    @torch.inference_mode()
    def sample(self, labels: Tensor, generator: torch.Generator) -> Tensor:
        return (self.average(latents(len(labels), generator), labels) + 1) / 2


def latents(count: int, generator: torch.Generator) -> Tensor:
    return torch.randn(count, LATENT, generator=generator, device=generator.device)
