"""The paper's table of innovation gaps."""

from __future__ import annotations

from collections.abc import Sequence

from genmix.core.text import number
from genmix.diagnosis.innovation import HeldOut, held_out_innovation, innovation
from genmix.diagnosis.resampling import Spread
from genmix.diagnosis.thresholds import CHANCE_SIGMAS, SEPARATION
from genmix.objectives import Batch
from genmix.paper.feature_files import LoadedDataset, load_datasets
from genmix.paper.items import Item, ItemOutput, Rows, Settings
from genmix.paper.markdown import data_line, spread, table
from genmix.paper.published import DATASETS, INNOVATION, choices
from genmix.paper.subsamples import Arms, halves, over_subsamples


def make_innovation(settings: Settings) -> ItemOutput:
    """Compute the innovation gaps of every dataset, or of the recorded world used in its place."""
    found = load_datasets(settings, INNOVATION)
    rows: Rows = []
    parts = []
    for data in found:
        mine = _rows(settings, data)
        rows += mine
        parts.append(_section(data, mine))
    published: Rows = [
        {"dataset": key, "generator": model, "gap": gap}
        for key, models in INNOVATION.items()
        for model, gap in models.items()
    ]
    lines = [[DATASETS[r["dataset"]].title, r["generator"], number(r["gap"])] for r in published]
    parts.append(published_section(found, ["dataset", "generator", "δ"], lines))
    return ItemOutput({"innovation": rows, "published": published}, {}, "\n\n".join(parts))


def _rows(settings: Settings, data: LoadedDataset) -> Rows:
    arms = data.world.arms
    title = f"table-innovation, {data.world.name}"
    sides = over_subsamples(settings, title, held_out_gaps, (arms, settings.seed))
    published = INNOVATION[data.datasets[0]] if data.is_paper else {}
    rows = []
    for name, one in innovation(_batches(arms)).items():
        gap = Spread.of([side[name].gap for side in sides])
        held_out = Spread.of([side[name].held_out for side in sides])
        rows.append(
            {
                "data": data.world.name,
                "stands_for": data.stands_for,
                "arm": name,
                "n": len(arms[name]),
                "gap": one.gap,
                "gap_mean": gap.mean,
                "gap_std": gap.std,
                "held_out_mean": held_out.mean,
                "held_out_std": held_out.std,
                "positive": sum(side[name].held_out > 0 for side in sides),
                "subsamples": len(sides),
                "own": one.own,
                "others": one.others,
                "published": published.get(name),
            }
        )
    return rows


def _batches(arms: Arms) -> dict[str, Batch]:
    return {name: Batch(rows) for name, rows in arms.items()}


def held_out_gaps(shared: tuple[Arms, int], index: int) -> dict[str, HeldOut]:
    """Compute the innovation gaps of one half, and those of the other half along the same directions."""
    first, second = halves(*shared, index)
    return held_out_innovation(_batches(first), _batches(second))


def _section(data: LoadedDataset, rows: Rows) -> str:
    headings = ["arm", "δ, all samples", f"δ, {rows[0]['subsamples']} halves", "δ, held out"]
    headings += ["positive in", "own", "others"]
    lines = [
        [
            row["arm"],
            number(row["gap"]),
            spread(row["gap_mean"], row["gap_std"]),
            spread(row["held_out_mean"], row["held_out_std"]),
            f"{row['positive']}/{row['subsamples']}",
            number(row["own"]),
            number(row["others"]),
        ]
        for row in rows
    ]
    if data.is_paper:
        headings.append("δ in the paper")
        lines = [[*line, number(r["published"])] for line, r in zip(lines, rows, strict=True)]
    heading = f"### {data.title}"
    return "\n\n".join([heading, data_line(data.world), table(headings, lines), _verdict(rows)])


def _verdict(rows: Rows) -> str:
    """Say whether the gaps are positive, and whether the assumption behind them holds."""
    held_out = {row["arm"]: Spread(row["held_out_mean"], row["held_out_std"]) for row in rows}
    without = [arm for arm, over in held_out.items() if not over.mean > 0]
    unclear = [arm for arm, o in held_out.items() if o.mean > 0 and not o.is_beyond_chance]
    nu, epsilon = min(row["own"] for row in rows), max(row["others"] for row in rows)
    parts = []
    if without:
        parts.append(
            f"No direction sets these arms apart on held-out samples: {', '.join(without)}."
        )
    if unclear:
        parts.append(f"The direction may be due to chance for these arms: {', '.join(unclear)}.")
    if not parts:
        parts.append("Every gap is also positive on held-out samples, beyond chance.")
    holds = "holds" if SEPARATION * epsilon < nu else "does not hold"
    return (
        f"{' '.join(parts)} Held out: the direction comes from one half and the gap from the other. "
        f"Beyond chance: the mean exceeds {CHANCE_SIGMAS:g} standard deviations. Along the directions found "
        f"on all samples, ν_0 = {nu:.4g} and ε_0 = {epsilon:.4g}, so the assumption ε_0 < ν_0/{SEPARATION} "
        f"{holds}."
    )


def published_section(
    found: Sequence[LoadedDataset], headings: Sequence[str], lines: Sequence[Sequence[str]]
) -> str:
    """Format the paper's table, and say how it relates to ours."""
    same = [data.title for data in found if data.is_paper]
    other = [data.world.name for data in found if not data.is_paper]
    parts = ["### The paper's table"]
    if other:
        parts.append(
            f"The paper's data differ from {', '.join(other)}, so only the pattern of the numbers above "
            "and below can be compared, not their values."
        )
    if same:
        parts.append(f"The data are the same as above for {', '.join(same)}.")
    return "\n\n".join([*parts, table(headings, lines)])


ITEMS = (
    Item(
        "table-innovation",
        "Innovation gap δ_i of every generator, on unit-length embeddings",
        "any of ffhq, imagenet, lsun-bedroom, dogs, birds, city",
        "fashion (for FFHQ, ImageNet, LSUN-Bedroom), breeds (Dogs), boots (Red Birds), city",
        choices("imagenet", "birds", "qwen", "spread", "separation", "floor"),
        make_innovation,
    ),
)
