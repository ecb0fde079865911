"""A diagnosis as text: two tables, and the verdict in words.

Statements about the arms themselves, not just the given samples, require evidence from random halves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from genmix.core.text import aligned, listed, number
from genmix.diagnosis.evidence import SPLITS
from genmix.diagnosis.resampling import Spread
from genmix.diagnosis.thresholds import CHANCE_SIGMAS, SEPARATION

if TYPE_CHECKING:
    from genmix.diagnosis.diagnosis import Diagnosis, Role


STRICTER = (
    "This test is stricter than the intervals of the weights: it uses half of the samples at a time and "
    f"checks, at {CHANCE_SIGMAS:g} standard deviations, whether other arms could take over an arm's share at "
    "no loss. So an arm can be unclear here even if its interval excludes 0."
)


# -- the verdict -------------------------------------------------------------------------------------


def sentences(found: Diagnosis) -> tuple[str, ...]:
    """Return the verdict, one sentence per entry."""
    if len(found.arms) == 1:
        return ("There is only one arm, so there is nothing to mix.",)
    return (*_roles(found), *_innovation(found), _interiority(found))


def _roles(found: Diagnosis) -> list[str]:
    lines = []
    if needed := _with_role(found, "needed"):
        lines.append(f"The mixture needs {listed(needed)}.")
    if spare := _with_role(found, "replaceable"):
        has = "has" if len(spare) == 1 else "have"
        which = {1: "it", 2: "either of them"}.get(len(spare), "any one of them")
        lines.append(
            f"{listed(spare)} {has} weight, but the other arms can replace {which} at no loss."
        )
    if idle := _with_role(found, "idle"):
        lines.append(f"{listed(idle)} {'adds' if len(idle) == 1 else 'add'} nothing.")
    if unclear := _with_role(found, "unclear"):
        lines.append(
            f"With {sample_count(found, unclear)} it is unclear whether the mixture needs "
            f"{listed(unclear, 'or')}."
        )
        if any(found.arms[name].evidence is not None for name in unclear):
            lines.append(STRICTER)
    return lines


def _with_role(found: Diagnosis, role: Role) -> list[str]:
    return [name for name, arm in found.arms.items() if arm.role == role]


def _innovation(found: Diagnosis) -> list[str]:
    others = [name for name in found.arms if name not in found.innovative]
    if not others:
        return [
            "Innovation: every arm has a direction of its own, confirmed on held-out samples; along "
            f"these directions the paper's assumption ε_0 < ν_0/{SEPARATION} "
            f"{'holds' if found.separates else 'does not hold'} "
            f"(ν_0 = {found.nu:.4g}, ε_0 = {found.epsilon:.4g})."
        ]
    lines = []
    if found.alike:
        lines.append(
            "Innovation: the paper's condition fails, because no direction sets "
            f"{listed(found.alike, 'or')} apart from all other arms together."
        )
    if unclear := [name for name in others if name not in found.alike]:
        lines.append(
            f"Innovation: with {sample_count(found, unclear)} it is unclear whether a direction sets "
            f"{listed(unclear, 'or')} apart from all other arms together."
        )
    return lines


def _interiority(found: Diagnosis) -> str:
    level = f"at γ_0 = {found.gamma:.4g}"
    if found.is_interior:
        least = min(arm.margin for arm in found.arms.values())
        return (
            f"Interiority: {level} the paper's assumption holds beyond chance, with a margin of "
            f"{least:.4g} on these samples."
        )
    if found.lacking:
        return (
            f"Interiority: the paper assumes that every arm needs a weight above γ_0 = {found.gamma:.4g} in "
            f"the best mixture, but on these samples {listed(found.lacking)} "
            f"{'does' if len(found.lacking) == 1 else 'do'} not."
        )
    unclear = [name for name, arm in found.arms.items() if not arm.is_interior]
    return (
        f"Interiority: with {sample_count(found, unclear)} it is unclear whether the paper's "
        f"assumption holds {level} for {listed(unclear)}."
    )


def sample_count(found: Diagnosis, names: Sequence[str]) -> str:
    """Say how many samples these arms have, e.g. ``40 to 60 samples``."""
    counts = sorted({found.arms[name].n for name in names})
    several = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{several} {'sample' if counts == [1] else 'samples'}"


# -- the page ----------------------------------------------------------------------------------------


def page(found: Diagnosis) -> str:
    """Format the tables, scores and verdict as plain text."""
    lines = [
        "Innovation: λ_max(S_i − Σ S_j) on unit-norm embeddings",
        *aligned(_innovation_rows(found)),
        "",
        "Interiority: the best mixture, and how much the minimum loss increases with less of an arm",
        *aligned(_interiority_rows(found)),
        "",
        *(f"mixture: {score}" for score in found.scores.values()),
        f"mixture: loss {found.mixture.loss:.8g}, at most {number(found.mixture.gap, 2)} above the minimum "
        "on these samples",
    ]
    if found.repeats:
        size = "half of each arm" if found.subsample is None else f"{found.subsample} per arm"
        lines.append(f"±: mean and standard deviation over {found.repeats} subsamples, {size}")
    if len(found.arms) > 1:
        lines += [
            f"held out, beyond chance: mean and standard deviation over {SPLITS} random splits into "
            f"halves; the verdict requires a mean above {CHANCE_SIGMAS:g} standard deviations",
            "held out: the gap along the direction found on one half, measured on the other half",
            "beyond chance: the increase if the same number of samples from the best mixture of the other "
            "arms take the arm's share",
        ]
    return "\n".join([*lines, "", *found.verdict])


def _innovation_rows(found: Diagnosis) -> list[list[str]]:
    heading = ["arm", "n", "gap", "own", "others", "held out"]
    rows = [[*heading, "gap ±"] if found.repeats else heading]
    for name, arm in found.arms.items():
        gap = arm.innovation
        held_out = None if arm.evidence is None else arm.evidence.innovation
        numbers = [f"{gap.gap:.4g}", f"{gap.own:.4g}", f"{gap.others:.4g}"]
        row = [name, str(arm.n), *numbers, _or_dash(held_out)]
        rows.append(row if arm.subsampled is None else [*row, str(arm.subsampled.innovation)])
    return rows


def _interiority_rows(found: Diagnosis) -> list[list[str]]:
    heading = ["arm", "weight", "left out", "beyond chance"]
    heading += [f"at most {found.gamma:.3g}", "beyond chance", "active"]
    more = ["weight ±", "left out ±", "active in"]
    rows = [heading + more if found.repeats else heading]
    for name, arm in found.arms.items():
        shown = arm.evidence
        row = [name, f"{arm.weight:.4f}"]
        row += [f"{arm.leave_one_out:.4g}", _or_dash(shown.leave_one_out if shown else None)]
        row += [f"{arm.margin:.4g}", _or_dash(shown.margin if shown else None)]
        row.append("yes" if arm.is_active else "no")
        if (over := arm.subsampled) is not None:
            row += [str(over.weight), str(over.leave_one_out), f"{over.active} of {found.repeats}"]
        rows.append(row)
    return rows


def _or_dash(spread: Spread | None) -> str:
    return "–" if spread is None else str(spread)
