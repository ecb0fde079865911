"""The items about keep: the table against other rules, and the classifier trained on kept samples."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import genmix as gx
from genmix.comparison.worlds import World, load_world
from genmix.paper import Settings, downstream, keep_table
from genmix.paper.comparisons import RECORDED
from genmix.paper.downstream import SAME_COST, SAME_SIZE, Task
from genmix.paper.keep_table import Problem
from genmix.paper.student import STUDENTS, Scaling, softmax_regression
from tests.support.paper_worlds import write_worlds


def check_keep(found: dict[str, dict[str, float]]) -> None:
    kept = found["keep"]["score"]
    assert kept <= found["keep"]["bound"] * (1 + 1e-9)
    assert kept >= 0.999 * found["lazy greedy"]["score"]
    chosen = [name for name in found if name not in ("keep", "lazy greedy") and "all " not in name]
    assert len(chosen) >= 4
    for name in chosen:
        assert kept > found[name]["score"]


def test_keep_beats_the_other_rules_in_its_own_objective() -> None:
    check_keep(keep_table.one_draw(Problem.of(load_world("boots"), (60, 20), 0), 0)["Vendi"])


@pytest.mark.long
@pytest.mark.parametrize("name", RECORDED)
def test_keep_is_never_behind_on_the_recorded_worlds(name: str) -> None:
    """At the size of the published table; smaller sets are not promised to beat greedy on every draw."""
    found = keep_table.one_draw(Problem.of(load_world(name), keep_table.SIZE, 0), 0)["Vendi"]
    check_keep(found)


def test_the_scores_of_several_sets_are_those_of_each() -> None:
    rng = np.random.default_rng(0)
    sets = [rng.standard_normal((n, 3)) for n in (7, 4, 9)]
    reference = rng.standard_normal((20, 3))
    for objective in (
        gx.Vendi(),
        gx.KernelDistance(reference, gx.Gaussian(1.0)),
        gx.Precision(reference),
    ):
        alone = [float(gx.score({"set": rows}, objective).pooled[objective.name]) for rows in sets]
        assert keep_table.scores_of(objective, sets) == pytest.approx(alone, rel=1e-9)


def test_the_page_states_gap_and_verdicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keep_table, "QUICK_SIZE", (20, 6))
    write_worlds(tmp_path)
    made = keep_table.keep_table(Settings(quick=True, worlds=tmp_path))
    assert made.text.count("a gap of") == 6  # Vendi on four worlds, KD on the two with a reference
    assert made.text.count("over lazy greedy") == 4
    rows = made.tables["rules"]
    assert {row["objective"] for row in rows} == {"Vendi", "KD"}
    for row in rows:
        assert (row["bound"] is not None) == (row["rule"] == "keep")
        assert (row["precision"] is None) == (row["world"] in ("breeds", "boots"))


# -- downstream --------------------------------------------------------------------------------------


def test_the_reference_of_fashion_is_sorted_by_class() -> None:
    world = load_world("fashion", encoder="classifier")
    task = Task(world, world, (300, 100), 0)
    known, test = task.split(np.random.default_rng(0))
    rows = Scaling.of(world.need_reference())(world.need_reference())
    found = softmax_regression(rows[known], task.labels[known], 10)(rows[test])
    assert np.mean(found == task.labels[test]) > 0.88
    assert sorted([*known, *test]) == list(range(4000))
    assert np.bincount(task.labels[test]).tolist() == [200] * 10


def toy(noise: int = 60) -> Task:
    """Real images of ten classes, an arm that imitates them, and one that produces far-away garbage."""
    rng = np.random.default_rng(0)
    centers = 3 * rng.standard_normal((10, 5))
    real = np.repeat(centers, 12, axis=0) + rng.standard_normal((120, 5))
    good = np.tile(centers, (12, 1)) + rng.standard_normal((120, 5))
    bad = 2 + 9 * rng.standard_normal((noise, 5))
    costs = {"good": 10.0, "bad": 1.0}
    seen = World("toy", {"good": good, "bad": bad}, real, "coordinates", costs)
    return Task(seen, replace(seen, name="teacher"), (40, 20), 0)


@pytest.fixture
def only_kd(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep by KD, which is the fastest."""
    objectives = downstream.keep_objectives
    monkeypatch.setattr(downstream, "keep_objectives", lambda real: {"KD": objectives(real)["KD"]})


@pytest.mark.usefixtures("only_kd")
def test_keep_by_the_distance_helps_where_half_of_the_samples_are_garbage() -> None:
    results = [downstream.one_seed(toy(), seed) for seed in range(4)]
    assert all(each["teacher"] > 70 for each in results)
    accuracies: dict[str, list[float]] = {}
    for row in (row for each in results for row in each["sets"]):
        accuracies.setdefault(row["set"], []).append(row["softmax regression"])
    mean = {name: float(np.mean(values)) for name, values in accuracies.items()}
    assert mean["even, keep KD"] > mean["even, random"] + 3
    assert mean["mixture, all 40"] > mean["even, random"] + 3


@pytest.mark.usefixtures("only_kd")
def test_sets_have_the_sizes_and_costs_that_their_table_promises() -> None:
    task, rng = toy(), np.random.default_rng(1)
    generated = np.concatenate(list(task.seen.arms.values()))
    sets = downstream.training_sets(task, task.seen.need_reference()[::2], generated, rng)
    rows = {(each["comparison"], each["set"]): each["rows"] for each in sets}
    assert {len(found) for (table, _), found in rows.items() if table == SAME_SIZE} == {20}
    assert all(len(set(found.tolist())) == len(found) for found in rows.values())
    everything = rows[SAME_COST, "mixture, all 40"]
    for name in ("keep KD", "facility location", "similarity threshold"):
        chosen = rows[SAME_SIZE, f"mixture, {name}"]
        assert set(chosen) < set(everything)
        assert chosen.tolist() == rows[SAME_COST, f"mixture, {name}"].tolist()
    assert (rows[SAME_SIZE, "one arm (good)"] < 120).all()
    cheap = rows[SAME_COST, "bad, at the recorded cost"]  # its whole pool
    assert sorted(cheap) == list(range(120, 180))
    against = {each["set"]: each["against"] for each in sets if each["comparison"] == SAME_SIZE}
    assert against["mixture, random"] is None
    assert against["even, keep KD"] == "even, random"


def test_gains_are_paired_and_corrected() -> None:
    rng = np.random.default_rng(0)
    base = rng.normal(60, 5, size=12)
    shifts = {"base": 0.0, "better": 2.0, "equal": 0.0}
    results = [
        [
            {
                "comparison": SAME_SIZE,
                "set": name,
                "n": 10,
                "against": None if name == "base" else "base",
                "student": value + shift + (rng.normal(0, 0.5) if name != "base" else 0),
            }
            for name, shift in shifts.items()
        ]
        for value in base
    ]
    rows = {row["set"]: row for row in downstream._compared(results, SAME_SIZE, "student")}
    assert rows["better"]["verdict"] == "better"
    assert rows["better"]["low"] < 2.0 < rows["better"]["high"]
    assert rows["equal"]["verdict"] == "no significant difference"
    assert rows["base"]["gain"] is None
    text = downstream._table(list(rows.values()))
    assert "| base " in text
    assert len(text.splitlines()) == 5
    assert set(STUDENTS) == {"softmax regression", "nearest neighbor"}
