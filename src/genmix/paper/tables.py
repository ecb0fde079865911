"""The paper's two tables: innovation gaps, and weights with leave-one-out gaps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import genmix as gx
from genmix.core.plain import finite
from genmix.diagnosis.diagnose import SEPARATION, Diagnosis, diagnose
from genmix.diagnosis.evidence import SPLITS, Evidence
from genmix.diagnosis.halves import BEYOND, Spread, half_rows
from genmix.diagnosis.innovation import HeldOut, held_out_innovation, innovation
from genmix.diagnosis.verdict import samples
from genmix.errors import InputError
from genmix.objectives.base import Batch
from genmix.paper import text
from genmix.paper.features import Source, sources
from genmix.paper.item import Item, Made, Rows, Setting
from genmix.paper.parallel import in_parallel
from genmix.paper.published import DATASETS, INNOVATION, INTERIORITY, choices

SUBSAMPLES, QUICK_SUBSAMPLES = 50, 10

Arms = Mapping[str, Any]


def repeats(setting: Setting) -> int:
    return QUICK_SUBSAMPLES if setting.quick else SUBSAMPLES


def halves(arms: Arms, seed: int, index: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two random halves of every arm; the first is the subsample that ``diagnose`` takes."""
    first, second = {}, {}
    for name, rows in arms.items():
        mine, others = half_rows(len(rows), name, seed, index)
        first[name], second[name] = rows[mine], rows[others]
    return first, second


# -- innovation --------------------------------------------------------------------------------------


def make_innovation(setting: Setting) -> Made:
    """Innovation gaps of every dataset, or of what stands for it."""
    found = sources(setting, INNOVATION)
    rows = [row for source in found for row in _innovation_rows(setting, source)]
    parts = [_innovation_text(source, rows, repeats(setting)) for source in found]
    tables = {"innovation": rows, "published": _published_innovation()}
    parts.append(_published_innovation_text(found))
    return Made(tables, {}, "\n\n".join(parts))


def _innovation_rows(setting: Setting, source: Source) -> Rows:
    arms = source.world.arms
    whole = innovation(_batches(arms))
    title = f"table-innovation, {source.world.name}"
    sides = in_parallel(setting, title, gaps, (arms, setting.seed), range(repeats(setting)))
    held = {name: Spread.of([side[name].held_out for side in sides]) for name in arms}
    known = INNOVATION[source.datasets[0]] if source.is_paper else {}
    rows = []
    for name, one in whole.items():
        over = Spread.of([side[name].gap for side in sides])
        rows.append(
            {
                "data": source.world.name,
                "stands_for": None if source.is_paper else ", ".join(source.datasets),
                "arm": name,
                "n": len(arms[name]),
                "gap": one.gap,
                "gap_mean": over.mean,
                "gap_std": over.std,
                "held_out_mean": held[name].mean,
                "held_out_std": held[name].std,
                "positive": sum(side[name].held_out > 0 for side in sides),
                "subsamples": len(sides),
                "own": one.own,
                "others": one.others,
                "published": known.get(name),
            }
        )
    return rows


def _batches(arms: Arms) -> dict[str, Batch]:
    return {name: Batch(rows) for name, rows in arms.items()}


def gaps(shared: tuple[Arms, int], index: int) -> dict[str, HeldOut]:
    """The innovation gaps of one subsample, and what the other half says of them."""
    arms, seed = shared
    first, second = halves(arms, seed, index)
    return held_out_innovation(_batches(first), _batches(second))


def _innovation_text(source: Source, rows: Rows, count: int) -> str:
    mine = [row for row in rows if row["data"] == source.world.name]
    headings = ["arm", "δ, all samples", f"δ, {count} halves", "δ, held out", "positive in"]
    headings += ["own", "others"]
    lines = [
        [
            row["arm"],
            text.number(row["gap"]),
            text.spread(Spread(row["gap_mean"], row["gap_std"])),
            text.spread(Spread(row["held_out_mean"], row["held_out_std"])),
            f"{row['positive']}/{row['subsamples']}",
            text.number(row["own"]),
            text.number(row["others"]),
        ]
        for row in mine
    ]
    if source.is_paper:
        headings.append("δ in the paper")
        for line, row in zip(lines, mine, strict=True):
            line.append(text.number(row["published"]))
    return "\n\n".join(
        [
            f"### {source.title}",
            text.data_line(source.world),
            text.table(headings, lines),
            _innovation_words(mine),
        ]
    )


def _innovation_words(rows: Rows) -> str:
    """Whether the gaps are positive, and whether the assumption behind them holds."""
    held = {row["arm"]: Spread(row["held_out_mean"], row["held_out_std"]) for row in rows}
    without = [arm for arm, over in held.items() if not over.mean > 0]
    untold = [arm for arm, over in held.items() if over.mean > 0 and not over.is_beyond_chance]
    nu, epsilon = min(row["own"] for row in rows), max(row["others"] for row in rows)
    holds = SEPARATION * epsilon < nu
    parts = []
    if without:
        parts.append(f"No direction of its own that shows on other samples: {', '.join(without)}.")
    if untold:
        parts.append(f"A direction that cannot be told from chance: {', '.join(untold)}.")
    said = " ".join(parts) or "Every gap is positive, also held out, beyond chance."
    return (
        f"{said} Held out: along the direction that one half gives, on the other half; beyond chance: "
        f"by more than {BEYOND:g} of its standard deviations. Along the "
        f"directions of all samples ν_0 = {nu:.4g} and ε_0 = {epsilon:.4g}: the assumption's "
        f"ε_0 < ν_0/{SEPARATION} {'holds' if holds else 'does not hold'}."
    )


def _published_innovation() -> Rows:
    return [
        {"dataset": key, "generator": model, "gap": gap}
        for key, models in INNOVATION.items()
        for model, gap in models.items()
    ]


def _published_innovation_text(found: list[Source]) -> str:
    lines = [
        [DATASETS[row["dataset"]].title, row["generator"], text.number(row["gap"])]
        for row in _published_innovation()
    ]
    table = text.table(["dataset", "generator", "δ"], lines)
    return f"{_paper_heading(found)}\n\n{table}"


def _paper_heading(found: list[Source]) -> str:
    same = [source.title for source in found if source.is_paper]
    other = [source.world.name for source in found if not source.is_paper]
    words = "### The paper's table"
    if other:
        words += (
            f"\n\nIts data are other data than {', '.join(other)}: the numbers above and below are "
            "not measurements of the same thing, only the pattern can be compared."
        )
    if same:
        words += f"\n\nThe same data as above: {', '.join(same)}."
    return words


# -- interiority -------------------------------------------------------------------------------------


class Side(NamedTuple):
    """What one subsample says of every arm."""

    weights: dict[str, float]
    rises: dict[str, float]
    active: tuple[str, ...]


def make_interiority(setting: Setting) -> Made:
    """Weights and leave-one-out gaps: FD, then RKE."""
    rows: Rows = []
    parts = []
    for name, datasets in INTERIORITY.items():
        found = sources(setting, datasets)
        for source in found:
            objective = _objective(name, source)
            whole = diagnose(
                source.world.arms, objective, seed=setting.seed, encoder=source.world.encoder
            )
            sides = _sides(setting, source, whole)
            mine = _interiority_rows(name, source, whole, sides)
            rows += mine
            parts.append(_interiority_text(name, source, whole, mine))
        parts.append(_published_interiority_text(name, found))
    return Made(
        {"interiority": rows, "published": _published_interiority()}, {}, "\n\n".join(parts)
    )


def _objective(name: str, source: Source) -> gx.Objective:
    if name == "fd":
        return gx.FrechetDistance(reference_of(source))
    return gx.RKE(gx.Gaussian(source.bandwidth))


def reference_of(source: Source) -> Any:
    """The real data, or a sentence about where they should be."""
    if source.world.reference is None:
        raise InputError(
            f"{source.title} has no file of the real data, which the Fréchet distance needs: add one "
            "named real.npz."
        )
    return source.world.reference


def _sides(setting: Setting, source: Source, whole: Diagnosis) -> list[Side]:
    objective = whole.mixture.objective
    title = f"table-interiority, {objective.name} on {source.world.name}"
    shared = (source.world.arms, objective, setting.seed)
    return in_parallel(setting, title, interior, shared, range(repeats(setting)))


def interior(shared: tuple[Arms, gx.Objective, int], index: int) -> Side:
    """The best mixture of one subsample, and what is lost without each arm."""
    arms, objective, seed = shared
    found = gx.optimal_mixture(halves(arms, seed, index)[0], objective)
    certain = {
        name: rise if name in found.active else 0.0 for name, rise in found.leave_one_out.items()
    }
    return Side(found.weights, certain, found.active)


def _interiority_rows(name: str, source: Source, whole: Diagnosis, sides: list[Side]) -> Rows:
    known = INTERIORITY[name][source.datasets[0]] if source.is_paper else {}
    rows = []
    for arm, one in whole.arms.items():
        weight = Spread.of([side.weights[arm] for side in sides])
        rise = Spread.of([side.rises[arm] for side in sides])
        paper = known.get(arm)
        rows.append(
            {
                "objective": name,
                "data": source.world.name,
                "stands_for": None if source.is_paper else ", ".join(source.datasets),
                "arm": arm,
                "n": one.n,
                "weight": one.weight,
                "weight_mean": weight.mean,
                "weight_std": weight.std,
                "gap": finite(one.leave_one_out),
                "gap_mean": finite(rise.mean),
                "gap_std": finite(rise.std),
                "margin": finite(one.margin),
                "gamma": whole.gamma,
                **_beyond(one.evidence),
                "role": one.role,
                "active": one.is_active,
                "active_in": sum(arm in side.active for side in sides),
                "subsamples": len(sides),
                "published_weight": None if paper is None else paper.weight,
                "published_weight_std": None if paper is None else paper.weight_std,
                "published_gap": None if paper is None else paper.gap,
                "published_gap_std": None if paper is None else paper.gap_std,
            }
        )
    return rows


def _beyond(evidence: Evidence | None) -> dict[str, float | None]:
    """How much of the gap and of the margin is more than chance."""
    found: dict[str, float | None] = {}
    for what in ("leave_one_out", "margin"):
        over = None if evidence is None else getattr(evidence, what)
        name = "gap" if what == "leave_one_out" else what
        found[f"{name}_beyond_mean"] = None if over is None else finite(over.mean)
        found[f"{name}_beyond_std"] = None if over is None else finite(over.std)
    return found


def _interiority_text(name: str, source: Source, whole: Diagnosis, rows: Rows) -> str:
    count = rows[0]["subsamples"]
    headings = ["arm", "weight", f"weight, {count} halves", "gap", f"gap, {count} halves"]
    headings += ["gap beyond chance", f"margin at γ_0 = {whole.gamma:.3g}"]
    headings += ["margin beyond chance", "active in"]
    lines = [
        [
            row["arm"],
            f"{row['weight']:.3f}",
            _of(row, "weight"),
            text.number(row["gap"]),
            _of(row, "gap"),
            _of(row, "gap_beyond"),
            text.number(row["margin"]),
            _of(row, "margin_beyond"),
            f"{row['active_in']}/{count}",
        ]
        for row in rows
    ]
    if source.is_paper:
        headings += ["weight in the paper", "gap in the paper"]
        for line, row in zip(lines, rows, strict=True):
            line += [_paper(row, "weight"), _paper(row, "gap")]
    title = "Fréchet distance" if name == "fd" else "RKE"
    return "\n\n".join(
        [
            f"### {title}: {source.title}",
            text.data_line(source.world),
            "\n\n".join(str(score) for score in whole.scores.values()),
            text.table(headings, lines),
            _interiority_words(whole),
        ]
    )


def _of(row: dict[str, Any], what: str) -> str:
    mean, std = row[f"{what}_mean"], row[f"{what}_std"]
    return "–" if mean is None or std is None else text.spread(Spread(mean, std))


def _paper(row: dict[str, Any], what: str) -> str:
    mean, std = row[f"published_{what}"], row[f"published_{what}_std"]
    return "–" if mean is None else f"{mean:g} ± {std:g}"


def _interiority_words(whole: Diagnosis) -> str:
    """What random halves show of the arms, and of the assumption."""
    holds = "holds" if whole.is_interior else "cannot be told from chance"
    if whole.lacking:
        holds = "does not hold"
    return (
        f"{_need_words(whole)} The assumption that every arm needs more than γ_0 = {whole.gamma:.3g} "
        f"{holds}. Beyond chance: what is lost if as many samples of the others' best mixture take the "
        f"arm's share, over {SPLITS} random splits into halves; the words need a mean above {BEYOND:g} "
        "standard deviations."
    )


def _need_words(whole: Diagnosis) -> str:
    roles = {name: arm.role for name, arm in whole.arms.items()}
    needed = [name for name, role in roles.items() if role == "needed"]
    untold = [name for name, role in roles.items() if role == "untold"]
    idle = [name for name in roles if name not in needed + untold]
    if len(needed) == len(roles):
        return "Every arm is needed in the best mixture."
    parts = []
    if needed:
        parts.append(f"Needed in the best mixture: {', '.join(needed)}.")
    if untold:
        few = samples(whole, untold)
        parts.append(f"Cannot be told from chance with {few}: {', '.join(untold)}.")
    if idle:
        parts.append(f"Not needed in the best mixture: {', '.join(idle)}.")
    return " ".join(parts)


def _published_interiority() -> Rows:
    return [
        {
            "objective": name,
            "dataset": key,
            "generator": model,
            "weight": row.weight,
            "weight_std": row.weight_std,
            "gap": row.gap,
            "gap_std": row.gap_std,
        }
        for name, datasets in INTERIORITY.items()
        for key, models in datasets.items()
        for model, row in models.items()
    ]


def _published_interiority_text(name: str, found: list[Source]) -> str:
    lines = [
        [
            DATASETS[row["dataset"]].title,
            row["generator"],
            f"{row['weight']:g} ± {row['weight_std']:g}",
            f"{row['gap']:g} ± {row['gap_std']:g}",
        ]
        for row in _published_interiority()
        if row["objective"] == name
    ]
    table = text.table(["dataset", "generator", "weight", "gap"], lines)
    return f"{_paper_heading(found)}\n\n{table}"


ITEMS = (
    Item(
        "table-innovation",
        "Innovation gap δ_i of every generator, on unit-length embeddings",
        "any of ffhq, imagenet, lsun-bedroom, dogs, birds, city",
        "fashion (for FFHQ, ImageNet, LSUN-Bedroom), breeds (Dogs), boots (Red Birds), city",
        choices("imagenet", "birds", "qwen", "spread", "separation", "floor"),
        make_innovation,
    ),
    Item(
        "table-interiority",
        "Weights of the best mixture and leave-one-out gaps, under FD and under RKE",
        "any of ffhq, imagenet, lsun-bedroom with real data (FD), dogs, birds, city (RKE)",
        "fashion (FD), breeds, boots and city (RKE)",
        choices(
            *("imagenet", "birds", "qwen", "breeds", "sigma"),
            *("rke-gap", "interior", "margin", "sums", "ffhq-gap"),
        ),
        make_interiority,
    ),
)
