"""On a CUDA device: solves, kernel sums against the matmul rate, online runs against the CPU.

Needs only torch, in addition to the dependencies of genmix.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any

import numpy as np

import genmix as gx
from bench.clouds import clouds, reference, samples
from bench.online import drive
from bench.table import Claim, Report, Row, Size, Table
from genmix.kernels.blocks import kernel_sum
from genmix.objectives import Tally
from genmix.objectives.pool import Pool

TITLE = "on a CUDA device"
COLD, WARM = 0.150, 0.040
"""Target times of a solve, in seconds."""


@dataclass(frozen=True)
class Parameters:
    d: int
    each: int
    """Samples per arm for the solves."""
    repeats: int
    pairs: int
    """Number of rows on each side of the kernel sums."""
    blocks: tuple[int, ...]
    """Block sizes to try for the plain products, in rows."""
    frechet_rounds: int
    kernel_rounds: int
    arms: int = 5


SIZES: dict[Size, Parameters] = {
    "full": Parameters(1024, 2000, 7, 50_000, (512, 2048, 8192), 1500, 3000),
    "quick": Parameters(256, 400, 5, 5000, (512, 2048), 400, 500),
    "tiny": Parameters(8, 20, 1, 50, (16,), 60, 60, arms=3),
}


def run(size: Size = "full", device: str | None = None) -> Report:
    """Run on ``device``, by default on the first CUDA device."""
    try:
        import torch
    except ImportError:
        return Report(TITLE, size, {}, notes=["skipped: torch is not installed"])
    if device is None and not torch.cuda.is_available():
        return Report(TITLE, size, {}, notes=["skipped: there is no CUDA device"])
    bench = Bench(torch, device or "cuda", SIZES[size])
    solves = [bench.solves("FD"), bench.solves("Vendi")]
    sums = bench.kernel_sums()
    online = [bench.online("FD"), bench.online("KD")]
    claims = []
    for kind, table in zip(("FD", "Vendi"), solves, strict=True):
        cold, warm = table.rows[:2]
        claims += [
            Claim(f"{kind}, cold solve, s", cold.cost, COLD, at_least=False),
            Claim(f"{kind}, cold gap over loss", _relative_gap(cold), 1e-8, at_least=False),
            Claim(f"{kind}, warm re-solve, s", warm.cost, WARM, at_least=False),
        ]
    share = sums.ratio(sums.rows[1])
    claims.append(Claim("rate of the kernel sums over the matmul rate", share, 0.5))
    return Report(
        f"{TITLE}: {bench.name}",
        size,
        asdict(SIZES[size]),
        [*solves, sums, *online],
        claims,
        [
            "a solve forms the loss from the statistics and minimizes it, and both are timed; medians "
            "after a warm-up, with the device synchronized before and after; warm solves start from the "
            "mixture of 1% fewer samples",
            "the plain product has the same shape and precision, with the best block size",
            "online: only ask and tell are timed",
        ],
        {"device": bench.name, "peak_device_memory_mib": bench.peak_mebibytes()},
    )


def _relative_gap(row: Row) -> float:
    return (row.gap or 0.0) / abs(row.loss or np.nan)


class Bench:
    """Everything measured on one device."""

    def __init__(self, torch: Any, device: str, at: Parameters) -> None:
        self._torch, self._device, self._at = torch, device, at
        self._cuda = device.startswith("cuda")
        self.name = torch.cuda.get_device_name(device) if self._cuda else device
        self._world = clouds(at.arms, at.d)
        self._real = reference(self._world, 2 * at.d)
        self._kernel = gx.Gaussian().fix_bandwidths(
            [*samples(self._world, 50).values(), self._real[:50]]
        )

    def tensor(self, rows: Any) -> Any:
        return self._torch.tensor(rows, device=self._device)

    def peak_mebibytes(self) -> float:
        return self._torch.cuda.max_memory_allocated(self._device) / 2**20 if self._cuda else 0.0

    def _timed(self, action: Callable[[], Any], repeats: int) -> tuple[Any, float]:
        """The result of the action and its median seconds, after one warm-up."""
        taken = []
        for _ in range(repeats + 1):
            self._synchronize()
            begin = perf_counter()
            found = action()
            self._synchronize()
            taken.append(perf_counter() - begin)
        return found, float(np.median(taken[1:]))

    def _synchronize(self) -> None:
        if self._cuda:
            self._torch.cuda.synchronize(self._device)

    def _objective(self, kind: str, place: Callable[[Any], Any]) -> gx.Objective:
        if kind == "FD":
            return gx.FrechetDistance(place(self._real))
        return gx.Vendi() if kind == "Vendi" else gx.KernelDistance(place(self._real), self._kernel)

    def solves(self, kind: str) -> Table:
        rows = []
        for where, place in (("device", self.tensor), ("CPU", np.asarray)):
            objective = self._objective(kind, place)
            drawn = samples(self._world, self._at.each)
            now, before = (
                Pool.of({name: place(part[:n]) for name, part in drawn.items()}, objective).tally
                for n in (self._at.each, int(self._at.each / 1.01))
            )
            rows += self._solve_rows(where, now, before)
        return Table(f"{kind}, one solve", "s", rows)

    def _solve_rows(self, where: str, tally: Tally, before: Tally) -> list[Row]:
        arms, repeats = range(self._at.arms), self._at.repeats
        cold, taken = self._timed(lambda: gx.solve(tally.loss(arms)), repeats)
        last = gx.solve(before.loss(arms))
        warm, again = self._timed(
            lambda: gx.Newton().solve(tally.loss(arms), last.weights, last.curvature), repeats
        )
        _, made = self._timed(lambda: tally.loss(arms), repeats)
        return [
            Row(f"{where}, cold", taken, cold.loss, cold.gap, f"{cold.iterations} steps"),
            Row(f"{where}, warm", again, warm.loss, warm.gap, f"{warm.iterations} steps"),
            Row(f"{where}, forming the loss only", made),
        ]

    def kernel_sums(self) -> Table:
        torch, at = self._torch, self._at
        make = torch.Generator(device=self._device).manual_seed(0)
        shape, kinds = (at.pairs, at.d), {"device": self._device, "dtype": torch.float64}
        x = torch.randn(*shape, generator=make, **kinds)
        y = torch.randn(*shape, generator=make, **kinds)
        kernel = gx.Gaussian(float(np.sqrt(2 * at.d)))
        _, summed = self._timed(lambda: kernel_sum(kernel, x, y), 3)
        plain = {block: self._product_seconds(x, y, block) for block in at.blocks}
        best = min(plain, key=plain.__getitem__)
        rate = 2 * at.pairs**2 * at.d / 1e12
        return Table(
            f"{at.pairs} against {at.pairs} rows in {at.d} dimensions, float64",
            "s",
            [
                Row("genmix, Gaussian kernel sum", summed, how=f"{rate / summed:.3g} TFLOP/s"),
                Row(
                    "plain product",
                    plain[best],
                    how=f"{rate / plain[best]:.3g} TFLOP/s, blocks of {best} rows, scaled",
                ),
            ],
        )

    def _product_seconds(self, x: Any, y: Any, block: int) -> float:
        """Seconds of the whole product, scaled from one block of rows."""
        block = min(block, len(x))
        room = self._torch.empty(block, len(y), device=self._device, dtype=x.dtype)
        _, taken = self._timed(lambda: self._torch.mm(x[:block], y.T, out=room), 5)
        return taken * len(x) / block

    def online(self, kind: str) -> Table:
        rounds = self._at.frechet_rounds if kind == "FD" else self._at.kernel_rounds
        rows = []
        for where, place in (("device", self.tensor), ("CPU", np.asarray)):
            run = drive(self._world, self._objective(kind, place), rounds, place=place, keep=False)
            how = f"{len(run.resolves)} re-solves"
            rows.append(Row(where, run.per_round, gap=run.selector.gap, how=how))
        return Table(f"{kind}, online, {rounds} rounds", "s/round", rows)
