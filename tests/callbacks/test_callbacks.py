"""Callbacks: what TensorBoard, MLflow and W&B read back, and that none of them can stop a run."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

import genmix as gx
from genmix.callbacks import Logger, MLflow, TensorBoard, WandB
from genmix.callbacks.mlflow import _valid_names
from genmix.errors import InputError
from genmix.journal.reader import JournalReader
from tests.support.report_runs import feature_run


class Kept(Logger):
    """Keeps what it is told."""

    def __init__(self, every: int | None = None, breaks_at: int | None = None) -> None:
        super().__init__(every)
        self.told: list[tuple[int, dict[str, float]]] = []
        self.calls: list[str] = []
        self._breaks_at = breaks_at

    def open(self, live: Any) -> None:
        self.calls.append("open")

    def log(self, numbers: dict[str, float], step: int) -> None:
        if self._breaks_at is not None and step >= self._breaks_at:
            raise ConnectionError("the server\nis away")
        self.told.append((step, numbers))

    def close(self) -> None:
        self.calls.append("close")


def play(folder: Path, *callbacks: Any, samples: int = 80) -> gx.Run:
    folder.mkdir(exist_ok=True)
    return feature_run(folder, samples, callbacks=callbacks)


def test_a_flat_dict_for_each_entry_of_the_timeline(tmp_path: Path) -> None:
    kept = Kept()
    run = play(tmp_path, kept)
    rows = run.timeline
    assert [step for step, _ in kept.told] == [row["samples"] for row in rows]
    assert kept.calls == ["open", "close"]
    for (_, numbers), row in zip(kept.told, rows, strict=True):
        assert all(isinstance(value, int | float) for value in numbers.values())
        weights = {k.removeprefix("weight/"): v for k, v in numbers.items() if "weight/" in k}
        assert weights == row["weights"]
        assert ("pooled/vendi" in numbers) == (row["pooled"] is not None)
    last = kept.told[-1][1]
    assert last["samples"] == 80
    assert last["score/vendi"] == run.summary["score"]["vendi"]["value"]
    assert last["cost"] == pytest.approx(run.summary["cost"])
    assert {key: last[f"count/{key}"] for key in run.counts} == run.counts


def test_every_so_many_samples(tmp_path: Path) -> None:
    kept = Kept(every=10)
    play(tmp_path, kept)
    steps = [step for step, _ in kept.told]
    assert steps == list(range(10, 81, 10))
    with pytest.raises(InputError, match="every"):
        Kept(every=0)


def test_a_tool_that_is_away_does_not_stop_the_run(tmp_path: Path) -> None:
    kept, other = Kept(breaks_at=20), Kept()
    with pytest.warns(
        RuntimeWarning, match="Kept stopped logging this run: the server is away"
    ) as told:
        run = play(tmp_path, kept, other)
    assert len(told) == 1
    assert run.status == "finished"
    assert kept.told[-1][0] == 19
    assert other.told[-1][0] == 80


def test_a_logger_serves_two_runs(tmp_path: Path) -> None:
    kept = Kept()
    play(tmp_path / "a", kept, samples=40)
    play(tmp_path / "b", kept, samples=40)
    assert kept.calls == ["open", "close"] * 2
    assert [step for step, _ in kept.told].count(40) == 2


def test_an_end_that_fails_is_told_and_nothing_else(tmp_path: Path) -> None:
    class Rude:
        def __call__(self, live: Any) -> None:
            pass

        def finish(self, run: gx.Run) -> None:
            raise ValueError("no end")

    notes: list[str] = []
    run = feature_run(tmp_path, 60, callbacks=[Rude()], note=notes.append)
    assert run.status == "finished"
    assert [line for line in notes if "no end" in line] == [
        "error after the run: no end; the run itself is complete"
    ]


def test_what_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    for module, make in (("tensorboard", TensorBoard), ("mlflow", MLflow), ("wandb", WandB)):
        for name in [m for m in sys.modules if m == module or m.startswith(f"{module}.")]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(
            InputError, match=rf"needs the {module} package; install it with pip install {module}"
        ):
            make()


def test_names_that_mlflow_takes() -> None:
    found = _valid_names({"weight/a<b": 1.0, "weight/a/b": 2.0, "samples": 3.0, "x" * 300: 4.0})
    assert found == {"weight/a_b": 1.0, "weight/a_b 2": 2.0, "samples": 3.0, "x" * 250: 4.0}


@pytest.mark.real
def test_tensorboard_reads_it_back(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = play(tmp_path, TensorBoard())
    events = EventAccumulator(str(run.folder / "tensorboard"), size_guidance={"tensors": 0})
    events.Reload()
    tags = events.Tags()["tensors"]
    assert {"samples", "weight/flat", "count/dot", "score/vendi", "pooled/vendi"} <= set(tags)
    seen = events.Tensors("weight/flat")
    assert [event.step for event in seen] == [row["samples"] for row in run.timeline]
    value = seen[-1].tensor_proto.float_val[0]
    assert value == pytest.approx(run.weights["flat"], rel=1e-6)


@pytest.mark.real
def test_mlflow_reads_it_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import mlflow

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # the store that needs no database
    uri = f"file://{tmp_path / 'mlruns'}"
    run = play(tmp_path, MLflow("study", uri))
    client = mlflow.MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("study")
    (found,) = client.search_runs([experiment.experiment_id])
    assert found.info.run_name == "t"
    assert found.info.status == "FINISHED"
    assert found.data.tags["genmix.policy"] == "mixture-ucbv"
    history = client.get_metric_history(found.info.run_id, "pooled/vendi")
    assert [m.step for m in history] == [r["samples"] for r in run.timeline if r["pooled"]]
    assert found.data.metrics["weight/flat"] == pytest.approx(run.weights["flat"])


@pytest.mark.real
def test_wandb_keeps_it_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_SILENT", "true")
    seen: list[tuple[int, dict[str, float]]] = []

    class Watched(WandB):
        def log(self, numbers: dict[str, float], step: int) -> None:
            super().log(numbers, step)
            seen.append((step, dict(self._run.summary)))

    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        run = play(tmp_path, Watched(project="test", mode="offline", dir=str(tmp_path)))
    assert list(tmp_path.glob("wandb/offline-run-*/run-*.wandb"))
    assert seen[-1][0] == 80
    assert seen[-1][1]["weight/flat"] == pytest.approx(run.weights["flat"])


def test_what_the_timeline_needs_is_in_the_journal(tmp_path: Path) -> None:
    run = play(tmp_path, Kept(), samples=40)
    with JournalReader.open(run.folder) as journal:
        assert json.loads(json.dumps(journal.timeline())) == journal.timeline()
