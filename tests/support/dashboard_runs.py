"""Runs for the dashboard's tests: small real ones, and synthetic journals of any length."""

from __future__ import annotations

import json
import sqlite3
import time
from pathlib import Path
from typing import Any

import numpy as np

from genmix.journal.journal import Journal

HOSTILE = (
    "<script>window.pwned = 1</script>",
    "<img src=x onerror='window.pwned = 1'>",
    "</script><script>window.pwned = 1</script>",
    "<svg/onload=window.pwned=1>&lt;b&gt; ${7*7} {{7*7}}",
    "javascript:window.pwned=1//\"'`--><iframe src=http://192.0.2.1/></iframe>",
)

TICKETS = (
    "id, arm, place, seed, weight, propensity, asked_step, asked_at, probe, ended_step, ended_at,"
    " told_with, outcome"
)
SAMPLES = (
    "ticket, text, image, prompt, source, quality, cost, input_tokens, output_tokens, started_at,"
    " made_at, embedding, dtype"
)

ARMS = f"""
import os, random, re, time, zlib
import numpy as np

HOSTILE = {HOSTILE!r}
WORDS = "harbor market jazz coffee rain river tower bridge night train museum garden".split()

def pause(wait):
    time.sleep(wait)
    while os.path.exists(os.path.join(os.path.dirname(__file__), "closed")):
        time.sleep(0.02)

def talk(seeds, first, last, wait=0.0):
    pause(wait)
    return [" ".join(random.Random(s).choices(WORDS[first:last], k=6)) for s in seeds]

def hostile(seeds, wait=0.0):
    pause(wait)
    return [HOSTILE[s % len(HOSTILE)] for s in seeds]

def flaky(seeds, wait=0.0):
    pause(wait)
    if seeds[0] % 3 == 0:
        raise RuntimeError("<b>no</b> luck today")
    return [" ".join(random.Random(s).choices(WORDS, k=3)) for s in seeds]

def embed(texts):
    rows = np.ones((len(texts), 16))
    for row, text in zip(rows, texts):
        for word in re.findall("[a-z]+", text.lower()):
            row[zlib.crc32(word.encode()) % 16] += 1
    return rows
"""


def write_study(folder: Path, samples: int, wait: float = 0.0, **more: Any) -> Path:
    """A study of texts, some of them hostile; each batch takes ``wait`` seconds.

    While a file ``closed`` exists next to it, no sample arrives.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dashboard_arms.py").write_text(ARMS)

    def arm(function: str, price: float, **arguments: Any) -> dict[str, Any]:
        return {
            "kind": "callable",
            "function": f"dashboard_arms:{function}",
            "arguments": {**arguments, "wait": wait},
            "price": price,
        }

    study = {
        "name": "watched",
        "arms": {
            "left": arm("talk", 0.01, first=0, last=6),
            "right": arm("talk", 0.02, first=6, last=12),
            "<i>odd</i>": arm("hostile", 0.01),
            "flaky": arm("flaky", 0.03),
        },
        "encoder": {"kind": "callable", "function": "dashboard_arms:embed"},
        "objective": "vendi",
        "budget": {"samples": samples},
        "warm_start": 3,
        "retries": {"attempts": 3, "first_wait": 0.001, "longest_wait": 0.01},
        **more,
    }
    path = folder / "study.yaml"
    path.write_text(json.dumps(study))
    return path


def write_long_journal(
    folder: Path, samples: int, dimension: int = 384, timeline: bool = True, arms: int = 5
) -> None:
    """A journal like that of a long run."""
    labels = [f"arm {i}" for i in range(arms)]
    study = {
        "name": "long",
        "arms": {label: {} for label in labels},
        "objective": [{"vendi": {}}],
        "budget": {"samples": 2 * samples, "cost": None, "time": None},
    }
    folder.mkdir(parents=True)
    seconds = samples / 10
    Journal.create(folder, {"run": folder.name, "study": study, "seconds": seconds}).close()
    database = sqlite3.connect(folder / "journal.sqlite")
    rng, begin = np.random.default_rng(0), time.time() - samples / 10
    drawn = rng.integers(arms, size=samples)
    blob = rng.standard_normal(dimension).astype("<f4").tobytes()
    places = [0] * arms
    tickets, rows = [], []
    for i, arm in enumerate(drawn.tolist()):
        at = begin + i / 10
        tickets.append(
            (
                i,
                labels[arm],
                places[arm],
                i,
                0.2,
                0.2,
                2 * i,
                at,
                0,
                2 * i + 1,
                at,
                2 * i + 1,
                "told",
            )
        )
        places[arm] += 1
        text = f"sample {i} " + "word " * 20
        rows.append((i, text, None, None, None, None, 0.5, 3, 20, at, at, blob, "<f4"))
    with database:
        for table, columns, content in (("tickets", TICKETS, tickets), ("samples", SAMPLES, rows)):
            marks = ", ".join("?" * len(columns.split(",")))
            database.executemany(f"INSERT INTO {table} ({columns}) VALUES ({marks})", content)
        database.execute(
            "INSERT INTO events (at, kind, detail) VALUES (?, 'start', '{}')", (begin,)
        )
        if timeline:
            database.executemany(
                "INSERT INTO timeline VALUES (?, ?, ?, ?, ?)", _timeline_rows(samples, labels)
            )
        else:
            database.execute("DROP TABLE timeline")
    database.close()


def _timeline_rows(samples: int, labels: list[str]) -> list[tuple[Any, ...]]:
    found, at = [], 1
    while at <= samples:
        weights = {label: 1 / len(labels) for label in labels}
        score = json.dumps({"vendi": float(np.log1p(at))})
        found.append((at, 0.0, json.dumps(weights), score, score))
        at += max(1, int(0.02 * at))
    return found
