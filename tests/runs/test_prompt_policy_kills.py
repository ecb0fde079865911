"""Runs that use the embeddings of their prompts, killed and resumed: the same samples, bit for bit."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import numpy as np
import pytest

import genmix as gx
from genmix.journal.integrity import check_run
from genmix.journal.reader import JournalReader
from genmix.journal.schema import embedding_of
from tests.runs.test_drills import finish, start

CODE = """
import os
import signal
from pathlib import Path
import numpy as np

TOPICS = ["travel", "food", "code"]
CALLS = Path(__file__).with_name("calls")
left = int(CALLS.read_text()) if CALLS.exists() else 10**9

def answer(seeds, prompts, topic):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    found = []
    for seed, prompt in zip(seeds, prompts):
        own = prompt.split()[0] == topic
        row = np.eye(8)[np.random.default_rng(seed).integers(8 if own else 2)]
        found.append({"vector": row.tolist(), "prompt": prompt, "quality": 0.9 if own else 0.2})
    return found

def embed(texts):
    rows = [np.eye(5)[TOPICS.index(t.split()[0])] + 0.01 * len(t) for t in texts]
    return np.array([row / np.linalg.norm(row) for row in rows])
"""
STUDY = """
name: killed
prompts: {{file: prompts.jsonl, group: topic, repeat: 5, encoder: {{kind: callable, function: "arms:embed"}}}}
arms:
  travel: {{kind: callable, function: "arms:answer", arguments: {{topic: travel}}}}
  food: {{kind: callable, function: "arms:answer", arguments: {{topic: food}}}}
  code: {{kind: callable, function: "arms:answer", arguments: {{topic: code}}}}
objective: {objective}
policy: {policy}
warm_start: 3
resolve_growth: 0.2
"""
JOINT = "{vendi: {kernel: {joint: {prompt: cosine, output: cosine}}}}"
CALLS = (5, 51, 60)
"""Number of samples after which the process kills itself."""


def rows_of(folder: Path) -> bytes:
    with JournalReader.open(folder) as journal:
        return np.stack([embedding_of(row) for row in journal.told_rows()]).tobytes()


@pytest.mark.drill
@pytest.mark.parametrize(
    ("policy", "objective"),
    [
        ("pak-ucb", "vendi"),
        ("dak-ucb", "vendi"),
        ("mixture-dak-ucb", JOINT),
        ("mixture-ucbv", JOINT),
    ],
)
def test_killed_runs_continue_bit_for_bit(
    tmp_path: Path, policy: str, objective: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GENMIX_REPORT", "off")
    rows = [{"text": f"{t} {i}", "topic": t} for i in range(10) for t in ("travel", "food", "code")]
    (tmp_path / "prompts.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    (tmp_path / "arms.py").write_text(CODE, "utf-8")
    (tmp_path / "study.yaml").write_text(STUDY.format(policy=policy, objective=objective), "utf-8")
    assert finish(start(tmp_path, "run", "study.yaml", "--out", "whole", "--quiet"))[0] == 0
    for k, calls in enumerate((*CALLS, None)):
        limit = tmp_path / "calls"
        limit.unlink(missing_ok=True) if calls is None else limit.write_text(str(calls))
        command = ("resume", "cut") if k else ("run", "study.yaml", "--out", "cut")
        code, _, err = finish(start(tmp_path, *command, "--quiet"))
        assert code == (0 if calls is None else -signal.SIGKILL), err
    whole, cut_run = gx.Run(tmp_path / "whole"), gx.Run(tmp_path / "cut")
    assert list(cut_run.samples()) == list(whole.samples())
    assert len(list(whole.samples())) == 150
    assert rows_of(cut_run.folder) == rows_of(whole.folder)
    assert cut_run.weights == whole.weights
    assert check_run(cut_run.folder).journal == "verified"
