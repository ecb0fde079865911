"""Importing genmix stays light."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

import genmix

HEAVY = ("torch", "scipy", "sklearn", "cvxpy", "typer", "rich")


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    code = "import sys, genmix; print(*{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_probe_sees_what_is_imported(loaded: set[str]) -> None:
    assert {"genmix", "numpy", "daqp"} <= loaded


@pytest.mark.parametrize("name", HEAVY)
def test_import_does_not_load(name: str, loaded: set[str]) -> None:
    assert name not in loaded


@pytest.mark.parametrize("name", HEAVY)
def test_what_must_not_load_is_there_to_be_loaded(name: str) -> None:
    """Without this, a missing package would pass the test above."""
    assert importlib.util.find_spec(name) is not None


def test_dir_and_help_show_exactly_the_public_names() -> None:
    code = (
        "import genmix, pydoc; print(*dir(genmix)); "
        "print(pydoc.render_doc(genmix, renderer=pydoc.plaintext))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names, page = done.stdout.split("\n", 1)
    assert names.split() == sorted(genmix.__all__)
    for name in ("Selector", "run", "resume", "export", "compare", "optimal_mixture"):
        assert f" {name}(" in page, name
