"""The command line, as typer's runner and as a real process."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import genmix as gx
import genmix.demo
from genmix.cli import COMMANDS, app
from genmix.demo import run_demo

runner = CliRunner()


def test_version() -> None:
    result = runner.invoke(app, ["--version"])
    assert result.exit_code == 0
    assert result.stdout == f"genmix {version('genmix')}\n"


def test_module_is_the_command_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "genmix", "--version"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, f"genmix {version('genmix')}\n")
    assert done.stderr == ""


def test_command_line_imports_neither_scikit_learn_nor_torch() -> None:
    code = "import sys, genmix.cli; print({'sklearn', 'torch', 'scipy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize("arguments", [["--help"], ["demo", "--help"]])
def test_every_help_page_has_an_example(arguments: list[str]) -> None:
    result = runner.invoke(app, arguments)
    assert result.exit_code == 0
    assert "Example: genmix demo" in result.stdout


def test_the_commands_are_listed_in_the_order_of_use() -> None:
    shown = re.findall(r"^│ (\w+) ", runner.invoke(app, ["--help"]).stdout, re.MULTILINE)
    assert shown == [name for name in COMMANDS if name in shown]
    assert {"demo", "run", "report", "mixture", "compare", "doctor"} <= set(shown)


def demo(folder: Path, *arguments: str) -> Result:
    return runner.invoke(app, ["demo", "--out", str(folder / "run"), *arguments])


def test_json_result_is_all_of_stdout(tmp_path: Path) -> None:
    result = demo(tmp_path, "--budget", "104", "--seed", "3", "--json")
    assert result.exit_code == 0
    summary = json.loads(result.stdout)
    assert summary["status"] == "finished"
    assert sum(summary["counts"].values()) == 104
    assert sum(summary["weights"].values()) == pytest.approx(1, abs=1e-12)
    assert "104/104 samples" in result.stderr


def test_table_on_stdout_progress_on_stderr(tmp_path: Path) -> None:
    result = demo(tmp_path, "--budget", "104", "--objective", "vendi")
    assert result.exit_code == 0
    assert "Final mixture: vendi" in result.stdout
    assert f"104 samples are saved in {tmp_path / 'run'}." in result.stdout
    assert "104/104 samples" not in result.stdout
    assert "104/104 samples" in result.stderr
    assert "Final mixture" not in result.stderr


def test_bad_budget_is_one_sentence_and_exit_2(tmp_path: Path) -> None:
    result = demo(tmp_path, "--budget", "7")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.splitlines()[-1] == (
        "genmix: budget.samples: a budget of 7 samples is less than the warm start of 5 × 10; "
        "use at least 50 samples, or lower warm_start."
    )


def test_unknown_objective_is_a_usage_error() -> None:
    result = runner.invoke(app, ["demo", "--objective", "fid"])
    assert result.exit_code == 2
    assert "fid" in result.stderr


def test_interrupt_before_the_first_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(genmix.demo, "run_demo", interrupted)
    result = demo(tmp_path)
    assert result.exit_code == 130
    assert result.stdout == ""
    assert "interrupted before any sample was generated" in result.stderr


@pytest.mark.parametrize("as_json", [True, False])
def test_interrupted_run_says_what_it_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    def stop(live: Any) -> None:
        if live.told >= 56:
            live.loop.stop("interrupted")

    def interrupted(*arguments: Any) -> gx.Run:
        *others, options = arguments
        return run_demo(*others, replace(options, callbacks=(*options.callbacks, stop)))

    monkeypatch.setattr(genmix.demo, "run_demo", interrupted)
    result = demo(tmp_path, *(["--json"] if as_json else []))
    assert result.exit_code == 130
    if as_json:
        summary = json.loads(result.stdout)
        assert summary["status"] == "interrupted"
        assert sum(summary["counts"].values()) >= 56
    else:
        folder = tmp_path / "run"
        pattern = (
            rf"Stopped\. \d+ samples are saved in {folder}\. Continue with: genmix resume {folder}"
        )
        assert re.fullmatch(pattern, result.stdout.splitlines()[-1])


def test_missing_extra_names_the_fix(tmp_path: Path) -> None:
    code = "import sys; sys.modules['starlette'] = None; from genmix.cli import app; app(['dashboard'])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "genmix: the dashboard needs the starlette package; install it with pip install starlette "
        "(the extra 'genmix[dashboard]').\n"
    )
