"""A small network that removes noise from an image, conditioned on the time and the class."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

WIDTH = (48, 96, 128)  # channels at 28, 14 and 7 pixels
EMBEDDING = 128


class Block(nn.Module):
    """Two convolutions and a shortcut; the time and the class scale and shift the hidden layer."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.first = nn.Sequential(
            nn.GroupNorm(8, inputs), nn.SiLU(), nn.Conv2d(inputs, outputs, 3, padding=1)
        )
        self.norm = nn.GroupNorm(8, outputs)
        self.modulation = nn.Linear(EMBEDDING, 2 * outputs)
        self.second = nn.Sequential(nn.SiLU(), nn.Conv2d(outputs, outputs, 3, padding=1))
        self.shortcut = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, images: Tensor, condition: Tensor) -> Tensor:
        scale, shift = self.modulation(condition)[:, :, None, None].chunk(2, 1)
        between = self.norm(self.first(images)) * (1 + scale) + shift
        return self.shortcut(images) + self.second(between)


class Attention(nn.Module):
    """Self-attention with one head."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(8, channels)
        self.into = nn.Conv2d(channels, 3 * channels, 1)
        self.out = nn.Conv2d(channels, channels, 1)

    def forward(self, images: Tensor) -> Tensor:
        query, key, value = self.into(self.norm(images)).flatten(2).chunk(3, 1)
        weights = (query.mT @ key / math.sqrt(images.shape[1])).softmax(-1)
        return images + self.out((value @ weights.mT).view_as(images))


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        fine, middle, coarse = WIDTH
        self.classes = nn.Embedding(10, EMBEDDING)
        self.condition = nn.Sequential(
            nn.Linear(EMBEDDING, EMBEDDING), nn.SiLU(), nn.Linear(EMBEDDING, EMBEDDING), nn.SiLU()
        )
        self.enter = nn.Conv2d(1, fine, 3, padding=1)
        self.down_fine = Block(fine, fine)
        self.to_middle = nn.Conv2d(fine, fine, 3, 2, 1)
        self.down_middle = Block(fine, middle)
        self.to_coarse = nn.Conv2d(middle, middle, 3, 2, 1)
        self.down_coarse = Block(middle, coarse)
        self.attention = Attention(coarse)
        self.up_coarse = Block(coarse, coarse)
        self.up_middle = Block(coarse + middle, middle)
        self.up_fine = Block(middle + fine, fine)
        self.twice = nn.Upsample(scale_factor=2)
        self.leave = nn.Sequential(
            nn.GroupNorm(8, fine), nn.SiLU(), nn.Conv2d(fine, 1, 3, padding=1)
        )

    def forward(self, images: Tensor, time: Tensor, labels: Tensor) -> Tensor:
        """``time`` runs from 0 (an image) to 1 (noise)."""
        condition = self.condition(waves(time) + self.classes(labels))
        fine = self.down_fine(self.enter(images), condition)
        middle = self.down_middle(self.to_middle(fine), condition)
        coarse = self.attention(self.down_coarse(self.to_coarse(middle), condition))
        up = self.twice(self.up_coarse(coarse, condition))
        up = self.twice(self.up_middle(torch.cat([up, middle], 1), condition))
        return self.leave(self.up_fine(torch.cat([up, fine], 1), condition))


def waves(time: Tensor) -> Tensor:
    """The time as sines and cosines of frequencies from 1 to 1000."""
    powers = torch.linspace(0, math.log(1000), EMBEDDING // 2, device=time.device)
    angles = time[:, None] * powers.exp()
    return torch.cat([angles.sin(), angles.cos()], 1)
