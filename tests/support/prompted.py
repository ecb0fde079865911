"""A world of prompts, with arms that are good at different topics, and a loop over it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import genmix as gx
from genmix.policies import Prompt
from tests.support.conformance import Matrix

ARMS = ("a", "b", "c")
TOPICS = np.linalg.qr(np.random.default_rng(1).standard_normal((4, 4)))[0]


def unit(x: Matrix) -> Matrix:
    return x / np.linalg.norm(x)


@dataclass(frozen=True)
class Answer:
    """A prompt, a reference answer to it, and what each arm would answer, with its quality."""

    prompt: Matrix
    reference: Matrix
    outputs: dict[str, Matrix]
    quality: dict[str, float]


def answers(rounds: int, seed: int = 0) -> list[Answer]:
    """Every arm is good at one topic, and arm ``a`` repeats itself."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(rounds):
        topic = int(rng.integers(4))
        prompt = unit(TOPICS[topic] + 0.3 * rng.standard_normal(4))
        outputs = {arm: unit(rng.standard_normal(5)) for arm in ARMS}
        outputs["a"] = unit(np.eye(5)[topic] + 0.1 * rng.standard_normal(5))
        quality = {
            arm: float(0.5 * (k == topic) + 0.2 * rng.random()) for k, arm in enumerate(ARMS)
        }
        made.append(Answer(prompt, unit(rng.standard_normal(5)), outputs, quality))
    return made


def ask(selector: gx.Selector, answer: Answer) -> gx.Ticket:
    [ticket] = selector.ask(prompt=answer.prompt, reference=answer.reference)
    return ticket


def tell(selector: gx.Selector, ticket: gx.Ticket, answer: Answer) -> None:
    selector.tell(ticket, answer.outputs[ticket.arm], quality=answer.quality[ticket.arm])


def start(policy: gx.Policy, objective: gx.Objective | None = None, **options: Any) -> gx.Selector:
    objective = gx.RKE(gx.Cosine()) if objective is None else objective
    return gx.Selector(ARMS, objective, policy, **({"warm_start": 1} | options))


def run(selector: gx.Selector, given: Sequence[Answer]) -> list[str]:
    drawn = []
    for answer in given:
        ticket = ask(selector, answer)
        tell(selector, ticket, answer)
        drawn.append(ticket.arm)
    return drawn


def prompt_of(answer: Answer) -> Prompt:
    return Prompt(answer.prompt[None, :], answer.reference[None, :])
