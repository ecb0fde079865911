"""The wheel, built and installed into an empty environment, does what the README promises."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.release


def call(*command: str | Path, cwd: Path, expect: int = 0) -> str:
    """What a command prints on stdout, with no genmix on the path but the installed one."""
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "GENMIX"))
    }
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True
    )
    assert done.returncode == expect, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    call(sys.executable, "-m", "hatchling", "build", "-d", out, cwd=ROOT)
    assert len(list(out.glob("*.tar.gz"))) == 1
    [found] = out.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def scripts(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of commands of an environment that has only genmix and what it requires."""
    home = tmp_path_factory.mktemp("empty")
    venv.create(home, with_pip=True)
    install = ["-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    call(home / "bin" / "python", *install, f"{wheel}[demo]", cwd=home)
    return home / "bin"


def test_the_wheel_holds_data_files_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {"genmix/py.typed", "genmix/demo/study.yaml", "genmix/demo/models.npz"} <= set(names)
    assert all(name.startswith(("genmix/", "genmix-")) for name in names)


def test_the_demo_runs(scripts: Path, tmp_path: Path) -> None:
    printed = call(scripts / "genmix", "demo", "--budget", "200", cwd=tmp_path)
    assert "gaussian-mixture" in printed
    assert (tmp_path / "runs" / "demo" / "report.html").exists()


def test_an_example_study_runs(scripts: Path, tmp_path: Path) -> None:
    call(scripts / "genmix", "init", "cities", cwd=tmp_path)
    call(scripts / "genmix", "check", "cities", cwd=tmp_path)
    call(scripts / "genmix", "run", "cities", cwd=tmp_path)
    call(
        scripts / "genmix",
        "export",
        "runs/cities",
        "--to",
        "jsonl",
        "--out",
        "cities.jsonl",
        cwd=tmp_path,
    )
    assert len((tmp_path / "cities.jsonl").read_text().splitlines()) == 200


def test_the_library_imports_and_says_its_version(scripts: Path, tmp_path: Path) -> None:
    mixture = "gx.optimal_mixture({'a': [[1, 0], [0, 1]]}, gx.Vendi())"
    code = f"import genmix as gx; print(gx.__version__, {mixture}.gap < 1e-6)"
    assert call(scripts / "python", "-c", code, cwd=tmp_path).split() == ["0.2.0", "True"]
