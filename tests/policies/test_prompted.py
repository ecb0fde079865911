"""PAK-UCB, DAK-UCB and Mixture-DAK-UCB against the published procedures, written a second time: kernel ridge
regressions that are fitted again in every round, loops over all earlier pairs, and SLSQP."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.kernel_ridge import KernelRidge

import genmix as gx
from tests.support.conformance import Matrix, assert_same_bits
from tests.support.prompted import ARMS, TOPICS, Answer, answers, ask, prompt_of, run, start, tell

ROUNDS = 220


def rbf(x: Matrix, rows: Sequence[Matrix], gamma: float) -> Matrix:
    return np.exp(-gamma * ((x - np.array(rows)) ** 2).sum(-1))


@dataclass
class Published:
    """The published DAK-UCB: refits everything in every round."""

    judge: str
    diversity: str = "rke"
    alpha: float = 1.0
    gamma: float = 1.0
    weight: float = 1.0
    constant: float = 1e-4
    delta: float = 3.8
    prompts: list[list[Matrix]] = field(default_factory=lambda: [[], [], []])
    outputs: list[list[Matrix]] = field(default_factory=lambda: [[], [], []])
    references: list[list[Matrix]] = field(default_factory=lambda: [[], [], []])
    quality: list[list[float]] = field(default_factory=lambda: [[], [], []])
    pairs: list[list[list[float]]] = field(
        default_factory=lambda: [[[] for _ in ARMS] for _ in ARMS]
    )

    def predicted(self, arm: int, prompt: Matrix) -> Matrix:
        """The quality, the prompt's own kernel row and the redundancies against all arms, at the prompt."""
        x = np.array(self.prompts[arm])
        row = rbf(prompt, x, self.gamma)
        targets = np.column_stack([self.quality[arm], row, *self.pairs[arm]])
        if self.judge == "sklearn":
            model = KernelRidge(kernel="rbf", alpha=self.alpha, gamma=self.gamma)
            return model.fit(x, targets).predict(prompt[None, :])[0]
        gram = np.exp(-self.gamma * ((x[:, None] - x[None]) ** 2).sum(-1))
        return row @ np.linalg.solve(gram + self.alpha * np.eye(len(x)), targets)

    def terms(self, prompt: Matrix) -> tuple[Matrix, Matrix]:
        """The optimistic qualities, and D before it is symmetrized."""
        eta = math.sqrt(2 * math.log(2 * len(ARMS) / self.delta))
        found = np.array([self.predicted(arm, prompt) for arm in range(len(ARMS))])
        return found[:, 0] + eta * np.sqrt(np.maximum(1 - found[:, 1], 0)), found[:, 2:]

    def scores(self, prompt: Matrix) -> Matrix:
        optimistic, redundancy = self.terms(prompt)
        return optimistic - self.weight * np.diag(redundancy)

    def mixture(self, linear: Matrix, matrix: Matrix) -> Matrix:
        found = minimize(
            lambda w: self.weight * w @ matrix @ w - linear @ w,
            np.full(len(ARMS), 1 / len(ARMS)),
            method="SLSQP",
            bounds=[(0, 1)] * len(ARMS),
            constraints=[{"type": "eq", "fun": lambda w: np.sum(w) - 1}],
        )
        clipped = np.maximum(found.x, 0)
        return clipped / clipped.sum()

    def observe(self, arm: int, answer: Answer) -> None:
        output = answer.outputs[ARMS[arm]]
        for other in range(len(ARMS)):
            n = len(self.prompts[other])
            mean = self.similarities(answer, output, other).mean() if n else 0.0
            bound = math.sqrt(self.constant / max(n, 1))
            self.pairs[arm][other].append(mean - bound)
        self.prompts[arm].append(answer.prompt)
        self.outputs[arm].append(output)
        self.references[arm].append(answer.reference)
        self.quality[arm].append(answer.quality[ARMS[arm]])

    def similarities(self, answer: Answer, output: Matrix, other: int) -> Matrix:
        """The similarity of a new pair to each earlier pair of an arm."""
        x, y, gamma = self.outputs[other], self.references[other], self.gamma
        prompts = rbf(answer.prompt, self.prompts[other], gamma)
        if self.diversity == "rke":
            return prompts**2 * rbf(output, x, gamma) ** 2
        own = rbf(output, x, gamma) + rbf(answer.reference, y, gamma)
        return prompts * (own - rbf(output, y, gamma) - rbf(answer.reference, x, gamma))


# -- the formulas ------------------------------------------------------------------------------------


def test_pak_ucb_draws_what_the_published_formula_draws() -> None:
    policy = gx.PAKUCB(rounds=ROUNDS, regularization=0.6, delta=0.1, gamma=0.9)
    selector, given = start(policy), answers(ROUNDS)
    run(selector, given[:3])
    prompts = {arm: [given[k].prompt] for k, arm in enumerate(ARMS)}
    quality = {arm: [given[k].quality[arm]] for k, arm in enumerate(ARMS)}
    eta, kernel = (
        math.sqrt(2 * math.log(2 * ROUNDS * 3 / 0.1)),
        lambda x, y: (0.9 * x @ y.T + 1) ** 3,
    )
    for answer in given[3:]:
        scores = []
        for arm in ARMS:
            past, t = np.array(prompts[arm]), answer.prompt[None, :]
            inverse = np.linalg.inv(kernel(past, past) + 0.6 * np.eye(len(past)))
            row = kernel(t, past)[0]
            bonus = eta / math.sqrt(0.6) * math.sqrt(kernel(t, t)[0, 0] - row @ inverse @ row)
            scores.append(row @ inverse @ quality[arm] + bonus)
        ours = policy.scores(selector._learner.memory, range(3), prompt_of(answer))
        assert ours == pytest.approx(scores, abs=1e-6)
        ticket = ask(selector, answer)
        assert ticket.arm == ARMS[int(np.argmax(scores))]
        assert ticket.weight == ticket.propensity == 1.0
        tell(selector, ticket, answer)
        prompts[ticket.arm].append(answer.prompt)
        quality[ticket.arm].append(answer.quality[ticket.arm])
    assert min(map(len, prompts.values())) > 20  # all arms were compared


every_judge = pytest.mark.parametrize(
    "judge", ["numpy", pytest.param("sklearn", marks=pytest.mark.drill)]
)


@every_judge
@pytest.mark.parametrize("diversity", ["rke", "kd"])
def test_dak_ucb_draws_what_the_published_procedure_draws(diversity: Any, judge: str) -> None:
    policy = gx.DAKUCB(diversity, weight=2.0, gamma=0.8, delta=1.0)
    published = Published(judge, diversity, weight=2.0, gamma=0.8, delta=1.0)
    selector, drawn = start(policy), []
    for k, answer in enumerate(answers(ROUNDS)):
        ticket = ask(selector, answer)
        if k >= 3:
            scores = published.scores(answer.prompt)
            ours = policy.scores(selector._learner.memory, range(3), prompt_of(answer))
            assert ours == pytest.approx(scores, abs=1e-6)
            assert ticket.arm == ARMS[int(np.argmax(scores))]
        tell(selector, ticket, answer)
        published.observe(ARMS.index(ticket.arm), answer)
        drawn.append(ticket.arm)
    assert min(map(drawn.count, ARMS)) > ROUNDS / 20


@every_judge
def test_mixture_dak_ucb_draws_what_the_published_procedure_draws(judge: str) -> None:
    policy = gx.MixtureDAKUCB(weight=3.0)
    published, selector, drawn = Published(judge, weight=3.0), start(policy, seed=4), []
    mixed = 0
    for k, answer in enumerate(answers(ROUNDS)):
        rng = copy.deepcopy(selector._rng)
        ticket = ask(selector, answer)
        if k >= 3:
            linear, redundancy = published.terms(answer.prompt)
            matrix = (redundancy + redundancy.T) / 2
            ours = policy.terms(selector._learner.memory, range(3), prompt_of(answer))
            assert ours[0] == pytest.approx(linear, abs=1e-6)
            assert ours[1] == pytest.approx(matrix, abs=1e-6)
            mixture = published.mixture(linear, matrix)
            arm = int(np.searchsorted(np.cumsum(mixture), rng.random(), side="right"))
            assert ticket.arm == ARMS[arm]
            assert ticket.weight == pytest.approx(mixture[arm], abs=1e-4)
            mixed += np.sort(mixture)[1] > 0.05
        tell(selector, ticket, answer)
        published.observe(ARMS.index(ticket.arm), answer)
        drawn.append(ticket.arm)
    assert mixed > ROUNDS / 4
    assert min(map(drawn.count, ARMS)) > ROUNDS / 20


def test_dak_ucb_avoids_the_arm_that_repeats_itself() -> None:
    given = [
        Answer(a.prompt, a.reference, a.outputs, dict.fromkeys(ARMS, 0.0)) for a in answers(150)
    ]
    drawn = run(start(gx.DAKUCB(weight=5.0, delta=5.9)), given)[-75:]
    assert drawn.count("a") < 5


# -- prompts and samples -----------------------------------------------------------------------------


def test_with_a_joint_kernel_the_output_is_taken_from_the_pair() -> None:
    given, paths = answers(60), []
    for objective in (gx.RKE(gx.Joint(4, gx.Cosine(), gx.Cosine())), gx.RKE(gx.Cosine())):
        selector, path = start(gx.DAKUCB(), objective), []
        for answer in given:
            ticket = ask(selector, answer)
            output = answer.outputs[ticket.arm]
            is_pair = isinstance(objective.kernel, gx.Joint)
            row = np.concatenate([answer.prompt, output]) if is_pair else output
            selector.tell(ticket, row, quality=answer.quality[ticket.arm])
            path.append(ticket.arm)
        paths.append(path)
    assert paths[0] == paths[1]


def test_one_prompt_is_for_all_tickets_and_several_are_for_one_each() -> None:
    given = answers(33)
    selector = start(gx.DAKUCB())
    run(selector, given[:30])
    singly = []
    for answer in given[30:]:
        singly.append(copy.copy(selector).ask(prompt=answer.prompt)[0].arm)
    rows = np.array([answer.prompt for answer in given[30:]])
    assert [t.arm for t in copy.copy(selector).ask(3, prompt=rows)] == singly
    assert [t.arm for t in copy.copy(selector).ask(3, prompt=rows[0])] == [singly[0]] * 3
    assert [t.arm for t in copy.copy(selector).ask(3, prompt=rows.tolist())] == singly


def test_only_the_arms_among_are_compared() -> None:
    selector, given = start(gx.PAKUCB(rounds=50)), answers(41)
    run(selector, given[:40])
    scores = gx.PAKUCB(rounds=50).scores(selector._learner.memory, range(3), prompt_of(given[40]))
    for left_out in range(3):
        among = [arm for k, arm in enumerate(ARMS) if k != left_out]
        [ticket] = copy.copy(selector).ask(prompt=given[40].prompt, among=among)
        assert ticket.arm == ARMS[int(np.argmax(np.where(np.arange(3) == left_out, -9, scores)))]


def test_an_arm_that_is_added_later_is_compared_from_then_on() -> None:
    late, early = start(gx.MixtureDAKUCB()), start(gx.MixtureDAKUCB())
    run(late, answers(20))
    run(early, answers(20))
    late.add_arm("d")
    memory = late._learner.memory
    fourth = early._learner.memory.with_arm()
    assert memory.size == 4
    for arm in range(3):
        found = memory.predict(arm, prompt_of(answers(1)[0])).means
        assert len(found) == 5
        assert (found == fourth.predict(arm, prompt_of(answers(1)[0])).means).all()
    [ticket] = late.ask(prompt=TOPICS[0])
    assert ticket.arm == "d"
    late.tell(ticket, np.eye(5)[0])
    for _ in range(20):
        [ticket] = late.ask(prompt=TOPICS[0])
        late.tell(ticket, np.eye(5)[0])
    assert late._learner.memory.count(3) == late.counts["d"] >= 1


def test_groups_and_prompts_work_together() -> None:
    selector = start(gx.DAKUCB(), groups=["travel", "food"])
    for answer, group in zip(answers(20), ["travel", "food"] * 10, strict=True):
        [ticket] = selector.ask(prompt=answer.prompt, group=group)
        assert ticket.group == group
        tell(selector, ticket, answer)
    assert sum(selector.counts.values()) == 20


def test_a_ticket_for_a_given_arm_counts_like_any_other() -> None:
    selector, [answer] = start(gx.DAKUCB()), answers(1)
    ticket = selector.ask_from("b", prompt=answer.prompt)
    tell(selector, ticket, answer)
    assert selector._learner.memory.count(1) == 1


def test_the_weights_are_the_shares_and_the_gap_is_that_of_the_shares() -> None:
    selector = start(gx.DAKUCB(), resolve_growth=0.0)
    run(selector, answers(30))
    shares = np.array(list(selector.counts.values())) / 30
    assert list(selector.weights.values()) == pytest.approx(shares)
    assert 0 <= selector.gap < 1


def test_policies_that_need_no_prompts_ignore_them() -> None:
    with_prompts, without = (start(gx.MixtureGreedy(), seed=2) for _ in range(2))
    assert [t.arm for t in with_prompts.ask(5, prompt=[1.0, 2.0])] == [
        t.arm for t in without.ask(5)
    ]
    assert_same_bits(with_prompts.state_dict(), without.state_dict())
