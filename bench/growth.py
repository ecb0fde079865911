"""How costs grow: time and memory of a long run with its samples, re-solves with d, m and n."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from time import perf_counter

import numpy as np

import genmix as gx
from bench.child import in_child, peak_mebibytes
from bench.clouds import Rows, Stream, clouds, names, reference, samples
from bench.table import Claim, Report, Row, Size, Table
from bench.timing import timed
from genmix.objectives import Batch

MakeObjective = Callable[[Rows], gx.Objective]

OBJECTIVES: dict[str, MakeObjective] = {
    "FD": lambda real: gx.FrechetDistance(real),
    "Vendi": lambda real: gx.Vendi(),
}


@dataclass(frozen=True)
class Parameters:
    d: int
    features: int
    shorter: int
    longer: int
    many: tuple[int, int]
    """Arms and dimensions of the world with many arms."""
    each: tuple[int, ...]
    """Samples per arm in that world."""
    dimensions: tuple[int, ...]
    arms: tuple[int, ...]
    counts: tuple[int, ...]
    """Samples per arm."""
    base: tuple[int, int, int]
    """Dimensions, arms and samples per arm, where they do not vary."""


SIZES: dict[Size, Parameters] = {
    "full": Parameters(
        d=256,
        features=512,
        shorter=10_000,
        longer=100_000,
        many=(200, 256),
        each=(1, 5, 100),
        dimensions=(128, 256, 512, 1024),
        arms=(2, 5, 10, 20, 50, 100, 200),
        counts=(10, 30, 100, 300, 1000, 3000),
        base=(256, 5, 300),
    ),
    "quick": Parameters(
        d=16,
        features=32,
        shorter=1000,
        longer=10_000,
        many=(100, 128),
        each=(1, 5, 50),
        dimensions=(32, 64, 128),
        arms=(2, 5, 20),
        counts=(10, 100, 1000),
        base=(64, 5, 100),
    ),
    "tiny": Parameters(
        d=4,
        features=4,
        shorter=200,
        longer=400,
        many=(6, 8),
        each=(1, 3),
        dimensions=(4, 8),
        arms=(2, 3),
        counts=(3, 10),
        base=(8, 3, 10),
    ),
}


def run(size: Size = "full") -> Report:
    at = SIZES[size]
    long_run, memory = _long_run(at)
    arms, d = at.many
    many = Table(
        f"one warm re-solve, {arms} arms in {d} dimensions",
        "s",
        [
            resolve(kind, d, arms, each, f"{each} per arm")
            for kind in OBJECTIVES
            for each in at.each
        ],
    )
    every_sample, _, every_solve = (table.ratio(table.rows[1]) for table in long_run)
    return Report(
        "scaling with samples, dimensions and arms",
        size,
        asdict(at),
        [*long_run, many, *_sweeps(at)],
        [
            Claim(
                "time per sample, longer run over shorter run", every_sample, 1.3, at_least=False
            ),
            Claim(
                "time per re-solve, longer run over shorter run", every_solve, 1.3, at_least=False
            ),
            Claim("slowest re-solve with many arms, s", max(r.cost for r in many.rows), 1, False),
        ],
        [
            f"long run: Vendi with {2 * at.features} random Fourier columns, 5 arms, default selector, "
            "timed over the last tenth; samples are drawn in blocks and discarded",
            f"peak memory of the long run: {memory[0]:.0f} MiB up to {at.shorter} samples, "
            f"{memory[1]:.0f} MiB up to {at.longer} (the whole process)",
            "a warm re-solve adds 1% more samples to the statistics, forms the loss, and solves from the "
            "last mixture; median of 3",
        ],
        {"memory_mib": memory},
    )


def _long_run(at: Parameters) -> tuple[list[Table], list[float]]:
    lengths = (at.shorter, at.longer)
    found = in_child("bench.growth:feed", at.d, at.features, lengths).value
    titles = {
        "sample": "a long run: ask and tell",
        "plain": "a long run: round without a re-solve",
        "solve": "a long run: round with a re-solve",
    }
    tables = [
        Table(
            title,
            "s",
            [
                Row(f"up to {n:,} samples", part[key], gap=part["gap"])
                for n, part in zip(lengths, found, strict=True)
            ],
        )
        for key, title in titles.items()
    ]
    return tables, [part["peak"] for part in found]


def feed(d: int, features: int, lengths: list[int]) -> list[dict[str, float]]:
    """Runs in its own process: a run that is timed over the last tenth before each length."""
    world = clouds(5, d)
    objective = gx.Vendi(kernel=gx.Gaussian(4.0, features=features))
    selector = gx.Selector(names(world), objective, seed=0)
    arms = zip(selector.arms, world, strict=True)
    streams = {name: Stream(cloud, 0, i) for i, (name, cloud) in enumerate(arms)}
    found, told = [], 0
    for length in lengths:
        begin = length - length // 10
        _rounds(selector, streams, begin - told)
        rounds = _rounds(selector, streams, length - begin)
        told = length
        found.append(
            {
                "sample": sum(map(sum, rounds.values())) / (length - begin),
                "plain": float(np.median(rounds[False])),
                "solve": float(np.median(rounds[True])),
                "gap": selector.gap,
                "peak": peak_mebibytes(),
            }
        )
    return found


def _rounds(
    selector: gx.Selector, streams: dict[str, Stream], count: int
) -> dict[bool, list[float]]:
    """Seconds of ask and tell per round, by whether the round re-solved."""
    rounds: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(count):
        begin, gap = perf_counter(), selector.gap
        (ticket,) = selector.ask()
        asked = perf_counter() - begin
        row = streams[ticket.arm].next()
        begin = perf_counter()
        selector.tell(ticket, row)
        rounds[selector.gap != gap].append(asked + perf_counter() - begin)
    return rounds


def _sweeps(at: Parameters) -> list[Table]:
    """Warm re-solves that vary dimensions, arms or samples per arm, one at a time."""
    d, arms, each = at.base
    ways = {
        f"d, with {arms} arms and {each} samples each": [(n, arms, each) for n in at.dimensions],
        f"arms, with d {d} and {each} samples each": [(d, n, each) for n in at.arms],
        f"samples per arm, with d {d} and {arms} arms": [(d, arms, n) for n in at.counts],
    }
    return [
        Table(
            f"one warm {kind} re-solve by {what}",
            "s",
            [resolve(kind, *where, str(where[axis])) for where in settings],
        )
        for kind in OBJECTIVES
        for axis, (what, settings) in enumerate(ways.items())
    ]


def resolve(kind: str, d: int, arms: int, each: int, who: str) -> Row:
    """A re-solve after 1% more samples, distributed over the arms."""
    world = clouds(arms, d)
    more = max(1, arms * each // 100)
    shares = [more // arms + (arm < more % arms) for arm in range(arms)]
    drawn = list(samples(world, each + max(shares)).values())
    tally = OBJECTIVES[kind](reference(world, 2 * d)).tally(arms, drawn[0])
    for arm, rows in enumerate(drawn):
        tally.add(arm, Batch(rows[:each]))
    last = gx.solve(tally.loss(range(arms)))

    def once() -> gx.Solution:
        grown = tally.fork()
        for arm, share in enumerate(shares):
            if share:
                grown.add(arm, Batch(drawn[arm][each : each + share]))
        return gx.Newton().solve(grown.loss(range(arms)), last.weights, last.curvature)

    found, taken = timed(3, once)
    return Row(f"{kind}, {who}", taken, found.loss, found.gap)
