"""The paper's tables and bars on worlds whose answers are known, and against ``diagnose``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix import InputError
from genmix.comparison.worlds import World
from genmix.paper import distance_bars as bars
from genmix.paper.feature_files import LoadedDataset, load_datasets
from genmix.paper.innovation_table import make_innovation
from genmix.paper.interiority_table import make_interiority
from genmix.paper.items import ItemOutput, Settings
from genmix.paper.published import INNOVATION, INTERIORITY
from genmix.paper.subsamples import halves
from tests.support.helpers import Matrix, gaussian_arms
from tests.support.paper_worlds import write_world, write_worlds


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_worlds(tmp_path_factory.mktemp("worlds"))


@pytest.fixture(scope="module")
def settings(worlds: Path) -> Settings:
    return Settings(quick=True, worlds=worlds)


@pytest.fixture(scope="module")
def innovation(settings: Settings) -> ItemOutput:
    return make_innovation(settings)


@pytest.fixture(scope="module")
def interiority(settings: Settings) -> ItemOutput:
    return make_interiority(settings)


def rows_of(made: ItemOutput, table: str, data: str) -> list[dict[str, Any]]:
    return [row for row in made.tables[table] if row["data"] == data]


# -- halves ------------------------------------------------------------------------------------------


def test_halves_are_disjoint_whole_and_repeatable() -> None:
    arms = {"a": np.arange(9.0)[:, None], "b": np.arange(4.0)[:, None]}
    first, second = halves(arms, 0, 3)
    for name, rows in arms.items():
        both = np.concatenate([first[name], second[name]])
        assert np.array_equal(np.sort(both, 0), rows)
        assert len(first[name]) == len(rows) // 2
    again, _ = halves({"b": arms["b"], "a": arms["a"]}, 0, 3)
    assert all(np.array_equal(first[name], again[name]) for name in arms)
    other, _ = halves(arms, 1, 3)
    assert not np.array_equal(other["a"], first["a"])


# -- innovation --------------------------------------------------------------------------------------


def test_arms_with_a_direction_to_themselves_have_gap_one(innovation: ItemOutput) -> None:
    for row in rows_of(innovation, "innovation", "breeds"):
        assert row["gap"] == row["gap_mean"] == row["held_out_mean"] == pytest.approx(1.0)
        assert (row["own"], row["others"]) == pytest.approx((1.0, 0.0))
        assert row["gap_std"] == pytest.approx(0.0)
        assert row["positive"] == row["subsamples"] == 10
        assert (row["stands_for"], row["published"]) == ("dogs", None)
    assert "ε_0 < ν_0/8 holds" in innovation.text


def test_the_gap_of_overlapping_arms(tmp_path: Path) -> None:
    """a is half e0, half e1; b is e1: δ_a = 1/2 along e0, δ_b = 1 − 1/2 along e1."""
    e0, e1 = np.eye(2)
    arms = {"a": np.array([e0, e1] * 20), "b": np.array([e1] * 40)}
    for name in ("fashion", "breeds", "boots", "city"):
        write_world(tmp_path, name, arms)
    made = make_innovation(Settings(quick=True, worlds=tmp_path))
    for row in rows_of(made, "innovation", "city"):
        assert row["gap"] == pytest.approx(0.5)
        assert row["others"] == pytest.approx(0.0 if row["arm"] == "a" else 0.5)


def test_innovation_is_what_diagnose_finds(innovation: ItemOutput, worlds: Path) -> None:
    (source,) = load_datasets(Settings(worlds=worlds), ["ffhq"])
    expected = gx.diagnose(source.world.arms, gx.Vendi(), repeats=10)
    for row in rows_of(innovation, "innovation", "fashion"):
        arm = expected.arms[row["arm"]]
        assert arm.subsampled is not None
        assert row["gap"] == pytest.approx(arm.innovation.gap)
        assert row["gap_mean"] == pytest.approx(arm.subsampled.innovation.mean)
        assert row["gap_std"] == pytest.approx(arm.subsampled.innovation.std)


def test_noise_alone_does_not_pass_the_held_out_half(tmp_path: Path) -> None:
    """Three arms of one distribution with fewer samples than dimensions: δ > 0, held out it is not."""
    rng = np.random.default_rng(0)
    arms = {f"a{i}": rng.standard_normal((40, 60)) for i in range(3)}
    for name in ("fashion", "breeds", "boots", "city"):
        write_world(tmp_path, name, arms)
    made = make_innovation(Settings(quick=True, worlds=tmp_path))
    for row in rows_of(made, "innovation", "fashion"):
        assert row["gap_mean"] > 0.02
        assert row["held_out_mean"] < 0
    assert "No direction sets these arms apart on held-out samples: a0, a1, a2" in made.text


def test_the_papers_innovation_table_is_below_and_called_other_data(innovation: ItemOutput) -> None:
    published = innovation.tables["published"]
    assert len(published) == sum(map(len, INNOVATION.values())) == 24
    ours, paper = innovation.text.split("### The paper's table")
    assert "data differ from breeds, boots, city, fashion, so only" in paper
    assert "| FFHQ             |         Efficient-VDVAE | 0.008 |" in paper
    assert "δ in the paper" not in ours
    assert "fashion (in place of FFHQ, ImageNet, LSUN-Bedroom)" in ours


def test_published_values_stand_beside_the_papers_own_data(tmp_path: Path, worlds: Path) -> None:
    for i, breed in enumerate(("poodle", "bulldog", "german-shepherd", "pug")):
        (tmp_path / "dogs").mkdir(exist_ok=True)
        np.savez(tmp_path / "dogs" / f"{breed}.npz", dino_features=np.repeat(np.eye(4)[[i]], 9, 0))
    made = make_innovation(Settings(quick=True, worlds=worlds, features=tmp_path))
    dogs = {row["arm"]: row["published"] for row in rows_of(made, "innovation", "dogs")}
    assert dogs == {"Poodle": 0.26, "Bulldog": 0.35, "German Shepherd": 0.29, "pug": None}
    assert not rows_of(made, "innovation", "breeds")
    assert "δ in the paper" in made.text
    assert "The data are the same as above for Dogs" in made.text
    assert "models that are not in the paper: pug" in made.text


# -- interiority -------------------------------------------------------------------------------------


def test_orthonormal_arms_under_rke_have_known_weights_and_gaps(interiority: ItemOutput) -> None:
    """m arms of one point each, all √2 apart: K = (1−c)I + c with c = k(√2)², so that the least loss is
    c + (1−c)/m, and without an arm c + (1−c)/(m−1)."""
    sigma = np.sqrt(2)
    c = np.exp(-2 / (2 * sigma**2)) ** 2
    for row in rows_of(interiority, "interiority", "breeds"):
        assert row["weight"] == row["weight_mean"] == pytest.approx(1 / 4)
        expected = (1 - c) * (1 / 3 - 1 / 4)
        assert row["gap"] == row["gap_mean"] == pytest.approx(expected)
        assert row["gap_std"] == pytest.approx(0, abs=1e-12)
        assert row["active"]
        assert row["active_in"] == 10
        assert 0 < row["margin"] < row["gap"]
    assert "bandwidth=1.414," in interiority.text


def test_interiority_is_what_diagnose_finds(interiority: ItemOutput, worlds: Path) -> None:
    (source,) = load_datasets(Settings(worlds=worlds), ["ffhq"])
    objective = gx.FrechetDistance(source.world.reference)
    expected = gx.diagnose(source.world.arms, objective, repeats=10)
    for row in rows_of(interiority, "interiority", "fashion"):
        arm = expected.arms[row["arm"]]
        assert arm.subsampled is not None
        assert row["weight"] == pytest.approx(arm.weight)
        assert row["margin"] == pytest.approx(arm.margin)
        assert row["weight_mean"] == pytest.approx(arm.subsampled.weight.mean)
        assert row["weight_std"] == pytest.approx(arm.subsampled.weight.std)
        assert row["gap_mean"] == pytest.approx(arm.subsampled.leave_one_out.mean)
        assert row["active_in"] == arm.subsampled.active


def test_an_idle_arm_is_named(interiority: ItemOutput) -> None:
    [idle] = [r for r in rows_of(interiority, "interiority", "city") if not r["active"]]
    assert idle["arm"] == "city 1"
    # Six splits of 40 samples do not show that the others can replace it.
    assert idle["role"] == "unclear"
    assert "Unclear with 40 samples: city 1" in interiority.text
    assert "does not hold" in interiority.text


def test_every_arm_of_one_point_is_needed_beyond_chance(interiority: ItemOutput) -> None:
    for row in rows_of(interiority, "interiority", "breeds"):
        assert row["role"] == "needed"
        assert row["gap_beyond_mean"] == pytest.approx(row["gap"])
        assert row["gap_beyond_std"] == pytest.approx(0, abs=1e-12)
        assert 0 < row["margin_beyond_mean"] <= row["margin"] + 1e-12
    assert "Every arm is needed in the best mixture. The assumption" in interiority.text
    assert "needs more than γ_0 = 0.025 of every arm holds." in interiority.text


def test_copies_are_not_called_needed_nor_innovative(tmp_path: Path) -> None:
    """Arms of one distribution: gaps are positive on all samples and on every half, by chance."""
    rng = np.random.default_rng(2)
    scales = np.linspace(2, 0.2, 32)
    arms = {f"copy {i}": rng.standard_normal((300, 32)) * scales + 0.3 for i in range(3)}
    reference = rng.standard_normal((1200, 32)) * scales + 0.3
    for name in ("fashion", "breeds", "boots", "city"):
        write_world(tmp_path, name, arms, reference)
    settings = Settings(quick=True, worlds=tmp_path)
    made = make_interiority(settings)
    fashion = rows_of(made, "interiority", "fashion")
    assert all(row["gap"] > 0 and row["active_in"] == row["subsamples"] for row in fashion)
    assert {row["role"] for row in made.tables["interiority"]} <= {"unclear", "idle"}
    assert "Unclear with 300 samples: copy 0, copy 1, copy 2. The" in made.text
    assert "needs more than γ_0 = 0.0333 of every arm may hold only by chance." in made.text
    assert "is needed in" not in made.text
    assert " holds." not in made.text
    assert "Every gap is also positive" not in make_innovation(settings).text


def test_the_papers_interiority_table_is_below(interiority: ItemOutput) -> None:
    count = sum(len(models) for sets in INTERIORITY.values() for models in sets.values())
    assert len(interiority.tables["published"]) == count == 21
    assert "| FFHQ         |             LDM |   0.4 ± 0.02 | 12.54 ± 0.85 |" in interiority.text
    assert interiority.text.count("### The paper's table") == 2


@pytest.mark.parametrize(
    ("dataset", "encoder", "is_paper", "expected"),
    [
        ("dogs", "dinov2", True, 40.0),
        ("dogs", None, True, 40.0),
        ("dogs", "clip", True, "median"),
        ("city", "sbert", True, "median"),
        ("city", None, True, "median"),
        ("dogs", "dinov2", False, "median"),
    ],
)
def test_the_bandwidth(dataset: str, encoder: str | None, is_paper: bool, expected: Any) -> None:
    source = LoadedDataset(World("x", {}, None, encoder), (dataset,), is_paper)
    assert source.bandwidth == expected


def test_a_distance_without_real_data_is_refused(tmp_path: Path, worlds: Path) -> None:
    for model in ("LDM", "InsGen"):
        (tmp_path / "ffhq").mkdir(exist_ok=True)
        np.savez(tmp_path / "ffhq" / f"{model}.npz", dino_features=np.eye(3))
    settings = Settings(quick=True, worlds=worlds, features=tmp_path)
    with pytest.raises(InputError, match=r"FFHQ has no file of real data.*real\.npz\."):
        make_interiority(settings)


@pytest.mark.drill
def test_the_number_of_workers_changes_nothing(settings: Settings, innovation: ItemOutput) -> None:
    lines: list[str] = []
    two = Settings(quick=True, worlds=settings.worlds, workers=2, progress=lines.append)
    assert make_innovation(two).tables == innovation.tables
    assert lines[-1] == "table-innovation, fashion: 10/10"


# -- bars --------------------------------------------------------------------------------------------


def source_of(arms: dict[str, Matrix], reference: Matrix) -> LoadedDataset:
    return LoadedDataset(World("fashion", arms, reference, "x"), ("ffhq",), False)


def test_bars_of_identical_arms_are_equal() -> None:
    """A mixture of arms of one distribution is no better than an arm, since every set has one size."""
    rng = np.random.default_rng(1)
    arms = {f"a{i}": rng.standard_normal((400, 8)) for i in range(4)}
    source = source_of(arms, rng.standard_normal((2000, 8)))
    rows, gains = bars.measure(Settings(quick=True), source)
    means = {row["set"]: row["fd_mean"] for row in rows}
    worst = max(row["fd_std"] for row in rows)
    best = min(means[name] for name in arms)
    assert abs(means[bars.MIXTURE] - best) < 3 * worst
    assert means[bars.MIXTURE] > 0.6 * np.mean([means[name] for name in arms])
    assert len(gains) == 10


def test_bars_of_complementary_arms() -> None:
    rng = np.random.default_rng(2)
    left, right = (rng.standard_normal((300, 3)) + side * np.eye(3)[0] for side in (-3, 3))
    source = source_of({"left": left, "right": right}, np.concatenate([left, right]))
    rows, gains = bars.measure(Settings(quick=True), source)
    means = {row["set"]: row["fd_mean"] for row in rows}
    assert means[bars.MIXTURE] < 0.2 < 8 < min(means["left"], means["right"])
    assert means[bars.EVEN] == pytest.approx(means[bars.MIXTURE], abs=0.1)
    assert all(row["gain"] > 8 for row in gains)
    kinds = {row["set"]: row["kind"] for row in rows}
    assert kinds == {"left": "arm", "right": "arm", bars.EVEN: "even", bars.MIXTURE: "mixture"}
    said = bars.report(source, rows, gains)
    assert "in 10 of 10 splits" in said
    assert "164.13" in said
    assert (
        "155.13 for the mixture, which is 9.00 lower. The data above are from fashion, so" in said
    )
    real = LoadedDataset(source.world, ("ffhq",), True)
    assert "FD in the paper" in bars.report(real, rows, gains)


def test_a_drawn_set_has_the_shares_and_no_sample_twice() -> None:
    arms = {"a": np.arange(10.0)[:, None], "b": 100 + np.arange(10.0)[:, None]}
    rows = bars.drawn(arms, {"a": 0.26, "b": 0.74}, 10, np.random.default_rng(0))
    assert (len(rows), len(np.unique(rows)), int((rows < 50).sum())) == (10, 10, 3)


def test_gaussian_arms_have_the_distances_of_their_halves() -> None:
    rng = np.random.default_rng(3)
    first, second = gaussian_arms(rng, (40, 40), 3)
    source = source_of({"a": first, "b": second}, first)
    found = bars.measure_split(({"a": first, "b": second}, gx.FrechetDistance(first), 0), 4)
    half = halves(source.world.arms, 0, 4)[1]
    expected = gx.score(half, gx.FrechetDistance(first)).arms
    assert found["fd"]["a"] == pytest.approx(float(expected["a"]["frechet_distance"]))
    assert found["fd"]["b"] == pytest.approx(float(expected["b"]["frechet_distance"]))
    assert found["samples"] == 20
