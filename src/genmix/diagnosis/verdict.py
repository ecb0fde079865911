"""A diagnosis on a page: two tables, and in words which arms carry the mixture and what fails.

Words that claim something of the arms, not only of the samples in hand, need the evidence of random halves.
"""

from __future__ import annotations

from collections.abc import Sequence

from genmix.core.text import aligned, listed
from genmix.diagnosis.diagnose import SEPARATION, Diagnosis, Role
from genmix.diagnosis.evidence import SPLITS
from genmix.diagnosis.halves import BEYOND, Spread


def page(found: Diagnosis) -> str:
    """Tables, scores, theory and verdict as plain text."""
    lines = [
        "innovation: λ_max(S_i − Σ S_j) on unit-norm embeddings",
        *aligned(_innovation_rows(found)),
        "",
        "interiority: the best mixture, and how much the least loss rises with less of an arm",
        *aligned(_interiority_rows(found)),
        "",
        *(f"mixture: {score}" for score in found.scores.values()),
        f"mixture: loss {found.mixture.loss:.8g}, at most {found.mixture.gap:.1e} above the least",
    ]
    if found.repeats:
        size = "half of each arm" if found.subsample is None else f"{found.subsample} an arm"
        lines.append(f"±: mean and standard deviation over {found.repeats} subsamples, {size}")
    if len(found.arms) > 1:
        lines += _basis()
    if found.theory is not None:
        lines += ["", str(found.theory)]
    return "\n".join([*lines, "", *found.verdict])


def _basis() -> list[str]:
    """What the verdict goes by."""
    return [
        f"held out, beyond chance: mean and standard deviation over {SPLITS} random splits into halves; "
        f"the words need a mean above {BEYOND:g} of these",
        "held out: the gap along the direction that one half gives, on the other half",
        "beyond chance: the rise if as many samples of the others' best mixture take the arm's share",
    ]


def words(found: Diagnosis) -> tuple[str, ...]:
    """The verdict, a line each."""
    if len(found.arms) == 1:
        return ("there is one arm: nothing to mix",)
    return (*_roles(found), *_innovation(found), _interiority(found))


def _roles(found: Diagnosis) -> list[str]:
    arms = {role: _with_role(found, role) for role in ("needed", "replaceable", "idle", "untold")}
    lines = []
    if needed := arms["needed"]:
        lines.append(f"{listed(needed)}: {_either(needed, 'carries', 'carry')} the mixture")
    if spare := arms["replaceable"]:
        lines.append(
            f"{listed(spare)}: {_either(spare, 'has', 'have')} weight, but others can take the place of "
            f"{_either(spare, 'it', 'each')} at no loss"
        )
    if idle := arms["idle"]:
        lines.append(f"{listed(idle)}: {_either(idle, 'adds', 'add')} nothing")
    if untold := arms["untold"]:
        lines.append(
            f"{listed(untold)}: whether the mixture needs {_either(untold, 'it', 'each')} cannot be told "
            f"from chance with {samples(found, untold)}"
        )
    return lines


def _with_role(found: Diagnosis, role: Role) -> list[str]:
    return [name for name, arm in found.arms.items() if arm.role == role]


def _innovation(found: Diagnosis) -> list[str]:
    others = [name for name in found.arms if name not in found.innovative]
    if not others:
        return [
            "innovation: every arm has a direction of its own, also on held-out samples; the paper's "
            f"assumption as printed, ε_0 < ν_0/{SEPARATION}, {'holds' if found.separates else 'is not met'} "
            f"along these (ν_0 = {found.nu:.4g}, ε_0 = {found.epsilon:.4g})"
        ]
    untold = [name for name in others if name not in found.alike]
    lines = []
    if alike := found.alike:
        lines.append(
            "innovation: the paper's condition fails, no direction sets "
            f"{listed(alike)} apart from all others together"
        )
    if untold:
        lines.append(
            f"innovation: whether a direction sets {listed(untold)} apart from all others together "
            f"cannot be told from chance with {samples(found, untold)}"
        )
    return lines


def _interiority(found: Diagnosis) -> str:
    start = f"interiority: at γ_0 = {found.gamma:.4g} the paper's assumption"
    if found.is_interior:
        least = min(arm.margin for arm in found.arms.values())
        return f"{start} holds beyond chance, with a margin of {least:.4g} on these samples"
    if lacking := found.lacking:
        return f"{start} fails, the least loss needs no more than that of {listed(lacking)}"
    untold = [name for name, arm in found.arms.items() if not arm.is_interior]
    return f"{start} cannot be told from chance with {samples(found, untold)}, for {listed(untold)}"


def samples(found: Diagnosis, names: Sequence[str]) -> str:
    """How many samples these arms have."""
    counts = sorted({found.arms[name].n for name in names})
    many = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{many} {'sample' if counts == [1] else 'samples'}"


def _innovation_rows(found: Diagnosis) -> list[list[str]]:
    heading = ["arm", "n", "gap", "own", "others", "held out"]
    rows = [[*heading, "gap ±"] if found.repeats else heading]
    for name, arm in found.arms.items():
        gap = arm.innovation
        held_out = None if arm.evidence is None else arm.evidence.innovation
        numbers = [f"{gap.gap:.4g}", f"{gap.own:.4g}", f"{gap.others:.4g}"]
        row = [name, str(arm.n), *numbers, _shown(held_out)]
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
        row += [f"{arm.leave_one_out:.4g}", _shown(None if shown is None else shown.leave_one_out)]
        row += [f"{arm.margin:.4g}", _shown(None if shown is None else shown.margin)]
        row.append("yes" if arm.is_active else "no")
        if (over := arm.subsampled) is not None:
            share = f"{over.active} of {found.repeats}"
            row += [str(over.weight), str(over.leave_one_out), share]
        rows.append(row)
    return rows


def _shown(spread: Spread | None) -> str:
    return "–" if spread is None else str(spread)


def _either(names: Sequence[str], one: str, many: str) -> str:
    return one if len(names) == 1 else many
