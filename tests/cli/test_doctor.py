"""genmix doctor: what is here, what a study lacks, and never a secret."""

from __future__ import annotations

import json
import platform
import sys
from importlib.metadata import version
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import pytest
from typer.testing import CliRunner

import genmix as gx
from genmix.cli import app
from genmix.cli.doctor import Finding, examine, packages
from genmix.encoders import ENCODER_KINDS
from genmix.generators import ARM_KINDS, ArmSettings, Context, Generator
from genmix.study.study import StudyError
from genmix.study.template import write_example

runner = CliRunner()

NEEDY = """\
arms:
  remote:
    kind: openai
    model: m
    base_url: http://127.0.0.1:9/v1
    api_key_env: GENMIX_TEST_KEY
    prompts_file: prompts.txt
  files: {kind: recorded, path: features.npz}
  own: {kind: callable, function: "nowhere_to_be_found:make"}
  program: {kind: command, command: [no-such-program-here, --fast], env: [GENMIX_TEST_KEY, OTHER_KEY]}
  shell: {kind: command, command: [./tool.sh]}
encoder: {kind: openai, model: m, base_url: "http://127.0.0.1:9/v1"}
objective: frechet-distance
reference: real.npz
budget: {samples: 100}
"""


def found(findings: list[Finding]) -> dict[str, Finding]:
    assert len({finding.what for finding in findings}) == len(findings)
    return {finding.what: finding for finding in findings}


def test_versions_and_space_are_told() -> None:
    findings = found(examine())
    assert findings["genmix"].detail == gx.__version__
    assert findings["Python"].detail == f"{platform.python_version()} ({sys.executable})"
    assert findings["numpy"].detail.startswith(f"{np.__version__}, ")
    assert findings["disk"].detail.endswith(f"GiB free in {Path.cwd()}")
    assert not any(finding.is_missing for finding in findings.values())


def test_every_module_that_a_kind_needs_is_looked_at() -> None:
    findings = found(examine())
    for kind in (*ARM_KINDS, *ENCODER_KINDS):
        assert set(kind.needs) <= set(findings)
        assert bool(kind.needs) == bool(kind.extra), f"{kind} names an extra for its modules"
    assert findings["torch"].detail.startswith(version("torch"))
    assert findings["GPU"].detail
    assert findings["PIL"].detail.startswith(version("pillow"))


class LackingArm(ArmSettings):
    """Needs what nobody has."""

    needs: ClassVar[tuple[str, ...]] = ("genmix_needs_this",)
    extra: ClassVar[str] = "lacking"
    kind: Literal["lacking"]

    def build(self, context: Context) -> Generator:
        raise NotImplementedError


def test_a_package_that_is_not_there_comes_with_its_pip_line() -> None:
    words = "not installed; run: pip install genmix-needs-this (for lacking)"
    assert packages([LackingArm], "note") == [Finding("genmix_needs_this", "note", words)]
    (finding,) = packages([LackingArm, LackingArm], "missing")
    assert finding.is_missing
    assert finding.as_dict() == {
        "what": "genmix_needs_this",
        "state": "missing",
        "detail": words,
    }


def test_what_a_study_lacks_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GENMIX_TEST_KEY", "the-secret-itself")
    monkeypatch.delenv("OTHER_KEY", raising=False)
    (tmp_path / "study.yaml").write_text(NEEDY)
    (tmp_path / "features.npz").touch()
    (tmp_path / "tool.sh").touch(mode=0o755)
    findings = found(examine(tmp_path / "study.yaml"))
    told = {f.what: (f.state, f.detail) for f in findings.values()}
    for base in ("genmix", "Python", "numpy", "disk"):
        del told[base]
    assert told == {
        "openai": ("ok", f"{version('openai')} (for openai)"),
        "$GENMIX_TEST_KEY": ("ok", "set (arm 'remote' and arm 'program')"),
        "$OTHER_KEY": ("missing", "not set; set it to the secret (arm 'program')"),
        "reference": ("missing", f"{tmp_path}/real.npz does not exist; check the path"),
        "prompts_file of arm 'remote'": (
            "missing",
            f"{tmp_path}/prompts.txt does not exist; check the path",
        ),
        "path of arm 'files'": ("ok", "features.npz"),
        "function of arm 'own'": (
            "missing",
            f"the module nowhere_to_be_found is neither in {tmp_path} nor installed",
        ),
        "command of arm 'program'": (
            "missing",
            "the program no-such-program-here was not found; install it, or correct its name",
        ),
        "command of arm 'shell'": ("ok", f"{tmp_path}/tool.sh"),
    }


def test_a_study_is_not_told_about_what_it_does_not_use(tmp_path: Path) -> None:
    write_example(tmp_path)
    findings = found(examine(tmp_path / "study.yaml"))
    assert not {"torch", "openai", "diffusers", "GPU"} & set(findings)
    assert findings["function of encoder"].detail == "arms:embed"


def test_a_bad_study_is_refused(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text("seed: x\n")
    with pytest.raises(StudyError):
        examine(tmp_path / "study.yaml")


def test_the_command_exits_with_2_if_something_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GENMIX_TEST_KEY", "the-secret-itself")
    (tmp_path / "study.yaml").write_text(NEEDY)
    result = runner.invoke(app, ["doctor", str(tmp_path / "study.yaml")])
    assert result.exit_code == 2
    assert "no-such-program-here" in result.stdout
    assert "the-secret-itself" not in result.output
    write_example(tmp_path / "example")
    result = runner.invoke(app, ["doctor", str(tmp_path / "example" / "study.yaml"), "--json"])
    assert result.exit_code == 0
    assert {f["state"] for f in json.loads(result.stdout)} == {"ok"}
