"""The end of a run in a terminal: the view is cleared, and Ctrl-C says how to continue."""

from __future__ import annotations

import io
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

import genmix as gx
from genmix.cli import app, run_commands
from genmix.cli.live import terminal as live_terminal
from genmix.cli.live.terminal import LineView, TableView
from genmix.runs.prepare import Plan
from genmix.runs.run import Options, start
from tests.support.dashboard_runs import write_study

ERASE_LINE, UP, SHOW_CURSOR = "\x1b[2K", "\x1b[1A", "\x1b[?25h"


def console(terminal: bool) -> tuple[io.StringIO, Console]:
    out = io.StringIO()
    return out, Console(file=out, force_terminal=terminal, width=120, color_system=None)


@pytest.fixture
def study(tmp_path: Path) -> Path:
    return write_study(tmp_path / "study", samples=50)


def visible(written: str) -> list[str]:
    """The lines that a terminal shows after everything was written."""
    lines, row = [""], 0
    for token in re.findall(r"\x1b\[[^a-zA-Z]*[a-zA-Z]|\n|[^\x1b\n]+", written):
        if token == UP:
            row = max(row - 1, 0)
        elif token == ERASE_LINE:
            lines[row] = ""
        elif token == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif not token.startswith("\x1b"):
            lines[row] += token.replace("\r", "")
    return [line for line in lines if line.strip()]


def test_the_table_is_cleared_before_the_summary(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_terminal, "TABLE_INTERVAL", 0.0)
    out, screen = console(terminal=True)
    with TableView(screen) as view:
        start(Plan.of(study), tmp_path / "run", Options((view,), view.note, report=False))
        view.report_progress(3, 9)
        assert "50/50 samples" in out.getvalue()
        assert "writing the report, 3/9" in visible(out.getvalue())[-1]
    screen.print("the summary")
    assert out.getvalue().count(SHOW_CURSOR) == 1
    loading, summary = visible(out.getvalue())
    assert loading.startswith("loading the encoder")
    assert summary == "the summary"


def test_a_log_says_once_that_the_report_is_written() -> None:
    out, screen = console(terminal=False)
    view = LineView(screen)
    for done in range(4):
        view.report_progress(done, 3)
    assert out.getvalue() == "writing the report\n"


def test_a_run_reports_the_progress_of_its_report(study: Path, tmp_path: Path) -> None:
    steps: list[tuple[int, int]] = []
    options = Options(report=True)
    options.report_progress = lambda done, total: steps.append((done, total))
    start(Plan.of(study), tmp_path / "run", options)
    total = steps[0][1]
    assert steps == [(done, total) for done in range(total + 1)]
    assert (tmp_path / "run" / "report.html").exists()


def test_the_report_command_shows_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    def write(folder: Path, out: Path | None, note: Any, progress: Any) -> Path:
        progress(0, 2)
        progress(2, 2)
        return folder / "report.html"

    monkeypatch.setattr("genmix.report.write_report", write)
    result = CliRunner().invoke(app, ["report", "run"])
    assert result.stdout == "run/report.html\n"
    assert result.stderr == "writing the report 0/2\nwriting the report 2/2\n"


def test_an_interrupted_run_says_how_to_continue_even_with_json(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(plan: Plan, folder: Path, options: Options) -> gx.Run:
        def stop(live: Any) -> None:
            if live.told >= 40:
                live.loop.stop("interrupted")

        options.callbacks = [stop]
        return start(plan, folder, options)

    monkeypatch.setattr("genmix.runs.run.start", stopped)
    folder = tmp_path / "my run"
    result = CliRunner().invoke(app, ["run", str(study), "-o", str(folder), "--json", "--quiet"])
    assert result.exit_code == 130
    count = json.loads(result.stdout)["samples"]
    assert result.stderr == (
        f"genmix: Stopped. {count} samples are saved in {folder}. "
        f"Continue with: genmix resume '{folder}'\n"
    )


def test_the_second_interrupt_names_the_run_and_shows_the_cursor(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    folder = gx.run(study, tmp_path / "run").folder
    out, screen = console(terminal=True)
    view = TableView(screen)
    view.report_progress(0, 9)
    run_commands._exit_now(view, lambda: run_commands.stop_message(folder))
    assert codes == [130]
    assert SHOW_CURSOR in out.getvalue()
    assert capsys.readouterr().err == (
        f"\ngenmix: stopped immediately. The samples are saved in {folder}. "
        f"Continue with: genmix resume {folder}\n"
    )


def test_before_the_first_sample_there_is_nothing_to_continue(tmp_path: Path) -> None:
    assert run_commands.stop_message(tmp_path) == "interrupted before any sample was generated."
