"""Every item of the paper, made whole on tiny worlds: what any new item must do, too."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet
import pytest

import genmix as gx
from genmix.comparison.plan import Options, Plan
from genmix.comparison.variants import read_variants
from genmix.comparison.worlds import World, modes
from genmix.paper import ITEMS, Setting, against, beyond, playing
from genmix.paper.playing import RECORDED, Size
from genmix.paper.write import settings_of, write

ARMS = ("one", "two", "three")


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recorded worlds' names with three small clouds each."""
    folder = tmp_path_factory.mktemp("worlds")
    rng = np.random.default_rng(0)
    for name in RECORDED:
        (folder / name).mkdir()
        encoders = {}
        for encoder in ("first", "second"):
            rows = {
                f"arm_{i}": (rng.normal(size=(80, 6)) * (1 + np.roll(np.arange(6), 2 * i)) / 3)
                for i in range(len(ARMS))
            }
            rows["reference"] = rng.normal(size=(90, 6))
            small = {key: value.astype(np.float16) for key, value in rows.items()}
            np.savez(folder / name / f"{encoder}.npz", **small)
            file = {"file": f"{encoder}.npz", "name": f"the {encoder}", "dimension": 6}
            encoders[encoder] = file
        card = {"name": name, "note": "clouds", "arms": ARMS, "encoders": encoders}
        card["costs"] = {"one": 1.0, "two": 2.0, "three": 5.0}
        card["cost_unit"] = "pence"
        (folder / name / "world.json").write_text(json.dumps(card), "utf-8")
    return folder


@pytest.fixture(autouse=True)
def less(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes at which an item takes seconds."""
    monkeypatch.setattr(playing, "QUICK", 40)
    monkeypatch.setattr(beyond, "small", lambda setting, rounds=0: Size(100, 2))


@pytest.mark.parametrize("name", ITEMS)
def test_an_item_is_made_whole(name: str, worlds: Path, tmp_path: Path) -> None:
    item = ITEMS[name]
    said: list[str] = []
    setting = Setting(quick=True, worlds=worlds, out=tmp_path, progress=said.append)
    made = item.make(setting)
    folder = write(item, made, setting, settings_of(item, setting))
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
    first = item.make(Setting(quick=True, worlds=worlds, out=tmp_path))
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "runs").iterdir()}
    again = item.make(Setting(quick=True, worlds=worlds, out=tmp_path, workers=2))
    other = item.make(Setting(quick=True, worlds=worlds, out=tmp_path / "other", workers=2))
    assert first.tables == again.tables == other.tables
    assert {f: f.stat().st_mtime_ns for f in (tmp_path / "runs").iterdir()} == before


def test_items_share_their_runs(worlds: Path, tmp_path: Path) -> None:
    setting = Setting(quick=True, worlds=worlds, out=tmp_path)
    ITEMS["fig-rke-kid"].make(setting)
    count = len(list((tmp_path / "runs").iterdir()))
    ITEMS["greedy-ucb"].make(setting)
    four_objectives, four_policies, worlds_of_it, repeats = 4, 4, 4, 4
    made = len(list((tmp_path / "runs").iterdir()))
    assert count == 2 * 4 * repeats
    assert made == four_objectives * four_policies * worlds_of_it * repeats


# -- duels -------------------------------------------------------------------------------------------


def comparison(objective: gx.Objective, **more: Any) -> Any:
    from genmix.comparison.compare import carry_out

    variants = read_variants(["mixture-oracle", "one-arm-oracle"])
    plan = Plan.of(modes(3), objective, variants, 8, Options(rounds=150, warm_start=2, **more))
    return carry_out(plan, workers=1)


@pytest.mark.parametrize(
    "objective", [gx.Vendi(), gx.KernelDistance(modes(3).reference, gx.Cosine())]
)
def test_a_gain_is_positive_whichever_way_the_score_goes(objective: gx.Objective) -> None:
    found = comparison(objective)
    won = against.duel(found, "it", "Mixture oracle", "One-arm oracle")
    lost = against.duel(found, "it", "One-arm oracle", "Mixture oracle", 50)
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
    assert "Better in 1, worse in 1" in against.counted([won, lost])
    assert "+" in against.duel_table([won])


def test_a_reduced_world_keeps_what_fits_into_it() -> None:
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(20, 3)))[0]
    pools = {name: rng.normal(size=(30, 3)) @ basis.T for name in "ab"}
    world = World("flat", pools, pools["a"] + pools["b"], "x")
    small = beyond.reduced(world, 3)
    assert small.dimension == 3
    for name, pool in pools.items():
        assert small.arms[name] @ small.arms[name].T == pytest.approx(pool @ pool.T)
    before = gx.optimal_mixture(world.arms, gx.Vendi()).loss
    assert gx.optimal_mixture(small.arms, gx.Vendi()).loss == pytest.approx(before)
    assert beyond.reduced(small, 5) is small
