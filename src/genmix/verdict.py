"""A diagnosis on a page: two tables, and in words which arms carry the mixture and what fails."""

from __future__ import annotations

from collections.abc import Sequence

from genmix.diagnostics import SEPARATION, Diagnosis

NEGLIGIBLE = 1e-3
"""An arm that is not active and has less weight than this adds nothing."""


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
    if found.theory is not None:
        lines += ["", str(found.theory)]
    return "\n".join([*lines, "", *found.verdict])


def words(found: Diagnosis) -> tuple[str, ...]:
    """The verdict, a line each."""
    if len(found.arms) == 1:
        return ("there is one arm: nothing to mix",)
    return (*_roles(found), *_innovation(found), _interiority(found))


def _roles(found: Diagnosis) -> list[str]:
    active = [name for name, arm in found.arms.items() if arm.is_active]
    others = {name: arm.weight for name, arm in found.arms.items() if not arm.is_active}
    spare = [name for name, weight in others.items() if weight >= NEGLIGIBLE]
    idle = [name for name, weight in others.items() if weight < NEGLIGIBLE]
    lines = []
    if active:
        lines.append(f"{_listed(active)}: {_either(active, 'carries', 'carry')} the mixture")
    if spare:
        lines.append(
            f"{_listed(spare)}: {_either(spare, 'has', 'have')} weight, but others can take the place of "
            f"{_either(spare, 'it', 'each')} at no loss"
        )
    if idle:
        lines.append(f"{_listed(idle)}: {_either(idle, 'adds', 'add')} nothing")
    return lines


def _innovation(found: Diagnosis) -> list[str]:
    alike = [name for name in found.arms if name not in found.innovative]
    if alike:
        return [
            "innovation: the paper's condition fails, no direction sets "
            f"{_listed(alike)} apart from all others together"
        ]
    lines = [
        "innovation: every arm has a direction of its own; the paper's assumption as printed, "
        f"ε_0 < ν_0/{SEPARATION}, {'holds' if found.separates else 'is not met'} along these "
        f"(ν_0 = {found.nu:.4g}, ε_0 = {found.epsilon:.4g})"
    ]
    least = min(arm.n for arm in found.arms.values())
    if least < found.dimension:
        lines.append(
            f"innovation: with {least} samples in {found.dimension} dimensions chance alone can make a "
            "gap positive"
        )
    return lines


def _interiority(found: Diagnosis) -> str:
    start = f"interiority: at γ_0 = {found.gamma:.4g} the paper's assumption"
    if found.is_interior:
        least = min(arm.margin for arm in found.arms.values())
        return f"{start} holds on these samples, with a margin of {least:.4g}"
    lacking = [name for name, arm in found.arms.items() if not arm.margin > 0]
    return f"{start} fails, the least loss needs no more than that of {_listed(lacking)}"


def _innovation_rows(found: Diagnosis) -> list[list[str]]:
    heading = ["arm", "n", "gap", "own", "others"]
    rows = [[*heading, "gap ±"] if found.repeats else heading]
    for name, arm in found.arms.items():
        gap = arm.innovation
        row = [name, str(arm.n), f"{gap.gap:.4g}", f"{gap.own:.4g}", f"{gap.others:.4g}"]
        rows.append(row if arm.subsampled is None else [*row, str(arm.subsampled.innovation)])
    return rows


def _interiority_rows(found: Diagnosis) -> list[list[str]]:
    heading = ["arm", "weight", "left out", f"at most {found.gamma:.3g}", "active"]
    more = ["weight ±", "left out ±", "active in"]
    rows = [heading + more if found.repeats else heading]
    for name, arm in found.arms.items():
        numbers = [f"{arm.weight:.4f}", f"{arm.leave_one_out:.4g}", f"{arm.margin:.4g}"]
        row = [name, *numbers, "yes" if arm.is_active else "no"]
        if (over := arm.subsampled) is not None:
            share = f"{over.active} of {found.repeats}"
            row += [str(over.weight), str(over.leave_one_out), share]
        rows.append(row)
    return rows


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns two spaces apart, the first to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _either(names: Sequence[str], one: str, many: str) -> str:
    return one if len(names) == 1 else many
