"""A class-conditional diffusion model: the best images, at the cost of many passes.

It is trained as a DDPM with a cosine schedule. The network predicts the velocity
``v = a·noise − s·image`` of ``x = a·image + s·noise``, and DDIM denoises without adding noise.
"""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from .data import batches
from .unet import UNet

LAST = 0.999  # at time 1, nothing of the image would be left to predict


class Diffusion:
    def __init__(self, device: torch.device, steps: int) -> None:
        self.steps = steps
        self.network = UNet().to(device, memory_format=torch.channels_last)
        self.average = AveragedModel(self.network, multi_avg_fn=get_ema_multi_avg_fn(0.999))

    def train(
        self, images: Tensor, labels: Tensor, epochs: int, size: int, generator: torch.Generator
    ) -> None:
        optimizer = torch.optim.Adam(self.network.parameters(), lr=6e-4)
        for _ in range(epochs):
            for real, label in batches(images * 2 - 1, labels, size, generator):
                optimizer.zero_grad()
                self.loss(real, label, generator).backward()
                optimizer.step()
                self.average.update_parameters(self.network)
        self.average.eval()

    def loss(self, real: Tensor, labels: Tensor, generator: torch.Generator) -> Tensor:
        time = LAST * torch.rand(len(real), generator=generator, device=real.device)
        noise = torch.randn(real.shape, generator=generator, device=real.device)
        kept, added = (part[:, None, None, None] for part in shares(time))
        with torch.autocast(real.device.type, torch.bfloat16, enabled=real.is_cuda):
            found = self.network(kept * real + added * noise, time, labels)
        return F.mse_loss(found.float(), kept * noise - added * real)

    @torch.inference_mode()
    def sample(self, labels: Tensor, generator: torch.Generator) -> Tensor:
        times = torch.linspace(LAST, 0, self.steps + 1, device=labels.device)
        x = torch.randn(len(labels), 1, 28, 28, generator=generator, device=labels.device)
        for time, following in pairwise(times):
            kept, added = shares(time)
            velocity = self.average(x, time.expand(len(labels)), labels)
            image = (kept * x - added * velocity).clamp(-1, 1)
            noise = (x - kept * image) / added
            kept, added = shares(following)
            x = kept * image + added * noise
        return (x + 1) / 2


def shares(time: Tensor) -> tuple[Tensor, Tensor]:
    """The factors of the image and of the noise, whose squares sum to 1."""
    return torch.cos(time * math.pi / 2), torch.sin(time * math.pi / 2)
