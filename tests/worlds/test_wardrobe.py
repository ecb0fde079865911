"""The recorded wardrobe world: its files agree with each other and with what made them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from genmix.comparison.worlds import load_world

WORLDS = Path(__file__).parents[2] / "worlds"
WARDROBE = WORLDS / "wardrobe"


def test_the_files_have_the_promised_shapes() -> None:
    card = json.loads((WARDROBE / "world.json").read_text("utf-8"))
    assert card["answers_per_prompt"] == 100
    with np.load(WARDROBE / "efficientnet-lite0.npz", allow_pickle=False) as stored:
        shapes = {name: (stored[name].shape, stored[name].dtype.name) for name in stored.files}
    arms = {f"arm_{i}": ((1000, 128), "float16") for i in range(len(card["arms"]))}
    others = {"prompts": ((10, 128), "float16"), "reference": ((1000, 128), "float16")}
    assert shapes == arms | others


def test_the_generators_are_those_of_fashion() -> None:
    fashion, wardrobe = load_world("fashion"), load_world("wardrobe")
    for arm in ("vae", "gan", "diffusion"):
        rows = fashion.arms[arm][7::10][:100]  # sneakers, which fashion asked for in turn
        unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        assert np.abs(wardrobe.arms[arm][700:800] - unit).max() < 1e-3


def test_samples_are_closest_to_the_prompt_that_they_answer() -> None:
    world = load_world("wardrobe")
    assert world.prompts is not None
    assert world.reference is not None
    real = np.argmax(world.reference @ world.prompts.embeddings.T, axis=1)
    assert np.mean(real == np.repeat(np.arange(10), 100)) > 0.6


def test_the_card_states_the_distances_of_the_stocks() -> None:
    import genmix as gx

    world = load_world("wardrobe")
    assert world.prompts is not None
    card = (WARDROBE / "README.md").read_text("utf-8")
    cells = world.prompts.cells({arm: world.arms[arm] for arm in ("stock/tops", "stock/shoes")})
    for arm in ("stock/tops", "stock/shoes"):
        [line] = [row for row in card.splitlines() if row.startswith(f"| `{arm}` |") and "(" in row]
        stated = [float(cell.split()[0]) for cell in line.split("|")[2:6]]
        found = [
            float(gx.score({"x": cells[g][arm]}, gx.Vendi()).arms["x"]["vendi"]) for g in cells
        ]
        assert found == pytest.approx(stated, abs=0.051)
