"""Step two: embed the images of a world and its reference, and write the world."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from . import card, classifier, data, sheet
from .encoders import ENCODERS, Encoder
from .plan import FULL, PLANS, QUICK, SEED, Plan


@dataclass(frozen=True)
class Source:
    """The output of step one, and the real images."""

    images: dict[str, np.ndarray]
    made: dict[str, Any]
    network: classifier.Classifier
    held: np.ndarray
    test: data.Labelled

    @classmethod
    def of(cls, folder: Path, real: Path) -> Source:
        if not (folder / "made.json").is_file():
            raise SystemExit(f"{folder / 'made.json'} does not exist; run the step generate first.")
        made = json.loads((folder / "made.json").read_text("utf-8"))
        with np.load(folder / "images.npz", allow_pickle=False) as stored:
            images = {name: stored[name] for name in stored.files}
        effort = QUICK if made["quick"] else FULL
        held = data.read(real, "train").images[-effort.held :]
        network = classifier.load(folder / "classifier.npz")
        return cls(images, made, network, held, data.read(real, "t10k"))


def embed(source: Source, out: Path, worlds: list[str], encoders: list[str]) -> None:
    """Write ``out/WORLD`` for each world: world.json, one npz per encoder, and the card."""
    fitted = {name: ENCODERS[name](source.held, source.network) for name in encoders}
    for world in worlds:
        write(source, world, fitted, out / world)
        print(f"{world} is in {out / world}", flush=True)


def write(source: Source, world: str, encoders: dict[str, Encoder], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    plan = PLANS[world]
    images = {name: source.images[f"{world}/{name}"] for name in plan.arms}
    real = reference(source, plan)
    exact = {name: embedded(encoder, images, real) for name, encoder in encoders.items()}
    for name, rows in exact.items():
        np.savez_compressed(folder / f"{name}.npz", **numbered(halved(rows)))
    described = description(world, plan, encoders, source.made["multiply_adds"])
    text = json.dumps(described, indent=1, ensure_ascii=False)
    (folder / "world.json").write_text(text + "\n", "utf-8")
    values = card.values_of(source.made, encoders, exact) | {
        "arms": card.arms_table(plan, described["costs"], images, source.network),
        "reference": str(len(real)),
        "each": str(len(real) // len(plan.real_classes)),
        "held": str(len(source.held)),
    }
    (folder / "README.md").write_text(card.text_of(world, values), "utf-8")
    sheet.draw({**images, "real": in_turn(real, len(plan.real_classes))}, folder / "samples.png")


def reference(source: Source, plan: Plan) -> np.ndarray:
    """Real test images: the same number from each class, chosen by the seed."""
    effort = QUICK if source.made["quick"] else FULL
    each = min(plan.real_each, effort.real_each_most)
    random = np.random.default_rng(SEED)
    rows = data.some_of_each(source.test.labels, plan.real_classes, each, random)
    return source.test.images[rows]


def embedded(
    encoder: Encoder, images: dict[str, np.ndarray], real: np.ndarray
) -> dict[str, np.ndarray]:
    """Every arm and the reference, in float64."""
    return {name: encoder(part) for name, part in [*images.items(), ("reference", real)]}


def halved(rows: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """As float16, whose maximum is 65504; a larger feature would silently become infinite."""
    most = max(float(np.abs(part).max()) for part in rows.values())
    if most > 60000:
        raise SystemExit(f"A feature is {most:g}, beyond float16; scale the encoder down.")
    return {name: part.astype(np.float16) for name, part in rows.items()}


def numbered(rows: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The rows under the names arm_0, arm_1, ... in the order of the arms, and the reference."""
    arms = [part for name, part in rows.items() if name != "reference"]
    return {f"arm_{i}": part for i, part in enumerate(arms)} | {"reference": rows["reference"]}


def description(
    world: str, plan: Plan, encoders: dict[str, Encoder], work: dict[str, int]
) -> dict[str, Any]:
    """The content of world.json."""
    return {
        "name": world,
        "note": plan.note,
        "arms": list(plan.arms),
        "costs": {
            name: float(f"{work[arm.generator] / work['vae']:.2g}")
            for name, arm in plan.arms.items()
        },
        "cost_unit": "multiply-adds, VAE = 1",
        "encoders": {
            name: {"file": f"{name}.npz", "name": encoder.name, "dimension": encoder.dimension}
            for name, encoder in encoders.items()
        },
    }


def in_turn(real: np.ndarray, classes: int) -> np.ndarray:
    """Reorder images that are sorted by class so that the classes alternate."""
    return real.reshape(classes, -1, 28, 28).swapaxes(0, 1).reshape(real.shape)
