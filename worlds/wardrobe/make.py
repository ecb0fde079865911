"""Make the wardrobe world: six sources of images, asked for each of the ten classes of Fashion-MNIST.

    python -m worlds.wardrobe.make

Run it in the repository root. It takes the samples of three generators from the world `fashion`, makes those
of three more, and embeds them like `fashion` does. It needs the packages of requirements-real.lock and the
Debian package dataset-fashion-mnist, and takes some minutes on a CPU.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from worlds.fashion import data
from worlds.fashion.plan import CLASSES, FULL

HERE = Path(__file__).resolve().parent
FASHION = HERE.parent / "fashion"
ENCODER = "efficientnet-lite0"

SAMPLES = 100
"""Number of samples from each arm for each class, and of real images of each class in the reference."""

SEED = 0
COMPONENTS = 50
STOCK, LITTLE = 500, 8
"""Number of real images of each class that a stock holds of its own kind, and of the others."""

KINDS = {
    "tops": ("t-shirt", "pullover", "coat", "shirt"),
    "legs": ("trouser", "dress"),
    "shoes": ("sandal", "sneaker", "ankle boot"),
    "bags": ("bag",),
}
"""The groups of the classes."""

RECORDED = ("vae", "gan", "diffusion")
"""Arms whose samples are those of the world `fashion`."""

Images = np.ndarray  # (n, 28, 28) bytes


def kind_of(label: int) -> str:
    return next(kind for kind, names in KINDS.items() if CLASSES[label] in names)


def gaussian(real: Images, random: np.random.Generator) -> Images:
    """Draw from a Gaussian in the first principal components of real images."""
    pixels = real.reshape(len(real), -1) / 255.0
    mean = pixels.mean(0)
    _, spread, axes = np.linalg.svd(pixels - mean, full_matrices=False)
    scaled = axes[:COMPONENTS] * spread[:COMPONENTS, None] / np.sqrt(len(real))
    drawn = mean + random.standard_normal((SAMPLES, COMPONENTS)) @ scaled
    return np.round(255 * drawn.clip(0, 1)).astype(np.uint8).reshape(-1, 28, 28)


def stock(size: int) -> Callable[[Images, np.random.Generator], Images]:
    """Return an arm that has a few real images, and varies their place and their brightness."""

    def draw(real: Images, random: np.random.Generator) -> Images:
        kept = real[random.permutation(len(real))[:size]]
        drawn = []
        for row in random.integers(size, size=SAMPLES):
            moved = np.roll(kept[row], random.integers(-1, 2, size=2), axis=(0, 1))
            drawn.append((moved * random.uniform(0.8, 1.2)).clip(0, 255))
        return np.round(drawn).astype(np.uint8)

    return draw


def new_arms(label: int) -> dict[str, Callable[[Images, np.random.Generator], Images]]:
    """Return what makes the images of a class, for each arm that is not recorded."""
    kind = kind_of(label)
    stocks = {f"stock/{own}": stock(STOCK if kind == own else LITTLE) for own in ("tops", "shoes")}
    return {"gaussian": gaussian, **stocks}


def drawn_images(train: data.Labelled) -> dict[str, Images]:
    """Return the images of the new arms, sorted by class."""
    parts: dict[str, list[Images]] = {}
    for label in range(len(CLASSES)):
        real = train.images[train.labels == label]
        for place, (arm, draw) in enumerate(new_arms(label).items()):
            random = np.random.default_rng([SEED, place, label])
            parts.setdefault(arm, []).append(draw(real, random))
    return {arm: np.concatenate(each) for arm, each in parts.items()}


def recorded() -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the features of the recorded arms and of real test images, sorted by class.

    The recorded arms made the classes in turn.
    """
    arms = json.loads((FASHION / "world.json").read_text("utf-8"))["arms"]
    with np.load(FASHION / f"{ENCODER}.npz", allow_pickle=False) as stored:
        rows = {name: stored[f"arm_{arms.index(name)}"].astype(float) for name in RECORDED}
        real = stored["reference"].astype(float)
    by_class = {
        name: np.concatenate([part[label :: len(CLASSES)][:SAMPLES] for label in range(10)])
        for name, part in rows.items()
    }
    return by_class, real


def unit(rows: np.ndarray) -> np.ndarray:
    """Scale every row to length 1, as float16."""
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float16)


def collect(real: Path) -> dict[str, np.ndarray]:
    """Return all images to embed: those of the new arms, held-out real ones, and some of the reference."""
    train, test = data.read(real, "train"), data.read(real, "t10k")
    rows = data.some_of_each(test.labels, tuple(range(10)), 400, np.random.default_rng(SEED))
    images = drawn_images(data.Labelled(*(part[: FULL.train] for part in train)))
    return images | {
        "held": train.images[-FULL.held :],
        "labels of held": train.labels[-FULL.held :],
        "check": test.images[rows[::40]],
    }


def embedded(images: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the features of all images, by the encoder of `fashion`."""
    from worlds.fashion.encoders import efficientnet_features, fit

    features = efficientnet_features()
    held = features(images["held"])
    pca = fit(held, 128)
    found = {
        name: pca(features(part))
        for name, part in images.items()
        if name not in ("held", "labels of held")
    }
    return found | {"held": pca(held), "labels of held": images["labels of held"]}


def assemble(rows: dict[str, np.ndarray], out: Path) -> None:
    """Write the world, given the features of all images."""
    arms, real = recorded()
    apart = float(np.abs(rows.pop("check") - real[::40]).max())
    print(f"the encoder differs from that of fashion by at most {apart:.2g}", flush=True)
    if apart > 0.02:
        raise SystemExit("The encoder differs from that of fashion; use the same packages.")
    held, labels = unit(rows.pop("held")).astype(float), rows.pop("labels of held")
    prompts = np.array([held[labels == label].mean(0) for label in range(10)])
    reference = real.reshape(10, -1, real.shape[1])[:, :SAMPLES].reshape(-1, real.shape[1])
    pools = {name: unit(part) for name, part in (arms | rows).items()}
    write(out, pools, unit(reference), unit(prompts))


def write(
    out: Path, arms: dict[str, np.ndarray], reference: np.ndarray, prompts: np.ndarray
) -> None:
    described = {
        "name": "wardrobe",
        "note": "six sources of images of clothes, asked for the ten classes of Fashion-MNIST",
        "arms": list(arms),
        "answers_per_prompt": SAMPLES,
        "prompts": [{"text": name, "group": kind_of(label)} for label, name in enumerate(CLASSES)],
        "encoders": {
            ENCODER: {
                "file": f"{ENCODER}.npz",
                "name": "EfficientNet-Lite0 at 224 pixels, PCA to 128, unit length",
                "dimension": prompts.shape[1],
            }
        },
    }
    out.mkdir(parents=True, exist_ok=True)
    (out / "world.json").write_text(json.dumps(described, indent=2) + "\n", "utf-8")
    pools = {f"arm_{place}": rows for place, rows in enumerate(arms.values())}
    np.savez_compressed(out / f"{ENCODER}.npz", prompts=prompts, reference=reference, **pools)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=data.DEBIAN, help="folder of the IDX files")
    parser.add_argument("--out", type=Path, default=HERE, help="folder to write to")
    asked = parser.parse_args()
    assemble(embedded(collect(asked.data)), asked.out)
