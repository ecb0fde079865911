"""The content of the three worlds: which generator makes which classes, and how many samples."""

from __future__ import annotations

from dataclasses import dataclass

CLASSES = (
    "t-shirt",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)
ALL = tuple(range(10))
TROUSER, DRESS, SHIRT, SNEAKER, BAG, BOOT = 1, 3, 6, 7, 8, 9
FEW = (TROUSER, BAG, BOOT)
SEED = 0


@dataclass(frozen=True)
class Arm:
    """A generator and the classes that are requested from it, in turn."""

    generator: str
    classes: tuple[int, ...]


@dataclass(frozen=True)
class Plan:
    """A world: its arms, the number of samples per arm, and the real images of its reference."""

    note: str
    arms: dict[str, Arm]
    samples: int
    real_classes: tuple[int, ...]
    real_each: int


PLANS = {
    "fashion": Plan(
        "Five image generators of different kinds, trained on Fashion-MNIST.",
        {
            "vae": Arm("vae", ALL),
            "gan": Arm("gan", ALL),
            "diffusion": Arm("diffusion", ALL),
            "pca-gaussian": Arm("pca-gaussian", ALL),
            "diffusion-3-classes": Arm("diffusion-3-classes", FEW),
        },
        samples=2000,
        real_classes=ALL,
        real_each=400,
    ),
    "breeds": Plan(
        "One class-conditional diffusion model of Fashion-MNIST under five narrow prompts.",
        {CLASSES[c]: Arm("diffusion", (c,)) for c in (SNEAKER, BAG, TROUSER, SHIRT, DRESS)},
        samples=1000,
        real_classes=(SNEAKER, BAG, TROUSER, SHIRT, DRESS),
        real_each=400,
    ),
    "boots": Plan(
        "A VAE, a GAN and a diffusion model of Fashion-MNIST, all asked for ankle boots.",
        {name: Arm(name, (BOOT,)) for name in ("vae", "gan", "diffusion")},
        samples=1000,
        real_classes=(BOOT,),
        real_each=1000,
    ),
}


@dataclass(frozen=True)
class Effort:
    """How long the networks are trained, and limits on the number of samples."""

    train: int = 55000
    held: int = 5000  # real training images that are used only for the PCA of the encoders
    batch: int = 256
    vae_epochs: int = 25
    gan_epochs: int = 40
    diffusion_epochs: int = 40
    few_epochs: int = 60
    classifier_epochs: int = 8
    denoising_steps: int = 50
    samples_most: int = 2000  # per arm
    real_each_most: int = 1000  # per class of the reference


FULL = Effort()
QUICK = Effort(
    train=32,
    held=160,
    batch=16,
    vae_epochs=1,
    gan_epochs=1,
    diffusion_epochs=1,
    few_epochs=1,
    classifier_epochs=1,
    denoising_steps=2,
    samples_most=6,
    real_each_most=4,
)
