"""The report as one HTML file: no network, no script but its own, and other people's text as text."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib import resources
from string import Template

import yaml

from genmix import __version__
from genmix.charts.names import short_name
from genmix.core.text import duration, number, percent
from genmix.errors import GenmixError
from genmix.report import sentences as words
from genmix.report.facts import Arm, Facts, Term
from genmix.report.figures import FIGURES, TITLES, colours, figure, leading, map_places
from genmix.report.gallery import Shelf, Shown, gallery, source_name
from genmix.report.sanitize import clipped, escaped, script_json, visible, without_secrets
from genmix.report.svg import inline

TIP_LETTERS = 240
MOST_FAILURES = 20
OPEN_SHELVES = 8
"""Arms up to whose number their samples are shown at once; of more, each when it is asked for."""
TIP = '<p id="tip" aria-live="polite">Point at a dot to read its sample here.</p>'
MOST_SETTINGS = 40_000
"""Letters of the study that are shown."""


def render(facts: Facts) -> str:
    """The whole page."""
    style, script = _own("page.css"), _own("page.js")
    parts = [_top(facts), _next(facts), _charts(facts), _arms(facts), _gallery(facts), _end(facts)]
    return Template(_own("page.html")).substitute(
        policy=_policy(style, script),
        title=escaped(facts.name),
        subtitle=_subtitle(facts),
        version=escaped(__version__),
        style=style,
        script=script,
        data=_map_data(facts),
        content="\n".join(part for part in parts if part),
    )


def _own(name: str) -> str:
    return resources.files("genmix.report").joinpath(name).read_text("utf-8")


def _policy(style: str, script: str) -> str:
    return (
        f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {_hash(script)}; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def said(words: str) -> str:
    """A sentence whose percent signs stay with their numbers."""
    return re.sub(r"(?<=\d) %", "&nbsp;%", escaped(words))


def section(title: str, *content: str) -> str:
    inside = "\n".join(part for part in content if part)
    return f"<section>\n<h2>{escaped(title)}</h2>\n{inside}\n</section>" if inside else ""


def _subtitle(facts: Facts) -> str:
    parts = [f"run {facts.folder.resolve().name}"]
    if facts.began is not None:
        parts.append(datetime.fromtimestamp(facts.began, UTC).strftime("%d %B %Y, %H:%M UTC"))
    parts.append(facts.objective if len(facts.objective) < 200 else clipped(facts.objective, 200))
    return escaped(" · ".join(parts))


# -- what a user came for ----------------------------------------------------------------------------


def _top(facts: Facts) -> str:
    sentences = [*words.score_words(facts), words.cost_words(facts), words.settled_words(facts)]
    kind = {"finished": "good", "trouble": "bad"}.get(facts.status, "warn")
    return section(
        "What came of it",
        '<div class="card">',
        f'<p class="lead">{said(words.mixture_words(facts))}</p>',
        _share_bar(facts),
        *(f"<p>{said(sentence)}</p>" for sentence in sentences),
        f'<p class="status {kind}">{said(words.end_words(facts))}</p>',
        "</div>",
        _tiles(facts),
    )


def _share_bar(facts: Facts) -> str:
    if not facts.weights:
        return ""
    shades = colours(facts)
    shares = {arm: facts.weights[arm] for arm in shades if arm in facts.weights}
    if len(leading(facts)) < len(facts.arms):
        *_, other = shades
        shares[other] = max(1.0 - sum(w for arm, w in shares.items() if arm != other), 0.0)
    x, rects = 0.0, []
    for arm, share in shares.items():
        width = 1000 * share
        rects.append(f'<rect x="{x:.1f}" width="{width:.1f}" height="10" fill="{shades[arm]}"/>')
        x += width
    key = "".join(
        f"<li>{_dot(shades[arm])}{escaped(arm)} {percent(share)}</li>"
        for arm, share in shares.items()
    )
    return (
        '<svg class="share" viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true">'
        f'{"".join(rects)}</svg><ul class="key" aria-label="Weights">{key}</ul>'
    )


def _dot(colour: str) -> str:
    return (
        f'<svg class="dot" viewBox="0 0 8 8" aria-hidden="true">'
        f'<rect width="8" height="8" rx="1.5" fill="{colour}"/></svg>'
    )


def _tiles(facts: Facts) -> str:
    tiles = []
    for term in facts.terms[:2]:
        if facts.mixture is None:
            continue
        arrow = "↑" if term.maximise else "↓"
        mine = facts.mixture.scores
        title = f"{short_name(term.name)} {arrow} of the mixture"
        tiles.append(_tile(title, number(mine.get(term.name)), "on all samples in hand"))
        tiles += _rival_tiles(facts, term)
    tiles.append(_tile("Samples", f"{facts.samples:,}", duration(facts.seconds)))
    if facts.cost is not None:
        each = facts.cost / facts.samples if facts.samples else 0.0
        tiles.append(_tile("Cost", number(facts.cost), f"{number(each)} a sample"))
    verdict = words.settled(facts).verdict
    shown = {"yes": ("yes", "good"), "no": ("not yet", "warn"), "unknown": ("cannot be said", "")}
    tiles.append(_tile("Converged", shown[verdict][0], "", shown[verdict][1]))
    return f'<dl class="tiles">{"".join(tiles)}</dl>'


def _rival_tiles(facts: Facts, term: Term) -> list[str]:
    found = []
    for what, rival in (
        ("best arm", facts.against_best_arm),
        ("even mixture", facts.against_even),
    ):
        if rival is None or len(facts.weights or ()) < 2:
            continue
        share = words.told_apart(term, rival)
        kind = "" if not share else "good" if share > 0 else "bad"
        title = f"{short_name(term.name)} against the {what}"
        found.append(_tile(title, _signed(share), f"in sets of {rival.size:,} samples", kind))
    return found


def _signed(share: float | None) -> str:
    if share is None:
        return "–"
    if abs(share) < words.SAME / 2:
        return "no difference"
    return f"{'+' if share > 0 else '−'}{words.size_of(share)} %"


def _tile(title: str, value: str, below: str = "", kind: str = "") -> str:
    small = f'<dd class="small">{escaped(below)}</dd>' if below else ""
    return (
        f'<div><dt>{escaped(title)}</dt><dd class="big {kind}">{escaped(value)}</dd>{small}</div>'
    )


def _next(facts: Facts) -> str:
    items = "".join(
        f'<li class="step-{step.kind}">{said(step.words)}</li>' for step in words.next_steps(facts)
    )
    return section("What to do next", f'<div class="card"><ol class="next">{items}</ol></div>')


# -- charts ------------------------------------------------------------------------------------------

CAPTIONS = {
    "scores": "Scores of the samples in hand; the even mixture weighs all arms alike. Few samples score "
    "worse than many, so an arm alone looks a little worse than it is.",
    "weights": "The mixture over time; even until the warm start is complete.",
    "pooled": "All samples as one set, as they came; broken lines are the arms alone and, dotted, "
    "an even mixture, at the end.",
    "map": "What is near here need not be near in all dimensions. The arrow keys step from dot to dot.",
    "cost": "Along the line cost counts more and more, from right to left; single dots are the arms "
    "alone and what this run ended with.",
}
ABSENT = {
    "scores": "There is no mixture to score yet.",
    "weights": "Nothing was written down of how the weights went.",
    "pooled": "Nothing was written down of how the score went.",
    "map": "There are too few samples for a map.",
    "cost": "No costs are known of every arm, or all cost the same.",
}


def _charts(facts: Facts) -> str:
    figures = [_figure(facts, name) for name in FIGURES]
    return section("Charts", f'<div class="charts">{"".join(figures)}</div>')


def _figure(facts: Facts, name: str) -> str:
    title, caption = TITLES[name], _caption(facts, name)
    try:
        chart = figure(facts, name)
        drawn = "" if chart is None else inline(chart, name, f"{title}: {caption}")
        caption = ABSENT[name] if chart is None else caption
    except GenmixError as error:  # Altair is not there, say: the words still are
        drawn, caption = "", f"This chart could not be drawn: {error}"
    tip = TIP if drawn and name == "map" else ""
    return (
        f'<figure id="{name}"><h3>{escaped(title)}</h3>{drawn}{tip}'
        f"<figcaption>{escaped(caption)}</figcaption></figure>"
    )


def _caption(facts: Facts, name: str) -> str:
    if name == "scores" and facts.has_leavers:
        return CAPTIONS[name].replace("all arms", "the arms still drawn from")
    if name != "map":
        return CAPTIONS[name]
    shown = len(map_places(facts))
    part = "" if shown == facts.samples else f" out of {facts.samples:,}"
    return (
        f"Two principal components of the embeddings of {shown:,} samples{part}. {CAPTIONS[name]}"
    )


def _map_data(facts: Facts) -> str:
    """What the points of the map say, for the script."""
    if len(facts.chosen.rows) < 3:
        return ""
    labels = [arm.label for arm in facts.arms]
    place = {arm: i for i, arm in enumerate(labels)}
    points = []
    for i in map_places(facts).tolist():
        row = facts.chosen.rows[i]
        said = row["text"] or (
            f"images/{row['image']}" if row["image"] else source_name(row["source"])
        )
        points.append([place[str(facts.chosen.arms[i])], clipped(visible(said or ""), TIP_LETTERS)])
    content = script_json({"arms": labels, "points": points})
    return f'<script type="application/json" id="map-data">{content}</script>'


# -- arms --------------------------------------------------------------------------------------------


def _arms(facts: Facts) -> str:
    columns = _columns(facts)
    head = "".join(f'<th scope="col">{escaped(title)}</th>' for title, _ in columns)
    shades = colours(facts)
    *_, other = shades.values()
    rows = []
    for arm in facts.arms:
        dot = _dot(shades.get(arm.label, other))
        cells = "".join(f"<td>{cell(arm)}</td>" for _, cell in columns)
        rows.append(f'<tr><th scope="row">{dot}{escaped(arm.label)}</th>{cells}</tr>')
    table = (
        '<div class="card scroll" tabindex="0" role="region" aria-label="Table of the arms">'
        f'<table><thead><tr><th scope="col">Arm</th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )
    return section("Arms", table, _legend(facts))


Column = tuple[str, Callable[[Arm], str]]


def _columns(facts: Facts) -> list[Column]:
    found: list[Column] = [("Samples", lambda arm: f"{arm.count:,}"), ("Weight", _weight)]
    for term in facts.terms:
        found.append(_score_column(term.name, term.maximise))
    if facts.terms:
        found.append(("Loss without it", lambda arm: _rise(arm)))
    if any(arm.quality is not None for arm in facts.arms):
        found.append(("Quality", lambda arm: number(arm.quality)))
    if facts.cost is not None:
        found.append(("Cost", lambda arm: number(arm.cost)))
        found.append(("Cost a sample", lambda arm: number(arm.cost_each)))
    found.append(("Failures", lambda arm: f"{arm.failures:,}"))
    if any(arm.innovation is not None for arm in facts.arms):
        found.append(("Innovation", lambda arm: number(arm.innovation, 3)))
    return found


def _score_column(name: str, maximise: bool) -> Column:
    title = f"{short_name(name)} {'↑' if maximise else '↓'} alone"
    return title, lambda arm: number(arm.single.get(name))


def _weight(arm: Arm) -> str:
    if arm.weight is None:
        return "–"
    return (
        f"{arm.weight:.3f}"
        '<svg class="bar" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="back" width="100" height="6"/>'
        f'<rect width="{100 * arm.weight:.1f}" height="6" fill="#4C8CC0"/></svg>'
    )


def _rise(arm: Arm) -> str:
    return "–" if arm.leave_one_out is None else f"+{number(arm.leave_one_out, 3)}"


def _legend(facts: Facts) -> str:
    terms = {
        "Weight": "its part in the mixture at the end; – where the arm was out of it",
        "Alone": "the score of the arm's own samples; fewer samples score worse by that alone",
        "Loss without it": "by how much the least loss of a mixture rises if the arm is left out; "
        "0: it is not needed",
        "Innovation": "λ_max(S_i − Σ_j S_j): above 0 the arm has a direction that all others "
        "together lack",
    }
    rows = "".join(f"<dt>{escaped(k)}</dt><dd>{escaped(v)}</dd>" for k, v in terms.items())
    depends = (
        f'<p class="note">Scores depend on: {escaped(facts.details)}.</p>' if facts.details else ""
    )
    return f'<dl class="terms">{rows}</dl>{depends}'


# -- samples -----------------------------------------------------------------------------------------


def _gallery(facts: Facts) -> str:
    labels = [arm.label for arm in facts.arms]
    shelves = gallery(facts.chosen, labels, facts.folder, facts.unit)
    if not shelves:
        return ""
    note = (
        '<p class="note">Typical samples lie nearest to the mean embedding of their arm, unusual ones '
        "farthest from it. They are shown as the generators gave them.</p>"
    )
    few = len(shelves) <= OPEN_SHELVES
    return section("Samples", note, *(_shelf(shelf, few) for shelf in shelves))


def _shelf(shelf: Shelf, is_open: bool) -> str:
    return (
        f'<details class="card shelf"{" open" if is_open else ""}>'
        f"<summary><h3>{escaped(shelf.arm)}</h3></summary>"
        f"{_row('Most typical', shelf.typical)}{_row('Most unusual', shelf.unusual)}</details>"
    )


def _row(title: str, samples: Sequence[Shown]) -> str:
    if not samples:
        return ""
    pictures = " pictures" if any(sample.picture for sample in samples) else ""
    items = "".join(f"<li>{_sample(sample, title)}</li>" for sample in samples)
    return f'<h4>{escaped(title)}</h4><ul class="samples{pictures}">{items}</ul>'


def _sample(sample: Shown, kind: str) -> str:
    facts = [f"#{sample.ticket}"]
    if sample.times > 1:
        facts.append(f"{sample.times}×")
    if sample.source is not None and sample.text is None and sample.picture is None:
        body = f'<p class="text">{escaped(sample.source)}</p>'
    elif sample.picture is not None:
        alt = f"{kind.lower()} sample of {sample.arm}, number {sample.ticket}"
        body = f'<img src="{escaped(sample.picture)}" alt="{escaped(alt)}">'
    elif sample.trouble is not None:
        body = f'<p class="text">{escaped(sample.trouble)}</p>'
    else:
        body = f'<p class="text" dir="auto">{escaped(sample.text or "(no content)")}</p>'
    if sample.prompt:
        facts.append(f"prompt: {sample.prompt}")
    return f'{body}<p class="meta">{escaped(" · ".join(facts))}</p>'


# -- settings ----------------------------------------------------------------------------------------


def _end(facts: Facts) -> str:
    notes = "".join(f'<p class="note">{escaped(note)}</p>' for note in facts.notes)
    study = clipped(yaml.safe_dump(facts.study, sort_keys=False, allow_unicode=True), MOST_SETTINGS)
    versions = ", ".join(f"{name} {version}" for name, version in facts.versions.items())
    return section(
        "Settings and versions",
        notes,
        f'<p class="note">Run with {escaped(versions)}; policy {escaped(facts.policy)}.</p>',
        _failures(facts),
        f"<details><summary>The study</summary><pre>{escaped(without_secrets(study))}</pre></details>",
    )


def _failures(facts: Facts) -> str:
    told: Counter[tuple[str, str]] = Counter()
    for arm in facts.arms:
        if arm.failures and arm.last_failure is not None:
            told[(arm.label, arm.last_failure)] = arm.failures
    if not told:
        return ""
    items = "".join(
        f"<li>{escaped(arm)}, {count:,}×; the last: {escaped(clipped(message, 400))}</li>"
        for (arm, message), count in told.most_common(MOST_FAILURES)
    )
    return f"<details><summary>Failures</summary><ul>{items}</ul></details>"
