"""PAK-UCB against kernel ridge regression by scikit-learn, fitted again in every round."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge

import genmix as gx
from tests.support.prompted import ARMS, answers, ask, prompt_of, run, start, tell

ROUNDS, PENALTY, GAMMA, DELTA = 220, 0.6, 0.9, 0.1


@pytest.mark.drill
def test_pak_ucb_draws_what_scikit_learn_and_the_published_bonus_choose() -> None:
    policy = gx.PAKUCB(rounds=ROUNDS, regularization=PENALTY, delta=DELTA, gamma=GAMMA)
    selector, given = start(policy), answers(ROUNDS)
    run(selector, given[:3])
    prompts = {arm: [given[k].prompt] for k, arm in enumerate(ARMS)}
    quality = {arm: [given[k].quality[arm]] for k, arm in enumerate(ARMS)}
    scale = math.sqrt(2 * math.log(2 * ROUNDS * len(ARMS) / DELTA) / PENALTY)
    for answer in given[3:]:
        scores, t = [], answer.prompt
        own = (GAMMA * t @ t + 1) ** 3
        for arm in ARMS:
            past = np.array(prompts[arm])
            row = (GAMMA * past @ t + 1) ** 3
            model = KernelRidge(kernel="poly", degree=3, gamma=GAMMA, coef0=1, alpha=PENALTY)
            fitted = model.fit(past, np.column_stack([quality[arm], row]))
            mean, explained = fitted.predict(t[None, :])[0]  # the second is k_tᵀ(K + λI)⁻¹k_t
            scores.append(mean + scale * math.sqrt(own - explained))
        ours = policy.scores(selector._learner.memory, range(3), prompt_of(answer))
        assert ours == pytest.approx(scores, abs=1e-6)
        ticket = ask(selector, answer)
        assert ticket.arm == ARMS[int(np.argmax(scores))]
        tell(selector, ticket, answer)
        prompts[ticket.arm].append(answer.prompt)
        quality[ticket.arm].append(answer.quality[ticket.arm])
    assert min(map(len, prompts.values())) > 20  # all arms were compared
