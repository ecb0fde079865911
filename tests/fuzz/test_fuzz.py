"""A few cases of every fuzz target; ``make fuzz`` runs all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

import genmix as gx
from tests.fuzz import harness
from tests.fuzz.harness import LIMIT, Target, fuzz
from tests.fuzz.targets import TARGETS

SHARE = 0.002
"""The share of the cases at full size."""
QUICK = [target for target in TARGETS if target.cases >= 100]


@pytest.mark.parametrize("target", QUICK, ids=lambda target: target.name)
def test_every_case_ends_with_a_result_or_one_sentence(target: Target) -> None:
    tally = fuzz(target, max(int(SHARE * target.cases), 3), first_seed=0)
    assert tally.cases > 0
    for kind, (count, case, details) in tally.failures.items():
        pytest.fail(f"{count} × {kind}: {case!r}\n{details}")


def test_full_size() -> None:
    assert sum(target.cases for target in TARGETS) >= 100_000


def test_the_harness_notices_what_it_must() -> None:
    """An exception, two lines, no sentence and a hang are failures; a result and a sentence are not."""
    cases = ["result", "sentence", "exception", "lines", "words"]

    def read(folder: Path, case: Any) -> None:
        if case == "exception":
            raise ZeroDivisionError
        if case != "result":
            words = {"sentence": "X is wrong.", "lines": "X is\nwrong.", "words": "X is wrong"}
            raise gx.InputError(words[case])

    tally = harness.Tally("x")
    for case in cases:
        harness._run_case(Target("x", 5, lambda: st.just(0), read), case, Path(), tally)
    assert (tally.cases, tally.results, tally.sentences, tally.failed) == (5, 1, 1, 3)
    assert LIMIT < 1 << 30
