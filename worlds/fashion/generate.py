"""Step one: train the generators and the classifier, and store the samples of the generators."""

from __future__ import annotations

import json
import math
import platform
import time
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from . import classifier, data
from .diffusion import Diffusion
from .gan import Gan
from .gaussian import PcaGaussian
from .plan import FEW, FULL, PLANS, QUICK, SEED, Arm, Effort
from .vae import Vae

AT_A_TIME = 500


class Sampler(Protocol):
    def sample(self, labels: Tensor, generator: torch.Generator) -> Tensor: ...


def generate(folder: Path, real: Path, device: torch.device, quick: bool) -> None:
    """Write images.npz, classifier.npz and made.json into ``folder``."""
    started, effort = time.monotonic(), QUICK if quick else FULL
    torch.set_float32_matmul_precision("high")
    folder.mkdir(parents=True, exist_ok=True)
    train = data.read(real, "train")
    held = data.Labelled(*(part[-effort.held :] for part in train))
    train = data.Labelled(*(part[: effort.train] for part in train))
    judge = trained_classifier(train, effort, device)
    classifier.save(judge, folder / "classifier.npz")
    say(started, "classifier")
    generators = trained_generators(train, effort, device, started)
    images = {}
    for world, plan in PLANS.items():
        for name, arm in plan.arms.items():
            count = min(plan.samples, effort.samples_most)
            images[f"{world}/{name}"] = sampled(generators[arm.generator], arm, count, device)
        say(started, f"samples of {world}")
    np.savez_compressed(folder / "images.npz", **images)
    made = {
        "quick": quick,
        "multiply_adds": multiply_adds(generators, device),
        "classifier_accuracy": accuracy(judge, held, device),
        "parameters": {name: parameters(made) for name, made in generators.items()},
        "versions": {"Python": platform.python_version(), "PyTorch": torch.__version__},
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "CPU",
        "minutes": round((time.monotonic() - started) / 60, 1),
    }
    (folder / "made.json").write_text(json.dumps(made, indent=1) + "\n", "utf-8")


def trained_classifier(
    train: data.Labelled, effort: Effort, device: torch.device
) -> classifier.Classifier:
    random = seeded(device)
    network = classifier.Classifier().to(device)
    network.train_on(*data.tensors(train, device), effort.classifier_epochs, effort.batch, random)
    return network


def trained_generators(
    train: data.Labelled, effort: Effort, device: torch.device, started: float
) -> dict[str, Sampler]:
    """Each starts from the same seed, so that it can be retrained without the others."""
    images, labels = data.tensors(train, device)
    few = torch.isin(labels, torch.tensor(FEW, device=device))

    random = seeded(device)
    vae = Vae(device)
    vae.train(images, labels, effort.vae_epochs, effort.batch, random)
    say(started, "VAE")

    random = seeded(device)
    gan = Gan(device)
    gan.train(images, labels, effort.gan_epochs, effort.batch, random)
    say(started, "GAN")

    random = seeded(device)
    diffusion = Diffusion(device, effort.denoising_steps)
    diffusion.train(images, labels, effort.diffusion_epochs, effort.batch, random)
    say(started, "diffusion model")

    random = seeded(device)
    narrow = Diffusion(device, effort.denoising_steps)
    narrow.train(images[few], labels[few], effort.few_epochs, effort.batch, random)
    say(started, "diffusion model of three classes")

    gaussian = PcaGaussian()
    gaussian.fit(images)
    return {
        "vae": vae,
        "gan": gan,
        "diffusion": diffusion,
        "pca-gaussian": gaussian,
        "diffusion-3-classes": narrow,
    }


def sampled(generator: Sampler, arm: Arm, count: int, device: torch.device) -> np.ndarray:
    """``count`` images as bytes, cycling through the classes of the arm."""
    labels = torch.tensor(arm.classes, device=device).repeat(count)[:count]
    random = seeded(device)
    parts = [generator.sample(part, random) for part in labels.split(AT_A_TIME)]
    gray = torch.cat(parts).squeeze(1).clamp(0, 1)
    return (gray * 255).round().byte().cpu().numpy()


def multiply_adds(generators: dict[str, Sampler], device: torch.device) -> dict[str, int]:
    """The multiply-adds of one sample, over all passes of the network."""
    found = {}
    for name, generator in generators.items():
        with FlopCounterMode(display=False) as counter:
            generator.sample(torch.full((1,), FEW[0], device=device), seeded(device))
        found[name] = counter.get_total_flops() // 2
    return found


def parameters(generator: Any) -> int:
    """The number of fitted parameters that sampling needs."""
    if isinstance(generator, PcaGaussian):
        return generator.mean.numel() + generator.axes.numel()
    network = {Vae: "decoder", Gan: "generator", Diffusion: "network"}[type(generator)]
    return sum(math.prod(weights.shape) for weights in getattr(generator, network).parameters())


def accuracy(network: classifier.Classifier, held: data.Labelled, device: torch.device) -> float:
    images, labels = data.tensors(held, device)
    with torch.inference_mode():
        return float((network(images).argmax(1) == labels).float().mean())


def seeded(device: torch.device) -> torch.Generator:
    """A generator for all draws; PyTorch's global seed determines initial weights and dropout."""
    torch.manual_seed(SEED)
    return torch.Generator(device).manual_seed(SEED)


def say(started: float, what: str) -> None:
    print(f"{time.monotonic() - started:6.0f} s  {what}", flush=True)
