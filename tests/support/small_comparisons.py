"""Comparisons that take about a second, and policies that only the tests know."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import genmix as gx
from genmix.comparison.compare import compare
from genmix.comparison.plan import Options, Plan
from genmix.comparison.variant import read_variants
from genmix.comparison.worlds import modes
from genmix.policies import Decision, Situation

WORLD = modes(3)
OBJECTIVES: dict[str, gx.Objective] = {
    "FD": gx.FrechetDistance(WORLD.reference),
    "KD": gx.KernelDistance(WORLD.reference, gx.Cosine()),
    "RKE": gx.RKE(gx.Cosine()),
    "Vendi": gx.Vendi(),
}


def plan_of(objective: gx.Objective, policies: Any = None, repeats: int = 2, **more: Any) -> Plan:
    options = Options(**({"rounds": 120, "warm_start": 4} | more))
    return Plan.of(WORLD, objective, read_variants(policies), repeats, options)


def small(**more: Any) -> gx.Comparison:
    given = {"objective": gx.RKE(gx.Cosine()), "budget": 120, "warm_start": 4, "repeats": 3}
    return compare(WORLD, **({"workers": 1} | given | more))


def stored_trials(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in (folder / "runs").glob("*.json")}


@dataclass(frozen=True, eq=False)
class FirstArm(gx.Policy):
    """Always the first arm, or an error."""

    fails: bool = False

    def decide(self, situation: Situation) -> Decision:
        if self.fails:
            raise gx.InputError("the policy gave up.")
        return Decision(np.eye(len(situation.arms))[0])


class OneArm(gx.Policy):
    """Always the same arm; without a dataclass, so that its parameter is not part of any key."""

    def __init__(self, arm: int) -> None:
        self.arm = arm

    def decide(self, situation: Situation) -> Decision:
        return Decision(np.eye(len(situation.arms))[self.arm])
