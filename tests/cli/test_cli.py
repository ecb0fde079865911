"""The command line, as typer's runner and as a real process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import pytest
from typer.testing import CliRunner

import genmix.demo
from genmix.cli import app
from genmix.demo import DemoResult, Step, run_demo

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


def test_json_result_is_all_of_stdout() -> None:
    result = runner.invoke(app, ["demo", "--budget", "104", "--seed", "3", "--json"])
    assert result.exit_code == 0
    told = json.loads(result.stdout)
    assert told["seed"] == 3
    assert told["interrupted"] is False
    assert sum(told["counts"].values()) == 104
    assert sum(told["weights"].values()) == pytest.approx(1, abs=1e-12)
    assert told["scores"]["oracle"] <= min(told["scores"]["singles"].values())
    assert "generating 104/104" in result.stderr


def test_table_on_stdout_progress_on_stderr() -> None:
    result = runner.invoke(app, ["demo", "--budget", "104", "--objective", "vendi"])
    assert result.exit_code == 0
    assert "learnt mixture" in result.stdout
    assert "generating" not in result.stdout
    assert "generating" in result.stderr
    assert "learnt mixture" not in result.stderr


def test_bad_budget_is_one_sentence_and_exit_2() -> None:
    result = runner.invoke(app, ["demo", "--budget", "7"])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.splitlines()[-1] == (
        "genmix: a budget of 7 samples ends in the warm start: give 50 or more."
    )


def test_unknown_objective_is_a_usage_error() -> None:
    result = runner.invoke(app, ["demo", "--objective", "fid"])
    assert result.exit_code == 2
    assert "fid" in result.stderr


def test_interrupt_before_the_first_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(genmix.demo, "run_demo", interrupted)
    result = runner.invoke(app, ["demo"])
    assert result.exit_code == 130
    assert result.stdout == ""
    assert "interrupted before there was anything to show" in result.stderr


def test_interrupted_run_tells_what_it_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: Any, report: Callable[[Step], None]) -> DemoResult:
        def interrupt(step: Step) -> None:
            report(step)
            if step.done >= 56:
                raise KeyboardInterrupt

        return run_demo(*args, report=interrupt)

    monkeypatch.setattr(genmix.demo, "run_demo", interrupted)
    result = runner.invoke(app, ["demo", "--json"])
    told = json.loads(result.stdout)
    assert result.exit_code == 130
    assert told["interrupted"] is True
    assert sum(told["counts"].values()) == 56
    assert result.stderr.splitlines()[-1] == "interrupted after 56 samples"


def test_missing_extra_names_the_fix() -> None:
    code = "import sys; sys.modules['sklearn'] = None; import genmix.cli; genmix.cli.app(['demo'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr == "genmix: the demo needs sklearn.datasets: run pip install 'genmix[demo]'.\n"
    )
