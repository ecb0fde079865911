"""Samples that a user already has join a run: read once, at no cost, from any table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import genmix as gx
from genmix.journal.reader import JournalReader
from tests.generators.test_recorded import all_of, arm_of, refused


def test_what_is_paid_for_costs_nothing(tmp_path: Path) -> None:
    lines = [{"text": f"text {i}", "cost": 2.5, "quality": i} for i in range(4)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, lines)))
    paid = arm_of(tmp_path, "a.jsonl", shuffle=False)
    free = arm_of(tmp_path, "a.jsonl", shuffle=False, once=True)
    assert [(s.text, s.quality) for s in all_of(paid)] == [
        (s.text, s.quality) for s in all_of(free)
    ]
    assert [s.cost for s in all_of(free)] == [0.0] * 4
    assert (paid.most_cost(), free.most_cost()) == (2.5, 0.0)


@pytest.mark.parametrize("setting", [{"cost": 1.0}, {"exhausted": "refuse"}])
def test_once_contradicts_a_cost_and_a_refusal(setting: dict[str, Any], tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.eye(3))
    with pytest.raises(ValueError, match=f"remove '{next(iter(setting))}'"):
        arm_of(tmp_path, "a.npy", once=True, **setting)


def test_tables_of_texts_and_of_embeddings(tmp_path: Path) -> None:
    rows = np.arange(12.0).reshape(4, 3)
    table = {"embedding": rows.tolist(), "cost": [1.0, 2, 3, 4], "model_name": list("abab")}
    pq.write_table(pa.table(table), tmp_path / "rows.parquet")
    found = all_of(arm_of(tmp_path, "rows.parquet", shuffle=False))
    assert np.array_equal([s.vector for s in found], rows)  # in the order of the file
    assert [s.cost for s in found] == [1, 2, 3, 4]
    pq.write_table(
        pa.table({"text": ["x", "y"], "embedding": [[1.0], [2.0]]}), tmp_path / "t.parquet"
    )
    assert [s.text for s in all_of(arm_of(tmp_path, "t.parquet", shuffle=False))] == ["x", "y"]
    by_key = all_of(arm_of(tmp_path, "t.parquet", shuffle=False, key="embedding"))
    assert [float(s.vector[0]) for s in by_key] == [1, 2]
    (tmp_path / "t.csv").write_text('text,cost\n"a, b",0.5\nc,\n')
    found = all_of(arm_of(tmp_path, "t.csv", shuffle=False, cost=3))
    assert [(s.text, s.cost) for s in found] == [("a, b", 0.5), ("c", 3)]
    (tmp_path / "t.txt").write_text("a\n\nb\n")
    assert [s.text for s in all_of(arm_of(tmp_path, "t.txt", shuffle=False))] == ["a", "b"]
    (tmp_path / "bad.parquet").write_bytes(b"PAR1")
    refused(tmp_path, "bad.parquet", "not a readable Parquet file")


def test_a_run_uses_them_once_and_names_exhaustion(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "mine.npz", features=rng.normal(size=(15, 4)), cost=np.full(15, 9.0))
    np.save(tmp_path / "new.npy", rng.normal(size=(90, 4)) * 0.1 + 1)
    arms = {
        "mine": {"kind": "recorded", "path": str(tmp_path / "mine.npz"), "once": True},
        "new": {"kind": "recorded", "path": str(tmp_path / "new.npy"), "cost": 0.01},
    }
    study = {"arms": arms, "objective": "vendi", "budget": {"samples": 80}, "warm_start": 5}
    run = gx.run(study, tmp_path / "run", callbacks=())
    assert run.summary["counts"] == {"mine": 15, "new": 65}
    assert run.summary["cost"] == pytest.approx(0.65)
    with JournalReader.open(run.folder) as journal:
        (retired,) = [e for e in journal.events() if e["kind"] == "retire"]
        sources = [row["source"] for row in journal.told_rows() if row["arm"] == "mine"]
    assert (retired["arm"], retired["detail"]["why"]) == ("mine", "exhausted")
    assert len(set(sources)) == 15
