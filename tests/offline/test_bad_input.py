"""Bad input gets one sentence that names the arm, the sample and the fix, and changes nothing."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import genmix as gx
from genmix.core.description import from_plain, to_plain
from tests.support.conformance import assert_same_bits

RNG = np.random.default_rng(0)
REFERENCE = RNG.standard_normal((12, 3))
GOOD = {"embedding": np.array([0.5, -1.0, 2.0]), "quality": 0.5, "cost": 1.0}
NAN, INF = math.nan, math.inf

ADVICE = re.compile(
    r"[:;] .*\b(give|use|leave|ask|tell|add|pass|name|check|resume|import|embed|apply|write|fix|choose|"
    r"save|set|remove|rename|restore|install|resolve|fail|needs?|the arms are|those are)\b|must be"
)


def refused(
    call: Callable[[], object], *parts: str, error: type[gx.GenmixError] = gx.InputError
) -> None:
    """The call raises an error of the agreed form that contains all ``parts``."""
    with pytest.raises(error) as caught:
        call()
    text = str(caught.value)
    assert text.endswith("."), text
    assert "\n" not in text, text
    assert not re.search(r"(?<!e\.g)[.!?]\s+[A-Z]", text), f"more than one sentence: {text}"
    assert len(text) < 300, text
    assert ADVICE.search(text), f"no advice: {text}"
    for part in parts:
        assert part in text, f"{part!r} is not in: {text}"


def refused_by(selector: gx.Selector, call: Callable[[], object], *parts: str) -> None:
    """The call is refused, and the selector is as it was, to the last bit."""
    before = copy.deepcopy(selector.state_dict())
    readings = copy.deepcopy((selector.weights, selector.score, selector.pooled_score))
    refused(call, *parts)
    assert_same_bits(selector.state_dict(), before)
    assert (selector.weights, selector.score, selector.pooled_score) == readings


# -- tell --------------------------------------------------------------------------------------------

STAGES = {"new": 0, "warming up": 3, "running": 9}
"""How many samples were told before the bad one; with 9 some wait for the next solve."""
every_stage = pytest.mark.parametrize("stage", STAGES)


def good_row(objective: gx.Objective, rng: np.random.Generator) -> Any:
    return (
        rng.dirichlet(np.ones(3))
        if isinstance(objective, gx.InceptionScore)
        else rng.standard_normal(3)
    )


def selector_at(stage: str, objective: gx.Objective) -> gx.Selector:
    selector = gx.Selector(["sdxl", "pixart"], objective, warm_start=3, resolve_growth=0.9)
    rng = np.random.default_rng(1)
    for _ in range(STAGES[stage]):
        (ticket,) = selector.ask()
        selector.tell(ticket, good_row(objective, rng), quality=0.5, cost=1.0)
    return selector


BAD_EMBEDDINGS: dict[str, tuple[Any, str]] = {
    "nan": ([0.5, NAN, 1.0], "NaN"),
    "infinite": ([INF, 0.0, 1.0], "infinity"),
    "minus infinity": (np.array([1.0, 2.0, -INF]), "infinity"),
    "nan in torch": (torch.tensor([0.5, NAN, 1.0]), "NaN"),
    "infinite in half precision": (torch.tensor([1e9, 0.0, 1.0]).half(), "infinity"),
    "so large that squares overflow": ([1e200, 0.0, 1.0], "1e+50"),
    "several rows": (np.ones((2, 3)), "2 embeddings"),
    "a cube": (np.ones((1, 1, 3)), "(1, 1, 3)"),
    "one number": (3.0, "scalar"),
    "empty vector": ([], "empty"),
    "empty batch": (np.ones((0, 3)), "empty"),
    "complex": (np.ones(3, dtype=complex), "complex"),
    "complex in torch": (torch.ones(3, dtype=torch.complex64), "complex"),
    "objects": (np.array([1.0, None, 2.0], dtype=object), "object"),
    "text": (["a", "b", "c"], "dtype"),
    "ragged": ([[1.0, 2.0], [3.0]], "not an array"),
    "missing": (None, "missing"),
    "masked": (np.ma.masked_array([1.0, 2.0, 3.0], [False, True, False]), "masked"),
}


@every_stage
@pytest.mark.parametrize("case", BAD_EMBEDDINGS)
def test_a_bad_embedding_is_refused(case: str, stage: str) -> None:
    embedding, part = BAD_EMBEDDINGS[case]
    selector = selector_at(stage, gx.Vendi() + gx.FrechetDistance(REFERENCE))
    _, ticket = selector.ask(2)
    where = (f"'{ticket.arm}'", f"ticket {ticket.id}")
    refused_by(selector, lambda: selector.tell(ticket, embedding), *where, part)
    selector.tell(ticket, GOOD["embedding"])


@pytest.mark.parametrize("stage", ["warming up", "running"])
def test_another_dimension_than_before_is_refused(stage: str) -> None:
    selector = selector_at(stage, gx.Vendi())
    (ticket,) = selector.ask()
    where = (f"'{ticket.arm}'", f"ticket {ticket.id}")
    refused_by(selector, lambda: selector.tell(ticket, np.ones(4)), *where, "4", "3")


@every_stage
@pytest.mark.parametrize(
    "make",
    [gx.FrechetDistance, gx.KernelDistance, gx.Precision, lambda r: gx.Vendi() + gx.Density(r)],
    ids=["frechet", "kd", "precision", "sum"],
)
def test_another_dimension_than_the_reference_is_refused(
    make: Callable[[Any], gx.Objective], stage: str
) -> None:
    selector = selector_at(stage, make(REFERENCE))
    (ticket,) = selector.ask()
    where = (f"'{ticket.arm}'", f"ticket {ticket.id}")
    refused_by(selector, lambda: selector.tell(ticket, np.ones(2)), *where, "dimension 2", "3")


@every_stage
@pytest.mark.parametrize(
    "objective",
    [
        gx.Vendi(),
        gx.RKE(gx.Cosine()),
        gx.QualityVendi(),
        gx.KernelDistance(REFERENCE, gx.Cosine()),
        gx.Cost() + gx.Vendi(2),
    ],
    ids=["vendi", "rke", "quality_vendi", "kd", "sum"],
)
def test_the_zero_vector_is_refused_under_a_cosine_kernel(
    objective: gx.Objective, stage: str
) -> None:
    selector = selector_at(stage, objective)
    (ticket,) = selector.ask()
    where = (f"'{ticket.arm}'", f"ticket {ticket.id}", "zero vector", "cosine")
    call = lambda: selector.tell(ticket, np.zeros(3), quality=0.5, cost=1.0)  # noqa: E731
    refused_by(selector, call, *where)


BAD_NUMBERS: dict[str, tuple[dict[str, Any], str]] = {
    "negative cost": ({"cost": -0.1}, "cost is -0.1"),
    "nan cost": ({"cost": NAN}, "cost is nan"),
    "infinite cost": ({"cost": INF}, "cost is inf"),
    "cost in words": ({"cost": "cheap"}, "cost"),
    "no cost": ({"cost": None}, "cost="),
    "nan quality": ({"quality": NAN}, "quality is nan"),
    "infinite quality": ({"quality": -INF}, "quality is -inf"),
    "quality in words": ({"quality": "good"}, "quality"),
    "complex quality": ({"quality": 1j}, "quality"),
    "several qualities": ({"quality": [0.1, 0.2]}, "quality"),
    "no quality": ({"quality": None}, "quality="),
}


@every_stage
@pytest.mark.parametrize("case", BAD_NUMBERS)
def test_a_bad_quality_or_cost_is_refused(case: str, stage: str) -> None:
    change, part = BAD_NUMBERS[case]
    selector = selector_at(stage, gx.Vendi() + gx.Quality() + gx.Cost())
    (ticket,) = selector.ask()
    where = (f"'{ticket.arm}'", f"ticket {ticket.id}")
    refused_by(selector, lambda: selector.tell(ticket, **(GOOD | change)), *where, part)


def test_a_bad_cost_is_refused_even_where_no_objective_asks_for_it() -> None:
    selector = selector_at("running", gx.Vendi())
    (ticket,) = selector.ask()
    call = lambda: selector.tell(ticket, GOOD["embedding"], cost=-1.0)  # noqa: E731
    refused_by(selector, call, f"'{ticket.arm}'", f"ticket {ticket.id}", "-1")


@every_stage
def test_negative_quality_is_refused_where_it_multiplies(stage: str) -> None:
    selector = selector_at(stage, gx.QualityVendi())
    (ticket,) = selector.ask()
    call = lambda: selector.tell(ticket, **(GOOD | {"quality": -0.5}))  # noqa: E731
    refused_by(selector, call, f"'{ticket.arm}'", f"ticket {ticket.id}", "-0.5")
    selector = selector_at(stage, gx.Quality())
    (ticket,) = selector.ask()
    selector.tell(ticket, **(GOOD | {"quality": -0.5}))


@every_stage
@pytest.mark.parametrize("row", [[0.5, 0.6, 0.0], [1.2, -0.2, 0.0], [2.0, 1.0, -3.0], [0, 0, 0]])
def test_rows_that_are_no_probabilities_are_refused(row: list[float], stage: str) -> None:
    selector = selector_at(stage, gx.InceptionScore())
    (ticket,) = selector.ask()
    where = (f"'{ticket.arm}'", f"ticket {ticket.id}", "softmax")
    refused_by(selector, lambda: selector.tell(ticket, row), *where)


# -- tickets -----------------------------------------------------------------------------------------


@every_stage
@pytest.mark.parametrize("act", ["tell", "fail"])
def test_a_ticket_that_is_none_is_refused(act: str, stage: str) -> None:
    selector = selector_at(stage, gx.Vendi())
    selector.ask(2)
    other = gx.Selector(["elsewhere"], gx.Vendi())
    stranger = other.ask(100)[-1]
    forged = replace(
        selector.in_flight[0], arm="sdxl" if selector.in_flight[0].arm != "sdxl" else "pixart"
    )
    cases: list[tuple[Any, str]] = [
        (999, "ticket 999"),
        (-1, "ticket -1"),
        (stranger, "ticket 99"),
        (forged, f"ticket {forged.id}"),
        ("0", "'0'"),
        (0.0, "0.0"),
        (True, "True"),
        (None, "None"),
    ]
    for ticket, part in cases:
        call = {
            "tell": lambda t=ticket: selector.tell(t, GOOD["embedding"]),
            "fail": lambda t=ticket: selector.fail(t),
        }[act]
        refused_by(selector, call, part)


@every_stage
@pytest.mark.parametrize("first", ["tell", "fail"])
@pytest.mark.parametrize("second", ["tell", "fail"])
@pytest.mark.parametrize("by", ["ticket", "id"])
def test_a_ticket_is_used_up_by_one_tell_or_fail(
    first: str, second: str, by: str, stage: str
) -> None:
    selector = selector_at(stage, gx.Vendi())
    (ticket,) = selector.ask()
    handle = ticket if by == "ticket" else ticket.id
    act = {
        "tell": lambda: selector.tell(handle, GOOD["embedding"]),
        "fail": lambda: selector.fail(handle),
    }
    act[first]()
    refused_by(selector, act[second], f"ticket {ticket.id}", "already")


@pytest.mark.parametrize("n", [0, -1, 1.5, 2.0, "3", None, NAN, [1]])
def test_asking_for_no_whole_number_is_refused(n: Any) -> None:
    selector = selector_at("running", gx.Vendi())
    refused_by(selector, lambda: selector.ask(n), "at least 1")


# -- arms --------------------------------------------------------------------------------------------


@every_stage
def test_arms_that_do_not_fit_are_refused(stage: str) -> None:
    selector = selector_at(stage, gx.Vendi())
    refused_by(selector, lambda: selector.retire_arm("nobody"), "unknown arm 'nobody'", "pixart")
    refused_by(selector, lambda: selector.add_arm("sdxl"), "'sdxl'")
    refused_by(selector, lambda: selector.add_arm(""), "''")
    refused_by(selector, lambda: selector.add_arm(3), "3")
    refused_by(selector, lambda: selector.add_arm(None), "None")
    selector.retire_arm("sdxl")
    refused_by(selector, lambda: selector.retire_arm("sdxl"), "'sdxl'")
    refused_by(selector, lambda: selector.retire_arm("pixart"), "'pixart'", "only active")


BAD_ARMS: dict[str, tuple[Any, str]] = {
    "twice": (["a", "b", "a"], "'a'"),
    "none": ([], "no arms"),
    "text": ("ab", "'ab'"),
    "a number": (["a", 3], "3"),
    "empty": (["a", ""], "''"),
}


@pytest.mark.parametrize("case", BAD_ARMS)
def test_bad_labels_are_refused(case: str) -> None:
    arms, part = BAD_ARMS[case]
    refused(lambda: gx.Selector(arms, gx.Vendi()), part)


@pytest.mark.parametrize("case", ["none", "a number", "empty"])
def test_bad_labels_are_refused_offline(case: str) -> None:
    labels, part = BAD_ARMS[case]
    arms = {label: np.eye(3) for label in labels}
    refused(lambda: gx.optimal_mixture(arms, gx.Vendi()), part)
    refused(lambda: gx.score(arms, gx.Vendi()), part)


# -- offline -----------------------------------------------------------------------------------------


def both(arms: Any, objective: Any, *parts: str, **extra: Any) -> None:
    """Refused by ``optimal_mixture`` and by ``score`` alike."""
    refused(lambda: gx.optimal_mixture(arms, objective, **extra), *parts)
    refused(lambda: gx.score(arms, objective, **extra), *parts)


def bad_at(row: int, value: Any) -> Any:
    rows = RNG.standard_normal((5, 3))
    rows[row] = value
    return rows


@pytest.mark.parametrize(
    "rows, parts",
    [
        (bad_at(2, NAN), ("sample 2", "NaN")),
        (bad_at(4, INF), ("sample 4", "infinity")),
        (bad_at(1, 1e200), ("sample 1", "1e+50")),
        (torch.tensor(bad_at(3, NAN)), ("sample 3", "NaN")),
        (np.ones((2, 4)), ("4", "3", "'good'")),
        (np.ones((0, 3)), ("empty",)),
        (np.ones((3, 0)), ("empty",)),
        ([], ("(0,)",)),
        (np.arange(3.0), ("(3,)", "(samples, dimensions)")),
        (np.ma.masked_array(np.ones((2, 3)), np.eye(2, 3)), ("masked",)),
        (np.ones((2, 3), dtype=complex), ("complex",)),
        (np.full((2, 3), None), ("object",)),
        (np.ones((2, 2, 3)), ("(2, 2, 3)",)),
        (5.0, ("shape ()",)),
        ([[1.0, 2.0, 3.0], [1.0]], ("not an array",)),
        (None, ("missing",)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else type(value).__name__,
)
def test_bad_samples_are_refused_offline(rows: Any, parts: tuple[str, ...]) -> None:
    arms = {"good": RNG.standard_normal((4, 3)), "bad": rows}
    both(arms, gx.Vendi(), "'bad'", *parts)


def test_the_zero_vector_is_refused_offline() -> None:
    both({"good": np.eye(3), "bad": bad_at(2, 0.0)}, gx.Vendi(), "'bad'", "sample 2", "cosine")


def test_arms_that_are_no_map_are_refused() -> None:
    for arms in ([np.eye(3)], np.eye(3), "features.npz", None):
        both(arms, gx.Vendi(), "map")


@pytest.mark.parametrize("objective", [gx.Vendi, None, "vendi", gx.Cosine(), 3])
def test_something_that_is_no_objective_is_refused(objective: Any) -> None:
    both({"a": np.eye(3)}, objective, "objective")
    refused(lambda: gx.Selector(["a"], objective), "objective")


ONE_ARM = {"sdxl": np.eye(3)}


@pytest.mark.parametrize(
    "values, parts",
    [
        ({"sdxl": [1.0, NAN, 1.0]}, ("'sdxl'", "sample 1", "nan")),
        ({"sdxl": [1.0, 1.0, INF]}, ("'sdxl'", "sample 2", "inf")),
        ({"sdxl": [1.0, 1.0]}, ("'sdxl'", "(2,)", "3")),
        ({"sdxl": np.ones((3, 1))}, ("'sdxl'", "(3, 1)")),
        ({"sdxl": ["a", "b", "c"]}, ("'sdxl'",)),
        ({"sdxl": np.ones(3, dtype=complex)}, ("'sdxl'",)),
        ({"nobody": 1.0}, ("'nobody'",)),
        ({"sdxl": 1.0, "nobody": 1.0}, ("'nobody'", "sdxl")),
        (0.5, ("map",)),
        (np.ones(3), ("map",)),
        ([0.5, 0.5, 0.5], ("map",)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else type(value).__name__,
)
@pytest.mark.parametrize("what", ["quality", "cost"])
def test_bad_quality_and_cost_are_refused_offline(
    what: str, values: Any, parts: tuple[str, ...]
) -> None:
    objective = gx.Quality() if what == "quality" else gx.Cost()
    both(ONE_ARM, objective, what, *parts, **{what: values})


def test_negative_cost_and_quality_are_refused_offline() -> None:
    rows = [1.0, -2.0, 1.0]
    both(ONE_ARM, gx.Cost(), "'sdxl'", "sample 1", "-2", cost={"sdxl": rows})
    both(ONE_ARM, gx.QualityVendi(), "'sdxl'", "sample 1", "-2", quality={"sdxl": rows})
    assert float(gx.optimal_mixture(ONE_ARM, gx.Quality(), {"sdxl": rows}).score) == 0.0


def test_missing_quality_and_cost_are_refused_offline() -> None:
    both(ONE_ARM, gx.Quality(), "'sdxl'", "quality=")
    both(ONE_ARM, gx.QualityVendi(), "'sdxl'", "quality=")
    both(ONE_ARM, gx.Vendi() + gx.Cost(), "'sdxl'", "cost=")
    two = {"sdxl": np.eye(3), "pixart": np.eye(3)}
    both(two, gx.Quality(), "'pixart'", "quality=", quality={"sdxl": 1.0})


def test_rows_that_are_no_probabilities_are_refused_offline() -> None:
    rows = np.full((4, 3), 1 / 3)
    rows[2] = [0.5, 0.7, -0.2]
    both({"sdxl": rows}, gx.InceptionScore(), "'sdxl'", "sample 2", "softmax")


def test_too_few_samples_are_refused_offline() -> None:
    arms = {"sdxl": np.eye(3), "pixart": np.ones((1, 3))}
    for objective in (
        gx.RKE(gx.Cosine(), unbiased=True),
        gx.KernelDistance(REFERENCE, unbiased=True),
        gx.FrechetDistance(REFERENCE, ddof=1),
        gx.Vendi() + gx.FrechetDistance(REFERENCE, ddof=1),
    ):
        both(arms, objective, "'pixart'", "2")
        refused(lambda o=objective: gx.Selector(["a"], o, warm_start=1), "warm_start", "2")


def test_a_reference_of_another_dimension_is_refused_offline() -> None:
    both({"sdxl": np.ones((4, 2))}, gx.FrechetDistance(REFERENCE), "'sdxl'", "2", "3")
    refused(lambda: gx.score({"sdxl": np.ones((9, 2))}, gx.Vendi(), reference=REFERENCE), "2", "3")


def test_random_features_drawn_for_another_dimension_are_refused() -> None:
    objective = gx.Vendi(kernel=gx.Gaussian(1.0, features=4))
    drawn = gx.optimal_mixture({"sdxl": np.eye(3)}, objective).objective
    both({"sdxl": np.eye(3), "pixart": np.ones((4, 3))[:, :2]}, drawn, "2", "3")
    both({"pixart": np.ones((4, 2))}, drawn, "'pixart'", "2", "3")
    selector = gx.Selector(["sdxl", "pixart"], drawn, warm_start=2)
    (ticket,) = selector.ask()
    where = ("'sdxl'", f"ticket {ticket.id}", "2", "3")
    refused_by(selector, lambda: selector.tell(ticket, np.ones(2)), *where)


@pytest.mark.parametrize("k", [0, -1, 2.5, "5", None, True])
def test_a_bad_number_of_neighbours_is_refused(k: Any) -> None:
    refused(lambda: gx.Precision(REFERENCE, k=k), "k is")
    refused(lambda: gx.Density(REFERENCE, k=k), "k is")
    refused(lambda: gx.score(ONE_ARM, gx.Vendi(), reference=REFERENCE, k=k), "k is")


def test_a_reference_with_too_few_points_is_refused() -> None:
    for points in (1, 5):
        for make in (gx.Precision, gx.Density):
            refused(lambda m=make, n=points: m(REFERENCE[:n]), f"{points} points", "6")
    refused(lambda: gx.Precision(REFERENCE, k=12), "12 points", "13")
    refused(lambda: gx.score(ONE_ARM, gx.Vendi(), reference=REFERENCE[:5]), "5 points", "6")
    gx.Precision(REFERENCE[:6])


# -- weights -----------------------------------------------------------------------------------------

OFF_THE_SIMPLEX: dict[str, dict[str, Any]] = {
    "sum": {"sdxl": 0.5, "pixart": 0.4},
    "negative": {"sdxl": 1.5, "pixart": -0.5},
    "nan": {"sdxl": NAN, "pixart": 1.0},
    "infinite": {"sdxl": INF, "pixart": 0.0},
    "words": {"sdxl": "half", "pixart": "half"},
    "nothing": {},
    "zero": {"sdxl": 0.0, "pixart": 0.0},
}


@pytest.mark.parametrize("case", OFF_THE_SIMPLEX)
def test_weights_off_the_simplex_are_refused(case: str) -> None:
    weights = OFF_THE_SIMPLEX[case]
    arms = {"sdxl": np.eye(3), "pixart": np.ones((2, 3))}
    refused(lambda: gx.Fixed(weights), "weights")
    refused(lambda: gx.MixtureOracle(weights), "weights")
    refused(lambda: gx.score(arms, gx.Vendi(), weights=weights), "weights")


def test_weights_that_are_no_map_or_name_an_unknown_arm_are_refused() -> None:
    arms = {"sdxl": np.eye(3), "pixart": np.ones((2, 3))}
    for weights in ([0.5, 0.5], 0.5, "half"):
        refused(lambda w=weights: gx.Fixed(w), "weights", "map")
        refused(lambda w=weights: gx.score(arms, gx.Vendi(), weights=w), "weights", "map")
    unknown = {"sdxl": 0.5, "nobody": 0.5}
    refused(lambda: gx.score(arms, gx.Vendi(), weights=unknown), "'nobody'", "pixart")
    refused(lambda: gx.Selector(list(arms), gx.Vendi(), gx.Fixed(unknown)), "'nobody'", "pixart")
    refused(lambda: gx.Selector(list(arms), gx.Vendi(), gx.OneArmOracle("nobody")), "'nobody'")


def test_a_start_off_the_simplex_is_refused() -> None:
    loss = gx.optimal_mixture({"a": np.eye(3), "b": np.ones((1, 3))}, gx.Vendi()).pool.tally.loss(
        [0, 1]
    )
    for start in (
        [0.5, 0.4],
        [1.0],
        [0.5, 0.25, 0.25],
        [[0.5, 0.5]],
        [NAN, 1.0],
        "ab",
        [-1.0, 2.0],
    ):
        refused(lambda s=start: gx.solve(loss, s), "weights")


# -- parameters --------------------------------------------------------------------------------------

BAD_PARAMETERS: dict[str, tuple[Callable[[], object], str]] = {
    "order 0": (lambda: gx.Vendi(0), "order"),
    "order negative": (lambda: gx.Vendi(-1.0), "order"),
    "order nan": (lambda: gx.Vendi(NAN), "order"),
    "order text": (lambda: gx.Vendi("1"), "order"),
    "order true": (lambda: gx.Vendi(True), "order"),
    "bandwidth 0": (lambda: gx.Gaussian(0.0), "bandwidth"),
    "bandwidth negative": (lambda: gx.Gaussian(-1), "bandwidth"),
    "bandwidth nan": (lambda: gx.Gaussian(NAN), "bandwidth"),
    "bandwidth infinite": (lambda: gx.Gaussian(INF), "bandwidth"),
    "bandwidth text": (lambda: gx.Gaussian("mean"), "bandwidth"),
    "bandwidth true": (lambda: gx.Gaussian(True), "bandwidth"),
    "bandwidth none": (lambda: gx.Gaussian(None), "bandwidth"),
    "features 0": (lambda: gx.Gaussian(features=0), "features"),
    "features fraction": (lambda: gx.Gaussian(features=2.5), "features"),
    "features text": (lambda: gx.Gaussian(features="512"), "features"),
    "kernel seed": (lambda: gx.Gaussian(seed=-1), "seed"),
    "degree 0": (lambda: gx.Polynomial(degree=0), "degree"),
    "degree fraction": (lambda: gx.Polynomial(degree=1.5), "degree"),
    "gamma": (lambda: gx.Polynomial(gamma=-1.0), "gamma"),
    "coef0": (lambda: gx.Polynomial(coef0=NAN), "coef0"),
    "polynomial vendi": (lambda: gx.Vendi(kernel=gx.Polynomial()), "KernelDistance"),
    "polynomial rke": (lambda: gx.RKE(gx.Polynomial()), "KernelDistance"),
    "no kernel": (lambda: gx.Vendi(kernel="cosine"), "'cosine'"),
    "kernel class": (lambda: gx.RKE(gx.Cosine), "Cosine"),
    "ddof": (lambda: gx.FrechetDistance(REFERENCE, ddof=2), "ddof"),
    "ddof and one point": (lambda: gx.FrechetDistance(REFERENCE[:1], ddof=1), "ddof"),
    "unbiased and one point": (lambda: gx.KernelDistance(REFERENCE[:1], unbiased=True), "2"),
    "negative weight": (lambda: -1.0 * gx.Vendi(), "vendi"),
    "negative weight in a sum": (lambda: gx.Cost() + gx.RKE() * -0.5, "rke"),
    "infinite weight": (lambda: INF * gx.Quality(), "quality"),
    "nan weight": (lambda: NAN * gx.Vendi(), "vendi"),
    "epsilon above 1": (lambda: gx.EpsilonGreedy(1.1), "epsilon"),
    "epsilon negative": (lambda: gx.EpsilonGreedy(-0.1), "epsilon"),
    "epsilon nan": (lambda: gx.EpsilonGreedy(NAN), "epsilon"),
    "epsilon text": (lambda: gx.EpsilonGreedy("0.1"), "epsilon"),
    "delta 0": (lambda: gx.FrechetUCB(delta=0.0), "delta"),
    "delta above 1": (lambda: gx.FrechetUCB(delta=1.5), "delta"),
    "delta text": (lambda: gx.FrechetUCB(delta="0.05"), "delta"),
    "kappa": (lambda: gx.FrechetUCB(kappa=NAN), "kappa"),
    "threshold": (lambda: gx.FrechetUCB(threshold=-1.0), "threshold"),
    "bonus strength": (lambda: gx.MixtureBonus(-0.1), "strength"),
    "ucb delta": (lambda: gx.MixtureUCB(delta=NAN), "delta"),
    "ucb negative delta": (lambda: gx.MixtureUCB(delta=-0.1), "delta"),
    "ucb fidelity": (lambda: gx.MixtureUCB(delta_fidelity=INF), "delta_fidelity"),
    "ucb beta": (lambda: gx.MixtureUCB(beta=-1.0), "beta"),
    "ogd delta": (lambda: gx.MixtureOGD(delta="0.6"), "delta"),
    "ogd beta": (lambda: gx.MixtureOGD(beta=NAN), "beta"),
    "one-arm ucb": (lambda: gx.OneArmUCB(beta=-1.0), "beta"),
    "oracle": (lambda: gx.Selector(["a"], gx.Vendi(), gx.OneArmOracle(3)), "3"),
    "tolerance": (lambda: gx.Newton(tolerance=-1.0), "tolerance"),
    "max steps": (lambda: gx.Newton(max_steps=0), "max_steps"),
    "eg step": (lambda: gx.EG(step=0.0), "step"),
    "eg steps": (lambda: gx.EG(steps=1.5), "steps"),
}


@pytest.mark.parametrize("case", BAD_PARAMETERS)
def test_a_bad_parameter_is_refused(case: str) -> None:
    call, part = BAD_PARAMETERS[case]
    refused(call, part)


BAD_OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "warm start 0": ({"warm_start": 0}, "warm_start"),
    "warm start fraction": ({"warm_start": 2.5}, "warm_start"),
    "warm start text": ({"warm_start": "10"}, "warm_start"),
    "draw": ({"draw": "random"}, "draw"),
    "growth negative": ({"resolve_growth": -0.1}, "resolve_growth"),
    "growth nan": ({"resolve_growth": NAN}, "resolve_growth"),
    "growth text": ({"resolve_growth": "often"}, "resolve_growth"),
    "policy class": ({"policy": gx.MixtureGreedy}, "policy"),
    "policy text": ({"policy": "greedy"}, "policy"),
    "solver text": ({"solver": "newton"}, "solver"),
    "solver class": ({"solver": gx.Newton}, "solver"),
    "seed negative": ({"seed": -1}, "seed"),
    "seed text": ({"seed": "zero"}, "seed"),
    "frechet ucb": ({"policy": gx.FrechetUCB()}, "FrechetDistance"),
}


@pytest.mark.parametrize("case", BAD_OPTIONS)
def test_a_bad_option_of_the_selector_is_refused(case: str) -> None:
    options, part = BAD_OPTIONS[case]
    refused(lambda: gx.Selector(["a", "b"], gx.Vendi(), **options), part)


@pytest.mark.parametrize(
    "given, plain",
    [
        (lambda: gx.Vendi(np.int64(2)), lambda: gx.Vendi(2.0)),
        (lambda: gx.Vendi(1), lambda: gx.Vendi()),
        (lambda: gx.Gaussian(np.float32(2)), lambda: gx.Gaussian(2)),
        (lambda: gx.Gaussian(features=np.int64(4)), lambda: gx.Gaussian(features=4)),
        (lambda: gx.Precision(REFERENCE, np.int32(3)), lambda: gx.Precision(REFERENCE, 3)),
        (lambda: gx.EpsilonGreedy(np.float64(0.5)), lambda: gx.EpsilonGreedy(0.5)),
        (lambda: gx.MixtureUCB(np.float32(1)), lambda: gx.MixtureUCB(1)),
        (lambda: np.float64(2) * gx.Vendi(), lambda: 2 * gx.Vendi()),
    ],
)
def test_numbers_of_numpy_are_good_parameters(
    given: Callable[[], Any], plain: Callable[[], Any]
) -> None:
    assert given() == plain()
    assert hash(given()) == hash(plain())
    assert repr(given()) == repr(plain())


def test_numbers_of_numpy_are_good_options() -> None:
    gx.Selector(
        ["a"], gx.Vendi(), warm_start=np.int64(5), resolve_growth=np.float32(0.5), seed=np.int64(3)
    ).state_dict()


# -- states ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", ["new", "running"])
def test_another_objective_than_that_of_the_state_is_refused(stage: str) -> None:
    state = selector_at(stage, gx.Vendi() + gx.FrechetDistance(REFERENCE)).state_dict()
    for other in (
        gx.Vendi(),
        gx.Vendi(2) + gx.FrechetDistance(REFERENCE),
        gx.Vendi() + gx.FrechetDistance(REFERENCE + 1),
        gx.Vendi() + 2 * gx.FrechetDistance(REFERENCE),
    ):
        refused(lambda o=other: gx.Selector.from_state_dict(state, objective=o), "objective")
    same = gx.Vendi() + gx.FrechetDistance(REFERENCE.copy())
    assert gx.Selector.from_state_dict(state, objective=same).counts == {
        arm: state["told"][i] for i, arm in enumerate(("sdxl", "pixart"))
    }


def test_a_state_that_cannot_be_read_says_why() -> None:
    state = selector_at("running", gx.Vendi()).state_dict()
    change = {"version": 99}
    refused(lambda: gx.Selector.from_state_dict(state | change), "99")
    change = {"policy": {"type": "NobodysPolicy"}}
    refused(lambda: gx.Selector.from_state_dict(state | change), "'NobodysPolicy'")
    change = {"rng": state["rng"] | {"bit_generator": "seed"}}
    refused(lambda: gx.Selector.from_state_dict(state | change), "'seed'")


def test_a_class_of_ones_own_cannot_take_the_name_of_one_of_genmix() -> None:
    """A state knows classes by name: the newcomer would be read in place of the other."""
    refused(lambda: type("Vendi", (gx.Objective,), {}), "Vendi")
    assert from_plain(to_plain(gx.Vendi())) == gx.Vendi()


def test_a_solver_that_no_state_can_hold_is_refused_by_the_state_alone() -> None:
    class Mine:
        def solve(self, loss: Any, start: Any) -> gx.Solution:
            return gx.Newton().solve(loss, start)

    selector = gx.Selector(["sdxl", "pixart"], gx.Vendi(), warm_start=2, solver=Mine())
    for ticket in selector.ask(4):
        selector.tell(ticket, np.random.default_rng(ticket.id).standard_normal(3))
    assert selector.gap < 1e-6
    refused(selector.state_dict, "state")


def test_a_function_that_was_lost_says_so_when_it_is_called() -> None:
    read = from_plain(to_plain(gx.Vendi(kernel=own_positive)))
    refused(lambda: read.kernel(np.eye(3), np.eye(3)), "own_positive", "objective=")


def test_a_kernel_that_waits_for_samples_is_refused_when_it_is_called() -> None:
    refused(lambda: gx.Gaussian()(np.eye(3), np.eye(3)), "bandwidth")
    refused(lambda: gx.Gaussian(1.0, features=4).feature_map(np.eye(3)), "samples")
    refused(lambda: gx.Gaussian(1.0).feature_map(np.eye(3)), "feature map")


# -- references --------------------------------------------------------------------------------------

MU, SIGMA = np.zeros(3), np.eye(3)
SKEW = np.eye(3) + np.triu(np.ones((3, 3)), 1)

BAD_REFERENCES: dict[str, tuple[Any, str]] = {
    "nan": (bad_at(2, NAN), "sample 2"),
    "complex": (REFERENCE.astype(complex), "complex"),
    "objects": (REFERENCE.astype(object), "object"),
    "empty": (np.ones((0, 3)), "empty"),
    "missing": (None, "missing"),
    "cube": (np.ones((2, 2, 2)), "(2, 2, 2)"),
    "one vector": (np.ones(3), "(3,)"),
    "masked": (np.ma.masked_array(REFERENCE, REFERENCE > 1), "masked"),
}


@pytest.mark.parametrize("make", [gx.FrechetDistance, gx.KernelDistance, gx.Precision, gx.Density])
@pytest.mark.parametrize("case", BAD_REFERENCES)
def test_a_bad_reference_is_refused(case: str, make: Any) -> None:
    reference, part = BAD_REFERENCES[case]
    refused(lambda: make(reference), "reference", part)


def test_a_zero_vector_in_the_reference_is_refused_under_a_cosine_kernel() -> None:
    refused(lambda: gx.KernelDistance(bad_at(3, 0.0), gx.Cosine()), "reference", "sample 3")


@pytest.mark.parametrize(
    "moments, part",
    [
        ((MU, np.eye(2), 10), "(2, 2)"),
        ((MU, np.ones(3), 10), "(3, 3)"),
        ((MU, SKEW, 10), "symmetric"),
        ((MU, np.diag([1.0, 1.0, -1.0]), 10), "positive"),
        ((MU, SIGMA, 1), "n"),
        ((MU, SIGMA, 0), "n"),
        ((MU, SIGMA, 2.5), "n"),
        ((MU, SIGMA, "many"), "n"),
        ((MU * NAN, SIGMA, 10), "NaN"),
        ((MU, np.full((3, 3), INF), 10), "infinity"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_moments_are_refused(moments: Any, part: str) -> None:
    refused(lambda: gx.FrechetDistance(moments), "reference", part)


@pytest.mark.parametrize("make", [gx.KernelDistance, gx.Precision, gx.Density])
def test_moments_are_refused_where_samples_are_needed(make: Any) -> None:
    refused(lambda: make((MU, SIGMA, 10)), "moments", "samples")
    refused(lambda: gx.score(ONE_ARM, gx.Vendi(), reference=(MU, SIGMA, 10)), "moments", "samples")


def test_moments_with_and_without_n_are_good() -> None:
    cov = np.cov(REFERENCE.T)
    stated = gx.FrechetDistance((REFERENCE.mean(0), cov, 12))
    arms = {"a": REFERENCE[:5], "b": REFERENCE[5:] + 1}
    expected = gx.optimal_mixture(arms, gx.FrechetDistance(REFERENCE)).loss
    assert gx.optimal_mixture(arms, stated).loss == pytest.approx(expected, rel=1e-9)
    bare = gx.optimal_mixture(arms, gx.FrechetDistance((REFERENCE.mean(0), cov)))
    assert bare.score.details["reference n"] == "unstated"
    assert bare.loss != pytest.approx(expected, rel=1e-3)


# -- files -------------------------------------------------------------------------------------------


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def saved(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


BAD_FILES: dict[str, Callable[[Path], Path]] = {
    "missing": lambda folder: folder / "features.npy",
    "a folder": lambda folder: folder,
    "empty": lambda folder: write(folder / "features.npy", b""),
    "junk": lambda folder: write(folder / "features.npy", b"nothing of the kind"),
    "junk archive": lambda folder: write(
        folder / "features.npz", b"PK\x03\x04 nothing of the kind"
    ),
    "unknown key": lambda folder: saved(folder / "features.npz", embeddings=REFERENCE),
    "two candidates": lambda folder: saved(folder / "features.npz", reps=MU, feats=MU),
    "no array": lambda folder: saved(folder / "features.npz"),
    "half of the moments": lambda folder: saved(folder / "features.npz", mu=MU),
    "bad moments": lambda folder: saved(folder / "features.npz", mu=MU, sigma=SKEW),
    "nan": lambda folder: saved(folder / "features.npz", reps=bad_at(1, NAN)),
    "text": lambda folder: saved(folder / "features.npz", reps=np.array(["a", "b"])),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_malformed_file_is_refused(case: str, tmp_path: Path) -> None:
    path = BAD_FILES[case](tmp_path)
    named = () if case == "bad moments" else (path.name,)
    refused(lambda: gx.FrechetDistance(path), *named)
    refused(lambda: gx.Precision(str(path)))


@pytest.mark.parametrize("archive", [True, False])
def test_pickled_arrays_are_refused_and_never_run(archive: bool, tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "sprung",))

    path = tmp_path / ("features.npz" if archive else "features.npy")
    rows = np.array([Trap()], dtype=object)
    if archive:
        np.savez(path, reps=rows)
    else:
        np.save(path, rows, allow_pickle=True)
    refused(lambda: gx.FrechetDistance(path), path.name)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("key", ["reps", "feats", "features", "dinov2_features"])
def test_files_of_known_tools_are_read(key: str, tmp_path: Path) -> None:
    path = saved(tmp_path / "x.npz", **{key: REFERENCE})
    assert gx.FrechetDistance(path) == gx.FrechetDistance(REFERENCE)
    assert gx.KernelDistance(str(path)) == gx.KernelDistance(REFERENCE)
    np.save(tmp_path / "x.npy", REFERENCE)
    assert gx.Density(tmp_path / "x.npy") == gx.Density(REFERENCE)


def test_moments_are_read_from_files(tmp_path: Path) -> None:
    mean, cov = REFERENCE.mean(0), np.cov(REFERENCE.T)
    for n in (None, 12):
        extra = {} if n is None else {"n": n}
        path = saved(tmp_path / "x.npz", mu=mean, sigma=cov, **extra)
        assert gx.FrechetDistance(path) == gx.FrechetDistance((mean, cov, n))
        refused(lambda p=path: gx.KernelDistance(p), "moments", "samples")


# -- errors that only the statistics can find --------------------------------------------------------


def indefinite(x: Any, y: Any) -> Any:
    """1 for a point with itself and −1 for all others."""
    return np.where(np.abs(x[:, None] - y[None]).sum(-1) < 1e-12, 1.0, -1.0)


def misshapen(x: Any, y: Any) -> Any:
    return np.ones((len(x), len(y) + 1))


def undefined(x: Any, y: Any) -> Any:
    return np.full((len(x), len(y)), np.nan)


def partly_undefined(x: Any, y: Any) -> Any:
    """Only pairs of different points are NaN, which one sample alone cannot show."""
    near = np.abs(x[:, None] - y[None]).sum(-1) < 1e-12
    return np.where(near, 1.0, np.nan)


OWN_KERNELS: dict[str, Callable[[Any], gx.Objective]] = {
    "vendi": lambda kernel: gx.Vendi(kernel=kernel),
    "rke": lambda kernel: gx.RKE(kernel),
    "kd": lambda kernel: gx.KernelDistance(REFERENCE, kernel),
    "sum": lambda kernel: gx.Cost() + gx.QualityVendi(kernel),
}


@pytest.mark.parametrize(
    "name, kernel",
    [
        (name, kernel)
        for name in OWN_KERNELS
        for kernel in (indefinite, misshapen, undefined, partly_undefined)
        if (name, kernel) != ("rke", indefinite)  # its square is positive
    ],
)
def test_a_kernel_that_is_none_is_refused_at_the_latest_by_the_first_solve(
    name: str, kernel: Any
) -> None:
    make = OWN_KERNELS[name]
    try:
        selector = gx.Selector(["sdxl", "pixart"], make(kernel), warm_start=2)
    except gx.InputError:
        refused(lambda: make(kernel), "kernel")
        return
    rng = np.random.default_rng(0)
    told = 0
    for ticket in selector.ask(4):
        row = rng.standard_normal(3)
        call = lambda t=ticket, r=row: selector.tell(t, r, quality=1.0, cost=1.0)  # noqa: E731
        if told == 3 or kernel in (misshapen, undefined):
            refused_by(selector, call, "kernel")
        else:
            call()
            told += 1


def own_positive(x: Any, y: Any) -> Any:
    return (1 + x @ y.T) ** 2


@every_stage
def test_a_sample_whose_kernel_cannot_be_normalised_is_refused(stage: str) -> None:
    selector = selector_at(stage, gx.RKE(lambda x, y: x @ y.T) + gx.Cost())
    (ticket,) = selector.ask()
    where = (f"'{ticket.arm}'", f"ticket {ticket.id}", "k(x, x)")
    refused_by(selector, lambda: selector.tell(ticket, np.zeros(3), cost=1.0), *where)
    arms = {"good": np.eye(3), "bad": bad_at(2, 0.0)}
    both(arms, gx.RKE(lambda x, y: x @ y.T), "'bad'", "sample 2", "k(x, x)")


def test_an_error_inside_ones_own_kernel_changes_nothing() -> None:
    armed = False

    def kernel(x: Any, y: Any) -> Any:
        if armed:
            raise RuntimeError("no more memory")
        return own_positive(x, y)

    selector = gx.Selector(["sdxl", "pixart"], gx.Vendi(kernel=kernel) + gx.Cost(), warm_start=2)
    rng = np.random.default_rng(0)
    for _ in range(8):
        (ticket,) = selector.ask()
        selector.tell(ticket, rng.standard_normal(3), cost=1.0)
    (ticket,) = selector.ask()
    before = copy.deepcopy(selector.state_dict())
    armed = True
    with pytest.raises(RuntimeError, match="no more memory"):
        selector.tell(ticket, rng.standard_normal(3), cost=1.0)
    with pytest.raises(RuntimeError, match="no more memory"):
        selector.retire_arm("sdxl")
    armed = False
    assert_same_bits(selector.state_dict(), before)
    selector.tell(ticket, rng.standard_normal(3), cost=1.0)
    assert selector.gap < 1e-6


def test_samples_that_are_all_alike_have_no_median_bandwidth() -> None:
    selector = gx.Selector(["sdxl", "pixart"], gx.RKE(), warm_start=2)
    tickets = selector.ask(4)
    for ticket in tickets[:3]:
        selector.tell(ticket, np.ones(3))
    refused_by(selector, lambda: selector.tell(tickets[3], np.ones(3)), "median", "bandwidth=")
    selector.tell(tickets[3], np.zeros(3))  # now three of six distances are 0 and three are √3
    assert selector.objective.kernel.bandwidth == pytest.approx(math.sqrt(3) / 2)
    both({"a": np.ones((3, 2)), "b": np.ones((2, 2))}, gx.RKE(), "median", "bandwidth=")


def test_the_median_of_mostly_equal_samples_is_that_of_the_others() -> None:
    """Five equal points and one elsewhere: ten distances are 0 and five are 2."""
    rows = np.ones((3, 4))
    arms = {"a": rows, "b": np.concatenate([rows[:2], np.zeros((1, 4))])}
    assert gx.optimal_mixture(arms, gx.RKE()).objective.kernel.bandwidth == pytest.approx(2.0)
