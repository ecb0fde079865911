"""Innovation gaps of fewer samples than dimensions, against the full eigenproblem."""

from __future__ import annotations

import numpy as np
import pytest

from genmix.diagnosis.innovation import innovation, innovation_gaps
from genmix.objectives import Batch


@pytest.mark.parametrize("is_copied", [False, True])
def test_few_samples_give_the_eigenvalues_of_the_full_matrix(is_copied: bool) -> None:
    rng = np.random.default_rng(0)
    arms = {"a": rng.normal(size=(9, 40)), "b": rng.normal(size=(12, 40)) + 1}
    arms["c"] = arms["a"] if is_copied else rng.normal(size=(5, 40))
    units = {name: rows / np.linalg.norm(rows, axis=1)[:, None] for name, rows in arms.items()}
    moments = {name: unit.T @ unit / len(unit) for name, unit in units.items()}
    found = innovation({name: Batch(rows) for name, rows in arms.items()})
    gaps = innovation_gaps({name: Batch(rows) for name, rows in arms.items()})
    for name, moment in moments.items():
        difference = 2 * moment - sum(moments.values())
        largest = np.linalg.eigvalsh(difference)[-1]
        here = found[name]
        assert here.gap == pytest.approx(largest, abs=1e-12)
        assert gaps[name] == pytest.approx(largest, abs=1e-12)
        assert here.direction @ difference @ here.direction == pytest.approx(largest, abs=1e-12)
        assert np.linalg.norm(here.direction) == pytest.approx(1)
