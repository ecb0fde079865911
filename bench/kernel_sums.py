"""Exact Gaussian kernel sums over all pairs of samples, against pairwise differences."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import genmix as gx
from bench.child import fresh_peak_mebibytes, in_child, peak_mebibytes
from bench.clouds import Rows, clouds, samples
from bench.opponents import naive_kernels
from bench.opponents.published_loop import kernel_total
from bench.table import Claim, Report, Row, Size, Table
from bench.timing import median_seconds, seconds
from genmix.kernels.blocks import kernel_sum
from genmix.objectives import Batch


@dataclass(frozen=True)
class Parameters:
    d: int
    each: int
    """Samples per arm."""
    block: int
    """Rows and columns of the blocks of the kernel matrix on which the opponents are measured."""
    blocks: int
    block_mebibytes: tuple[int, int]
    """Two sizes of genmix's blocks, whose memory is compared."""
    repeats: int
    arms: int = 5


SIZES: dict[Size, Parameters] = {
    "full": Parameters(1024, 3000, 256, 24, (8, 64), 3),
    "quick": Parameters(512, 800, 64, 12, (1, 4), 3),
    "tiny": Parameters(8, 40, 10, 3, (1, 2), 1, arms=3),
}


def run(size: Size = "full") -> Report:
    at = SIZES[size]
    arms = list(samples(clouds(at.arms, at.d), at.each).values())
    kernel = gx.Gaussian().fix_bandwidths([rows[:100] for rows in arms])
    taken = median_seconds(at.repeats, all_pairs, kernel, arms)
    sampled = Sampled(kernel, arms, at)
    table = Table(
        "sums over all pairs of arms",
        "s",
        [
            Row("genmix", taken),
            Row(
                f"straightforward differences, numpy {sampled.shape}",
                sampled.plain_seconds,
                how="scaled",
            ),
            Row("published script, torch float32", sampled.published_seconds, how="scaled"),
            Row(f"optimized differences, {sampled.way}", sampled.seconds, how="scaled"),
        ],
    )
    used = {
        mebibytes: in_child("bench.kernel_sums:memory", size, mebibytes).value
        for mebibytes in at.block_mebibytes
    }
    described = ", ".join(
        f"{extra:.1f} MiB with blocks of {size} MiB" for size, extra in used.items()
    )
    return Report(
        "kernel sums, exact Gaussian",
        size,
        asdict(at) | {"bandwidth": kernel.bandwidth},
        [table],
        [
            Claim("straightforward differences over genmix", table.ratio(table.rows[1]), 30),
            Claim("relative error on the measured blocks", sampled.error, 1e-6, at_least=False),
        ],
        [
            f"opponents: measured on {at.blocks} blocks of {at.block}×{at.block} pairs and scaled to the "
            "upper triangle, as if they used the symmetry of the matrix; the published script does not, "
            "and is scaled to all pairs",
            "straightforward differences: the plain formula in float64, with the fastest block shape; "
            "optimized: in place, with reused buffers, on all cores, with the fastest library and shape",
            f"peak memory in addition to the samples: {described} (each in its own process)",
        ],
        {"sampled_seconds": sampled.ways, "memory_mib": used},
    )


def all_pairs(kernel: gx.Gaussian, arms: list[Rows]) -> Any:
    """The sums between all pairs of arms, as the objective stores them."""
    tally: Any = gx.RKE(kernel).tally(len(arms), arms[0])
    for arm, rows in enumerate(arms):
        tally.add(arm, Batch(rows))
    return tally.pair_sums(range(len(arms))).pairs


class Sampled:
    """The opponents on some blocks of the upper triangle, scaled to the whole triangle."""

    def __init__(self, kernel: gx.Gaussian, arms: list[Rows], at: Parameters) -> None:
        rows = np.concatenate(arms)
        rng = np.random.default_rng(3)
        starts = rng.integers(0, len(rows) - at.block + 1, (at.blocks, 2))
        pairs = [(rows[i : i + at.block], rows[j : j + at.block]) for i, j in starts]
        sigma = float(kernel.bandwidth)
        self.way, self.ways, sum_of = naive_kernels.fastest(*pairs[0], sigma, 2, 2)
        self.shape, plain = naive_kernels.plain(*pairs[0], sigma, 2, 2)
        whole = len(rows) * (len(rows) + 1) / 2 / (at.blocks * at.block**2)
        found: list[float] = []
        self.seconds = whole * seconds(lambda: found.extend(sum_of(x, y) for x, y in pairs))
        self.plain_seconds = whole * seconds(lambda: [plain(x, y) for x, y in pairs])
        published = seconds(lambda: [kernel_total(x, y, sigma, 2) for x, y in pairs])
        self.published_seconds = 2 * whole * published
        ours = [kernel_sum(kernel, x, y, 2) for x, y in pairs]
        self.error = float(np.max(np.abs(np.array(ours) / found - 1)))


def memory(size: Size, mebibytes: int) -> float:
    """Runs in its own process: what summing adds to the peak memory, in MiB."""
    at = SIZES[size]
    x, y = list(samples(clouds(2, at.d), at.each).values())
    before = fresh_peak_mebibytes()
    kernel_sum(gx.Gaussian(3.0), x, y, block_bytes=mebibytes * 2**20)
    return peak_mebibytes() - before
