"""Compare ways of drawing arms, to choose the default: ``python -m bench.draw``.

Runs Mixture-Greedy with ``iid`` and ``tracking`` draws on the same worlds. Prints the final pooled score
relative to that of the mixture oracle drawn iid, and how often an arm of the optimum is locked out.
"""

from __future__ import annotations

import sys

import numpy as np

import genmix as gx
from bench.worlds import interior_worlds, simulate
from genmix.comparison.worlds import gaussians, modes, overlapping

ONE_HOT = {
    "FD": lambda reference: gx.FrechetDistance(reference),
    "KD": lambda reference: gx.KernelDistance(reference, gx.Cosine()),
    "RKE": lambda reference: gx.RKE(gx.Cosine()),
    "Vendi": lambda reference: gx.Vendi(),
}
CLOUDS = {
    "FD": lambda reference: gx.FrechetDistance(reference),
    "KD": lambda reference: gx.KernelDistance(reference, gx.Gaussian(3.0, features=64)),
    "RKE": lambda reference: gx.RKE(gx.Gaussian(3.0, features=64)),
    "Vendi": lambda reference: gx.Vendi(kernel=gx.Gaussian(3.0, features=32)),
}


def main(worlds: int, rounds: int = 2000, warm_start: int = 20) -> None:
    print(
        f"{worlds} worlds per row, T = {rounds}, warm start {warm_start}; pooled score relative to the"
    )
    print(
        "mixture oracle's (positive is better), and runs in which an arm of the optimum was locked out"
    )
    print(
        f"{'world':12} {'':6} {'iid':>9} {'tracking':>9} {'± s.e. of the difference':>25}   locked out"
    )
    for family, objectives in ((modes, ONE_HOT), (overlapping, ONE_HOT), (gaussians, CLOUDS)):
        for name, objective in objectives.items():
            found = interior_worlds(family, objective, worlds)
            sign = 1 if found[0].best.objective.maximise else -1
            oracle = np.mean(
                [
                    simulate(w, gx.MixtureOracle(w.oracle), rounds, s).pooled
                    for s, w in enumerate(found)
                ]
            )
            gains, locked = {}, {}
            for draw in ("iid", "tracking"):
                runs = [
                    simulate(w, gx.MixtureGreedy(), rounds, s, warm_start, draw=draw)
                    for s, w in enumerate(found)
                ]
                gains[draw] = sign * (np.array([run.pooled for run in runs]) / oracle)
                locked[draw] = sum(min(run.counts.values()) <= warm_start + 2 for run in runs)
            error = np.std(gains["tracking"] - gains["iid"]) / np.sqrt(worlds)
            iid, tracking = (float(np.mean(gains[d])) - sign for d in ("iid", "tracking"))
            print(
                f"{family.__name__:12} {name:6} {iid:+9.2%} {tracking:+9.2%} {error:25.2%}   "
                f"{locked['iid']} / {locked['tracking']}",
                flush=True,
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
