"""``stop_when: {keep_gain_below: …}``: a run ends when more samples would hardly improve the kept ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.journal.reader import JournalReader
from genmix.runs.spending.budget import PREDICTION


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Arms with six modes each, two of them shared; the best 12 samples contain all ten."""
    monkeypatch.setenv("GENMIX_REPORT", "off")
    rng = np.random.default_rng(0)
    for arm, first in (("left", 0), ("right", 4)):
        np.save(tmp_path / f"{arm}.npy", np.eye(10)[first + rng.integers(0, 6, 300)])
    return tmp_path


def study(folder: Path, **more: Any) -> dict[str, Any]:
    arms = {
        name: {"kind": "recorded", "path": str(folder / f"{name}.npy")}
        for name in ("left", "right")
    }
    found = {"name": "t", "arms": arms, "objective": "vendi", "budget": {"samples": 250}}
    found |= {"warm_start": 5, "keep": {"samples": 12}}
    found |= {"stop_when": {"keep_gain_below": 0.6, "over": 30}}
    return found | more


def predictions(run: gx.Run) -> list[dict[str, Any]]:
    with JournalReader.open(run.folder) as journal:
        return [event["detail"] for event in journal.events() if event["kind"] == PREDICTION]


def test_a_run_ends_when_more_samples_are_worth_little(folder: Path) -> None:
    run = gx.run(study(folder), folder / "run")
    *others, last = predictions(run)
    assert 24 <= run.summary["samples"] < 250
    assert last["samples"] <= run.summary["samples"] < last["samples"] + 8
    assert last["gain"] < 0.6 <= min(each["gain"] for each in others)
    assert run.summary["reason"].startswith(
        "more samples would hardly improve the kept ones: another 30"
    )
    assert run.status == "finished"
    assert run.summary["kept"]["scores"]["vendi"]["value"] > 9
    rows = list(run.samples())
    assert list(gx.resume(run, samples=300).samples()) == rows  # the larger budget changes nothing


def test_the_other_conditions_must_hold_too(folder: Path) -> None:
    rule = {"keep_gain_below": 100, "weights_within": 1e-12, "over": 30}
    run = gx.run(study(folder, stop_when=rule, budget={"samples": 45}), folder / "run")
    assert predictions(run)[0]["gain"] < 100
    assert run.summary["reason"] == "the budget of 45 samples is spent"


def test_a_resumed_run_makes_the_same_decision_without_predicting_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = gx.run(study(folder, in_flight=1), folder / "whole")
    found = predictions(whole)
    stop_at = (found[-2]["samples"] + found[-1]["samples"]) // 2

    def stop(live: Any) -> None:
        if live.told >= stop_at:
            live.loop.stop("interrupted")

    cut = gx.run(study(folder, in_flight=1), folder / "cut", callbacks=[stop])
    before, calls = predictions(cut), []
    assert 0 < len(before) < len(found)
    from genmix.runs.spending import budget

    predict = budget.predict_kept

    def counted(*given: Any, **more: Any) -> Any:
        calls.append(given[2])
        return predict(*given, **more)

    monkeypatch.setattr(budget, "predict_kept", counted)
    cut = gx.resume(folder / "cut")
    assert predictions(cut) == found
    assert not set(calls) & {each["samples"] for each in before}
    assert list(cut.samples()) == list(whole.samples())
    assert cut.summary["reason"] == whole.summary["reason"]


def test_predictions_for_another_keep_are_not_used(folder: Path) -> None:
    rule = {"keep_gain_below": 1e-9, "over": 30}
    gx.run(study(folder, stop_when=rule, budget={"samples": 35}), folder / "run")
    later = study(folder, stop_when=rule, budget={"samples": 45}, keep={"samples": 8})
    run = gx.resume(folder / "run", study=later)
    counts = {(each["keep"]["samples"], each["count"]) for each in predictions(run)}
    assert counts == {(12, 12), (8, 8)}


def test_too_few_samples_for_a_prediction_do_not_end_a_run(folder: Path) -> None:
    run = gx.run(study(folder, keep={"samples": 40}, budget={"samples": 60}), folder / "run")
    assert run.summary["samples"] == 60
    assert predictions(run) == []


def test_keep_gain_below_needs_keep(folder: Path) -> None:
    plain = study(folder)
    del plain["keep"]
    with pytest.raises(gx.InputError, match="keep_gain_below needs the samples to keep; add keep"):
        gx.run(plain, folder / "run")
