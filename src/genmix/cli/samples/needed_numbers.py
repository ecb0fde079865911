"""Refuse samples without the quality or cost that a command needs, and name their file and column."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from genmix.errors import InputError

if TYPE_CHECKING:
    from genmix.cli.samples.arguments import Inputs
    from genmix.data.loaded_arm import LoadedArm
    from genmix.objectives import Objective


def check_numbers(
    given: Inputs, quality_for: str | None = None, cost_for: str | None = None
) -> None:
    """Raise InputError if an arm lacks a number that the objective needs, or an option that is named."""
    needed = numbers_of(given.objective)
    if quality_for is not None:
        needed["quality"] = quality_for
    if cost_for is not None:
        needed["cost"] = cost_for
    for name, option in needed.items():
        for arm in given.loaded:
            if getattr(arm, name) is None:
                raise InputError(_missing(arm, name, option))


def numbers_of(objective: Objective) -> dict[str, str]:
    """Return the numbers that an objective needs, and what needs them."""
    from genmix.objectives import Cost, Quality, QualityVendi, Sum

    terms = [term for _, term in objective.terms] if isinstance(objective, Sum) else [objective]
    needed = {}
    if any(isinstance(term, Quality | QualityVendi) for term in terms):
        needed["quality"] = "the objective"
    if any(isinstance(term, Cost) for term in terms):
        needed["cost"] = "the objective"
    return needed


def _missing(arm: LoadedArm, name: str, option: str) -> str:
    from genmix.inputs.run_arms import is_run

    if name in arm.missing:
        return f"{arm.missing[name]} has no {name}, which {option} needs; add a number for every sample."
    if is_run(Path(arm.source)):
        return (
            f"arm {arm.label!r} of {arm.source} has no {name}, which {option} needs; its generator must "
            "return one for every sample."
        )
    return (
        f"{arm.source} has no {name}, which {option} needs; add a number for every sample, as the column or "
        f"array {name!r}."
    )
