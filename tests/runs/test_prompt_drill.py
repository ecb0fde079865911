"""A study over 500 prompts on an unreliable endpoint, killed ten times."""

from __future__ import annotations

import json
import random
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest

import genmix as gx
from genmix.journal.integrity import check_run
from tests.runs.test_drills import finish, start
from tests.support.endpoint import HALF, Endpoint, error

CODE = """
import numpy as np

def embed(texts):
    return np.array([[1.0 + text.count(c) for c in "abcdefghijklmnop"] for text in texts])
"""

STUDY = """
name: drill
prompts: {{file: prompts.jsonl, group: topic, repeat: 3}}
arms:
  plain: {{kind: openai, base_url: "{url}", model: m, concurrency: 8}}
  brief: {{kind: openai, base_url: "{url}", model: m, prompt: "Answer briefly: {{prompt}}", concurrency: 8}}
encoder: {{kind: callable, function: "arms:embed"}}
objective: vendi
in_flight: 16
resolve_growth: 0.2
retries: {{first_wait: 0.01, longest_wait: 0.05, probe_after: 0.1}}
"""


@pytest.mark.drill
def test_500_prompts_killed_ten_times(tmp_path: Path) -> None:
    topics = ["travel", "food", "code", "verse"]
    rows = [{"text": f"question {i}", "topic": topics[i % 4]} for i in range(500)]
    (tmp_path / "prompts.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (tmp_path / "arms.py").write_text(CODE)
    faults = random.Random(1)
    with Endpoint() as endpoint:
        bad = [error(500), error(429), HALF]
        endpoint.behave(lambda call: faults.choice(bad) if faults.random() < 0.1 else None)
        (tmp_path / "study.yaml").write_text(STUDY.format(url=endpoint.url))
        kills = 0
        while True:
            begun = (tmp_path / "run" / "journal.sqlite").exists()
            command = ("resume", "run") if begun else ("run", "study.yaml", "--out", "run")
            process = start(tmp_path, *command, "--quiet")
            try:
                process.wait(timeout=faults.uniform(0.5, 2.5 + kills) if kills < 10 else 300)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                kills += 1
            code, _, err = finish(process)
            if code == 0:
                break
            assert code == -signal.SIGKILL, err
    run = gx.Run(tmp_path / "run")
    found = list(run.samples())
    assert Counter(row["prompt_id"] for row in found) == dict.fromkeys(range(500), 3)
    assert len({row["sample_id"] for row in found}) == 1500
    assert all(row["prompt"].endswith(f"question {row['prompt_id']}") for row in found)
    assert check_run(run.folder).journal == "verified"
    print(f"{kills} kills, {len(endpoint.requests)} requests")
