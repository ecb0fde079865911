"""Worlds with prompts: a prompt arrives in every round, and the sample is an answer to it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.comparison.plan import Options, Plan
from genmix.comparison.source import Source
from genmix.comparison.trial import draws
from genmix.comparison.variant import Variant, read_variants
from genmix.comparison.worlds import load_world
from tests.support.prompted_world import specialists

ORACLE = Variant(oracle="mixture-oracle", groups=True)


def plan_of(variants: Any, world: gx.World | None = None, **options: Any) -> Plan:
    chosen: dict[str, Any] = {"rounds": 60, "warm_start": 2, "points": 8} | options
    objective = chosen.pop("objective", gx.Vendi())
    return Plan.of(world or specialists(), objective, read_variants(variants), 2, Options(**chosen))


def test_the_best_mixtures_have_the_known_weights_and_scores() -> None:
    found = gx.compare(
        specialists(),
        {"per group": ORACLE, "for all": "mixture-oracle"},
        3,
        objective=gx.Vendi(),
        budget=200,
        workers=1,
    )
    assert found.best_score == pytest.approx(8, rel=1e-6)
    assert found.best_for_all == pytest.approx(4 * math.sqrt(3), rel=1e-6)
    weights = found.as_dict()["best"]["weights_by_group"]
    assert weights["travel"] == pytest.approx({"a": 0.75, "b": 0.25}, abs=1e-4)
    assert weights["food"] == pytest.approx({"a": 0.25, "b": 0.75}, abs=1e-4)
    assert np.all(found.regret("per group") == 0)
    assert found.mixture("for all")[0, -1] == pytest.approx(4 * math.sqrt(3), rel=1e-6)
    assert found.is_better("per group", "for all")
    assert "best mixture per group 8" in str(found)
    assert "best mixture for all groups 6.9282 (a 0.50, b 0.50)" in str(found)


@pytest.mark.parametrize("draw", ["iid", "tracking"])
def test_arms_are_drawn_by_the_weights_of_the_prompts_group(draw: Any) -> None:
    plan = plan_of({"oracle": replace(ORACLE, draw=draw)}, rounds=4000)
    asked = Source(plan, 0).asked
    assert asked is not None
    drawn = np.array([each.arm for each in draws(plan, plan.variants["oracle"], 0)])
    for prompts, share in ((asked < 2, 0.25), (asked >= 2, 0.75)):
        tolerance = 0.001 if draw == "tracking" else 4 * math.sqrt(0.1875 / prompts.sum())
        assert abs(drawn[prompts].mean() - share) < tolerance


def test_prompts_arrive_by_the_shares_of_their_groups() -> None:
    plan = plan_of(["uniform"], specialists({"food": 0.8, "travel": 0.2}), rounds=8000)
    asked = Source(plan, 0).asked
    assert asked is not None
    shares = np.bincount(asked, minlength=4) / 8000
    assert np.abs(shares - [0.1, 0.1, 0.4, 0.4]).max() < 4 * math.sqrt(0.24 / 8000)


def test_every_variant_sees_the_same_prompts_and_the_same_answers() -> None:
    plan = plan_of(
        {
            "one": Variant(),
            "group": Variant(groups=True, pooling=1),
            "dak": gx.DAKUCB(),
            "even": "uniform",
        }
    )
    asked = Source(plan, 1).asked
    assert asked is not None
    answers: dict[tuple[int, int, int], int] = {}
    for variant in plan.variants.values():
        counts: dict[tuple[int, int], int] = {}
        for prompt, draw in zip(asked.tolist(), draws(plan, variant, 1), strict=True):
            place = (prompt, draw.arm)
            counts[place] = counts.get(place, 0) + 1
            arm = plan.arms[draw.arm]
            assert plan.world.prompts is not None
            assert plan.world.prompts.answered[arm][draw.row] == prompt
            assert answers.setdefault((*place, counts[place]), draw.row) == draw.row
    assert len({answers[key] for key in answers if key[1] == 0}) > 4  # not always the same row


def test_infinite_pooling_is_one_mixture_for_all_bit_for_bit() -> None:
    plan = plan_of({"one": Variant(), "infinite": Variant(groups=True, pooling=math.inf)})
    one, infinite = (
        [(d.arm, d.row, d.mixture.tolist()) for d in draws(plan, v, 0)]
        for v in plan.variants.values()
    )
    assert one == infinite


def test_a_mixture_per_group_learns_what_one_mixture_cannot() -> None:
    policies = {"per group": Variant(groups=True, pooling=0), "for all": Variant()}
    found = gx.compare(
        specialists(),
        policies,
        4,
        objective=gx.Vendi(),
        budget=150,
        warm_start=3,
        resolve_growth=0.1,
        workers=1,
    )
    assert found.mixture("per group")[:, -1].min() > 7.2
    assert found.mixture("for all")[:, -1].max() < 6.93
    assert found.is_better("per group", "for all")
    assert found.weights("per group").shape == found.weights("for all").shape  # of the arms


def test_the_mixture_of_a_policy_by_prompt_is_what_it_has_drawn() -> None:
    plan = plan_of({"by prompt": gx.MixtureDAKUCB()}, rounds=24)
    asked = Source(plan, 0).asked
    assert asked is not None
    drawn = list(draws(plan, plan.variants["by prompt"], 0))
    arms = np.array([each.arm for each in drawn[:-1]])
    expected = [np.mean(arms[(asked[:-1] >= 2) == is_food] == 0) for is_food in (False, True)]
    assert drawn[-1].mixture.reshape(2, 2)[:, 0].tolist() == pytest.approx(
        [share / 2 for share in expected]
    )


def test_objectives_on_pairs_see_the_prompt_before_the_output() -> None:
    kernel = gx.Joint(8, prompt=gx.Cosine(), output=gx.Cosine())
    plan = plan_of({"g": Variant(groups=True), "p": gx.PAKUCB()}, objective=gx.Vendi(kernel=kernel))
    assert plan.world.arms["a"].shape == (8, 16)
    assert plan.world.arms["b"][0].tolist() == [*np.eye(8)[0], *np.eye(8)[3]]
    assert plan.best.score == pytest.approx(16, rel=1e-6)  # four prompts with four answers each
    with pytest.raises(
        gx.InputError, match=r"have dimension 8, but the objectives expect 3; pass Joint\(8\)"
    ):
        plan_of(["uniform"], objective=gx.Vendi(kernel=gx.Joint(3)))


def test_qualities_reach_the_policies_that_need_them() -> None:
    world = specialists()
    with pytest.raises(gx.InputError, match="PAKUCB learns from the quality of every sample"):
        gx.compare(world, ["pak-ucb"], 1, objective=gx.Vendi(), budget=30, workers=1)
    rated = replace(world, qualities={"a": np.zeros(8), "b": np.ones(8)})
    plan = plan_of({"pak": gx.PAKUCB(rounds=200)}, rated, rounds=200)
    late = [draw.arm for draw in draws(plan, plan.variants["pak"], 0)][100:]
    assert np.mean(late) > 0.8


def test_the_warm_start_of_groups_counts_toward_the_budget() -> None:
    with pytest.raises(gx.InputError, match=r"of 20 \(5 for each of 4 pairs of a group"):
        plan_of({"g": Variant(groups=True, pooling=0, warm_start=5)}, rounds=20)
    assert plan_of({"g": Variant(groups=True, pooling=1, warm_start=5)}, rounds=20).best_arm in "ab"


def test_invalid_variants_are_refused() -> None:
    with pytest.raises(gx.InputError, match="Uniform has the same weights for all groups"):
        Variant(gx.Uniform(), groups=True)
    with pytest.raises(gx.InputError, match="pooling applies only to a policy with groups"):
        Variant(pooling=3)
    plain = gx.World("plain", {"a": np.eye(3)[:2], "b": np.eye(3)[1:]})
    with pytest.raises(gx.InputError, match="the samples of 'plain' have no prompts; pass a World"):
        plan_of({"g": Variant(groups=True)}, plain)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"groups": ["x"]}, "2 embeddings of prompts but 1 groups"),
        (
            {"answered": {"a": [0, 2]}},
            "names a prompt that does not exist; pass numbers from 0 to 1",
        ),
        ({"answered": {"a": [0, 0]}}, "has 0 to 2 answers to the prompts of 'x'"),
        ({"answered": {"a": [0.0, 1.0]}}, "must be a list of whole numbers"),
        ({"shares": {"y": 1.0}}, "pass a map from x to their shares"),
    ],
)
def test_invalid_prompts_are_refused(changed: dict[str, Any], message: str) -> None:
    given = {"embeddings": np.eye(2), "groups": ["x", "x"], "answered": {"a": [0, 1]}}
    with pytest.raises(gx.InputError, match=message):
        gx.WorldPrompts(**(given | changed))
    prompts = gx.WorldPrompts(**given)
    with pytest.raises(gx.InputError, match="the prompts do not match the arms"):
        gx.World("w", {"a": np.eye(3)}, prompts=prompts)


@pytest.mark.parametrize(("name", "prompts", "groups"), [("topics", 24, 6), ("wardrobe", 10, 4)])
def test_recorded_worlds_have_their_prompts(name: str, prompts: int, groups: int) -> None:
    world = load_world(name)
    assert world.prompts is not None
    assert world.prompts.embeddings.shape == (prompts, world.dimension)
    assert len(world.prompts.group_names) == groups
    lengths = [
        np.linalg.norm(rows, axis=1) for rows in (*world.arms.values(), world.prompts.embeddings)
    ]
    assert np.abs(np.concatenate(lengths) - 1).max() < 1e-3
