"""Every item of the paper, made completely on tiny worlds; new items are tested without further work."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet
import pytest

import genmix as gx
from genmix import charts
from genmix.comparison.compare import run_plan
from genmix.comparison.plan import Options, Plan
from genmix.comparison.variant import read_variants
from genmix.comparison.worlds import World, load_world, modes
from genmix.paper import (
    ITEMS,
    Settings,
    ablations,
    beyond_paper,
    comparisons,
    downstream,
    fidelity,
    keep_table,
    prompt_table,
    solver_ablation,
)
from genmix.paper.comparisons import RECORDED, gain_table, paired_gain, verdict_counts
from genmix.paper.items import fingerprint, write_item
from tests.support.prompted_world import specialists

ARMS = ("one", "two")

RENDERED = ("fig-birds", "fig-fd-bars", "fidelity", "beyond-draw")
"""One item for each kind of chart: curves, bars, sweeps, intervals."""


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The names of the recorded worlds with two small clouds each."""
    folder = tmp_path_factory.mktemp("worlds")
    rng = np.random.default_rng(0)
    for name in RECORDED:
        (folder / name).mkdir()
        encoders = {}
        for encoder in ("first", "second"):
            rows = {
                f"arm_{i}": (rng.normal(size=(40, 6)) * (1 + np.roll(np.arange(6), 2 * i)) / 3)
                for i in range(len(ARMS))
            }
            rows["reference"] = rng.normal(size=(50, 6))
            small = {key: value.astype(np.float16) for key, value in rows.items()}
            np.savez(folder / name / f"{encoder}.npz", **small)
            file = {"file": f"{encoder}.npz", "name": f"the {encoder}", "dimension": 6}
            encoders[encoder] = file
        card = {"name": name, "note": "clouds", "arms": ARMS, "encoders": encoders}
        card["costs"] = {"one": 1.0, "two": 5.0}
        card["cost_unit"] = "pence"
        (folder / name / "world.json").write_text(json.dumps(card), "utf-8")
    return folder


def two_objectives(world: World) -> dict[str, gx.Objective]:
    """FD and KD on the world with a reference, RKE and Vendi on the one without."""
    return dict(list(comparisons.objectives_for(world).items())[:2])


@pytest.fixture(scope="module", autouse=True)
def least(worlds: Path) -> Iterator[None]:
    """The smallest sizes at which every part of an item is still made."""
    cards = World("cards", modes(3, arms=2, d=6).arms)
    two_worlds = [load_world("fashion", worlds), cards]  # with a reference and without
    sizes = [
        (comparisons, "QUICK_ROUNDS", 14),
        (comparisons, "QUICK_REPEATS", 2),
        (comparisons, "Options", partial(Options, points=6)),
        (beyond_paper, "QUICK_ROUNDS", 43),
        (beyond_paper, "QUICK_REPEATS", 2),
        (beyond_paper, "PRICES", (0.0, 1.0)),
        (beyond_paper, "all_worlds", lambda settings: two_worlds),
        (beyond_paper, "objectives_for", two_objectives),
        (fidelity, "QUICK_WEIGHTS", (0.0, 4.0)),
        (ablations, "FREQUENCIES", (8, 16)),
        (solver_ablation, "STEPS", (1, 4, 16)),
        (solver_ablation, "RATES", (0.1, 1.0)),
        (solver_ablation, "QUICK_ROUNDS", 14),
        (keep_table, "QUICK_SIZE", (20, 8)),
        (prompt_table, "prompted_worlds", lambda settings: [specialists()]),
        (prompt_table, "QUICK_TIMES", (20, 24)),
        (prompt_table, "QUICK_REPEATS", 2),
        (downstream, "QUICK_SIZE", (20, 8)),
        (downstream, "TEACHER_ENCODER", "second"),
    ]
    with pytest.MonkeyPatch.context() as patch:
        for module, name, value in sizes:
            patch.setattr(module, name, value)
        yield


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all items, whose trials are run once."""
    return tmp_path_factory.mktemp("paper")


def without_rendering(chart: Any, stem: Path, formats: tuple[str, ...]) -> None:
    """The chart is valid Vega-Lite; others of its kind are rendered."""
    assert chart.to_dict()
    (stem.parent / f"{stem.name}.pdf").write_bytes(b"%PDF")
    (stem.parent / f"{stem.name}.png").write_bytes(b"\x89PNG")


@pytest.mark.parametrize("name", ITEMS)
def test_an_item_is_complete(
    name: str, worlds: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = ITEMS[name]
    said: list[str] = []
    settings = Settings(quick=True, worlds=worlds, out=shared, progress=said.append)
    made = item.make(settings)
    if name not in RENDERED:
        monkeypatch.setattr(charts, "save", without_rendering)
    folder = write_item(item, made, settings, fingerprint(item, settings))
    assert made.tables
    for table in made.tables:
        rows = parquet.read_table(folder / f"{table}.parquet").to_pylist()
        assert rows
        assert any(isinstance(value, float) and math.isfinite(value) for value in rows[0].values())
    for chart in made.charts:
        assert (folder / f"{chart}.pdf").read_bytes().startswith(b"%PDF")
        assert (folder / f"{chart}.png").read_bytes().startswith(b"\x89PNG")
    assert "nan" not in made.text.lower().split()
    assert item.title in (folder / "README.md").read_text("utf-8")
    assert said


def test_an_item_repeats_and_uses_what_is_there(worlds: Path, tmp_path: Path) -> None:
    item = ITEMS["fig-birds"]
    first = item.make(Settings(quick=True, worlds=worlds, out=tmp_path))
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "runs").iterdir()}
    again = item.make(Settings(quick=True, worlds=worlds, out=tmp_path, workers=2))
    other = item.make(Settings(quick=True, worlds=worlds, out=tmp_path / "other", workers=2))
    assert first.tables == again.tables == other.tables
    assert {f: f.stat().st_mtime_ns for f in (tmp_path / "runs").iterdir()} == before


def test_items_share_their_trials(
    worlds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparisons, "RECORDED", ("fashion",))
    monkeypatch.setattr(beyond_paper, "objectives_for", comparisons.objectives_for)
    settings = Settings(quick=True, worlds=worlds, out=tmp_path)
    ITEMS["fig-rke-kid"].make(settings)
    count = len(list((tmp_path / "runs").iterdir()))
    ITEMS["greedy-ucb"].make(settings)
    four_objectives, four_policies, worlds_of_it, repeats = 4, 4, 1, 2
    made = len(list((tmp_path / "runs").iterdir()))
    assert count == 2 * 4 * repeats
    assert made == four_objectives * four_policies * worlds_of_it * repeats


# -- gains -------------------------------------------------------------------------------------------


def comparison(objective: gx.Objective, **more: Any) -> Any:
    variants = read_variants(["mixture-oracle", "one-arm-oracle"])
    plan = Plan.of(modes(3), objective, variants, 8, Options(rounds=150, warm_start=2, **more))
    return run_plan(plan, workers=1)


@pytest.mark.parametrize(
    "objective", [gx.Vendi(), gx.KernelDistance(modes(3).reference, gx.Cosine())]
)
def test_a_gain_is_positive_whichever_way_the_score_goes(objective: gx.Objective) -> None:
    found = comparison(objective)
    won = paired_gain(found, "it", "Mixture oracle", "One-arm oracle")
    lost = paired_gain(found, "it", "One-arm oracle", "Mixture oracle", 50)
    assert won.verdict == "better"
    assert won.t == 150
    assert lost.verdict == "worse"
    assert 50 <= lost.t < 60
    mine = found.pooled("Mixture oracle")[:, -1]
    theirs = found.pooled("One-arm oracle")[:, -1]
    sign = 1 if found.maximise else -1
    assert won.gain.mean == pytest.approx(
        100 * sign * (mine.mean() - theirs.mean()) / theirs.mean()
    )
    assert "Better in 1, worse in 1" in verdict_counts([won, lost])
    assert "+" in gain_table([won])


def test_a_reduced_world_keeps_what_fits_into_it() -> None:
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(20, 3)))[0]
    pools = {name: rng.normal(size=(30, 3)) @ basis.T for name in "ab"}
    world = World("flat", pools, pools["a"] + pools["b"], "x")
    small = beyond_paper.reduced(world, 3)
    assert small.dimension == 3
    for name, pool in pools.items():
        assert small.arms[name] @ small.arms[name].T == pytest.approx(pool @ pool.T)
    before = gx.optimal_mixture(world.arms, gx.Vendi()).loss
    assert gx.optimal_mixture(small.arms, gx.Vendi()).loss == pytest.approx(before)
    assert beyond_paper.reduced(small, 5) is small
