"""The paper's table of best mixtures and leave-one-out gaps."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, NamedTuple

import genmix as gx
from genmix.core.plain import finite
from genmix.core.text import number
from genmix.diagnosis.diagnose import diagnose
from genmix.diagnosis.diagnosis import Diagnosis
from genmix.diagnosis.evidence import SPLITS, Evidence
from genmix.diagnosis.resampling import Spread
from genmix.diagnosis.thresholds import CHANCE_SIGMAS
from genmix.diagnosis.verdict import sample_count
from genmix.paper.feature_files import LoadedDataset, load_datasets
from genmix.paper.innovation_table import published_section
from genmix.paper.items import Item, ItemOutput, Rows, Settings
from genmix.paper.markdown import data_line, spread, table
from genmix.paper.published import DATASETS, INTERIORITY, choices
from genmix.paper.subsamples import Arms, halves, over_subsamples


class Subsample(NamedTuple):
    """The results of one subsample for every arm."""

    weights: dict[str, float]
    gaps: dict[str, float]
    active: tuple[str, ...]


def make_interiority(settings: Settings) -> ItemOutput:
    """Compute weights and leave-one-out gaps under FD, then under RKE."""
    rows: Rows = []
    published: Rows = []
    parts = []
    for name, datasets in INTERIORITY.items():
        found = load_datasets(settings, datasets)
        for data in found:
            world = data.world
            whole = diagnose(
                world.arms, _objective(name, data), seed=settings.seed, encoder=world.encoder
            )
            mine = _rows(settings, name, data, whole)
            rows += mine
            parts.append(_section(name, data, whole, mine))
        known = [
            {"objective": name, "dataset": key, "generator": model, **asdict(row)}
            for key, models in datasets.items()
            for model, row in models.items()
        ]
        published += known
        headings = ["dataset", "generator", "weight", "gap"]
        lines = [
            [
                DATASETS[row["dataset"]].title,
                row["generator"],
                *(_as_printed(row[what], row[f"{what}_std"]) for what in ("weight", "gap")),
            ]
            for row in known
        ]
        parts.append(published_section(found, headings, lines))
    return ItemOutput({"interiority": rows, "published": published}, {}, "\n\n".join(parts))


def _objective(name: str, data: LoadedDataset) -> gx.Objective:
    if name == "fd":
        return gx.FrechetDistance(data.real_data())
    return gx.RKE(gx.Gaussian(data.bandwidth))


def best_of_half(shared: tuple[Arms, gx.Objective, int], index: int) -> Subsample:
    """Find the best mixture of one half, and how much the loss increases without each arm."""
    arms, objective, seed = shared
    found = gx.optimal_mixture(halves(arms, seed, index)[0], objective)
    gaps = {name: g if name in found.active else 0.0 for name, g in found.leave_one_out.items()}
    return Subsample(found.weights, gaps, found.active)


def _rows(settings: Settings, name: str, data: LoadedDataset, whole: Diagnosis) -> Rows:
    objective = whole.mixture.objective
    title = f"table-interiority, {objective.name} on {data.world.name}"
    shared = (data.world.arms, objective, settings.seed)
    sides = over_subsamples(settings, title, best_of_half, shared)
    published = INTERIORITY[name][data.datasets[0]] if data.is_paper else {}
    rows = []
    for arm, one in whole.arms.items():
        weight = Spread.of([side.weights[arm] for side in sides])
        gap = Spread.of([side.gaps[arm] for side in sides])
        paper = published.get(arm)
        rows.append(
            {
                "objective": name,
                "data": data.world.name,
                "stands_for": data.stands_for,
                "arm": arm,
                "n": one.n,
                "weight": one.weight,
                "weight_mean": weight.mean,
                "weight_std": weight.std,
                "gap": finite(one.leave_one_out),
                "gap_mean": finite(gap.mean),
                "gap_std": finite(gap.std),
                "margin": finite(one.margin),
                "gamma": whole.gamma,
                **_beyond_chance(one.evidence),
                "role": one.role,
                "active": one.is_active,
                "active_in": sum(arm in side.active for side in sides),
                "subsamples": len(sides),
                "published_weight": paper and paper.weight,
                "published_weight_std": paper and paper.weight_std,
                "published_gap": paper and paper.gap,
                "published_gap_std": paper and paper.gap_std,
            }
        )
    return rows


def _beyond_chance(evidence: Evidence | None) -> dict[str, float | None]:
    """Return how much of the gap and of the margin exceeds chance."""
    found: dict[str, float | None] = {}
    for name, what in (("gap", "leave_one_out"), ("margin", "margin")):
        over = getattr(evidence, what, None)
        found[f"{name}_beyond_mean"] = None if over is None else finite(over.mean)
        found[f"{name}_beyond_std"] = None if over is None else finite(over.std)
    return found


def _section(name: str, data: LoadedDataset, whole: Diagnosis, rows: Rows) -> str:
    count = rows[0]["subsamples"]
    headings = ["arm", "weight", f"weight, {count} halves", "gap", f"gap, {count} halves"]
    headings += ["gap beyond chance", f"margin at γ_0 = {whole.gamma:.3g}"]
    headings += ["margin beyond chance", "active in"]
    lines = [
        [
            row["arm"],
            f"{row['weight']:.3f}",
            _spread(row, "weight"),
            number(row["gap"]),
            _spread(row, "gap"),
            _spread(row, "gap_beyond"),
            number(row["margin"]),
            _spread(row, "margin_beyond"),
            f"{row['active_in']}/{count}",
        ]
        for row in rows
    ]
    if data.is_paper:
        headings += ["weight in the paper", "gap in the paper"]
        for line, row in zip(lines, rows, strict=True):
            line += [
                _as_printed(row[f"published_{what}"], row[f"published_{what}_std"])
                for what in ("weight", "gap")
            ]
    return "\n\n".join(
        [
            f"### {'Fréchet distance' if name == 'fd' else 'RKE'}: {data.title}",
            data_line(data.world),
            "\n\n".join(str(score) for score in whole.scores.values()),
            table(headings, lines),
            _verdict(whole),
        ]
    )


def _spread(row: dict[str, Any], what: str) -> str:
    return spread(row[f"{what}_mean"], row[f"{what}_std"])


def _as_printed(mean: float | None, std: float | None) -> str:
    return "–" if mean is None or std is None else f"{mean:g} ± {std:g}"


def _verdict(whole: Diagnosis) -> str:
    """Say which arms the mixture needs, and whether the assumption holds."""
    holds = "holds" if whole.is_interior else "may hold only by chance"
    if whole.lacking:
        holds = "does not hold"
    return (
        f"{_needed_arms(whole)} The assumption that the best mixture needs more than γ_0 = "
        f"{whole.gamma:.3g} of every arm {holds}. Beyond chance: the increase of the loss if equally many "
        f"samples from the best mixture of the other arms replace the arm's samples, over {SPLITS} random "
        f"splits into halves; a verdict requires a mean above {CHANCE_SIGMAS:g} standard deviations."
    )


def _needed_arms(whole: Diagnosis) -> str:
    roles = {name: arm.role for name, arm in whole.arms.items()}
    needed = [name for name, role in roles.items() if role == "needed"]
    unclear = [name for name, role in roles.items() if role == "unclear"]
    idle = [name for name in roles if name not in needed + unclear]
    if len(needed) == len(roles):
        return "Every arm is needed in the best mixture."
    parts = []
    if needed:
        parts.append(f"Needed in the best mixture: {', '.join(needed)}.")
    if unclear:
        few = sample_count(whole, unclear)
        parts.append(f"Unclear with {few}: {', '.join(unclear)}.")
    if idle:
        parts.append(f"Not needed in the best mixture: {', '.join(idle)}.")
    return " ".join(parts)


ITEMS = (
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
