"""Studies for tests on Ray clusters, and what their runs leave behind."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np

from genmix.journal.reader import JournalReader

ARMS = '''
"""Arms that leave a file per process that generates or embeds."""

import os
import sys
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
IS_WORKER = "default_worker" in sys.argv[0]


def leave_trace(kind):
    if IS_WORKER:
        import ray

        node = ray.get_runtime_context().get_node_id()
        (HERE / "traces" / f"{kind}-{os.getpid()}").write_text(node)


def make(seeds, letters, pause=0.0):
    leave_trace("arm")
    out = []
    for seed in seeds:
        time.sleep(pause)
        out.append("".join(np.random.default_rng(seed).choice(list(letters), 6)))
    return out


def make_slowly(seeds, pause, until):
    """Sleep until a file exists."""
    leave_trace("slow")
    while not (HERE / until).exists():
        time.sleep(pause)
    return ["slow" for _ in seeds]


def make_poison(seeds, at):
    """Return a text that hangs the encoder as sample number ``at``."""
    count = HERE / "count"
    found = []
    for text in make(seeds, "ab"):
        made = int(count.read_text()) + 1 if count.exists() else 1
        count.write_text(str(made))
        found.append("poison" if made == at else text)
    return found


def embed(texts):
    leave_trace("encoder")
    if "poison" in texts:
        time.sleep(600)
    return np.array([[1.0 + text.count(c) for c in "abcdefgh"] for text in texts])
'''

LETTERS = {"narrow": "ab", "wide": "cdef", "other": "gh"}


def write_arms(folder: Path) -> None:
    folder.mkdir(exist_ok=True, parents=True)
    (folder / "traces").mkdir(exist_ok=True)
    (folder / "arms.py").write_text(ARMS)


def study(folder: Path, samples: int = 60, pause: float = 0.0, **changes: Any) -> Path:
    """Write a study with three arms and an encoder; ``changes`` replace its keys, also those of arms."""
    write_arms(folder)
    of_arms = changes.pop("of_arms", {})
    arms = {
        label: {
            "kind": "callable",
            "function": "arms:make",
            "arguments": {"letters": letters, "pause": pause},
            **of_arms,
        }
        for label, letters in LETTERS.items()
    }
    content = {
        "name": "on-ray",
        "arms": arms | changes.pop("more_arms", {}),
        "encoder": {"kind": "callable", "function": "arms:embed"},
        "objective": "vendi",
        "budget": {"samples": samples},
        "warm_start": 5,
        **changes,
    }
    path = folder / "study.yaml"
    path.write_text(json.dumps(content))  # JSON is YAML
    return path


def data_set(run: Path) -> tuple[str, Any]:
    """Every sample in order, and the final weights."""
    weights = json.loads((run / "weights.json").read_text())["weights"]
    return (run / "samples.jsonl").read_text(), weights


def check_counted_once(run: Path, samples: int) -> None:
    """Check that the budget is met exactly, and that every sample is what its ticket asked for."""
    with JournalReader.open(run) as journal:
        told = list(journal.told_rows())
    assert len(told) == samples
    assert len({row["id"] for row in told}) == samples
    assert len({(row["arm"], row["place"]) for row in told}) == samples
    for row in told:
        rng = np.random.default_rng(row["seed"])
        assert row["text"] == "".join(rng.choice(list(LETTERS[row["arm"]]), 6))


def failures(run: Path) -> list[dict[str, Any]]:
    with JournalReader.open(run) as journal:
        return journal.failures()


def workers(folder: Path, kind: str = "*") -> list[int]:
    """The processes that have generated or embedded and are alive."""
    pids = [int(path.name.split("-")[1]) for path in (folder / "traces").glob(f"{kind}-*")]
    return [pid for pid in pids if is_alive(pid)]


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def wait_for(condition: Callable[[], Any], seconds: float = 60.0) -> Any:
    """Wait for a true value."""
    end = monotonic() + seconds
    while not (found := condition()):
        assert monotonic() < end, "the condition did not become true"
        sleep(0.02)
    return found


def told(run: Path) -> int:
    """The number of samples that a run has told so far."""
    if not (run / "journal.sqlite").exists():
        return 0
    with JournalReader.open(run) as journal:
        return sum(journal.told_counts().values())


ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
