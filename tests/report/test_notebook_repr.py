"""Notebooks: runs, mixtures and comparisons show themselves, and progress is renewed in place."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.cli.live import notebook
from genmix.cli.live.notebook import NotebookView
from genmix.core.optional import in_notebook
from tests.support.report_runs import ARMS, feature_run, text_run


def cells(html: str) -> list[list[str]]:
    rows = re.findall(r"<tr>(.*?)</tr>", html)
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in rows]


def test_a_run_shows_itself(tmp_path: Path) -> None:
    run = feature_run(tmp_path, 80)
    html = run._repr_html_()
    table = cells(html)
    assert table[0] == ["arm", "weight", "samples", "vendi alone", "failed"]
    assert [row[0] for row in table[1:]] == ["flat", "tall", "dot"]
    assert table[1][1] == f"{run.weights['flat']:.3f}"
    assert "80 samples in" in html


def test_a_run_prints_what_a_notebook_shows(tmp_path: Path) -> None:
    run = feature_run(tmp_path, 80)
    title, head, *rows = str(run).splitlines()
    assert title == f"genmix run in {run.folder}: finished"
    assert head.split() == ["arm", "weight", "samples", "vendi", "alone", "failed"]
    assert rows[0].split()[:3] == ["flat", f"{run.weights['flat']:.3f}", str(run.counts["flat"])]
    assert f"Final mixture: vendi {run.score['vendi']:.5g}" in str(run)
    assert "above the minimum on these samples" in str(run)
    assert run.reason is not None
    assert f"; {run.reason}" in str(run)
    assert repr(run) == str(run)
    assert str(gx.Run(tmp_path / "none")) == f"genmix run in {tmp_path / 'none'}: no summary yet"


def test_names_of_arms_are_escaped(tmp_path: Path) -> None:
    html = text_run(tmp_path, 60)._repr_html_()
    assert "<script" not in html
    assert "<b>" not in html
    assert [row[0] for row in cells(html)[1:]][1].startswith("&lt;/script&gt;")
    assert len(cells(html)) == 1 + len(ARMS)


def test_a_run_without_a_summary_says_so(tmp_path: Path) -> None:
    assert "no summary yet" in gx.Run(tmp_path / "<b>")._repr_html_()
    assert "<b>" not in gx.Run(tmp_path / "<b>")._repr_html_()


@pytest.mark.parametrize("objective", [gx.Vendi(), gx.Vendi() + 0.1 * gx.Cost()])
def test_a_mixture_shows_itself(objective: gx.Objective) -> None:
    rng = np.random.default_rng(0)
    arms = {"<i>a</i>": rng.normal(size=(50, 3)), "b": rng.normal(size=(50, 3)) * [3, 1, 0.1]}
    mixture = gx.optimal_mixture(arms, objective, cost={"<i>a</i>": 1.0, "b": 2.0})
    html = mixture._repr_html_()
    assert "<i>" not in html
    table = cells(html)
    assert table[0][:3] == ["arm", "weight", "loss alone"]
    assert table[2][1] == f"{mixture.weights['b']:.3f}"
    assert "above the minimum" in html


def test_a_comparison_shows_itself(tmp_path: Path) -> None:
    run = feature_run(tmp_path, 80)
    found = gx.compare(run.folder, ["mixture-greedy", "uniform"], 3, budget=60, workers=1)
    html = found._repr_html_()
    table = cells(html)
    assert table[0][0] == "policy"
    assert [row[0] for row in table[1:]] == ["Mixture-Greedy", "Uniform"]
    assert "paired repeats" in html
    assert str(found).count("Uniform") >= 2


def test_outside_a_notebook_nothing_is_shown(tmp_path: Path, capsys: Any) -> None:
    assert not in_notebook()
    feature_run(tmp_path, 40)
    told = capsys.readouterr()
    assert told.out == told.err == ""


def test_progress_on_request_goes_to_stderr(tmp_path: Path, capsys: Any) -> None:
    feature_run(tmp_path, 40)
    study = gx.study.study.study_from(_meta(tmp_path / "run"))
    gx.run(study, tmp_path / "again", progress=True)
    told = capsys.readouterr()
    assert told.out == ""
    assert "40/40 samples" in told.err


def _meta(folder: Path) -> dict[str, Any]:
    from genmix.journal.reader import JournalReader

    with JournalReader.open(folder) as journal:
        found: dict[str, Any] = journal.meta("study")
    return found


class Handle:
    """A place below a cell, as IPython's display handle."""

    def __init__(self, shown: list[str]) -> None:
        self.shown = shown

    def update(self, thing: Any) -> None:
        self.shown.append(thing.data)


@pytest.mark.real
def test_progress_is_renewed_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import IPython.display

    shown: list[str] = []

    def display(thing: Any, display_id: bool) -> Handle:
        shown.append(thing.data)
        return Handle(shown)

    monkeypatch.setattr(IPython.display, "display", display)
    monkeypatch.setattr(notebook, "INTERVAL", 0.0)
    view = NotebookView()
    run = feature_run(tmp_path, 60, callbacks=[view])
    assert "starting" in shown[0]
    assert len(shown) > 10
    assert '<progress value="' in shown[5]
    assert 'max="60"' in shown[5]
    assert 'value="60"' in shown[-1]
    assert "<meter" in shown[-1]
    gx.resume(run.folder, callbacks=[NotebookView()])  # there is nothing left to do
    assert shown[-1] == "<p>genmix: finished</p>"


@pytest.mark.real
def test_a_kernel_makes_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    import IPython

    class Shell:
        kernel = object()

    monkeypatch.setattr(IPython, "get_ipython", lambda: None)
    assert not in_notebook()
    monkeypatch.setattr(IPython, "get_ipython", Shell)
    assert in_notebook()
