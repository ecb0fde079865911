"""The end of a run that keeps samples: interrupts, predictions, and what export and the dashboard compute."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.journal import kept as kept_module
from genmix.journal.kept import KEPT, read_kept, write_kept_so_far
from genmix.offline import keeping


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GENMIX_REPORT", "off")
    rng = np.random.default_rng(0)
    for arm in "ab":
        quality = np.where(rng.random(300) < 0.08, 1.0, 0.2)
        np.savez(tmp_path / f"{arm}.npz", features=rng.standard_normal((300, 3)), quality=quality)
    return tmp_path


def study(folder: Path, **more: Any) -> dict[str, Any]:
    arms = {a: {"kind": "recorded", "path": str(folder / f"{a}.npz")} for a in "ab"}
    plain = {"name": "t", "arms": arms, "objective": "vendi", "budget": {"samples": 40}}
    return plain | {"warm_start": 5, "keep": {"samples": 12}} | more


def interrupt(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def test_few_samples_of_the_minimum_quality_do_not_end_a_run(folder: Path) -> None:
    rules = {"share": 0.3, "min_quality": 0.9}
    stop = {"keep_gain_below": 1e-9, "over": 20}
    run = gx.run(study(folder, keep=rules, stop_when=stop), folder / "run")
    assert 0 < run.summary["kept"]["count"] == run.summary["kept"]["candidates"] < 8
    assert gx.resume(run).status == "finished"


def test_a_run_for_quality_does_not_stop_at_once(folder: Path) -> None:
    for arm in "ab":
        rng = np.random.default_rng(ord(arm))
        np.savez(folder / f"{arm}.npz", features=np.ones((300, 2)), quality=rng.normal(size=300))
    stop = {"keep_gain_below": 0.001, "over": 20}
    more = {"objective": "quality", "keep": {"samples": 5}, "stop_when": stop}
    run = gx.run(study(folder, **more), folder / "run")
    assert run.summary["reason"] == "the budget of 40 samples is spent"


def test_no_prediction_follows_an_interrupted_search(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = keeping.keep
    with monkeypatch.context() as patched:
        patched.setattr(keeping, "keep", lambda *a, **k: keep(*a, **(k | {"progress": interrupt})))
        patched.setattr(kept_module, "predict", interrupt)
        run = gx.run(study(folder), folder / "run")
    assert run.summary["kept"]["interrupted"]
    assert "prediction" not in run.summary["kept"]
    assert not gx.resume(run).summary["kept"]["interrupted"]
    assert "another 10 samples" in gx.Run(run.folder).summary["kept"]["prediction"]["text"]


def test_an_interrupted_prediction_costs_nothing_else(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[Any] = []

    def look(*_: Any, **__: Any) -> None:
        written.append(read_kept(folder / "run"))
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(kept_module, "predict", look)
        run = gx.run(study(folder), folder / "run")
    assert len(written[0]["ids"]) == 12
    assert run.status == "finished"
    assert len(list((run.folder / "samples.jsonl").open())) == 12
    after = gx.resume(run)
    found = read_kept(after.folder)
    assert found is not None
    assert found["ids"] == written[0]["ids"]
    assert found["prediction"]["more"] == 10


def test_a_lost_file_is_computed_again_without_what_is_not_needed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Export chooses the samples without predicting; the dashboard skips searches with long steps."""
    run = gx.run(study(folder), folder / "run")
    before = (run.folder / "samples.jsonl").read_text()
    (run.folder / KEPT).unlink()
    monkeypatch.setattr(kept_module, "predict", interrupt)
    assert gx.export(run.folder, "jsonl").read_text() == before
    with monkeypatch.context() as patched:
        patched.setattr(kept_module, "LIVE_WORK", 10.0)
        write_kept_so_far(run.folder, gx.Vendi(), lambda _: None)
    assert not (run.folder / KEPT).exists()
    write_kept_so_far(run.folder, gx.Vendi(), lambda _: None)
    found = read_kept(run.folder)
    assert found is not None
    assert found["count"] == 12
