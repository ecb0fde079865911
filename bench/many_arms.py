"""Hundreds of arms or cells: re-solves with steps in some of the arms against steps with all of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

import genmix as gx
from bench.table import Claim, Report, Row, Size, Table
from genmix.objectives import Batch
from genmix.solvers import many_arms

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Parameters:
    arms: int
    d: int
    each: int
    """Samples per arm."""
    repeats: int
    groups: int
    """Number of groups of prompts; the cells have ``cell_arms`` arms each."""
    cell_arms: int
    cell_d: int
    told: tuple[int, ...]
    """Numbers of told samples after which re-solves of the selector with groups are timed."""


SIZES: dict[Size, Parameters] = {
    "full": Parameters(1000, 256, 20, 5, 50, 10, 384, (3000, 10_000)),
    "quick": Parameters(300, 64, 10, 3, 25, 10, 48, (1500,)),
    "tiny": Parameters(210, 6, 3, 1, 21, 10, 4, (250,)),
}


def run(size: Size = "full") -> Report:
    at = SIZES[size]
    arms = [_re_solves(name, at) for name in ("Vendi", "FD", "KD", "RKE")]
    cells = [_cells(pooling, at) for pooling in (0.0, 3.0)]
    slowest = max(table.rows[0].cost for table in arms)
    return Report(
        "many arms and many cells",
        size,
        asdict(at),
        [*arms, *cells],
        [
            Claim(f"slowest re-solve with {at.arms} arms, s", slowest, 3, at_least=False),
            *(
                Claim(f"{table.title}, {row.who}, s", row.cost, 1, at_least=False)
                for table in cells
                for row in table.rows
            ),
        ],
        [
            "a re-solve adds 1% more samples, drawn by the last weights, forms the loss and solves; medians",
            "in the selector, a re-solve is the call of tell that causes it; medians over 7% more samples",
        ],
    )


@contextmanager
def _all_arms() -> Iterator[None]:
    """Let every step contain all arms."""
    usual, many_arms.MANY = many_arms.MANY, 10**9
    try:
        yield
    finally:
        many_arms.MANY = usual


# -- many arms -----------------------------------------------------------------------------------------------


def _rows(arm: int, count: int, d: int, seed: int = 0) -> Array:
    """Samples of an arm with 1 to 5 of 60 modes."""
    modes = np.random.default_rng(1).standard_normal((60, d))
    own = np.random.default_rng([2, arm]).choice(60, 1 + arm % 5, replace=False)
    rng = np.random.default_rng([3, arm, seed])
    found: Array = modes[rng.choice(own, count)] + 0.15 * rng.standard_normal((count, d))
    return found


def _re_solves(name: str, at: Parameters) -> Table:
    real = np.concatenate([_rows(arm, 20, at.d, seed=9) for arm in range(100)])
    objective: Any = {
        "Vendi": gx.Vendi(),
        "FD": gx.FrechetDistance(real),
        "KD": gx.KernelDistance(real, gx.Gaussian(np.sqrt(at.d))),
        "RKE": gx.RKE(gx.Gaussian(np.sqrt(at.d))),
    }[name]
    tally = objective.tally(at.arms, real)
    for arm in range(at.arms):
        tally.add(arm, Batch(_rows(arm, at.each, at.d)))
    begin = perf_counter()
    last = gx.solve(tally.loss(range(at.arms)))
    first = perf_counter() - begin
    rng, taken = np.random.default_rng(0), []
    more = max(at.arms * at.each // 100, 1)
    for repeat in range(1, at.repeats + 1):
        before = last
        drawn = np.bincount(rng.choice(at.arms, more, p=last.weights), minlength=at.arms)
        for arm in np.flatnonzero(drawn).tolist():
            tally.add(arm, Batch(_rows(arm, int(drawn[arm]), at.d, seed=repeat)))
        begin = perf_counter()
        last = gx.Newton().resolve(tally.loss(range(at.arms)), last.weights, last.curvature)
        taken.append(perf_counter() - begin)
    begin = perf_counter()
    with _all_arms():
        full = gx.Newton().resolve(tally.loss(range(at.arms)), before.weights)
    in_full = perf_counter() - begin
    rows = [
        Row("re-solve with some of the arms", float(np.median(taken)), last.loss, last.gap),
        Row("re-solve with all arms", in_full, full.loss, full.gap, "measured once"),
        Row("first solve with some of the arms", first, how="measured once"),
    ]
    active = int(np.count_nonzero(last.weights))
    return Table(f"{name}, {at.arms} arms in {at.d} dimensions, {active} with weight", "s", rows)


# -- many cells ----------------------------------------------------------------------------------------------


def _cells(pooling: float, at: Parameters) -> Table:
    """Re-solves of a selector with groups and the default policy."""
    world = _Cells(at)
    warm_start = 5 if pooling == 0 else 10
    if pooling == 0:  # the warm start is per cell
        warm_start = max(1, min(5, at.told[0] // (at.groups * at.cell_arms) - 1))
    selector = gx.Selector(
        [str(arm) for arm in range(at.cell_arms)],
        gx.Vendi(),
        groups={str(group): 1 / at.groups for group in range(at.groups)},
        pooling=pooling,
        warm_start=warm_start,
    )
    rows = []
    told = 0
    for count in at.told:
        world.tell(selector, count - told)
        taken = world.tell(selector, max(count * 7 // 100, 5))
        told = sum(selector.counts.values())
        rows.append(
            Row(f"after {count:,} samples", float(np.median(taken)), gap=float(selector.gap))
        )
    title = f"default policy, pooling {pooling:g}, {at.groups} × {at.cell_arms} cells"
    return Table(title, "s", rows)


class _Cells:
    """A world in which every cell has four modes of its own around a topic and a style."""

    def __init__(self, at: Parameters) -> None:
        self._rng = np.random.default_rng(0)
        self._scales = np.arange(1.0, at.cell_d + 1) ** -0.5
        self._topics = self._draw(at.groups)
        self._styles = self._draw(at.cell_arms)
        self._modes = self._draw(at.groups, at.cell_arms, 4)
        self._spread = self._rng.uniform(0.3, 1.2, (at.groups, at.cell_arms))
        self._at = at

    def _draw(self, *shape: int) -> Array:
        found: Array = self._rng.standard_normal((*shape, len(self._scales))) * self._scales
        return found

    def tell(self, selector: gx.Selector, count: int) -> list[float]:
        """Tell samples; return the seconds of each call of tell that re-solved."""
        taken = []
        for _ in range(count):
            [ticket] = selector.ask(1)
            g, a = int(str(ticket.group)), int(ticket.arm)
            inner = self._modes[g, a, self._rng.integers(4)] + 0.7 * self._draw()
            row = self._topics[g] + 0.7 * self._styles[a] + self._spread[g, a] * inner
            is_due = selector.will_solve(1)
            begin = perf_counter()
            selector.tell(ticket, row)
            if is_due:
                taken.append(perf_counter() - begin)
        return taken
