"""One round of DAK-UCB and Mixture-DAK-UCB after t rounds, against regressions that are fitted again.

A round chooses an arm for a prompt and learns from its answer. All three see the same pairs. A whole run of
genmix follows, with its memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

import genmix as gx
from bench.opponents.refitted_dak_ucb import Published, Refitted
from bench.table import Claim, Report, Row, Size, Table

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Parameters:
    at: int
    """t, the number of earlier rounds."""
    whole: int
    """Number of rounds of the whole run."""
    d: int
    """Dimension of prompts and of outputs."""
    ours: int
    theirs: int
    """Number of measured rounds."""
    arms: int = 5


SIZES: dict[Size, Parameters] = {
    "full": Parameters(1000, 5000, 384, 50, 5),
    "quick": Parameters(400, 1000, 384, 30, 3),
    "tiny": Parameters(40, 60, 8, 3, 1, arms=3),
}


def run(size: Size = "full") -> Report:
    at = SIZES[size]
    tables, claims, notes = [], [], []
    for name, policy in (("DAK-UCB", gx.DAKUCB()), ("Mixture-DAK-UCB", gx.MixtureDAKUCB())):
        table = _one_round(name, policy, at)
        tables.append(table)
        published, vectorized = (table.ratio(row) for row in table.rows[1:])
        claims.append(Claim(f"{name}: published procedure over genmix", published, 100))
        notes.append(f"{name}: vectorized refits take {vectorized:.3g}× as long as genmix")
    tables.append(_whole_run(at))
    title = "Policies that choose an arm for every prompt, one round after t"
    return Report(title, size, asdict(at), tables, claims, notes)


# -- the world -----------------------------------------------------------------------------------------------


def stream(d: int, arms: int, seed: int = 0) -> Iterator[tuple[Array, list[Array], list[float]]]:
    """Yield prompts of 20 topics, and for each the outputs and qualities of all arms; vectors of length 1.

    Every arm is good at its own share of the topics.
    """
    rng = np.random.default_rng(seed)
    topics = rng.standard_normal((20, d))
    while True:
        topic = int(rng.integers(20))
        prompt = _unit(topics[topic] + rng.standard_normal(d))
        outputs = [_unit(rng.standard_normal(d)) for _ in range(arms)]
        yield prompt, outputs, [float(topic % arms == arm) for arm in range(arms)]


def _unit(x: Array) -> Array:
    found: Array = x / np.linalg.norm(x)
    return found


# -- one round -----------------------------------------------------------------------------------------------


def _one_round(name: str, policy: gx.Policy, at: Parameters) -> Table:
    mixture = isinstance(policy, gx.MixtureDAKUCB)
    selector, refitted = _selector(policy, at), Refitted(at.arms, mixture)
    world = stream(at.d, at.arms)
    for _ in range(at.at):
        prompt, outputs, quality = next(world)
        arm = _our_round(selector, prompt, outputs, quality)
        refitted.observe(arm, prompt, outputs[arm], quality[arm])
    published = Published(at.arms, mixture).like(refitted)
    costs: dict[str, list[float]] = {"genmix": [], "published": [], "vectorized": []}
    for k in range(at.ours):
        prompt, outputs, quality = next(world)
        begin = perf_counter()
        arm = _our_round(selector, prompt, outputs, quality)
        costs["genmix"].append(perf_counter() - begin)
        if k < at.theirs:
            pair = (arm, prompt, outputs[arm], quality[arm])
            costs["published"].append(_their_round(published, pair))
            _forget(refitted, arm)
            costs["vectorized"].append(_their_round(refitted, pair))
    rows = [
        Row("genmix, Selector", float(np.median(costs["genmix"]))),
        Row("published procedure", float(np.median(costs["published"]))),
        Row("vectorized refits", float(np.median(costs["vectorized"]))),
    ]
    return Table(f"{name}, one round after {at.at:,}", "s/round", rows)


def _selector(policy: gx.Policy, at: Parameters) -> gx.Selector:
    return gx.Selector([str(arm) for arm in range(at.arms)], gx.Quality(), policy, warm_start=1)


def _our_round(
    selector: gx.Selector, prompt: Array, outputs: list[Array], quality: list[float]
) -> int:
    [ticket] = selector.ask(prompt=prompt)
    arm = int(ticket.arm)
    selector.tell(ticket, outputs[arm], quality=quality[arm])
    return arm


def _their_round(opponent: Refitted, pair: tuple[int, Array, Array, float]) -> float:
    begin = perf_counter()
    opponent.choose(pair[1])
    opponent.observe(*pair)
    return perf_counter() - begin


def _forget(opponent: Refitted, arm: int) -> None:
    """Remove the last pair of an arm: the opponents share their pairs, and the first one has added it."""
    for column in (opponent.prompts, opponent.outputs, opponent.quality):
        column[arm].pop()  # type: ignore[attr-defined]
    for targets in opponent.pairs[arm]:
        targets.pop()


# -- a whole run ---------------------------------------------------------------------------------------------


def _whole_run(at: Parameters) -> Table:
    selector, world = _selector(gx.MixtureDAKUCB(), at), stream(at.d, at.arms)
    begin = perf_counter()
    for _ in range(at.whole):
        _our_round(selector, *next(world))
    taken = perf_counter() - begin
    size = _megabytes(selector.state_dict()["memory"])
    title = f"Mixture-DAK-UCB, a whole run of {at.whole:,} rounds, {size:,.0f} MB of state"
    return Table(title, "s", [Row("genmix, Selector", taken)])


def _megabytes(value: Any) -> float:
    if isinstance(value, dict):
        return sum(map(_megabytes, value.values()))
    if isinstance(value, list):
        return sum(map(_megabytes, value))
    return value.nbytes / 1e6 if isinstance(value, np.ndarray) else 0.0
