"""Several threads share one selector."""

from __future__ import annotations

import copy
import pickle
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import genmix as gx

THREADS, ROUNDS = 4, 150


@pytest.fixture
def frequent_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def work(selector: gx.Selector, number: int) -> Counter[str]:
    """Ask and tell like a worker of a thread pool; some samples are invalid and some fail."""
    rng, told = np.random.default_rng(number), Counter[str]()
    for k in range(ROUNDS):
        [ticket] = selector.ask()
        if k % 10 == 3:
            with pytest.raises(gx.InputError):
                selector.tell(ticket, [np.nan, 0.0, 1.0])
        if k % 10 == 7:
            selector.fail(ticket)
        else:
            selector.tell(ticket, rng.normal(size=3), cost=0.5)
            told[ticket.arm] += 1
        if k % 10 == 5:
            assert selector.pooled_score is None or selector.pooled_score >= 1
            selector.state_dict()
    return told


@pytest.mark.usefixtures("frequent_switches")
def test_no_sample_is_lost() -> None:
    selector = gx.Selector(["a", "b"], gx.Vendi(), warm_start=3)
    with ThreadPoolExecutor(THREADS) as pool:
        told = sum(pool.map(lambda k: work(selector, k), range(THREADS)), Counter[str]())
    assert selector.counts == dict(told)
    assert sum(selector.failures.values()) == THREADS * ROUNDS // 10
    assert selector.in_flight == ()
    assert selector.mean_costs == {"a": 0.5, "b": 0.5}
    again = gx.Selector.from_state_dict(
        selector.state_dict()
    )  # checks the counts of the statistics
    assert float(again.pooled_score) == pytest.approx(float(selector.pooled_score), rel=1e-12)


def test_a_copy_has_a_lock_of_its_own() -> None:
    selector = gx.Selector(["a", "b"], gx.Vendi())
    with selector._lock, ThreadPoolExecutor(1) as pool:
        for made in (copy.copy(selector), pickle.loads(pickle.dumps(selector))):
            [ticket] = pool.submit(made.ask).result(timeout=60)
            assert ticket.arm == "a"
    assert selector.in_flight == ()
