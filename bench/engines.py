"""How close a run comes to the ideal rate if generation takes time: locally with an endpoint, and on Ray."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import numpy as np

from bench.child import ROOT, in_child
from bench.table import Claim, Report, Row, Size, Table


@dataclass(frozen=True)
class Parameters:
    in_flight: int
    reply_seconds: float
    replicas: int
    call_seconds: float
    waves: int
    """Number of times that all places in flight are used."""
    arms: int = 4


SIZES: dict[Size, Parameters] = {
    "full": Parameters(64, 2.0, 16, 0.2, 25),
    "quick": Parameters(64, 0.5, 8, 0.2, 10),
    "tiny": Parameters(8, 0.02, 2, 0.02, 3, arms=2),
}
"""The tiny size has no Ray cluster, because starting one takes seconds."""


def run(size: Size) -> Report:
    at = SIZES[size]
    local = in_child("bench.engines:local", size).value
    rows = [Row(f"local, {at.in_flight} in flight, {at.reply_seconds:g} s per reply", local)]
    claims = [Claim("local engine, share of the ideal rate", local, 0.9)]
    if size != "tiny":
        remote = in_child("bench.engines:remote", size).value
        rows.append(Row(f"Ray, {at.replicas} replicas, {at.call_seconds:g} s per call", remote))
        claims.append(Claim("Ray, share of the ideal rate", remote, 0.85))
    table = Table("samples per second over the ideal rate", "share", rows)
    return Report("engines", size, asdict(at), [table], claims)


def local(size: Size) -> float:
    """Runs in its own process: an endpoint with a fixed latency."""
    at = SIZES[size]
    with slow_server(at.reply_seconds) as url:
        arm = {
            "kind": "openai",
            "model": "m",
            "base_url": url,
            "prompt": "p",
            "concurrency": at.in_flight,
        }
        arms = {f"arm{number}": arm for number in range(at.arms)}
        study = {"arms": arms, "in_flight": at.in_flight}
        return share_of_ideal(study, at.in_flight, at.reply_seconds, at.waves)


def remote(size: Size) -> float:
    """Runs in its own process: workers that sleep, on a Ray cluster."""
    at = SIZES[size]
    each = at.replicas // at.arms
    arm = {"function": nap, "arguments": {"seconds": at.call_seconds}}
    resources = {"replicas": each, "num_cpus": 0}
    arms = {f"arm{number}": {**arm, "resources": resources} for number in range(at.arms)}
    # With equal weights every worker is needed; two tickets per worker let each find work at once.
    study = {"arms": arms, "policy": "uniform", "draw": "tracking"}
    study |= {"engine": "ray", "in_flight": 2 * each * at.arms}
    return share_of_ideal(study, each * at.arms, at.call_seconds, at.waves)


def share_of_ideal(study: dict[str, Any], places: int, seconds: float, waves: int) -> float:
    """Run a study, and compare its time with that of a run without any overhead."""
    import genmix as gx

    os.environ["GENMIX_REPORT"] = "off"
    moments: list[float] = []
    whole = {
        "encoder": {"function": embed},
        "objective": "vendi",
        "budget": {"samples": places * waves},
        **study,
    }
    with tempfile.TemporaryDirectory() as folder:
        gx.run(whole, Path(folder) / "run", callbacks=[lambda live: moments.append(perf_counter())])
    return waves * seconds / (moments[-1] - moments[0])


def embed(texts: list[str]) -> Any:
    rows = np.zeros((len(texts), 256))
    for row, text in zip(rows, texts, strict=True):
        for word in text.split():
            row[zlib.crc32(word.encode()) % 256] += 1
    return rows


def nap(seeds: list[int], seconds: float) -> list[str]:
    sleep(seconds)
    words = ("harbor", "music", "market", "coffee", "rain", "train")
    rngs = map(np.random.default_rng, seeds)
    return [" ".join(rng.choice(words, 8)) for rng in rngs]


@contextmanager
def slow_server(seconds: float) -> Iterator[str]:
    """Start a server in a process of its own; its URL."""
    command = [sys.executable, "-m", "bench.slow_server", str(seconds)]
    server = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        yield f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
    finally:
        server.kill()
        server.wait()
