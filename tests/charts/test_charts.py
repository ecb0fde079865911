"""Figures: what is drawn is what was given, in colors that everyone can tell apart."""

from __future__ import annotations

import itertools
import json
import math
import os
import random
import re
import struct
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from genmix import charts
from genmix.charts import Panel, style
from genmix.charts.axes import bar_label, log_ticks, text_width, title_lines
from genmix.errors import InputError, StorageError

SVG = "{http://www.w3.org/2000/svg}"
XS = (10, 20, 50, 100, 300, 1000)
EVERY = list(style.POLICY_STYLES)


def curve_rows(series: Any, xs: Any = XS) -> list[dict[str, Any]]:
    return [
        {"series": s, "x": x, "mean": 3 + i + 5 / x, "low": 2 + i + 5 / x, "high": 4 + i + 5 / x}
        for i, s in enumerate(series)
        for x in xs
    ]


def panel(series: Any, **settings: Any) -> Panel:
    given = {"title": "City", "rows": curve_rows(series), "y": "FD ↓ (lower is better)", **settings}
    return Panel(**given)


def bar_rows(labels: Any, panel: str | None = None) -> list[dict[str, Any]]:
    kinds = {"mixture": "mixture", "even": "even"}
    named = {} if panel is None else {"panel": panel}
    return [
        {"label": b, "mean": i + 2, "low": i + 1.5, "high": i + 2.5, "kind": kinds.get(b, "arm")}
        | named
        for i, b in enumerate(labels)
    ]


def share_rows(arms: Any, panels: Any = ("greedy",)) -> list[dict[str, Any]]:
    return [
        {"arm": a, "x": x, "share": 1 / len(arms), "panel": p}
        for p in panels
        for a in arms
        for x in XS
    ]


def interval_rows(labels: Any, **more: Any) -> list[dict[str, Any]]:
    return [
        {"label": label, "mean": i - 1, "low": i - 1.5, "high": i - 0.5, **more}
        for i, label in enumerate(labels)
    ]


def drawn(chart: Any, folder: Path) -> ElementTree.Element:
    (path,) = charts.save(chart, folder / "figure", ("svg",))
    return ElementTree.parse(path).getroot()


def marks(root: ElementTree.Element, kind: str, role: str = "mark") -> list[ElementTree.Element]:
    """What was drawn with one kind of mark, legend and titles of panels included."""
    groups = [
        g for g in root.iter(f"{SVG}g") if f"mark-{kind} role-{role}" in (g.get("class") or "")
    ]
    return [child for group in groups for child in group]


def words(root: ElementTree.Element) -> list[str]:
    """Every text, one whose lines were broken in pieces."""
    return ["".join(t.itertext()) for t in root.iter(f"{SVG}text")]


def colors(found: list[ElementTree.Element], what: str = "stroke") -> list[str]:
    return [(element.get(what) or "").upper() for element in found]


ALL: dict[str, Any] = {
    "curves": lambda: charts.curves([panel(EVERY[:3]), panel(EVERY[:2])]),
    "sweep": lambda: charts.sweep([panel(EVERY[:3], x="w")]),
    "bars": lambda: charts.bars(bar_rows(["VAE", "GAN", "even", "mixture"]), "FD ↓"),
    "lying bars": lambda: charts.bars(bar_rows(["a very long name of an arm", "mixture"]), "FD ↓"),
    "shares": lambda: charts.shares(share_rows(["VAE", "GAN"]), y="share ↑"),
    "intervals": lambda: charts.intervals(interval_rows(["city", "fashion"]), "difference ↑"),
}


# What is drawn


def test_a_line_and_a_band_for_each_series_of_each_panel(tmp_path: Path) -> None:
    root = drawn(charts.curves([panel(EVERY[:4]), panel(EVERY[:2])]), tmp_path)
    for kind in ("line", "area"):
        assert len(marks(root, kind)) == 6
    assert len(marks(root, "rule")) == 4  # the samples of the one legend


@pytest.mark.parametrize("count, columns", [(1, 2), (2, 2), (3, 3), (6, 3)])
def test_every_panel_is_there_with_its_titles(tmp_path: Path, count: int, columns: int) -> None:
    panels = [panel(EVERY, title=f"world {i}", y=f"score {i} ↑") for i in range(count)]
    root = drawn(charts.curves(panels, columns=columns), tmp_path)
    found = words(root)
    for i in range(count):
        assert found.count(f"world {i}") == found.count(f"score {i} ↑") == 1
    assert len(marks(root, "line")) == len(EVERY) * count
    for label in EVERY:
        assert found.count(label) == 1


def test_panels_stand_in_columns(tmp_path: Path) -> None:
    sizes = {
        columns: drawn(charts.curves([panel(EVERY[:1])] * 6, columns=columns), tmp_path)
        for columns in (2, 3)
    }
    wide, high = float(sizes[2].get("width") or 0), float(sizes[2].get("height") or 0)
    assert float(sizes[3].get("width") or 0) == pytest.approx(wide, rel=0.08)  # the same page
    assert float(sizes[3].get("height") or 0) < 0.75 * high


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_a_figure_is_no_wider_than_the_page(tmp_path: Path, columns: int) -> None:
    root = drawn(charts.curves([panel(EVERY)] * columns, columns=columns), tmp_path)
    assert float(root.get("width") or 0) <= (260 if columns == 1 else 530)


def test_a_series_of_some_panels_only_is_in_the_legend_and_keeps_its_color(
    tmp_path: Path,
) -> None:
    root = drawn(charts.curves([panel(["Uniform"]), panel(["new", "Uniform"])]), tmp_path)
    assert words(root).count("new") == words(root).count("Uniform") == 1
    lines = colors(marks(root, "line"))
    assert lines.count(style.POLICY_STYLES["Uniform"].color) == 2
    assert lines.count(style.label_styles(["new"])["new"].color) == 1


def test_a_sweep_has_points_and_a_linear_axis(tmp_path: Path) -> None:
    rows = [{**row, "x": i / 5} for i, row in enumerate(curve_rows(["Mixture-Greedy"]))]
    root = drawn(charts.sweep([panel([], rows=rows, x="weight w")]), tmp_path)
    assert len(marks(root, "line")) == 1
    dots = marks(root, "symbol")
    assert len(dots) == 6 + 1  # and one in the legend
    places = [float(re.findall(r"[\d.]+", d.get("transform") or "")[0]) for d in dots[:6]]
    assert np.allclose(np.diff(places), places[1] - places[0], atol=0.01)


def test_bars_start_at_zero_and_the_mixture_stands_out(tmp_path: Path) -> None:
    root = drawn(charts.bars(bar_rows(["VAE", "GAN", "even", "mixture"]), "FD ↓"), tmp_path)
    found = marks(root, "rect")
    bars = [b for b in found if b.get("aria-roledescription") == "bar"]
    assert len(bars) == 4
    assert colors(bars, "fill") == [
        style.ARM_BAR,
        style.ARM_BAR,
        style.POLICY_STYLES["Uniform"].color,
        style.POLICY_STYLES["Mixture-Greedy"].color,
    ]
    heights = [float(re.findall(r"v([\d.]+)", b.get("d") or "")[0]) for b in bars]
    assert np.allclose(np.array(heights) / heights[0], np.array([2, 3, 4, 5]) / 2, atol=0.01)
    assert len(marks(root, "rule")) == 4  # error bars
    assert {"2.00", "3.00", "4.00", "5.00"} <= set(words(root))


def test_bars_with_long_names_lie_and_their_names_are_whole(tmp_path: Path) -> None:
    arms = ["SmolLM2-135M-Instruct, plain", "Gemma-3-270M, twenty examples", "mixture"]
    rows = bar_rows(arms, "FFHQ") + bar_rows(arms, "Bedroom")
    root = drawn(charts.bars(rows, "FD ↓"), tmp_path)
    assert [w for w in words(root) if w in arms] == arms  # once, beside the first panel
    widths = [
        float(re.findall(r"h([\d.]+)", b.get("d") or "")[0])
        for b in marks(root, "rect")
        if b.get("aria-roledescription") == "bar"
    ]
    assert len(widths) == 6
    assert np.allclose(np.array(widths[:3]) / widths[0], [1, 1.5, 2], atol=0.01)


def test_a_known_policy_among_the_bars_keeps_its_color(tmp_path: Path) -> None:
    rows = [{**row, "kind": "mixture"} for row in bar_rows(["Mixture-UCB", "Mixture-OGD"])]
    root = drawn(charts.bars(rows, "FD ↓"), tmp_path)
    bars = [b for b in marks(root, "rect") if b.get("aria-roledescription") == "bar"]
    assert colors(bars, "fill") == [style.VERMILLION, style.PURPLE]


def test_shares_have_one_area_an_arm_and_the_colors_of_arms(tmp_path: Path) -> None:
    arms = ["VAE", "GAN", "a much longer name of an arm, with its temperature"]
    root = drawn(charts.shares(share_rows(arms, ("greedy", "UCB"))), tmp_path)
    areas = marks(root, "area")
    assert len(areas) == 6
    assert colors(areas, "fill") == list(style.ARM_COLORS[:3]) * 2
    assert {"greedy", "UCB", *arms} <= set(words(root))


def test_intervals_show_each_row_and_are_hollow_where_they_hold_zero(tmp_path: Path) -> None:
    root = drawn(charts.intervals(interval_rows(["city", "fashion", "breeds"]), "gain ↑"), tmp_path)
    rules = marks(root, "rule")
    assert len(rules) == 1 + 3  # the rule at zero, and the intervals
    assert len(marks(root, "symbol")) == 3 + 1  # one of three holds zero
    assert colors(marks(root, "symbol"), "fill").count("WHITE") == 1


def test_groups_of_intervals_have_colors_and_a_legend(tmp_path: Path) -> None:
    rows = [
        row
        for group in ("Mixture-UCB", "tracking − iid")
        for row in interval_rows(["city", "fashion"], group=group)
    ]
    root = drawn(charts.intervals(rows, "gain ↑"), tmp_path)
    expected = style.label_styles(["Mixture-UCB", "tracking − iid"])
    found = colors(marks(root, "rule"))
    for label, look in expected.items():
        assert found.count(look.color) == 2
        assert words(root).count(label) == 1
    heights = {d.get("transform") for d in marks(root, "symbol")}
    assert len(heights) >= 6  # nothing is drawn over another


@pytest.mark.parametrize("name", ALL)
def test_arrows_survive(name: str, tmp_path: Path) -> None:
    found = words(drawn(ALL[name](), tmp_path))
    assert any(word.endswith(("FD ↓", "FD ↓ (lower is better)", "↑")) for word in found)


def test_greek_survives(tmp_path: Path) -> None:
    series = ["Mixture-UCB δ=0.6", "ε-greedy"]
    assert set(series) <= set(words(drawn(charts.curves([panel(series)]), tmp_path)))


def test_the_mixture_is_drawn_last_whatever_the_order_of_the_rows(tmp_path: Path) -> None:
    rows = curve_rows(EVERY)
    random.Random(0).shuffle(rows)
    root = drawn(charts.curves([panel([], rows=rows)]), tmp_path)
    assert colors(marks(root, "line"))[-1] == style.POLICY_STYLES["Mixture-Greedy"].color


# Gaps


@pytest.mark.parametrize(
    "nothing",
    [
        None,
        math.nan,
        pytest.param(math.inf, marks=pytest.mark.drill),
        pytest.param(np.float64("nan"), marks=pytest.mark.drill),
    ],
)
def test_what_is_not_a_number_leaves_a_gap(nothing: Any, tmp_path: Path) -> None:
    rows = curve_rows(["Mixture-Greedy"])
    rows[2].update(mean=nothing, low=nothing, high=nothing)
    root = drawn(charts.curves([panel([], rows=rows)]), tmp_path)
    (line,), (band,) = marks(root, "line"), marks(root, "area")
    assert (line.get("d") or "").count("M") == 2
    assert (band.get("d") or "").count("M") == 2
    assert "NaN" not in ElementTree.tostring(root, encoding="unicode")


def test_a_lonely_mean_is_a_dot(tmp_path: Path) -> None:
    rows = curve_rows(["Mixture-Greedy"], xs=(10,)) + curve_rows(["Mixture-UCB"])
    for given in (rows, rows[:1]):
        root = drawn(charts.curves([panel([], rows=given)]), tmp_path)
        assert colors(marks(root, "symbol"), "fill") == [style.BLUE]


def test_a_curve_without_a_band(tmp_path: Path) -> None:
    rows = [{"series": "Mixture oracle", "x": x, "mean": 1.0} for x in XS]
    root = drawn(charts.curves([panel([], rows=rows)]), tmp_path)
    assert len(marks(root, "line")) == 1


def test_a_panel_with_nothing_but_gaps_is_an_empty_frame(tmp_path: Path) -> None:
    rows = [{"series": "Uniform", "x": x, "mean": math.nan} for x in XS]
    for log_y in (False, True):
        root = drawn(charts.curves([panel([], rows=rows, log_y=log_y)]), tmp_path)
        assert "Uniform" in words(root)


def test_a_band_below_zero_stays_on_a_logarithmic_axis(tmp_path: Path) -> None:
    rows = [{**row, "mean": 1 / row["x"], "low": -1, "high": 2} for row in curve_rows(["Uniform"])]
    rows[0]["mean"] = -1
    root = drawn(charts.curves([panel([], rows=rows, log_y=True)]), tmp_path)
    text = ElementTree.tostring(root, encoding="unicode")
    assert "NaN" not in text
    assert "Infinity" not in text


def test_a_missing_bar_keeps_its_name(tmp_path: Path) -> None:
    rows = bar_rows(["VAE", "GAN", "mixture"])
    rows[1].update(mean=None, low=None, high=None)
    found = words(drawn(charts.bars(rows, "FD ↓"), tmp_path))
    assert {"GAN", "–"} <= set(found)


def test_a_missing_share_is_a_gap_in_all_arms(tmp_path: Path) -> None:
    rows = share_rows(["VAE", "GAN"])
    rows[2]["share"] = math.nan
    areas = marks(drawn(charts.shares(rows), tmp_path), "area")
    assert all((area.get("d") or "").count("M") == 2 for area in areas)


def test_a_missing_interval_keeps_its_name(tmp_path: Path) -> None:
    rows = interval_rows(["city", "fashion"])
    rows[0].update(mean=math.nan, low=None, high=None)
    assert {"city", "fashion"} <= set(words(drawn(charts.intervals(rows, "gain ↑"), tmp_path)))


# Colors


def test_the_same_color_and_dash_in_every_figure(tmp_path: Path) -> None:
    lines = marks(drawn(charts.curves([panel(EVERY)]), tmp_path), "line")
    sweep = marks(drawn(charts.sweep([panel(EVERY)]), tmp_path), "line")
    differences = drawn(charts.intervals(interval_rows(EVERY), "gain ↑"), tmp_path)
    looks = [(line.get("stroke"), line.get("stroke-dasharray")) for line in lines]
    assert looks == [(line.get("stroke"), line.get("stroke-dasharray")) for line in sweep]
    assert colors(lines)[::-1] == [style.POLICY_STYLES[label].color for label in EVERY]
    assert colors(marks(differences, "rule"))[1:] == colors(lines)[::-1]


def test_every_policy_has_its_own_style_and_no_other_label_takes_it() -> None:
    known = list(style.POLICY_STYLES.values())
    assert len({*known, *style.FURTHER}) == len(known) + len(style.FURTHER)


def test_other_labels_are_stable_and_do_not_depend_on_the_order() -> None:
    labels = ["R = 256", "R = 512", "R = 1024", "cosine", "Mixture-Greedy", "polynomial"]
    first = style.label_styles(labels)
    assert len(set(first.values())) == len(labels)
    for order in itertools.permutations(labels, 6):
        assert style.label_styles(order) == first
    for label in labels:
        assert style.label_styles([label]) == style.label_styles([label, label])


def test_other_labels_are_the_same_in_another_process() -> None:
    code = "from genmix.charts import style; print(style.label_styles(['tracking', 'iid', 'α']))"
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    other = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert other == f"{style.label_styles(['tracking', 'iid', 'α'])}\n"


def test_many_other_labels_all_differ() -> None:
    labels = [f"policy {i}" for i in range(len(style.FURTHER))]
    assert len(set(style.label_styles(labels).values())) == len(labels)
    assert len(style.label_styles([*labels, "one more", "and another"])) == len(labels) + 2


def test_ucb_has_shades_of_one_color_that_darken_with_delta() -> None:
    labels = [f"Mixture-UCB δ={d}" for d in (0, 0.1, 0.3, 0.6, 1.0, 2.0)]
    found = style.label_styles(reversed(labels))
    assert list(found) == labels
    light = [lab(look.color)[0] for look in found.values()]
    assert all(a > b + 4 for a, b in itertools.pairwise(light))
    assert found["Mixture-UCB δ=0.6"] == style.POLICY_STYLES["Mixture-UCB"]
    for label in ("Mixture-UCB δ_L = 0.6", "Mixture-UCB (δ=0.6)"):
        assert style.policy_style(label) == style.POLICY_STYLES["Mixture-UCB"]


def test_more_arms_than_colors_all_differ() -> None:
    arms = [f"arm {i}" for i in range(27)]
    found = style.arm_colors(arms)
    assert len(set(found.values())) == 27
    assert not set(found.values()) & {look.color for look in style.POLICY_STYLES.values()}


SIGHT = {
    "all cones": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
}
"""Machado, Oliveira and Fernandes (2009), of linear RGB, at full severity."""


def lab(color: str, sight: str = "all cones") -> np.ndarray:
    """CIE L*a*b* of a color (white D65) as it is seen."""
    rgb = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(SIGHT[sight] @ linear, 0, 1)
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    xyz = np.array(to_xyz) @ seen / np.array([0.9505, 1.0, 1.089])
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz * (29 / 6) ** 2 / 3 + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def nearest(looks: list[style.Style], sight: str) -> float:
    """The least distance of two styles that only their color tells apart."""
    return min(
        float(np.linalg.norm(lab(a.color, sight) - lab(b.color, sight)))
        for a, b in itertools.combinations(looks, 2)
        if a.dash == b.dash
    )


def test_the_measure_of_colors_knows_what_is_confused() -> None:
    assert lab("#FFFFFF") == pytest.approx([100, 0, 0], abs=0.1)
    assert lab("#FF0000") == pytest.approx([53.2, 80.1, 67.2], abs=0.2)
    confused = [style.Style(style.GRAY), style.Style(style.PURPLE)]
    assert nearest(confused, "all cones") > 40
    assert nearest(confused, "deuteranopia") < 10


@pytest.mark.parametrize("sight", SIGHT)
def test_policies_of_the_same_dash_can_be_told_apart(sight: str) -> None:
    assert nearest(list(style.POLICY_STYLES.values()), sight) > 20
    assert nearest([*style.POLICY_STYLES.values(), *style.FURTHER], sight) > 15


@pytest.mark.parametrize("sight", SIGHT)
def test_neighboring_arms_can_be_told_apart(sight: str) -> None:
    seen = [lab(color, sight) for color in style.ARM_COLORS]
    assert min(float(np.linalg.norm(a - b)) for a, b in itertools.pairwise(seen)) > 10


@pytest.mark.parametrize("look", [*style.POLICY_STYLES.values(), *style.FURTHER])
def test_lines_can_be_seen_on_white(look: style.Style) -> None:
    assert lab(look.color)[0] < 75


# Ticks and titles


@pytest.mark.parametrize(
    "low, high, ticks",
    [
        (10, 2000, [10, 20, 50, 100, 200, 500, 1000, 2000]),
        (10, 1e6, [10, 100, 1000, 1e4, 1e5, 1e6]),
        (1e-3, 1e9, [1e-3, 1e-1, 1e1, 1e3, 1e5, 1e7, 1e9]),
        (30, 60, [30, 40, 50, 60]),
        (100, 103, [100, 101, 102, 103]),
    ],
)
def test_ticks_are_round_and_few(low: float, high: float, ticks: list[float]) -> None:
    assert log_ticks(low, high, 198, horizontal=True) == pytest.approx(ticks)


@pytest.mark.parametrize("horizontal", [True, False])
@pytest.mark.parametrize("length", [100, 200, 400])
def test_ticks_fit_whatever_the_span(horizontal: bool, length: float) -> None:
    for low, factor in itertools.product((1e-6, 0.7, 3, 10, 99), (1.01, 1.5, 4, 30, 1e3, 1e12)):
        ticks = log_ticks(low, low * factor, length, horizontal)
        assert 2 <= len(ticks) <= 12
        assert all(low * 0.999 <= tick <= low * factor * 1.001 for tick in ticks)


def test_the_labels_of_a_logarithmic_axis_are_drawn(tmp_path: Path) -> None:
    rows = curve_rows(["Uniform"], xs=(10, 50, 2000))
    found = words(drawn(charts.curves([panel([], rows=rows)]), tmp_path))
    assert {"10", "20", "50", "100", "200", "500", "1000", "2000"} <= set(found)
    rows = curve_rows(["Uniform"], xs=(100, 1e6))
    assert {"100", "10k", "1M"} <= set(
        words(drawn(charts.curves([panel([], rows=rows)]), tmp_path))
    )


def test_a_curve_is_not_squeezed_by_zero(tmp_path: Path) -> None:
    rows = [{"series": "Uniform", "x": x, "mean": 100 + x / 1000} for x in XS]
    found = words(drawn(charts.curves([panel([], rows=rows)]), tmp_path))
    heights = [float(word) for word in found if "." in word]
    assert len(heights) >= 3
    assert min(heights) >= 99.5


def test_long_titles_break_before_a_bracket() -> None:
    assert title_lines("FD ↓ (lower is better)", 200) == "FD ↓ (lower is better)"
    assert title_lines("FD ↓ (lower is better)", 50) == ["FD ↓", "(lower is better)"]
    assert title_lines("regret of the pooled score", 60) == ["regret of the", "pooled score"]
    assert title_lines("Unbreakable-" * 9, 60) == "Unbreakable-" * 9


@pytest.mark.parametrize(
    "value, text",
    [
        (164.13, "164"),
        (9.1, "9.10"),
        (0.17, "0.170"),
        (-2.5, "−2.50"),
        (0, "0"),
        (99.99, "100."),
        (12345, "12345"),
        (1e-5, "1e−05"),
        (None, "–"),
    ],
)
def test_numbers_beside_bars_have_three_digits(value: float | None, text: str) -> None:
    assert bar_label(value).rstrip(".") == text.rstrip(".")


@pytest.mark.parametrize(
    "text, ems",
    [("Mixture-Greedy", 6.89), ("Uniform", 3.5), ("One-arm oracle", 6.95), ("2000", 2.22)],
)
def test_the_width_of_a_text_is_close_to_that_of_helvetica(text: str, ems: float) -> None:
    """The legend relies on it: a symbol must not overlap the label before it."""
    assert text_width(text, 9) == pytest.approx(9 * ems, rel=0.12)


# Specifications and files


@pytest.mark.parametrize("name", ALL)
def test_the_same_rows_give_the_same_specification(name: str) -> None:
    first, second = ALL[name]().to_json(), ALL[name]().to_json()
    assert first == second
    assert "NaN" not in first


def test_the_order_of_the_rows_does_not_matter() -> None:
    rows = curve_rows(EVERY)
    mixed = random.Random(1).sample(rows, len(rows))
    once, again = (charts.curves([panel([], rows=r)]).to_json() for r in (rows, mixed))
    assert once == again


def test_rows_are_left_as_they_were() -> None:
    rows = curve_rows(["Uniform"])
    rows[0]["mean"] = None
    before = json.dumps(rows)
    charts.curves([panel([], rows=rows, log_y=True)])
    assert json.dumps(rows) == before


def test_many_rows_are_no_trouble(tmp_path: Path) -> None:
    rows = curve_rows(EVERY, xs=range(1, 1001))
    assert len(marks(drawn(charts.curves([panel([], rows=rows)]), tmp_path), "line")) == len(EVERY)


def test_numpy_numbers_are_welcome(tmp_path: Path) -> None:
    rows = [
        {k: v if k == "series" else np.float32(v) for k, v in r.items()} for r in curve_rows("a")
    ]
    assert len(marks(drawn(charts.curves([panel([], rows=rows)]), tmp_path), "line")) == 1


@pytest.mark.parametrize("name", ALL)
def test_files_are_what_they_say(name: str, tmp_path: Path) -> None:
    chart = ALL[name]()
    written = charts.save(chart, tmp_path / "new" / "figure.v1", ("pdf", "png", "svg"))
    assert [path.name for path in written] == [f"figure.v1.{f}" for f in ("pdf", "png", "svg")]
    pdf, png, svg = (path.read_bytes() for path in written)
    root = ElementTree.fromstring(svg)
    size = [float(root.get(side) or 0) for side in ("width", "height")]
    assert min(size) > 50
    assert pdf.startswith(b"%PDF-")
    assert pdf.rstrip().endswith(b"%%EOF")
    box = re.findall(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", pdf)
    assert [float(side) for side in box[0]] == pytest.approx(size, abs=1)
    assert re.findall(rb"/Count (\d+)", pdf) == [b"1"]  # one page
    assert b"LiberationSans" in pdf  # text is text,
    assert b"/Subtype /Image" not in pdf  # and nothing is a picture of it
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">II", png[16:24]) == tuple(2 * side for side in size)


def test_pdf_and_png_are_the_default_and_the_same_each_time(tmp_path: Path) -> None:
    for stem in ("a", "b"):
        charts.save(ALL["curves"](), tmp_path / stem)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.pdf", "a.png", "b.pdf", "b.png"]
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


@pytest.mark.parametrize(
    "odd",
    [
        "\ufffe",
        "\x00",
        *(pytest.param(odd, marks=pytest.mark.drill) for odd in ("\uffff", "\x1b", "\ud800")),
    ],
)
def test_what_xml_cannot_hold_does_not_end_the_process(odd: str, tmp_path: Path) -> None:
    code = (
        "import sys; from genmix import charts\n"
        f"rows = [{{'label': label, 'kind': 'arm', 'mean': 1.0}} for label in ('a' + {odd!a}, 'b')]\n"
        "charts.save(charts.bars(rows, 'score'), sys.argv[1], ['svg', 'png'])"
    )
    done = subprocess.run(  # a process of its own: this would end with it
        [sys.executable, "-c", code, str(tmp_path / "x")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "a\ufffd" in (tmp_path / "x.svg").read_text("utf-8")


def test_a_file_is_replaced_and_never_half_written(tmp_path: Path) -> None:
    (path,) = charts.save(ALL["bars"](), tmp_path / "figure", ("svg",))
    old = path.read_bytes()
    (tmp_path / "link").hardlink_to(path)
    charts.save(ALL["shares"](), tmp_path / "figure", ("svg",))
    assert (tmp_path / "link").read_bytes() == old  # writing in place would have changed it
    assert path.read_bytes() != old
    assert sorted(p.name for p in tmp_path.iterdir()) == ["figure.svg", "link"]


def test_a_failure_leaves_everything_as_it_was(tmp_path: Path) -> None:
    (path,) = charts.save(ALL["bars"](), tmp_path / "figure", ("svg",))
    old = path.read_bytes()
    with pytest.raises(InputError, match="'gif'"):
        charts.save(ALL["shares"](), tmp_path / "figure", ("svg", "gif"))
    (tmp_path / "taken.svg").mkdir()
    with pytest.raises(StorageError, match=r"could not write \S*taken\.svg"):
        charts.save(ALL["shares"](), tmp_path / "taken", ("svg",))
    assert path.read_bytes() == old
    assert sorted(p.name for p in tmp_path.iterdir()) == ["figure.svg", "taken.svg"]


# What is wrong


@pytest.mark.parametrize("name", ALL)
def test_without_altair_one_sentence_says_what_to_do(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(InputError, match=r"pip install altair .*'genmix\[paper\]'\)\.$"):
        ALL[name]()


def test_without_the_converter_one_sentence_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chart = ALL["bars"]()
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(InputError, match=r"pip install vl-convert\S* .*'genmix\[paper\]'\)\.$"):
        charts.save(chart, tmp_path / "figure")
    assert not list(tmp_path.iterdir())


def test_importing_charts_does_not_load_altair() -> None:
    code = "import sys, genmix.charts; print({'altair', 'vl_convert', 'scipy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


GOOD = {"series": "a", "x": 10, "mean": 1.0}


@pytest.mark.parametrize(
    "draw, message",
    [
        (lambda: charts.curves([]), "nothing to draw"),
        (lambda: charts.bars([], "FD"), "nothing to draw"),
        (lambda: charts.shares([]), "nothing to draw"),
        (lambda: charts.intervals([], "gain"), "nothing to draw"),
        (lambda: charts.curves([Panel("City", [], "FD")]), "'City' has no rows"),
        (lambda: charts.curves([Panel("City", [GOOD], "FD")], columns=0), "columns is 0"),
        (lambda: charts.curves([Panel("City", [{"x": 1}], "FD")]), "'City' has no 'series'"),
        (lambda: charts.curves([Panel("City", [{**GOOD, "x": 0}], "FD")]), "log_x=False"),
        (lambda: charts.sweep([Panel("City", [{**GOOD, "x": None}], "FD")]), "pass a number"),
        (lambda: charts.curves([Panel("City", [{**GOOD, "mean": "1,5"}], "FD")]), "'1,5'"),
        (lambda: charts.bars([{"label": "a", "mean": 1, "kind": "best"}], "FD"), "'best'"),
        (lambda: charts.bars(bar_rows(["a", "a"]), "FD"), "two rows for 'a'"),
        (lambda: charts.intervals(interval_rows(["a", "a"]), "gain"), "two rows for 'a'"),
        (lambda: charts.shares([{"arm": "a", "x": -1, "share": 1}], log_x=True), "log_x=False"),
    ],
)
def test_a_mistake_is_one_sentence(draw: Any, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        draw()
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)
