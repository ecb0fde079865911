"""Render the report as one HTML file that loads nothing and runs only its own script."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import resources
from itertools import count
from typing import Any, NamedTuple, TypeVar

import yaml
from markupsafe import Markup

from genmix import __version__
from genmix.charts.axes import short_name
from genmix.charts.leading import Total, leading, name_parts
from genmix.core.text import duration, listed, number, percent, shortened, visible
from genmix.errors import GenmixError
from genmix.report import sentences
from genmix.report.advice import advise
from genmix.report.convergence import SIMILAR_SCORE, assess_convergence, convergence_sentence
from genmix.report.facts import Arm, Facts
from genmix.report.figures import (
    FIGURES,
    TITLES,
    arm_colors,
    leading_arms,
    map_indices,
    marked_budget,
    weight_layers,
    why_missing,
)
from genmix.report.gallery import Shelf, common_prompt, gallery, real_samples, source_name
from genmix.report.groups import MAX_GROUPS, group_section, groups_of_samples
from genmix.report.kept import KeptSection, kept_section
from genmix.report.scoring import Term
from genmix.report.svg import inline_svg
from genmix.report.templating import render_template
from genmix.study.secrets import without_secrets

MAX_TIP = 240
MAX_SUBTITLE = 200
MAX_FAILURES = 20
MAX_STUDY = 40_000
STEPS = 6 + len(FIGURES)
"""Number of times that progress is reported."""

MAX_SHELVES = 24
"""Maximum number of arms whose samples are shown."""

MAX_OPEN_SHELVES = 8
"""If there are more shelves of samples than this, they are collapsed."""

Progress = Callable[[int, int], None]
"""A callback that receives the number of finished steps and their total."""

T = TypeVar("T")


def render_page(facts: Facts, progress: Progress = lambda done, total: None) -> str:
    style, script = _asset("report.css"), _asset("report.js")
    colors = arm_colors(facts)
    steps = count(1)

    def step(content: T) -> T:
        """Report progress after a part of the page that takes time."""
        progress(next(steps), STEPS)
        return content

    figures = [step(_figure(facts, name)) for name in FIGURES]
    kept = step(kept_section(facts))
    return render_template(
        "report.html",
        facts=facts,
        version=__version__,
        policy=_content_security_policy(style, script),
        style=Markup(style),
        script=Markup(script),
        subtitle=_subtitle(facts),
        mixture=step(sentences.mixture_sentence(facts)),
        sentences=[
            *sentences.limit_sentences(facts),
            *sentences.score_sentences(facts),
            *sentences.pair_sentences(facts),
            sentences.cost_sentence(facts),
            *sentences.money_sentences(facts),
            convergence_sentence(facts),
            *(facts.intervals.sentences if facts.intervals else ()),
            *([] if kept is None else [kept.lead]),
        ],
        status=sentences.status_sentence(facts),
        mood=_mood(facts),
        shares=_shares(facts, colors),
        tiles=step(_tiles(facts, kept)),
        advice=step(advise(facts, None if kept is None else kept.count)),
        figures=[each for each in figures if each.svg],
        missing=_missing(figures),
        kept=kept,
        groups=step(group_section(facts)),
        columns=_columns(facts),
        legend=_legend(facts),
        colors=colors,
        other_color=list(colors.values())[-1],
        arms=_arm_table(facts),
        shelves=step(_shelves(facts)),
        max_shelves=MAX_SHELVES,
        prompt=common_prompt(facts.subset),
        real=real_samples(facts.study, facts.study_folder),
        max_open=MAX_OPEN_SHELVES,
        failures=_failing_arms(facts),
        changes=sentences.change_sentences(facts),
        study=_study(facts),
        map_data=_map_data(facts),
    )


def _asset(name: str) -> str:
    return resources.files("genmix.report").joinpath("templates", name).read_text("utf-8")


def _content_security_policy(style: str, script: str) -> str:
    return (
        f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {_hash(script)}; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _subtitle(facts: Facts) -> str:
    parts = [f"run {facts.folder.resolve().name}"]
    if facts.started_at is not None:
        parts.append(datetime.fromtimestamp(facts.started_at, UTC).strftime("%B %d, %Y, %H:%M UTC"))
    return " · ".join([*parts, shortened(facts.objective, MAX_SUBTITLE)])


# -- results -----------------------------------------------------------------------------------------


class Share(NamedTuple):
    """One arm in the weights bar."""

    arm: str
    weight: float
    start: float
    color: str


def _shares(facts: Facts, colors: dict[str, str]) -> list[Share]:
    if not facts.weights:
        return []
    weights = {arm: facts.weights[arm] for arm in colors if arm in facts.weights}
    if len(leading_arms(facts)) < len(facts.labels):
        *_, others = colors
        weights[others] = max(1.0 - sum(w for arm, w in weights.items() if arm != others), 0.0)
    shares, start = [], 0.0
    for arm, weight in weights.items():
        shares.append(Share(arm, weight, start, colors[arm]))
        start += weight
    return shares


class Tile(NamedTuple):
    """A number with a title; ``mood`` sets its color."""

    title: str
    value: str
    note: str = ""
    mood: str = ""


def _tiles(facts: Facts, kept: KeptSection | None) -> list[Tile]:
    tiles = []
    for term in facts.terms[:2] if facts.mixture is not None else ():
        value = number(facts.mixture.scores.get(term.name))  # type: ignore[union-attr]
        tiles.append(Tile(f"{term.label} of the mixture", value, "on all samples"))
        tiles += _baseline_tiles(facts, term)
    tiles += [Tile(*card) for card in kept.cards] if kept else []
    tiles.append(Tile("Samples", f"{facts.samples:,}", duration(facts.seconds)))
    if facts.cost is not None:
        each = facts.cost / facts.samples if facts.samples else 0.0
        tiles.append(Tile("Cost", number(facts.cost), f"{number(each)} per sample"))
    converged = {"yes": ("yes", "good"), "no": ("not yet", "warn"), "unknown": ("unknown", "")}
    value, mood = converged[assess_convergence(facts).verdict]
    return [*tiles, Tile("Converged", value, mood=mood)]


def _baseline_tiles(facts: Facts, term: Term) -> list[Tile]:
    tiles = []
    for baseline, found in (
        ("the best single arm", facts.vs_best_arm),
        ("equal shares", facts.vs_uniform),
    ):
        if found is not None and len(facts.weights or ()) >= 2:
            share = found.improvement(term)
            mood = "" if not share else "good" if share > 0 else "bad"
            title = f"{short_name(term.name)} vs. {baseline}"
            note = f"in sets of {found.size:,} samples"
            if found.limit is not None:
                note += " with at most half of the {1:,} from {0}".format(*found.limit)
            if found is facts.vs_uniform and facts.is_uniform_too_expensive:
                note += "; equal shares cost more than the budget allows"
            is_unclear = share == 0.0 and not found.is_equal(term, SIMILAR_SCORE)
            tiles.append(Tile(title, "unclear" if is_unclear else _signed(share), note, mood))
    return tiles


def _signed(share: float | None) -> str:
    if share is None:
        return "–"
    if abs(share) < sentences.SAME_SCORE / 2:
        return "no difference"
    return f"{'+' if share > 0 else '−'}{sentences.percent_size(share)}"


def _mood(facts: Facts) -> str:
    """Return how the run ended, for its color."""
    if sentences.fell_short(facts) or sentences.ran_out(facts):
        return "warn"
    return {"finished": "good", "trouble": "bad"}.get(facts.status, "warn")


# -- charts ------------------------------------------------------------------------------------------

CAPTIONS = {
    "scores": "Scores on all samples of this run.{uniform} Small sets score worse than large ones, so a "
    "single arm looks slightly worse than it is.",
    "weights": "The mixture over time{part}. The weights are equal until the warm start is complete.",
    "pooled": "The score of all samples so far.{levels}",
    "map": "First two principal components of the embeddings of {shown} samples. Samples that are close "
    "here need not be close in all dimensions. Use the arrow keys to move from dot to dot.",
    "cost": "The line shows the best mixtures; from right to left, cost gets more weight. "
    "Single dots show the arms alone and the final mixture of this run.{limits}{budget}",
    "frontier": "The best mixture for each mean cost per sample, from the cheapest one on the left to the "
    "best one at any cost on the right.{limits}{budget}",
}


class Figure(NamedTuple):
    """A chart on the page; ``svg`` is empty if there is nothing to draw."""

    name: str
    title: str
    svg: str
    caption: str


def _figure(facts: Facts, name: str) -> Figure:
    title, caption = TITLES[name], _caption(facts, name)
    try:
        chart = FIGURES[name](facts)
    except GenmixError as error:  # e.g. Altair is not installed; the text is still useful
        return Figure(name, title, "", str(error))
    if chart is None:
        return Figure(name, title, "", why_missing(facts, name))
    return Figure(name, title, Markup(inline_svg(chart, name, f"{title}: {caption}")), caption)


def _missing(figures: list[Figure]) -> list[str]:
    """Say which charts are not on the page, in one sentence per reason."""
    titles: dict[str, list[str]] = {}
    for each in figures:
        if not each.svg:
            titles.setdefault(each.caption, []).append(f"“{each.title}”")
    return [f"Not drawn: {listed(names)}. {reason}" for reason, names in titles.items()]


def _caption(facts: Facts, name: str) -> str:
    text = CAPTIONS[name]
    count = len(map_indices(facts))
    shown = f"{count:,}" if count == facts.samples else f"{count:,} out of {facts.samples:,}"
    limit = marked_budget(facts) if "{budget}" in text else None
    budget = (
        "" if limit is None else f" The vertical line is the budget, {number(limit)} per sample."
    )
    limits = " These mixtures satisfy the limits on the weights." if facts.has_weight_limits else ""
    layer = weight_layers(facts).part
    part = "" if layer is None else f", by part {layer} of the arms’ names"
    words = _level_words(facts)
    return text.format(shown=shown, budget=budget, limits=limits, part=part, **words)


def _level_words(facts: Facts) -> dict[str, str]:
    """Describe the scores that charts compare with: single arms, and equal shares if there are several."""
    if facts.scoring is None:
        return {"uniform": "", "levels": ""}
    levels = " Dash-dotted lines show the final scores of single arms"
    if facts.uniform is None:
        return {"uniform": "", "levels": f"{levels}."}
    which = "the remaining arms" if facts.has_retired_arms else "all arms"
    return {
        "uniform": f" Equal shares give {which} the same weight.",
        "levels": f"{levels}; the dotted line shows the final score of equal shares.",
    }


def _map_data(facts: Facts) -> dict[str, Any] | None:
    """Collect the text for each point on the map for use by the script."""
    if len(facts.subset.rows) < 3:
        return None
    index = {arm: i for i, arm in enumerate(facts.labels)}
    points = []
    for i in map_indices(facts).tolist():
        row = facts.subset.rows[i]
        image = f"images/{row['image']}" if row["image"] else None
        text = row["text"] or image or source_name(row["source"]) or ""
        points.append([index[str(facts.subset.arms[i])], shortened(visible(text), MAX_TIP)])
    return {"arms": facts.labels, "points": points}


# -- arms and settings -------------------------------------------------------------------------------

Column = tuple[str, Callable[[Arm], str]]


class ArmTable(NamedTuple):
    """The arms to show; if there are many, the leading ones, the sum of the others, and sums by names."""

    shown: list[Arm]
    others: Total | None
    parts: list[list[Total]]


def _arm_table(facts: Facts) -> ArmTable:
    known = facts.labels, facts.weights or {}, facts.counts
    names = set(leading(*known))
    shown = [arm for arm in facts.arms if arm.label in names]
    parts = name_parts(*known)
    if len(shown) == len(facts.arms):
        return ArmTable(shown, None, parts)
    shown.sort(key=lambda arm: (-(arm.weight or 0.0), -arm.count))
    rest = [arm for arm in facts.labels if arm not in names]
    return ArmTable(shown, Total.of("", rest, facts.weights or {}, facts.counts), parts)


def _columns(facts: Facts) -> list[Column]:
    """Return the titles and cells of the columns after those for samples and weight."""
    terms = [] if facts.weights_by_group else facts.terms  # arms answer different prompts
    columns = [_score_column(term) for term in terms]
    if terms and len(facts.weights or ()) > 1:
        columns.append(("Loss increase without it", _loss_increase))
    if any(arm.quality is not None for arm in facts.arms):
        columns.append(("Quality", lambda arm: number(arm.quality)))
    if facts.cost is not None:
        columns.append(("Cost", lambda arm: number(arm.cost)))
        columns.append(("Cost per sample", lambda arm: number(arm.cost_per_sample)))
    columns.append(("Failures", lambda arm: f"{arm.failures:,}"))
    if any(arm.innovation is not None for arm in facts.arms):
        columns.append(("Innovation", lambda arm: number(arm.innovation, 3)))
    return columns


def _legend(facts: Facts) -> list[tuple[str, str]]:
    """Return the terms of the table's header that need an explanation, each with its meaning."""
    titles = {title for title, _ in _columns(facts)}
    found = [
        ("Weight", "the arm's share of the final mixture; “–” means that it is not in the mixture")
    ]
    if facts.intervals:
        found.append(("Interval", INTERVAL.format(level=percent(facts.intervals.level))))
    if any(title.endswith(" alone") for title in titles):
        found.append(
            ("Alone", "the score of the arm's own samples; small sets score worse than large ones")
        )
    if "Loss increase without it" in titles:
        found.append(("Loss increase", LOSS_INCREASE + _unknown_increase(facts)))
    if "Innovation" in titles:
        found.append(("Innovation", INNOVATION))
    return found


INTERVAL = (
    "the range next to the weight shows its uncertainty. The weight in the best mixture of infinitely many "
    "samples from these arms is in this range with a probability of about {level} (bootstrap). The gap, in "
    "contrast, covers only the samples of this run"
)
LOSS_INCREASE = (
    "how much the minimum loss increases without the arm; 0 means that the arm is not needed"
)
INNOVATION = (
    "λ_max(S_i − Σ_j S_j); above 0, the arm has a direction that the other arms together lack"
)


def _unknown_increase(facts: Facts) -> str:
    """Say why the loss increase of some arms is unknown."""
    unknown = [arm for arm in facts.arms if arm.leave_one_out is None]
    if not unknown:
        return ""
    reasons = [] if all(arm.weight is not None for arm in unknown) else ["it is not in the mixture"]
    if facts.scoring is not None and len(facts.arms) > facts.scoring.max_solves:
        reasons.append("it was not computed, because there are many arms")
    elif any(arm.weight is not None for arm in unknown):
        reasons.append("no mixture of the other arms was found that satisfies the limits")
    return f"; “–” means that {listed(reasons, 'or that')}"


def _score_column(term: Term) -> Column:
    return f"{term.label} alone", lambda arm: number(arm.single_scores.get(term.name))


def _loss_increase(arm: Arm) -> str:
    increase = number(arm.leave_one_out, 3)
    return f"+{increase}" if arm.leave_one_out else increase


def _shelves(facts: Facts) -> list[Shelf]:
    """Return the samples of each arm, or of each group of prompts if they have groups."""
    groups = groups_of_samples(facts)
    if groups is None:
        names = leading(facts.labels, facts.weights or {}, facts.counts, MAX_SHELVES)
    else:
        names = list(facts.weights_by_group)[:MAX_GROUPS]
    return gallery(facts.subset, names, facts.folder, facts.compares_directions, groups)


def _failing_arms(facts: Facts) -> list[Arm]:
    failing = [arm for arm in facts.arms if arm.failures and arm.last_failure is not None]
    return sorted(failing, key=lambda arm: -arm.failures)[:MAX_FAILURES]


def _study(facts: Facts) -> str:
    text = yaml.safe_dump(facts.study, sort_keys=False, allow_unicode=True)
    return without_secrets(shortened(text, MAX_STUDY))
