"""The selector: tickets, draws, when it solves, what reading it does, arms that come and go, state."""

from __future__ import annotations

import copy
import itertools
import math
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.spatial.distance
import scipy.stats
import torch

import genmix as gx
from genmix.core.streams import private_stream
from genmix.core.text import rounded
from genmix.policies import Decision, Situation
from tests.support.conformance import (
    ARMS,
    DEVICES,
    OBJECTIVES,
    assert_plain,
    assert_same_bits,
    holds_own_function,
    own_kernel,
    sample_rows,
    shares,
    terms_of,
    through_files,
)

DIMENSION = 5
REFERENCE = np.random.default_rng(99).standard_normal((40, DIMENSION))

every_objective = pytest.mark.parametrize("name", OBJECTIVES)


class Source:
    """Samples of each arm in a fixed order, whatever the order of the arms; it keeps what it gave."""

    def __init__(self, objective: gx.Objective) -> None:
        self._objective = objective
        self.given: dict[str, list[dict[str, Any]]] = {}

    def __call__(self, arm: str) -> dict[str, Any]:
        drawn = self.given.setdefault(arm, [])
        index = "abcdefgh".index(arm)
        rng = np.random.default_rng([index, len(drawn)])
        drawn.append(
            {
                "embedding": sample_rows(self._objective, rng, index, 1, DIMENSION)[0],
                "quality": float(rng.uniform(0.1, 1.0)),
                "cost": float(rng.uniform(0.0, 2.0)),
            }
        )
        return drawn[-1]

    def column(self, what: str) -> dict[str, Any]:
        return {arm: np.array([s[what] for s in rows]) for arm, rows in self.given.items()}


def run(
    selector: gx.Selector,
    steps: int,
    source: Callable[[str], dict[str, Any]] | None = None,
    watch: Callable[[gx.Selector], object] = lambda selector: None,
) -> list[str]:
    """``steps`` samples one after another; the arms that were drawn."""
    source = source or Source(selector.objective)
    path = []
    for _ in range(steps):
        (ticket,) = selector.ask()
        watch(selector)
        selector.tell(ticket, **source(ticket.arm))
        watch(selector)
        path.append(ticket.arm)
    return path


def vendi(**options: Any) -> gx.Selector:
    return gx.Selector(ARMS, gx.Vendi(), **({"warm_start": 3} | options))


# -- tickets -----------------------------------------------------------------------------------------


def test_ask_returns_a_list_of_fresh_tickets() -> None:
    selector = vendi()
    one, five = selector.ask(), selector.ask(np.int64(5))
    assert isinstance(one, list)
    assert [t.id for t in one + five] == list(range(6))
    assert selector.in_flight == tuple(one + five)
    assert all(t.arm in ARMS for t in five)


def test_tells_come_in_any_order_with_many_in_flight() -> None:
    selector = vendi()
    source, rng = Source(gx.Vendi()), np.random.default_rng(5)
    flying: list[gx.Ticket] = []
    told: Counter[str] = Counter()
    for _ in range(40):
        flying += selector.ask(int(rng.integers(1, 6)))
        while len(flying) > 6:
            ticket = flying.pop(int(rng.integers(len(flying))))
            selector.tell(ticket, **source(ticket.arm))
            told[ticket.arm] += 1
        assert set(selector.in_flight) == set(flying)
        assert selector.counts == {arm: told[arm] for arm in ARMS}
    assert sum(told.values()) > 80
    assert selector.gap < 1e-6


def test_the_order_of_tells_between_two_solves_does_not_matter() -> None:
    results = []
    for order in (1, -1):
        selector = vendi(resolve_growth=10.0)
        tickets = selector.ask(9)
        source = Source(gx.Vendi())
        given = {t.id: source(t.arm) for t in tickets}
        for ticket in tickets[::order]:
            selector.tell(ticket, **given[ticket.id])
        results.append(selector.weights)
    assert results[0] == pytest.approx(results[1], abs=1e-6)


def test_a_ticket_is_told_by_itself_or_by_its_id() -> None:
    by_ticket, by_id = vendi(), vendi()
    source = Source(gx.Vendi())
    for _ in range(20):
        (one,), (other,) = by_ticket.ask(), by_id.ask()
        assert one == other
        given = source(one.arm)
        by_ticket.tell(one, **given)
        by_id.tell(np.int64(other.id), **given)
    assert_same_bits(by_ticket.state_dict(), by_id.state_dict())


def test_a_failed_ticket_leaves_no_trace_but_its_number_and_the_count() -> None:
    selector = vendi(draw="tracking")
    source = Source(gx.Vendi())
    run(selector, 12, source)
    before = selector.state_dict()
    for ticket in selector.ask(4):
        selector.fail(ticket if ticket.id % 2 else ticket.id)
    after = selector.state_dict()
    assert after.pop("next_id") == before.pop("next_id") + 4
    assert sum(after.pop("failed")) == sum(before.pop("failed")) + 4
    assert_same_bits(after, before)


def test_a_ticket_says_with_what_weight_and_probability_it_was_drawn() -> None:
    for draw in ("iid", "tracking"):
        selector = vendi(draw=draw)
        (first,) = selector.ask()
        assert (first.weight, first.propensity) == (1 / 3, 1.0)
        selector.fail(first)
        run(selector, 30)
        for ticket in selector.ask(20):
            assert ticket.weight == selector.targets[ticket.arm]
            assert ticket.propensity == (ticket.weight if draw == "iid" else 1.0)


def test_a_selector_prints_where_it_stands() -> None:
    selector = vendi()
    run(selector, 12)
    selector.ask(2)
    text = repr(selector)
    assert "\n" not in text
    for part in ("Selector", "MixtureUCBV", "vendi", "3 arms", "12 samples"):
        assert part in text


# -- drawing -----------------------------------------------------------------------------------------

FIXED = {"a": 0.5, "b": 0.0, "c": 0.2, "d": 0.3}


def fixed(**options: Any) -> gx.Selector:
    options = {"warm_start": 1, "resolve_growth": 10.0} | options
    return gx.Selector(list(FIXED), gx.Quality(), gx.Fixed(FIXED), **options)


def warmed(selector: gx.Selector) -> gx.Selector:
    for ticket in selector.ask(len(FIXED)):
        selector.tell(ticket, [0.0], quality=1.0)
    return selector


def test_iid_draws_follow_the_weights() -> None:
    selector = warmed(fixed(seed=11))
    drawn: Counter[str] = Counter()
    for _ in range(400):
        for ticket in selector.ask(10):
            drawn[ticket.arm] += 1
            selector.fail(ticket)
    assert drawn["b"] == 0
    used = [arm for arm, share in FIXED.items() if share]
    expected = [4000 * FIXED[arm] for arm in used]
    assert scipy.stats.chisquare([drawn[arm] for arm in used], expected).pvalue > 0.01


def test_iid_draws_are_independent_of_each_other() -> None:
    selector = warmed(fixed(seed=12))
    path = []
    for _ in range(3000):
        (ticket,) = selector.ask()
        path.append(ticket.arm)
        selector.fail(ticket)
    pairs = Counter(itertools.pairwise(path))
    used = [arm for arm, share in FIXED.items() if share]
    table = [[pairs[one, other] for other in used] for one in used]
    assert scipy.stats.chi2_contingency(table).pvalue > 0.01


@pytest.mark.parametrize("in_flight", [0, 25], ids=["told at once", "many in flight"])
def test_tracking_keeps_the_counts_at_the_weights(in_flight: int) -> None:
    """Each draw takes an arm that lags, so no arm is ever more than one ahead of its share.

    The lags sum to 1 before a draw, hence the largest is at least 1/m, and at least 1/m − 1 after it.
    """
    selector = warmed(fixed(draw="tracking"))
    flying: list[gx.Ticket] = []
    drawn = Counter(FIXED.keys())
    for step in range(1500):
        (ticket,) = selector.ask()
        flying.append(ticket)
        drawn[ticket.arm] += 1
        if len(flying) > in_flight:
            selector.tell(flying.pop(0), [0.0], quality=1.0)
        if step > 10:  # the warm start gave c more than its share
            total = sum(drawn.values())
            for arm, share in FIXED.items():
                ahead = drawn[arm] - share * total
                assert ahead < 1 + 1e-9, arm
                assert ahead > -(len(FIXED) - 1), arm
    assert drawn["b"] == 1


def test_tracking_does_not_use_the_seed() -> None:
    paths = [run(vendi(draw="tracking", seed=seed), 60) for seed in (1, 2)]
    assert paths[0] == paths[1]


@pytest.mark.parametrize("draw", ["iid", "tracking"])
def test_the_same_seed_gives_the_same_run(draw: str) -> None:
    first, again = (vendi(draw=draw, seed=4) for _ in range(2))
    assert run(first, 80) == run(again, 80)
    assert_same_bits(first.state_dict(), again.state_dict())


def test_another_seed_gives_another_run() -> None:
    assert run(vendi(seed=4, draw="iid"), 80) != run(vendi(seed=5, draw="iid"), 80)


def test_the_same_seed_gives_the_same_run_in_another_process() -> None:
    code = """
import numpy as np, genmix as gx
rng = np.random.default_rng(0)
objective = gx.Vendi() + 0.3 * gx.KernelDistance(rng.standard_normal((20, 3)))
selector = gx.Selector(["sdxl", "pixart", "flux"], objective, warm_start=3, seed=1)
for _ in range(40):
    (ticket,) = selector.ask()
    selector.tell(ticket, rng.standard_normal(3) + len(ticket.arm))
    print(ticket.arm, *(weight.hex() for weight in selector.weights.values()))
"""
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert len(runs[0].splitlines()) == 40
    assert runs[0] == runs[1]


@pytest.mark.parametrize("kind", ["PCG64", "MT19937", "Philox", "SFC64"])
def test_a_numpy_generator_may_be_the_seed_and_is_resumed(kind: str, tmp_path: Path) -> None:
    make = lambda: np.random.Generator(getattr(np.random, kind)(8))  # noqa: E731
    first, again = vendi(seed=make()), vendi(seed=make())
    source, copied = Source(gx.Vendi()), Source(gx.Vendi())
    assert run(first, 30, source) == run(again, 30, copied)
    assert_plain(first.state_dict())
    again = gx.Selector.from_state_dict(through_files(first.state_dict(), tmp_path))
    assert run(first, 30, source) == run(again, 30, copied)
    assert_same_bits(first.state_dict(), again.state_dict())


def test_a_number_is_the_seed_of_a_private_stream() -> None:
    def drawn(seed: Any) -> Any:
        return run(vendi(seed=seed, draw="iid"), 50)

    assert drawn(6) == drawn(private_stream(6, "selector"))
    assert drawn(6) != drawn(np.random.default_rng(6))


# -- when it solves ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Recorder(gx.Policy):
    """Uniform weights; notes at which sample counts it was asked, and from where it would start."""

    calls: ClassVar[list[Situation]] = []

    def decide(self, situation: Situation) -> Decision:
        self.calls.append(situation)
        return Decision(np.array(list(shares(situation.arms).values())))


@pytest.fixture
def solves() -> Iterator[list[Situation]]:
    Recorder.calls.clear()
    yield Recorder.calls
    Recorder.calls.clear()


def expected_solves(first: int, last: int, growth: float) -> list[int]:
    """A solve as soon as the samples have grown by this fraction, and at most one a sample."""
    times = [first]
    while True:
        wait = math.ceil(growth * times[-1] - 1e-9)
        after = times[-1] + max(wait, 1)
        if after > last:
            return times
        times.append(after)


@pytest.mark.parametrize("growth", [0.0, 0.01, 0.1, 0.5])
def test_it_solves_when_the_samples_have_grown(growth: float, solves: list[Situation]) -> None:
    selector = gx.Selector(ARMS, gx.Quality(), Recorder(), warm_start=4, resolve_growth=growth)
    run(selector, 400)
    assert [call.total for call in solves] == expected_solves(12, 400, growth)


def test_growth_zero_solves_at_every_sample_and_the_default_at_one_in_a_hundred(
    solves: list[Situation],
) -> None:
    selector = gx.Selector(ARMS, gx.Quality(), Recorder(), warm_start=4, resolve_growth=0.0)
    run(selector, 60)
    assert [call.total for call in solves] == list(range(12, 61))
    solves.clear()
    run(gx.Selector(ARMS, gx.Quality(), Recorder(), warm_start=4), 1000)
    late = [call.total for call in solves if call.total > 900]
    assert np.diff(late).tolist() == [10] * (len(late) - 1)


def test_a_solve_sees_all_that_was_told_and_starts_from_the_last(solves: list[Situation]) -> None:
    selector = gx.Selector(ARMS, gx.Quality(), Recorder(), warm_start=2, resolve_growth=0.3)
    run(selector, 30)
    for call in solves:
        assert call.counts.sum() == call.total == sum(call.tally.counts)
    assert solves[0].start.tolist() == [1 / 3] * 3
    for call in solves[1:]:
        assert call.start.tolist() == pytest.approx(list(shares(ARMS).values()))


def test_the_first_solve_comes_with_the_sample_that_completes_the_warm_start(
    solves: list[Situation],
) -> None:
    selector = gx.Selector(ARMS, gx.Quality(), Recorder(), warm_start=2)
    tickets = selector.ask(9)  # three an arm
    for ticket in tickets[:5]:
        selector.tell(ticket, [1.0], quality=1.0)
    for ticket in (tickets[6], tickets[7]):
        selector.tell(ticket, [1.0], quality=1.0)
    assert solves == []
    selector.tell(tickets[8], [1.0], quality=1.0)
    assert [call.total for call in solves] == [8]


def test_the_samples_of_retired_arms_still_count_as_time(solves: list[Situation]) -> None:
    selector = gx.Selector(ARMS, gx.Quality(), Recorder(), warm_start=2, resolve_growth=0.0)
    run(selector, 12)
    gone = selector.counts["b"]
    selector.retire_arm("b")
    run(selector, 5)
    last = solves[-1]
    assert last.arms == ("a", "c")
    assert last.total == 17
    assert last.counts.tolist() == [selector.counts["a"], selector.counts["c"]]
    assert last.counts.sum() == 17 - gone


def test_a_policy_of_ones_own_is_part_of_the_state() -> None:
    selector = gx.Selector(ARMS, gx.Quality(), Recorder(), warm_start=2)
    source = Source(gx.Quality())
    run(selector, 10, source)
    copied = copy.deepcopy(source)
    again = gx.Selector.from_state_dict(selector.state_dict())
    assert run(selector, 10, source) == run(again, 10, copied)
    assert_same_bits(again.state_dict(), selector.state_dict())


# -- reading -----------------------------------------------------------------------------------------


def read_everything(selector: gx.Selector) -> object:
    parts = [selector.weights, selector.score, selector.pooled_score, selector.gap, selector.counts]
    return parts, selector.state_dict(), selector.in_flight, selector.arms, str(selector.objective)


@pytest.mark.parametrize("growth", [0.0, 0.2])
@every_objective
def test_reading_never_changes_the_path(name: str, growth: float) -> None:
    objective = OBJECTIVES[name](REFERENCE)
    options = {"warm_start": 3, "resolve_growth": growth, "seed": 2}
    silent, watched = (gx.Selector(ARMS, objective, **options) for _ in range(2))
    one = run(silent, 30, Source(objective))
    other = run(watched, 30, Source(objective), read_everything)
    assert one == other
    assert_same_bits(silent.state_dict(), watched.state_dict())


def test_reading_does_not_solve(solves: list[Situation]) -> None:
    selector = gx.Selector(ARMS, gx.Quality(), Recorder(), warm_start=2, resolve_growth=0.5)
    run(selector, 30, watch=read_everything)
    assert [call.total for call in solves] == expected_solves(6, 30, 0.5)


def test_what_is_read_cannot_be_used_to_change_the_selector() -> None:
    selector = vendi()
    run(selector, 20)
    before = copy.deepcopy(selector.state_dict())
    selector.weights["a"] = 5.0
    selector.counts["a"] = 0
    state = selector.state_dict()
    for leaf in [state["weights"], *state["tally"]["second"], *state["tally"]["first"]]:
        leaf += 1.0
    state["told"][0] = 0
    assert_same_bits(selector.state_dict(), before)


def test_embeddings_are_copied_when_they_are_told() -> None:
    selector, same = vendi(resolve_growth=10.0), vendi(resolve_growth=10.0)
    source = Source(gx.Vendi())
    for _ in range(12):
        (ticket,), (other,) = selector.ask(), same.ask()
        given = source(ticket.arm)["embedding"]
        same.tell(other, given.copy())
        selector.tell(ticket, given)
        given[:] = np.nan
    assert_same_bits(selector.state_dict(), same.state_dict())


# -- scores ------------------------------------------------------------------------------------------


def as_table(scores: Any) -> dict[str, gx.Score]:
    return scores if isinstance(scores, dict) else {scores.name: scores}


@every_objective
def test_pooled_score_is_that_of_all_told_samples_as_one_set(name: str) -> None:
    objective = OBJECTIVES[name](REFERENCE)
    selector = gx.Selector(ARMS, objective, warm_start=4, resolve_growth=0.5, seed=3)
    source = Source(objective)
    for steps in (12, 9, 10):
        run(selector, steps, source)
        # One arm that holds everything: a set knows nothing of where its samples came from.
        whole = {
            what: {"all": np.concatenate(list(source.column(what).values()))}
            for what in ("embedding", "quality", "cost")
        }
        table = gx.score(
            whole["embedding"], selector.objective, quality=whole["quality"], cost=whole["cost"]
        )
        pooled = as_table(selector.pooled_score)
        for label, score in pooled.items():
            assert float(score) == pytest.approx(float(table.arms["all"][label]), rel=1e-9)
            assert score.details["n"] == sum(selector.counts.values())


@every_objective
def test_gx_score_pools_like_the_selector(name: str) -> None:
    objective = OBJECTIVES[name](REFERENCE)
    selector = gx.Selector(ARMS, objective, warm_start=4, resolve_growth=0.5, seed=3)
    source = Source(objective)
    run(selector, 25, source)
    table = gx.score(
        source.column("embedding"),
        selector.objective,
        quality=source.column("quality"),
        cost=source.column("cost"),
    )
    for label, score in as_table(selector.pooled_score).items():
        assert float(score) == pytest.approx(float(table.pooled[label]), rel=1e-9)


@every_objective
def test_score_is_that_of_the_mixture_at_the_last_solve(name: str) -> None:
    objective = OBJECTIVES[name](REFERENCE)
    selector = gx.Selector(ARMS, objective, warm_start=4, resolve_growth=0.5, seed=3)
    source = Source(objective)
    run(selector, 12, source)
    known = copy.deepcopy(source)
    run(selector, 5, source)  # the next solve comes with the 18th
    table = gx.score(
        known.column("embedding"),
        selector.objective,
        weights=selector.weights,
        quality=known.column("quality"),
        cost=known.column("cost"),
    )
    for label, score in as_table(selector.score).items():
        assert float(score) == pytest.approx(float(table.mixture[label]), rel=1e-9)
        assert score.details["n"] == 12


@every_objective
def test_every_score_carries_what_it_depends_on(name: str) -> None:
    objective = OBJECTIVES[name](REFERENCE)
    selector = gx.Selector(ARMS, objective, warm_start=3, resolve_growth=0.5, encoder="dinov2")
    run(selector, 11, Source(objective))
    for scores, n in ((selector.score, 9), (selector.pooled_score, 11)):
        table = as_table(scores)
        for term, score in zip(terms_of(selector.objective), table.values(), strict=True):
            details = score.details
            assert (details["n"], details["encoder"]) == (n, "dinov2")
            assert "dinov2" in repr(score)
            if isinstance(term, gx.FrechetDistance):
                assert details["normalisation"] in ("1/n", "1/(n-1)")
            if hasattr(term, "kernel"):
                assert details["kernel"] == term.kernel
            if isinstance(getattr(term, "kernel", None), gx.Gaussian):
                assert details["kernel"].bandwidth > 0
                assert rounded(f"bandwidth={details['kernel'].bandwidth}") in repr(score)


def test_an_encoder_that_nobody_named_is_unstated() -> None:
    selector = vendi()
    run(selector, 9)
    assert selector.score.details["encoder"] == "unstated"


# -- the median bandwidth ----------------------------------------------------------------------------


@pytest.mark.parametrize("make", [gx.RKE, lambda: gx.KernelDistance(REFERENCE)])
def test_the_median_bandwidth_is_fixed_when_the_warm_start_is_complete(
    make: Callable[[], gx.Objective],
) -> None:
    objective = make()
    selector = gx.Selector(ARMS, objective, warm_start=6, seed=1)
    source = Source(objective)
    run(selector, 17, source)
    assert selector.objective.kernel.bandwidth == "median"
    run(selector, 1, source)
    known = list(source.column("embedding").values())
    if hasattr(objective, "reference"):
        # Equal numbers of every group: six reference points of the forty, chosen by the seed.
        sigma = selector.objective.kernel.bandwidth
        spread = scipy.spatial.distance.pdist(np.concatenate([*known, REFERENCE]))
        assert np.quantile(spread, 0.3) < sigma < np.quantile(spread, 0.7)
    else:
        sigma = np.median(scipy.spatial.distance.pdist(np.concatenate(known)))
        assert selector.objective.kernel.bandwidth == pytest.approx(sigma, rel=1e-12)
    fixed_at = selector.objective
    run(selector, 60, source)
    selector.retire_arm("a")
    selector.add_arm("d")
    run(selector, 20, source)
    assert selector.objective == fixed_at
    assert selector.score.details["kernel"] == fixed_at.kernel
    assert selector.pooled_score.details["kernel"] == fixed_at.kernel


def test_random_features_are_drawn_once_and_survive_the_state() -> None:
    objective = gx.Vendi(kernel=gx.Gaussian(features=8, seed=5))
    selector = gx.Selector(ARMS, objective, warm_start=3)
    run(selector, 9)
    kernel = selector.objective.kernel
    expected = private_stream(5, "frequencies").standard_normal((DIMENSION, 8))
    assert_same_bits(kernel.frequencies, expected)
    run(selector, 20)
    assert_same_bits(selector.objective.kernel.frequencies, expected)
    again = gx.Selector.from_state_dict(selector.state_dict())
    assert again.objective == selector.objective
    assert_same_bits(again.objective.kernel.frequencies, expected)


# -- the limit of exact kernels ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "objective",
    [
        gx.Vendi(kernel=gx.Gaussian(1.0)),
        gx.QualityVendi(gx.Gaussian(1.0)),
        gx.Vendi(kernel=own_kernel) + gx.Cost(),
    ],
    ids=["vendi", "quality_vendi", "sum"],
)
def test_vendi_with_an_exact_kernel_refuses_more_than_4000_samples(objective: gx.Objective) -> None:
    # So long a warm start lets 4000 samples in without a single solve.
    selector = gx.Selector(("a", "b"), objective, warm_start=2001)
    rows = np.random.default_rng(0).standard_normal((4001, 2))
    for row in rows[:4000]:
        (ticket,) = selector.ask()
        selector.tell(ticket, row, quality=1.0, cost=1.0)
    (ticket,) = selector.ask()
    before = selector.state_dict()
    with pytest.raises(gx.InputError, match=r"4001.*features=512"):
        selector.tell(ticket, rows[4000], quality=1.0, cost=1.0)
    assert_same_bits(selector.state_dict(), before)


def test_kernel_sums_go_on_beyond_4000_samples() -> None:
    rows = np.random.default_rng(0).standard_normal((4002, 2))
    arms = {"a": rows[:2001], "b": rows[2001:]}
    reference = rows[:50]
    for objective in (gx.RKE(gx.Gaussian(1.0)), gx.KernelDistance(reference, gx.Gaussian(1.0))):
        mixture = gx.optimal_mixture(arms, objective)
        assert sum(mixture.pool.tally.counts) == 4002
        assert mixture.gap < 1e-8
    with pytest.raises(gx.InputError, match=r"4002.*features=512"):
        gx.optimal_mixture(arms, gx.Vendi(kernel=gx.Gaussian(1.0)))
    assert gx.optimal_mixture(arms, gx.Vendi(kernel=gx.Gaussian(1.0, features=4))).gap < 1e-6


# -- arms that come and go ---------------------------------------------------------------------------


def test_a_retired_arm_keeps_its_samples_and_its_tickets() -> None:
    selector, source = vendi(), Source(gx.Vendi())
    run(selector, 15, source)
    flying = {}
    while "b" not in flying:
        (ticket,) = selector.ask()
        flying[ticket.arm] = ticket
    selector.retire_arm("b")
    told = selector.counts["b"]
    selector.tell(flying["b"], **source("b"))
    assert selector.counts["b"] == told + 1
    assert "b" not in run(selector, 30, source)
    table = gx.score(source.column("embedding"), selector.objective)
    assert float(selector.pooled_score) == pytest.approx(float(table.pooled["vendi"]), rel=1e-9)
    assert selector.pooled_score.details["n"] == sum(selector.counts.values()) == 46
    assert selector.score.details["n"] <= selector.counts["a"] + selector.counts["c"]


def test_an_arm_that_comes_back_has_its_statistics_again() -> None:
    selector, source = vendi(resolve_growth=0.0), Source(gx.Vendi())
    run(selector, 20, source)
    selector.retire_arm("b")
    run(selector, 10, source)
    selector.add_arm("b")
    assert selector.arms == ARMS
    best = gx.optimal_mixture(source.column("embedding"), gx.Vendi())
    assert selector.weights == pytest.approx(best.weights, abs=1e-5)
    assert float(selector.score) == pytest.approx(float(best.score), rel=1e-7)


def test_retiring_solves_for_the_rest_at_once() -> None:
    selector, source = vendi(), Source(gx.Vendi())
    run(selector, 20, source)
    selector.retire_arm("c")
    rest = {arm: rows for arm, rows in source.column("embedding").items() if arm != "c"}
    best = gx.optimal_mixture(rest, gx.Vendi())
    assert selector.weights == pytest.approx(best.weights, abs=1e-5)
    assert selector.gap <= 1e-6


def test_retiring_the_arm_that_lacked_samples_completes_the_warm_start() -> None:
    selector, source = vendi(warm_start=2), Source(gx.Vendi())
    tickets = selector.ask(6)
    for ticket in tickets:
        if ticket.arm != "c":
            selector.tell(ticket, **source(ticket.arm))
    assert selector.gap == math.inf
    selector.retire_arm("c")
    assert selector.gap < math.inf
    for ticket in tickets:
        if ticket.arm == "c":
            selector.tell(ticket, **source("c"))
    assert selector.pooled_score.details["n"] == 6


def test_an_arm_retired_before_its_first_sample_is_no_part_of_the_pool() -> None:
    selector, source = vendi(warm_start=2), Source(gx.Vendi())
    selector.retire_arm("c")
    run(selector, 10, source)
    assert selector.counts["c"] == 0
    assert selector.pooled_score.details["n"] == 10


@every_objective
def test_an_added_arm_joins_the_pool_with_its_first_sample(name: str) -> None:
    objective = OBJECTIVES[name](REFERENCE)
    selector, source = gx.Selector(("a", "b"), objective, warm_start=3), Source(objective)
    run(selector, 10, source)
    selector.add_arm("c")
    (ticket,) = selector.ask()
    assert ticket.arm == "c"
    selector.tell(ticket, **source("c"))
    whole = {
        what: {"all": np.concatenate(list(source.column(what).values()))}
        for what in ("embedding", "quality", "cost")
    }
    table = gx.score(
        whole["embedding"], selector.objective, quality=whole["quality"], cost=whole["cost"]
    )
    for label, score in as_table(selector.pooled_score).items():
        assert float(score) == pytest.approx(float(table.arms["all"][label]), rel=1e-9)


def test_arms_without_quality_may_be_all_that_is_left() -> None:
    selector = gx.Selector(ARMS, gx.QualityVendi(), warm_start=3)
    source = Source(gx.Vendi())

    def worth(arm: str) -> dict[str, Any]:
        return source(arm) | {"quality": 1.0 if arm == "a" else 0.0}

    run(selector, 15, worth)
    selector.retire_arm("a")
    for _ in range(10):
        assert set(run(selector, 1, worth)) <= {"b", "c"}
        assert math.fsum(selector.weights.values()) == pytest.approx(1, abs=1e-12)
        assert float(selector.score) == 0.0
    assert float(selector.pooled_score) > 0
    selector.add_arm("a")
    assert selector.weights["a"] > 0
    assert selector.gap < 1e-6


def test_arms_that_come_and_go_survive_the_state(tmp_path: Path) -> None:
    selector, source = vendi(), Source(gx.Vendi())
    run(selector, 15, source)
    selector.retire_arm("a")
    selector.add_arm("d")
    run(selector, 2, source)
    copied = copy.deepcopy(source)
    again = gx.Selector.from_state_dict(through_files(selector.state_dict(), tmp_path))
    for each, samples in ((selector, source), (again, copied)):
        run(each, 10, samples)
        each.add_arm("a")
        run(each, 10, samples)
    assert again.arms == selector.arms == ("a", "b", "c", "d")
    assert_same_bits(again.state_dict(), selector.state_dict())


def test_tickets_of_before_an_arm_was_added_stay_good() -> None:
    selector, source = vendi(), Source(gx.Vendi())
    tickets = selector.ask(9)
    selector.add_arm("d")
    for ticket in tickets:
        selector.tell(ticket, **source(ticket.arm))
    assert selector.gap == math.inf
    assert run(selector, 3, source) == ["d"] * 3
    assert selector.gap < math.inf


# -- all or nothing ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Breaking(gx.Policy):
    """Uniform weights, or an error while ``error`` is set."""

    error: ClassVar[type[BaseException] | None] = None

    def decide(self, situation: Situation) -> Decision:
        if self.error is not None:
            raise self.error
        return Decision(np.array(list(shares(situation.arms).values())))


def tell_two_and_break(selector: gx.Selector) -> None:
    """The second sample is asked for and told in the middle, and then the samples break off."""

    def samples() -> Iterator[tuple[Any, Any, float, float]]:
        yield selector.in_flight[0], np.ones(DIMENSION), 1.0, 1.0
        assert selector.pooled_score is not None
        yield selector.ask()[0], np.ones(DIMENSION), 1.0, 1.0
        raise Breaking.error or RuntimeError

    selector.tell_all(samples())


ACTIONS: dict[str, Callable[[gx.Selector], None]] = {
    "tell": lambda s: s.tell(s.in_flight[0], np.ones(DIMENSION), 1.0, 1.0),
    "tell_all": tell_two_and_break,
    "retire an arm": lambda s: s.retire_arm("a"),
    "bring an arm back": lambda s: s.add_arm("c"),
}


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("action", ACTIONS)
def test_what_fails_in_the_middle_leaves_no_trace(
    action: str, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    objective = gx.Vendi() + 0.1 * gx.Quality()
    selector = gx.Selector(ARMS, objective, Breaking(), warm_start=3, resolve_growth=0.0)
    source = Source(objective)
    run(selector, 12, source)
    selector.retire_arm("c")
    selector.ask(2)
    rng_before = copy.deepcopy(selector._rng)
    before = copy.deepcopy(selector.state_dict())
    records = copy.deepcopy(selector._learner.arms)
    readings = copy.deepcopy((selector.weights, selector.score, selector.pooled_score))
    with monkeypatch.context() as patch:
        patch.setattr(Breaking, "error", error)
        with pytest.raises(error):
            ACTIONS[action](selector)
    selector._rng = rng_before  # a ticket that was drawn in the middle has used it
    assert_same_bits(selector.state_dict(), before)
    assert selector._learner.arms == records
    assert (selector.weights, selector.score, selector.pooled_score) == readings
    again, copied = gx.Selector.from_state_dict(before), copy.deepcopy(source)
    assert run(selector, 10, source) == run(again, 10, copied)
    assert_same_bits(selector.state_dict(), again.state_dict())


# -- torch -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
@every_objective
def test_torch_embeddings_give_the_same_run_as_numpy(name: str, device: str) -> None:
    objective = OBJECTIVES[name](REFERENCE)
    results = []
    for convert in (np.asarray, lambda row: torch.tensor(row, device=device)):
        source = Source(objective)
        selector = gx.Selector(ARMS, objective, warm_start=4, draw="tracking", resolve_growth=0.1)
        for _ in range(20):
            (ticket,) = selector.ask()
            sample = source(ticket.arm)
            selector.tell(ticket, **(sample | {"embedding": convert(sample["embedding"])}))
        results.append(selector)
    ours, theirs = results
    assert theirs.state_dict()["place"].startswith(f"torch:{device}")
    assert theirs.weights == pytest.approx(ours.weights, abs=1e-5)
    for label, score in as_table(ours.pooled_score).items():
        assert float(as_table(theirs.pooled_score)[label]) == pytest.approx(float(score), rel=1e-7)


@pytest.mark.parametrize("device", DEVICES)
def test_a_torch_run_resumes_bit_for_bit(device: str, tmp_path: Path) -> None:
    source = Source(gx.Vendi())

    def given(samples: Source) -> Callable[[str], dict[str, Any]]:
        def draw(arm: str) -> dict[str, Any]:
            sample = samples(arm)
            row = torch.tensor(sample["embedding"], dtype=torch.float32, device=device)
            return sample | {"embedding": row}

        return draw

    selector = vendi(resolve_growth=0.3)
    run(selector, 17, given(source))
    assert_plain(selector.state_dict())
    copied = copy.deepcopy(source)
    again = gx.Selector.from_state_dict(through_files(selector.state_dict(), tmp_path))
    assert again.state_dict()["place"].startswith(f"torch:{device}")
    assert run(selector, 20, given(source)) == run(again, 20, given(copied))
    assert_same_bits(again.state_dict(), selector.state_dict())


def test_a_state_from_a_gpu_resumes_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    selector = vendi()
    run(selector, 15)
    state = selector.state_dict() | {"place": "torch:cuda:0"}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    again = gx.Selector.from_state_dict(state)
    assert again.state_dict()["place"] == "torch:cpu"
    assert float(again.pooled_score) == pytest.approx(float(selector.pooled_score), rel=1e-9)


def test_numpy_and_torch_samples_may_be_mixed() -> None:
    mixed, plain = vendi(), vendi()
    one, other = Source(gx.Vendi()), Source(gx.Vendi())

    def sometimes_torch(arm: str) -> dict[str, Any]:
        sample = one(arm)
        return sample | {"embedding": torch.tensor(sample["embedding"])} if arm == "b" else sample

    assert run(mixed, 30, sometimes_torch) == run(plain, 30, other)
    assert_same_bits(mixed.state_dict(), plain.state_dict())


# -- state -------------------------------------------------------------------------------------------


@every_objective
def test_a_state_is_plain_and_resumes_bit_for_bit(name: str, tmp_path: Path) -> None:
    objective = OBJECTIVES[name](REFERENCE)
    selector = gx.Selector(
        ARMS,
        objective,
        warm_start=3,
        resolve_growth=0.4,
        solver=gx.Newton(1e-7),
        encoder="clip",
    )
    source = Source(objective)
    run(selector, 15, source)
    selector.ask(2)
    assert_plain(selector.state_dict())
    stored = through_files(selector.state_dict(), tmp_path)
    given = {"objective": objective} if holds_own_function(name) else {}
    again = gx.Selector.from_state_dict(stored, **given)
    assert_same_bits(again.state_dict(), selector.state_dict())
    assert again.score == selector.score
    assert again.pooled_score == selector.pooled_score
    copied = copy.deepcopy(source)
    assert run(selector, 15, source) == run(again, 15, copied)
    assert_same_bits(again.state_dict(), selector.state_dict())


@pytest.mark.parametrize("solver", [gx.Newton(1e-6, 50), gx.EG(0.2, 30)], ids=str)
def test_the_solver_is_part_of_the_state(solver: Any, tmp_path: Path) -> None:
    selector, source = vendi(solver=solver), Source(gx.Vendi())
    run(selector, 15, source)
    copied = copy.deepcopy(source)
    again = gx.Selector.from_state_dict(through_files(selector.state_dict(), tmp_path))
    assert run(selector, 10, source) == run(again, 10, copied)
    assert again.weights == selector.weights


def test_the_mixture_is_part_of_the_state(tmp_path: Path) -> None:
    source = Source(gx.Vendi())
    selector = vendi(policy=gx.MixtureOGD(), resolve_growth=1.0)
    run(selector, 20, source)
    state = through_files(selector.state_dict(), tmp_path)
    again = gx.Selector.from_state_dict(state)
    assert again.mixture == selector.mixture != selector.weights
    assert (again.score, again.gap) == (selector.score, selector.gap)
    del state["mixture"]
    older = gx.Selector.from_state_dict(state)
    copied = copy.deepcopy(source)
    assert older.mixture == selector.weights
    assert run(older, 30, copied) == run(selector, 30, source)
    assert older.mixture == selector.mixture


@pytest.mark.parametrize("version", [0, 1, 3, "2", None])
def test_a_state_of_another_version_is_refused(version: Any) -> None:
    state = vendi().state_dict() | {"version": version}
    with pytest.raises(gx.InputError, match="version") as error:
        gx.Selector.from_state_dict(state)
    assert str(error.value).endswith(".")
    assert repr(version) in str(error.value)


def test_something_that_is_no_state_is_refused() -> None:
    for nothing in ({}, [1, 2], None):
        with pytest.raises(gx.InputError, match="not a saved selector state"):
            gx.Selector.from_state_dict(nothing)


def test_a_state_that_names_an_unknown_class_is_refused() -> None:
    state = vendi().state_dict()
    state["policy"] = {"type": "NobodysPolicy"}
    with pytest.raises(gx.InputError, match=r"'NobodysPolicy'.*import"):
        gx.Selector.from_state_dict(state)
    state = vendi().state_dict()
    state["rng"]["bit_generator"] = "seed"
    with pytest.raises(gx.InputError, match="'seed'"):
        gx.Selector.from_state_dict(state)


OWN: dict[str, Callable[[], gx.Objective]] = {
    "vendi": lambda: gx.Vendi(kernel=own_kernel),
    "kd": lambda: gx.KernelDistance(REFERENCE, own_kernel),
    "sum": lambda: gx.RKE(own_kernel) + 0.5 * gx.Quality(),
}


@pytest.mark.parametrize("steps", [4, 20], ids=["before", "after the warm start"])
@pytest.mark.parametrize("name", OWN)
def test_a_function_of_ones_own_is_asked_for_and_then_continues(
    name: str, steps: int, tmp_path: Path
) -> None:
    selector, source = gx.Selector(ARMS, OWN[name](), warm_start=3), Source(gx.Vendi())
    run(selector, steps, source)
    state = through_files(selector.state_dict(), tmp_path)
    with pytest.raises(gx.InputError, match=r"own_kernel.*objective="):
        gx.Selector.from_state_dict(state)
    copied = copy.deepcopy(source)
    again = gx.Selector.from_state_dict(state, objective=OWN[name]())
    assert run(selector, 15, source) == run(again, 15, copied)
    assert_same_bits(again.state_dict(), selector.state_dict())


def test_an_objective_without_the_function_does_not_help() -> None:
    selector = gx.Selector(ARMS, gx.Vendi(kernel=own_kernel), warm_start=3)
    with pytest.raises(gx.InputError, match="own_kernel"):
        gx.Selector.from_state_dict(selector.state_dict(), objective=gx.Vendi())


def test_two_hundred_arms_work() -> None:
    selector = gx.Selector([f"arm {i}" for i in range(200)], gx.Vendi(), warm_start=1)
    rng = np.random.default_rng(0)
    for ticket in selector.ask(200):
        selector.tell(ticket, rng.standard_normal(8))
    assert selector.gap < 1e-5
    assert math.fsum(selector.weights.values()) == pytest.approx(1, abs=1e-12)


def test_it_saves_to_one_file_and_loads_from_it(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    first = gx.Selector(["a", "b"], gx.Vendi(kernel=gx.Gaussian(features=3)), warm_start=3, seed=5)
    for _ in range(12):
        for ticket in first.ask(2):
            first.tell(ticket, rng.standard_normal(4))
    pending = first.ask(3)
    path = tmp_path / "run.state"
    first.save(path)
    first.save(path)  # over itself
    assert [file.name for file in tmp_path.iterdir()] == ["run.state"]
    second = gx.Selector.load(path)
    assert second.in_flight == tuple(pending)
    assert (second.weights, second.gap, second.score) == (first.weights, first.gap, first.score)
    assert first.ask(20) == second.ask(20)


def test_a_file_that_is_no_state_is_refused(tmp_path: Path) -> None:
    junk = tmp_path / "junk"
    junk.write_bytes(b"junk")
    np.savez(tmp_path / "other.npz", reps=np.ones(3))
    for path in (junk, tmp_path / "other.npz"):
        with pytest.raises(gx.InputError, match="is not a saved state"):
            gx.Selector.load(path)


def test_an_arm_that_always_fails_does_not_stop_the_warm_start_of_the_others() -> None:
    selector = gx.Selector(["works", "dead"], gx.Vendi(), warm_start=3)
    for number in range(40):
        (ticket,) = selector.ask()
        if ticket.arm == "dead":
            selector.fail(ticket)
        else:
            selector.tell(ticket, [1.0, number])
    assert selector.counts["works"] == pytest.approx(20, abs=3)
    assert selector.failures == {"works": 0, "dead": 40 - selector.counts["works"]}


def test_while_a_new_arm_warms_up_the_run_goes_on_with_the_weights_before() -> None:
    rng = np.random.default_rng(1)
    selector = gx.Selector(["good", "junk"], gx.Vendi(), warm_start=4, seed=2)
    for _ in range(60):
        (ticket,) = selector.ask()
        selector.tell(ticket, rng.standard_normal(6) if ticket.arm == "good" else np.ones(6))
    assert selector.weights["good"] > 0.8
    selector.add_arm("late")
    tickets = selector.ask(40)
    assert [ticket.arm for ticket in tickets[:4]] == ["late"] * 4  # its warm start first
    later = [ticket.arm for ticket in tickets[4:]]
    assert later.count("good") > later.count("junk")
    assert later.count("late") < 25
    for ticket in tickets:
        selector.fail(ticket) if ticket.arm == "late" else selector.tell(ticket, np.eye(6)[0])
    assert selector.failures["late"] == 4 + later.count("late")
    assert selector.gap < 1e-7  # that of the mixture before


def test_samples_told_at_once_are_solved_for_once() -> None:
    rng = np.random.default_rng(0)
    one, many = (gx.Selector(["a", "b"], gx.Vendi(), warm_start=4, seed=0) for _ in range(2))
    rows = rng.normal(size=(8, 3))
    for ticket, row in zip(one.ask(8), rows, strict=True):
        one.tell(ticket, row)
    many.tell_all((ticket, row, None, None) for ticket, row in zip(many.ask(8), rows, strict=True))
    assert many.weights == one.weights
    before = many.weights
    tickets = many.ask(5)
    with pytest.raises(gx.InputError, match=f"ticket {tickets[4].id}"):
        many.tell_all(
            (t, np.full(3, np.nan if t is tickets[4] else 1.0), None, None) for t in tickets
        )
    assert len(many.in_flight) == 5
    assert sum(many.counts.values()) == 8
    assert many.weights == before
