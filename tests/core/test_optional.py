"""Missing packages: one sentence that names all of them and one command, before work starts."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import genmix as gx
from genmix.core.optional import require_all
from genmix.core.plain import plain_weights
from genmix.runs.check import check_study

ROWS = np.random.default_rng(0).standard_normal((9, 3))


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("openai", "PIL", "pyarrow"):
        for module in [m for m in sys.modules if m == name or m.startswith(f"{name}.")]:
            monkeypatch.delitem(sys.modules, module)
        monkeypatch.setitem(sys.modules, name, None)
    return monkeypatch


@pytest.mark.usefixtures("without")
def test_all_missing_packages_and_one_command() -> None:
    with pytest.raises(gx.InputError) as caught:
        require_all(("json", "openai", "PIL.Image", "PIL"), extra="x", what="this")
    assert str(caught.value) == (
        "this needs the openai and pillow packages; install them with pip install openai pillow "
        "(the extra 'genmix[x]')."
    )


def test_a_package_that_lacks_another_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lacking_package.py").write_text("import a_package_that_is_missing.part")
    (tmp_path / "broken_package.py").write_text("from json import nothing_of_this_name")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(gx.InputError, match="needs the a-package-that-is-missing package; install"):
        require_all(("lacking_package",), extra="x", what="this")
    with pytest.raises(
        gx.InputError, match=r"broken-package package, which is installed but .*again\.$"
    ):
        require_all(("broken_package",), extra="x", what="this")


@pytest.mark.usefixtures("without")
def test_a_study_is_refused_before_anything_is_built(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(
        "arms: {a: {kind: openai, model: m, base_url: 'http://127.0.0.1:1/v1', prompt: p}}\n"
        "objective: vendi\nbudget: {samples: 3}\nwarm_start: 1\nencoder: {kind: pixels}\n"
    )
    expected = "the study needs the openai and pillow packages; install them with pip install openai pillow."
    with pytest.raises(gx.InputError) as caught:
        gx.run(tmp_path / "study.yaml", tmp_path / "run")
    assert str(caught.value) == expected
    assert not (tmp_path / "run" / "journal.sqlite").exists()
    assert expected in check_study(tmp_path / "study.yaml").problems


@pytest.mark.usefixtures("without")
def test_an_export_says_it_before_it_reads_the_run(tmp_path: Path) -> None:
    for form in ("parquet", "hf"):
        with pytest.raises(gx.InputError, match="needs the pyarrow package"):
            gx.export(tmp_path / "no run", form)  # type: ignore[arg-type]


@pytest.mark.usefixtures("without")
def test_a_recorded_folder_of_images_says_it_when_it_is_opened(tmp_path: Path) -> None:
    study = {"arms": {"a": {"kind": "recorded", "path": str(tmp_path)}}, "objective": "vendi"}
    with pytest.raises(gx.InputError, match=r"arm 'a': .*needs the pillow package"):
        gx.run(
            study | {"budget": {"samples": 20}, "encoder": {"kind": "callable", "function": "a:b"}},
            tmp_path / "run",
        )


def test_arms_of_weight_zero_are_only_in_the_map() -> None:
    found = plain_weights({"a": 0.25, "b": 0.0, "c": 0.75})
    assert found == {
        "arms": ["a", "c"],
        "probabilities": [0.25, 0.75],
        "weights": {"a": 0.25, "b": 0.0, "c": 0.75},
    }
