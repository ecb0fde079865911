"""``python -m tests.soak``: long runs with random faults, kills and resumes, and what is left of them.

Every arm writes each sample that it returns to a ledger. After a run that was killed many times, the
journal must contain exactly the budget, nothing twice, and everything in the ledger except what was in
flight at a kill.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from genmix.journal.integrity import check_run

ARMS = '''
import os, random, threading
from pathlib import Path

import numpy as np

LEDGER = Path(__file__).parent / "ledger"
LEDGER.mkdir(exist_ok=True)
FAULTS = random.Random(os.getpid())


def make(seeds, letters, arm):
    """One text per seed, written to this process's ledger before it is returned; some calls fail."""
    if FAULTS.random() < 0.01:
        raise RuntimeError("a fault")
    made = ["".join(np.random.default_rng(seed).choice(list(letters), 6)) for seed in seeds]
    lines = "".join(f"{arm} {seed}\\n" for seed in seeds)
    name = LEDGER / f"{os.getpid()}-{threading.get_ident()}"
    with open(name, "ab", buffering=0) as ledger:
        ledger.write(lines.encode())
    return made


def embed(texts):
    if FAULTS.random() < 0.001:
        raise RuntimeError("a fault")
    return np.array([[1.0 + text.count(c) for c in "abcdefghijklmnop"] for text in texts])
'''

STUDY = """
name: soak
engine: {engine}
arms:
{arms}
encoder: {{kind: callable, function: "soak_arms:embed"}}
objective: vendi
budget: {{samples: {samples}}}
in_flight: 64
retries: {{first_wait: 0.01, longest_wait: 0.1, probe_after: 0.2}}
"""

ARM = (
    "  {name}: {{kind: callable, function: 'soak_arms:make', batch: 8, concurrency: 2, price: 0.25, "
    "arguments: {{letters: {letters}, arm: {name}}}}}"
)
LETTERS = {"ab": "ab", "cde": "cde", "fghi": "fghi", "jkl": "jkl", "mn": "mn", "op": "opab"}


@dataclass
class Result:
    """What one soak showed."""

    engine: str
    samples: int
    seconds: float
    kills: int
    failures: int
    paid_but_lost: int
    """Samples in the ledger that are not in the journal: those in flight at a kill."""
    rss_middle: float
    """Resident memory of the controller halfway, in MiB."""
    rss_end: float
    journal_mebibytes: float
    problems: list[str]


def write_study(folder: Path, engine: str, samples: int) -> None:
    folder.mkdir(parents=True)
    arms = "\n".join(ARM.format(name=name, letters=each) for name, each in LETTERS.items())
    (folder / "soak_arms.py").write_text(ARMS)
    (folder / "study.yaml").write_text(STUDY.format(engine=engine, arms=arms, samples=samples))


def soak(folder: Path, engine: str, samples: int, kills: int, seed: int) -> Result:
    """Run a study to its end, killing its process at random moments."""
    write_study(folder, engine, samples)
    rng, memory, killed, begin = random.Random(seed), [], 0, time.monotonic()
    while True:
        journal = folder / "run" / "journal.sqlite"
        begun = told(journal) > 0
        command = ["resume", "run"] if begun else ["run", "study.yaml", "--out", "run"]
        process = subprocess.Popen(
            [sys.executable, "-m", "genmix", *command, "--quiet"],
            cwd=folder,
            start_new_session=True,
        )
        target = (
            samples * (killed + rng.uniform(0.2, 0.9)) / (kills + 1) if killed < kills else None
        )
        while process.poll() is None:
            time.sleep(0.5)
            used = resident(process.pid)  # before counting, during which the run may end
            done = told(journal)
            memory.append((done, used))
            if target is not None and done >= target:
                os.killpg(process.pid, signal.SIGKILL)
                killed += 1
                break
        code = process.wait()
        print(
            f"  {engine}: {told(journal):,} samples, {killed} kills, exit code {code}", flush=True
        )
        if code == 0:
            break
        if code != -signal.SIGKILL:
            raise SystemExit(f"the run in {folder} ended with exit code {code}")
    seconds = time.monotonic() - begin
    return verify(folder, engine, samples, killed, seconds, memory)


def told(journal: Path) -> int:
    try:
        with sqlite3.connect(f"file:{journal}?mode=ro", uri=True, timeout=5) as db:
            [(count,)] = db.execute("SELECT count(*) FROM tickets WHERE outcome = 'told'")
            return int(count)
    except sqlite3.OperationalError:
        return 0


def resident(pid: int) -> float:
    """Return the resident memory of a process in MiB; 0 if it has ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def verify(
    folder: Path, engine: str, samples: int, kills: int, seconds: float, memory: list[Any]
) -> Result:
    problems: list[str] = []
    run = folder / "run"
    found = check_run(run)
    if found.journal != "verified":
        problems.append(f"genmix check says {found.journal!r}")
    with sqlite3.connect(f"file:{run / 'journal.sqlite'}?mode=ro", uri=True) as db:
        [(integrity,)] = db.execute("PRAGMA integrity_check")
        outcomes = Counter(
            dict(db.execute("SELECT outcome, count(*) FROM tickets GROUP BY outcome"))
        )
        made = db.execute(
            "SELECT arm, place, seed, cost FROM samples JOIN tickets ON tickets.id = samples.ticket"
        ).fetchall()
        [(failures,)] = db.execute("SELECT count(*) FROM failures")
    if integrity != "ok":
        problems.append(f"integrity_check: {integrity}")
    if outcomes["told"] != samples:
        problems.append(f"{outcomes['told']} samples were told, the budget is {samples}")
    if len({(arm, place) for arm, place, *_ in made}) < len(made):
        problems.append("a sample is in the journal twice")
    journaled = Counter(
        (arm, seed) for arm, _, seed, _ in made
    )  # two places can have the same seed
    ledger = Counter(
        tuple(line.split()) for path in (folder / "ledger").iterdir() for line in path.open()
    )
    known = Counter({(arm, str(seed)): count for (arm, seed), count in journaled.items()})
    if missing := known - ledger:
        problems.append(f"{len(missing)} samples of the journal were never made")
    costs = sum(cost for *_, cost in made)
    if abs(costs - 0.25 * len(made)) > 1e-6:
        problems.append(f"costs sum to {costs}, not {0.25 * len(made)}")
    lost = sum((ledger - known).values())
    if lost > 64 * kills:
        problems.append(f"{lost} samples were lost in {kills} kills with 64 in flight")
    middle, end = _memory(memory, samples)
    if end > 1.25 * middle + 30:
        problems.append(f"memory grew from {middle:.0f} to {end:.0f} MiB")
    size = (run / "journal.sqlite").stat().st_size / 2**20
    return Result(engine, samples, seconds, kills, failures, lost, middle, end, size, problems)


def _memory(measured: list[tuple[int, float]], samples: int) -> tuple[float, float]:
    """Return the largest resident memory between 40% and 60% of the samples, and from 80% on.

    The end of the run does not count, because it also writes the report.
    """
    middle = [rss for done, rss in measured if 0.4 * samples <= done <= 0.6 * samples]
    end = [rss for done, rss in measured if 0.8 * samples <= done < samples]
    return max(middle, default=0.0), max(end, default=0.0)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("folder", type=Path, help="a new folder for the runs")
    parser.add_argument("--samples", type=int, default=300_000, help="on the local engine")
    parser.add_argument("--ray-samples", type=int, default=30_000, help="on Ray")
    parser.add_argument("--kills", type=int, default=12, help="on the local engine")
    parser.add_argument("--ray-kills", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    results = []
    for engine, samples, kills in (
        ("local", given.samples, given.kills),
        ("ray", given.ray_samples, given.ray_kills),
    ):
        if samples:
            folder = given.folder.resolve() / engine
            results.append(soak(folder, engine, samples, kills, given.seed))
            print(json.dumps(asdict(results[-1]), indent=1), flush=True)
    if any(result.problems for result in results):
        raise SystemExit("the soak found problems")


if __name__ == "__main__":
    main()
