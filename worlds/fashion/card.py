"""The card of a world: its card.md followed by about.md, filled in with measured numbers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import torch

from genmix import FrechetDistance, score

from .classifier import Classifier
from .encoders import Encoder, in_batches
from .plan import ALL, CLASSES, Plan

Rows = dict[str, np.ndarray]
HERE = Path(__file__).parent


def text_of(world: str, values: dict[str, str]) -> str:
    """The text of the card; a placeholder without a value is an error."""
    parts = (HERE.parent / world / "card.md", HERE / "about.md")
    return Template("\n".join(part.read_text("utf-8") for part in parts)).substitute(values)


def values_of(
    made: dict[str, Any], encoders: dict[str, Encoder], exact: dict[str, Rows]
) -> dict[str, str]:
    """The values of all placeholders except the table of the arms."""
    distances = {name: frechet(rows, np.float64) for name, rows in exact.items()}
    halved = {name: frechet(rows, np.float16) for name, rows in exact.items()}
    return {
        "distances": distances_table(distances),
        "encoders": encoders_table(encoders, exact),
        "rounding": f"{100 * largest_change(distances, halved):.1g}",
        "accuracy": f"{100 * made['classifier_accuracy']:.1f}",
        "work": listed(made["multiply_adds"]),
        "parameters": listed(made["parameters"]),
        "versions": ", ".join(f"{name} {version}" for name, version in made["versions"].items()),
        "device": made["device"],
        "minutes": str(made["minutes"]),
        "embedding": f"PyTorch {torch.__version__}, NumPy {np.__version__}",
    }


def frechet(rows: Rows, kept: type) -> dict[str, float]:
    """The distance of each arm, and of all samples, to the reference, with features of type ``kept``."""
    rounded = {name: part.astype(kept).astype(np.float64) for name, part in rows.items()}
    real = rounded.pop("reference")
    table = score(rounded, FrechetDistance(real))
    found = {name: float(row["frechet_distance"]) for name, row in table.arms.items()}
    return found | {"all arms, pooled": float(table.pooled["frechet_distance"])}


def largest_change(
    distances: dict[str, dict[str, float]], halved: dict[str, dict[str, float]]
) -> float:
    """The largest relative change of a distance due to rounding to float16."""
    return max(
        abs(halved[encoder][arm] / distance - 1)
        for encoder, row in distances.items()
        for arm, distance in row.items()
    )


def arms_table(plan: Plan, costs: dict[str, float], images: Rows, network: Classifier) -> str:
    """The number of samples, their cost, and how often the classifier sees the requested class."""
    rows = []
    for name, arm in plan.arms.items():
        asked = "all, in turn" if arm.classes == ALL else ", ".join(CLASSES[c] for c in arm.classes)
        seen = in_batches(images[name], network).argmax(1)
        agreed = 100 * float(np.mean(seen == np.resize(arm.classes, len(seen))))
        hit = "–" if arm.generator == "pca-gaussian" else f"{agreed:.1f}%"
        rows.append([name, arm.generator, asked, str(len(seen)), f"{costs[name]:g}", hit])
    heads = ["arm", "generator", "requested classes", "samples", "cost", "classified as requested"]
    return table(heads, rows)


def distances_table(distances: dict[str, dict[str, float]]) -> str:
    arms = next(iter(distances.values()))
    rows = [[arm, *(f"{row[arm]:.4g}" for row in distances.values())] for arm in arms]
    return table(["", *distances], rows)


def encoders_table(encoders: dict[str, Encoder], exact: dict[str, Rows]) -> str:
    rows = []
    for name, encoder in encoders.items():
        kept = "–" if encoder.pca is None else f"{100 * encoder.pca.kept:.1f}%"
        most = max(float(np.abs(part).max()) for part in exact[name].values())
        rows.append([name, encoder.name, str(encoder.dimension), kept, f"{most:.3g}"])
    return table(["file", "what", "dimension", "variance kept", "largest value"], rows)


def table(heads: list[str], rows: list[list[str]]) -> str:
    lines: Iterable[list[str]] = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())
