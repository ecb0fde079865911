"""Usual ways to choose k of N samples, for comparison with ``keep``. All work on rows of length 1.

Every rule is vectorized. The k-DPP is that of dppy, if it is installed. apricot's facility location only
checks ours, because it compiles its code in every call, which takes seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float64]
Chosen = NDArray[np.int64]
Rule = Callable[[Rows, int, np.random.Generator], Chosen]


def unit(rows: Rows) -> Rows:
    """Scale the rows to length 1; zero rows remain zero."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1)


def random_choice(rows: Rows, k: int, rng: np.random.Generator) -> Chosen:
    """Choose k samples at random."""
    return np.sort(rng.permutation(len(rows))[:k])


def farthest_point(rows: Rows, k: int, rng: np.random.Generator) -> Chosen:
    """Add the sample that is farthest from those already chosen (Gonzalez 1985), after a random first."""
    chosen = [int(rng.integers(len(rows)))]
    nearest = rows @ rows[chosen[0]]
    while len(chosen) < k:
        nearest[chosen] = np.inf
        chosen.append(int(np.argmin(nearest)))
        nearest = np.maximum(nearest, rows @ rows[chosen[-1]])
    return np.sort(chosen)


def lazy_greedy(rows: Rows, k: int, rng: np.random.Generator) -> Chosen:
    """Add the sample that increases the Vendi score most, after a random first; recompute stale gains only.

    For sets of the same size, the score increases with ``F(S) = −tr(K_S log K_S)``. F is submodular
    (Friedland and Gaubert 2013), so a stale gain is an upper bound, and the result is that of plain greedy.
    The first sample does not matter by itself: every single sample has score 1.
    """
    chosen, now = [int(rng.integers(len(rows)))], 0.0
    gains = np.full(len(rows), np.inf)
    while len(chosen) < k:
        gains[chosen] = -np.inf
        fresh = np.zeros(len(rows), dtype=bool)
        while not fresh[best := int(np.argmax(gains))]:
            gains[best] = _entropy(rows[[*chosen, best]]) - now
            fresh[best] = True
        chosen.append(best)
        now += gains[best]
    return np.sort(chosen)


def _entropy(rows: Rows) -> float:
    """Return ``−tr(K log K)`` for the kernel matrix of the rows."""
    values = np.linalg.eigvalsh(rows @ rows.T if len(rows) < rows.shape[1] else rows.T @ rows)
    values = values[values > 1e-12]
    return -float(values @ np.log(values))


def log_vendi(rows: Rows) -> float:
    """Return the logarithm of the Vendi score of order 1 with the cosine kernel, for rows of length 1."""
    return float(np.log(len(rows)) + _entropy(rows) / len(rows))


def facility_location(rows: Rows, k: int, rng: np.random.Generator) -> Chosen:
    """Greedily maximize ``Σ_i max_{j in S} s_ij`` with the cosine similarity s, from 0 for an empty set."""
    similarity = rows @ rows.T
    covered = np.zeros(len(rows))
    chosen: list[int] = []
    for _ in range(k):
        gains = np.maximum(similarity - covered[:, None], 0).sum(axis=0)
        gains[chosen] = -np.inf
        chosen.append(int(np.argmax(gains)))
        covered = np.maximum(covered, similarity[:, chosen[-1]])
    return np.sort(chosen)


def similarity_threshold(rows: Rows, k: int, rng: np.random.Generator) -> Chosen:
    """Drop near duplicates as SemDeDup does (Abbas et al. 2023), with the threshold that keeps k samples.

    Samples are ordered by their distance from the centroid, the farthest first. A sample is dropped if it is
    too similar to an earlier one. All pairs are compared; SemDeDup saves time by comparing within clusters.
    """
    order = np.argsort(rows @ rows.mean(axis=0), kind="stable")
    similarity = np.triu(rows[order] @ rows[order].T, 1)
    similarity[np.tril_indices(len(rows))] = -np.inf
    return np.sort(order[np.argsort(similarity.max(axis=0), kind="stable")[:k]])


def k_dpp(rows: Rows, k: int, rng: np.random.Generator) -> Chosen:
    """Draw k samples from the determinantal point process of the cosine kernel, with the package dppy."""
    process = import_module("dppy.finite_dpps").FiniteDPP("likelihood", L=rows @ rows.T)
    seed = np.random.RandomState(int(rng.integers(2**31)))
    return np.sort(np.asarray(process.sample_exact_k_dpp(size=k, random_state=seed)))


RULES: dict[str, Rule] = {
    "random": random_choice,
    "farthest point": farthest_point,
    "lazy greedy": lazy_greedy,
    "facility location": facility_location,
    "similarity threshold": similarity_threshold,
}


def available_rules() -> dict[str, Rule]:
    """Return all rules that can be used here: the k-DPP only if dppy is installed."""
    return RULES | ({"k-DPP": k_dpp} if find_spec("dppy") else {})


# -- apricot -----------------------------------------------------------------------------------------


def covered_similarity(rows: Rows, chosen: Chosen) -> float:
    """Return what facility location maximizes: the sum of the similarities to the nearest chosen samples."""
    return float(np.maximum((rows @ rows[chosen].T).max(axis=1), 0).sum())


def apricot_facility_location(rows: Rows, k: int, optimizer: str = "naive") -> Chosen:
    """Choose samples with apricot's facility location; negative similarities count as 0, as above."""
    apricot: Any = import_module("apricot")
    selection = apricot.FacilityLocationSelection(k, metric="precomputed", optimizer=optimizer)
    return np.sort(np.asarray(selection.fit(np.maximum(rows @ rows.T, 0)).ranking))
