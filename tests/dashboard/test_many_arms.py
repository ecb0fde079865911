"""Pages, tables and views of a run with hundreds of arms stay small."""

from __future__ import annotations

import io
import json
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import genmix as gx
from genmix.charts.leading import MAX_COLORS, MAX_ROWS
from genmix.cli import app
from genmix.cli.live.notebook import render
from genmix.cli.live.terminal import LineView, TableView, Tracker
from tests.support.dashboard_server import serving

NAMES = [f"{m}/p{p:03d}/t{t}" for m in ("gemma", "phi") for p in range(25) for t in (0.2, 0.7)]


VIEWS: dict[str, str] = {}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> gx.Run:
    """100 arms; what the live views showed is in ``VIEWS``."""
    folder = tmp_path_factory.mktemp("many")
    views: dict[str, str] = {}

    def arm(name: str) -> Any:
        mean = np.eye(8)[hash_of(name) % 8]
        return lambda seeds: [mean + np.random.default_rng(s).normal(size=8) / 4 for s in seeds]

    def look(live: Any) -> None:
        if live.told >= 220 and not views:
            line, table = io.StringIO(), io.StringIO()
            LineView(Console(file=line, width=4000))(live)
            view = TableView(Console(file=table, width=120, height=60, force_terminal=True))
            Console(file=table, width=120).print(view.render(live))
            tracker = Tracker()
            tracker.board.update(live)
            views.update(line=line.getvalue(), table=table.getvalue(), html=render(live, tracker))

    study = {
        "name": "many",
        "arms": {name: arm(name) for name in NAMES},
        "objective": "vendi",
        "warm_start": 2,
        "budget": {"samples": 240},
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GENMIX_REPORT", "off")
        found = gx.run(study, folder / "run", callbacks=[look])
    VIEWS.update(views)
    return found


def hash_of(name: str) -> int:
    return sum(map(ord, name))


def test_the_page_of_a_run_has_the_leading_arms_and_sums(run: gx.Run) -> None:
    with serving(run.folder.parent) as url:
        text = urllib.request.urlopen(f"{url}/state/run").read()
        state = json.loads(text)
        every = json.load(urllib.request.urlopen(f"{url}/arms/run"))["arms"]
        entry = json.load(urllib.request.urlopen(f"{url}/runs"))["runs"][0]
        compared = json.load(urllib.request.urlopen(f"{url}/curves?run=run"))
    assert len(text) < 100_000
    assert len(state["arms"]) == MAX_ROWS
    assert [a["weight"] for a in state["arms"]] == sorted(
        (a["weight"] for a in state["arms"]), reverse=True
    )
    others = state["other_arms"]
    assert others["arms"] == 100 - MAX_ROWS
    assert others["count"] + sum(a["count"] for a in state["arms"]) == 240
    assert others["weight"] + sum(a["weight"] for a in state["arms"]) == pytest.approx(1)
    assert len(every) == 100
    assert [len(part) for part in state["parts"]] == [2, 9, 2]
    assert len(state["chart"]["weights"]) <= MAX_COLORS + 1
    last = [values[-1] for values in state["chart"]["weights"].values()]
    assert sum(last) == pytest.approx(1, abs=1e-6)
    assert set(state["chart"]["colors"]) == set(state["chart"]["weights"])
    assert len(entry["weights"]) <= MAX_COLORS + 1
    assert sum(each["weight"] for each in entry["weights"]) == pytest.approx(1)
    assert len(compared["colors"]) <= MAX_COLORS + 1


def test_views_in_the_terminal_and_the_notebook_fit(run: gx.Run) -> None:
    views = VIEWS
    assert "others: " in views["line"]
    assert len(views["line"]) < 600
    assert views["table"].count("\n") < 30
    assert "and 84 others: " in views["table"]
    assert views["html"].count("<tr>") == MAX_ROWS + 2
    assert "and 70 others: " in views["html"]


def test_status_and_summary_sum_up_the_others(run: gx.Run) -> None:
    shown = CliRunner().invoke(app, ["status", str(run.folder)]).stdout
    assert "and 70 others: " in shown
    assert sum(line.startswith(("gemma/", "phi/")) for line in shown.splitlines()) == MAX_ROWS
    found = json.loads(CliRunner().invoke(app, ["status", str(run.folder), "--json"]).stdout)
    assert len(found["arms"]) == 100
    assert "and 70 others: " in repr(run)


def test_the_report_lists_the_leading_arms_first(run: gx.Run, tmp_path: Path) -> None:
    from genmix.report import write_report

    page = write_report(run.folder, tmp_path / "report.html").read_text("utf-8")
    assert "and 70 others: " in page
    assert "All 100 arms" in page
    assert "By parts of the names" in page
    first, _ = page.split("<summary><h3>All 100 arms")
    assert first.count('<tr><th scope="row">') == MAX_ROWS + 13
    assert len(page) < 1_000_000
