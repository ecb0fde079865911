"""An exact kernel has a limit on samples: it is compared with the budget before anything is paid for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.objectives import vendi
from genmix.runs import prepare
from genmix.runs.check import check_study
from genmix.runs.spending import supply
from genmix.study.study import study_from

SENTENCE = (
    "the budget does not limit the number of samples, but an exact kernel allows at most 4000; add "
    "'features: 512' to the kernel, or set budget.samples to at most 4000."
)

EXACT: list[Any] = [
    {"vendi": {"kernel": "gaussian"}},
    {"quality-vendi": {"kernel": {"gaussian": {"bandwidth": 2.0}}}},
    [{"vendi": {"kernel": "gaussian"}}, {"cost": {"weight": 0.1}}],
]

ARMS = """
import numpy as np

def make(seeds):
    with open(LEDGER, "a") as ledger:
        ledger.write("x" * len(seeds))
    rows = [np.random.default_rng(seed).normal(size=3).tolist() for seed in seeds]
    return [{"vector": row, "quality": 1.0, "cost": 0.5} for row in rows]
"""


class Place:
    """A folder with two arms that cost money, and a ledger of what was billed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ledger = folder / "ledger"
        (folder / "arms.py").write_text(ARMS.replace("LEDGER", repr(str(self._ledger))))

    @property
    def billed(self) -> int:
        return len(self._ledger.read_text()) if self._ledger.exists() else 0

    def study(self, **changes: Any) -> Path:
        arms = {name: {"kind": "callable", "function": "arms:make"} for name in ("one", "two")}
        plain = {"arms": arms, "objective": EXACT[0], "budget": {"cost": 10.0}, "warm_start": 2}
        path = self.folder / "study.yaml"
        path.write_text(json.dumps(plain | changes))  # JSON is YAML
        return path

    def run(self, **changes: Any) -> gx.Run:
        return gx.run(self.study(**changes), self.folder / "run")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.parametrize("budget", [{"cost": 10.0}, {"time": 60}, {"cost": 10.0, "time": 60}])
@pytest.mark.parametrize("objective", EXACT)
def test_a_budget_without_a_limit_is_refused_before_it_is_spent(
    place: Place, budget: dict[str, Any], objective: Any
) -> None:
    with pytest.raises(gx.InputError) as refused:
        place.run(budget=budget, objective=objective)
    assert str(refused.value) == SENTENCE
    assert place.billed == 0
    assert not (place.folder / "run").exists()


def test_check_says_so_without_drawing(place: Place) -> None:
    assert check_study(place.study()).problems == [SENTENCE]
    assert place.billed == 0
    assert check_study(place.study(budget={"samples": 4000, "cost": 10.0})).problems == []
    assert place.billed == 2


@pytest.mark.parametrize(
    "changes",
    [
        {"budget": {"samples": 6, "cost": 10.0}},
        {
            "objective": {"vendi": {"kernel": {"gaussian": {"features": 8}}}},
            "budget": {"cost": 4.0},
        },
        {"objective": "vendi", "budget": {"cost": 4.0}},
        {"objective": "rke", "budget": {"cost": 4.0}},
    ],
)
def test_other_budgets_and_kernels_run(place: Place, changes: dict[str, Any]) -> None:
    assert place.run(**changes).status == "finished"


def test_recorded_arms_have_a_limit_of_their_own(tmp_path: Path) -> None:
    """The arms can supply 4000 samples in total, but not one more."""
    rows = np.random.default_rng(0).normal(size=(2001, 2))
    np.save(tmp_path / "most.npy", rows[:2000])
    np.save(tmp_path / "more.npy", rows)
    most, more = (
        {"kind": "recorded", "path": str(tmp_path / f"{n}.npy")} for n in ("most", "more")
    )
    for second, is_fine in ((most, True), (more, False)):
        arms = {"one": most, "two": second}
        plain = study_from({"arms": arms, "objective": EXACT[0], "budget": {"time": 60}})
        generators = prepare.make_generators(plain, tmp_path)
        if is_fine:
            supply.check_supply(plain, generators)
        else:
            with pytest.raises(gx.InputError, match="features: 512"):
                supply.check_supply(plain, generators)


def test_a_run_from_before_ends_at_the_limit(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was started without the check; it stops at the limit and keeps every sample."""
    monkeypatch.setattr(vendi, "EXACT_LIMIT", 9)
    monkeypatch.setattr(supply, "EXACT_LIMIT", 9)
    monkeypatch.setattr(supply, "_check_sample_limit", lambda study, counts: None)
    run = place.run(budget={"cost": 50.0})
    assert run.status == "finished"
    assert sum(run.counts.values()) == 9
    assert run.summary["cost"] == pytest.approx(9 * 0.5)
    assert place.billed == 9


def test_a_selector_refuses_one_sample_more_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vendi, "EXACT_LIMIT", 8)
    rng = np.random.default_rng(0)
    selector = gx.Selector(["a", "b"], gx.Vendi(kernel=gx.Gaussian(1.0)), warm_start=2)
    for ticket in selector.ask(8):
        selector.tell(ticket, rng.normal(size=2))
    [ticket] = selector.ask()
    before = (selector.weights, selector.gap, selector.score, selector.counts)
    with pytest.raises(gx.InputError, match=r"use Gaussian\(features=512\) or Cosine"):
        selector.tell(ticket, rng.normal(size=2))
    assert (selector.weights, selector.gap, selector.score, selector.counts) == before
    assert selector.in_flight == (ticket,)
    selector.save(tmp_path / "selector.npz")
    again = gx.Selector.load(tmp_path / "selector.npz")
    assert again.counts == before[3]
    assert again.weights == before[0]
