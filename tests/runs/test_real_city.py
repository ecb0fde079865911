"""The city study end to end on real models: served here, asked over HTTP, embedded by MiniLM."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from examples.city.serve import FREE, serving

from genmix.errors import InputError
from genmix.journal.reader import JournalReader
from genmix.journal.schema import embedding_of

pytestmark = pytest.mark.real
STUDY = Path(__file__).parents[2] / "examples" / "city" / "study.yaml"
KEPT = {"smol": ["poet"], "gemma": ["east", "west"]}
BUDGET = 24
PRICES = {"smol": {"input": 0.15, "output": 0.6}, "gemma": {"input": 0.02, "output": 0.05}}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Three arms of the city study with prices, and a small budget, while the models are served."""
    plan = yaml.safe_load(STUDY.read_text("utf-8"))
    with serving(FREE) as addresses:
        for name, arm in plan["arms"].items():
            arm["base_url"], arm["price"] = addresses[arm["model"]], PRICES[name]
            arm["variants"] = {label: arm["variants"][label] for label in KEPT[name]}
        path = tmp_path_factory.mktemp("study") / "study.yaml"
        path.write_text(yaml.safe_dump(plan | {"budget": {"samples": BUDGET}, "warm_start": 4}))
        yield path


@pytest.fixture(scope="module")
def whole(study: Path) -> Path:
    """The folder of a run that nothing disturbed."""
    out = study.parent / "whole"
    done = subprocess.run(**command("run", study, "--out", out, "--json"), stdout=subprocess.PIPE)
    assert done.returncode == 0
    assert json.loads(done.stdout)["status"] == "finished"
    return out


def command(*words: str | Path) -> dict[str, Any]:
    """How to call genmix, with a cache of embeddings that holds none yet."""
    cache = Path(words[1]).parent / f"cache-{words[0]}-{time.time_ns()}"
    environment = {**os.environ, "GENMIX_CACHE": str(cache), "HF_HUB_OFFLINE": "1"}
    return {"args": [sys.executable, "-m", "genmix", *map(str, words)], "env": environment}


def told(folder: Path) -> list[dict[str, Any]]:
    with JournalReader.open(folder) as journal:
        return list(journal.told_rows())


def is_once_and_complete(rows: list[dict[str, Any]]) -> bool:
    """The budget's number of samples, and of every arm the first so many, each once."""
    counts = Counter(row["arm"] for row in rows)
    places = {(row["arm"], row["place"]) for row in rows}
    every = {(arm, place) for arm, count in counts.items() for place in range(count)}
    return len(rows) == len({row["id"] for row in rows}) == BUDGET and places == every


def test_a_study_spends_its_budget_to_the_sample(whole: Path) -> None:
    rows, summary = told(whole), json.loads((whole / "summary.json").read_text())
    assert is_once_and_complete(rows)
    assert summary["samples"] == BUDGET
    assert summary["counts"] == Counter(row["arm"] for row in rows)
    assert math.isclose(sum(summary["weights"].values()), 1)
    exported = [json.loads(line) for line in (whole / "samples.jsonl").open(encoding="utf-8")]
    assert [row["text"] for row in exported] == [row["text"] for row in rows]
    assert all(row["text"].strip() and "\n" not in row["text"] for row in rows)
    embeddings = np.array([embedding_of(row) for row in rows])
    assert embeddings.shape == (BUDGET, 384)
    np.testing.assert_allclose(np.linalg.norm(embeddings, axis=1), 1, atol=1e-5)


def test_tokens_and_costs_add_up(whole: Path) -> None:
    journal = JournalReader.open(whole)
    paid = [*journal.told_rows(), *journal.failures()]
    journal.close()
    summary = json.loads((whole / "summary.json").read_text())
    for kind in ("input_tokens", "output_tokens"):
        assert summary[kind] == sum(row[kind] or 0 for row in paid) > 0
    for row in told(whole):
        price = PRICES[row["arm"].split("/")[0]]
        assert 0 < row["output_tokens"] <= 50
        thousands = row["input_tokens"] * price["input"] + row["output_tokens"] * price["output"]
        assert math.isclose(row["cost"], thousands / 1000)
    assert math.isclose(summary["cost"], math.fsum(row["cost"] or 0 for row in paid))


def test_a_killed_study_ends_as_if_nothing_had_been(study: Path, whole: Path) -> None:
    out = study.parent / "killed"
    with subprocess.Popen(**command("run", study, "--out", out, "--quiet")) as process:
        while process.poll() is None and samples_so_far(out) < BUDGET // 2:
            time.sleep(0.05)
        process.kill()
    assert BUDGET // 2 <= samples_so_far(out) < BUDGET
    subprocess.run(**command("resume", out, "--quiet"), check=True, stdout=subprocess.DEVNULL)
    rows = told(out)
    assert is_once_and_complete(rows)
    assert [(row["arm"], row["text"]) for row in rows] == [
        (row["arm"], row["text"]) for row in told(whole)
    ]
    weights = [json.loads((run / "weights.json").read_text()) for run in (out, whole)]
    assert weights[0] == weights[1]


def samples_so_far(folder: Path) -> int:
    try:
        return len(told(folder))
    except InputError:
        return 0  # no journal yet
