"""The opponents of ``bench prompts`` compute what genmix computes."""

from __future__ import annotations

import numpy as np
import pytest
from bench.opponents.refitted_dak_ucb import Published, Refitted
from bench.prompts import _our_round, stream

import genmix as gx
from genmix.policies import Prompt


@pytest.mark.parametrize("mixture", [False, True])
def test_refitted_and_published_scores_are_ours(mixture: bool) -> None:
    policy = gx.MixtureDAKUCB() if mixture else gx.DAKUCB()
    selector = gx.Selector(["0", "1", "2"], gx.Quality(), policy, warm_start=1)
    refitted, published, world = Refitted(3, mixture), Published(3, mixture), stream(4, 3)
    for _ in range(25):
        prompt, outputs, quality = next(world)
        arm = _our_round(selector, prompt, outputs, quality)
        for opponent in (refitted, published):
            opponent.observe(arm, prompt, outputs[arm], quality[arm])
    memory, given = selector._learner.memory, Prompt(next(world)[0][None, :])
    for opponent in (refitted, published):
        linear, matrix = opponent.terms(given.embedding[0])
        weights = opponent.choose(given.embedding[0])
        if mixture:
            ours = policy.terms(memory, range(3), given)
            assert ours[0] == pytest.approx(linear, abs=1e-9)
            assert ours[1] == pytest.approx(matrix, abs=1e-9)
        else:
            scores = policy.scores(memory, range(3), given)
            assert scores == pytest.approx(linear - np.diag(matrix), abs=1e-9)
        assert weights == pytest.approx(policy.choose(memory, range(3), given), abs=1e-4)
