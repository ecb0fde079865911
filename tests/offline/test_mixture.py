"""The offline optimum, the table of scores, and the number that says what it is."""

from __future__ import annotations

import copy
import json
import math
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist

import genmix as gx
from genmix.core.text import number
from genmix.solvers.loss import Expansion, Loss
from tests.support.conformance import ARMS, OBJECTIVES, Matrix, World, make_world

every_objective = pytest.mark.parametrize("name", OBJECTIVES)


def optimum(world: World, **options: Any) -> gx.Mixture:
    extra = {"quality": world.quality, "cost": world.cost}
    return gx.optimal_mixture(world.arms, world.described, **extra, **options)


def as_table(scores: Any) -> dict[str, gx.Score]:
    return scores if isinstance(scores, dict) else {scores.name: scores}


# -- optimal_mixture ---------------------------------------------------------------------------------


def test_the_answer_to_a_world_with_a_known_one() -> None:
    """Disjoint sets of 1, 2 and 5 orthonormal embeddings: weights in proportion, Vendi 8."""
    arms = dict(zip(ARMS, np.split(np.eye(8), [1, 3]), strict=True))
    mixture = gx.optimal_mixture(arms, gx.Vendi())
    assert list(mixture.weights) == list(ARMS)
    assert mixture.weights == pytest.approx({"a": 1 / 8, "b": 2 / 8, "c": 5 / 8}, abs=1e-6)
    assert float(mixture.score) == pytest.approx(8)
    assert {a: float(s) for a, s in mixture.single_scores.items()} == pytest.approx(
        {"a": 1, "b": 2, "c": 5}
    )
    assert mixture.loss == pytest.approx(-math.log(8))
    assert 0 <= mixture.gap <= 1e-7
    assert mixture.iterations >= 1
    # Without an arm of k kinds the least loss is −log(8 − k).
    expected = {"a": math.log(8 / 7), "b": math.log(8 / 6), "c": math.log(8 / 3)}
    assert mixture.leave_one_out == pytest.approx(expected, abs=1e-7)
    assert mixture.active == ARMS


@every_objective
def test_the_fields_agree_with_each_other(name: str) -> None:
    world = make_world(name)
    mixture = optimum(world, encoder="clip")
    weights = np.array(list(mixture.weights.values()))
    assert not np.any(np.signbit(weights))
    assert math.fsum(weights) == pytest.approx(1, abs=1e-12)
    assert mixture.objective == world.objective
    assert 0 <= mixture.gap <= 1e-6 * max(1, abs(mixture.loss))
    loss = mixture.pool.tally.loss(range(3))
    assert mixture.loss == pytest.approx(loss.value(weights), rel=1e-12, abs=1e-12)
    assert mixture.loss <= min(loss.singles()) + 1e-12
    table = gx.score(
        world.arms,
        world.objective,
        weights=mixture.weights,
        quality=world.quality,
        cost=world.cost,
        encoder="clip",
    )
    for label, score in as_table(mixture.score).items():
        assert float(score) == pytest.approx(float(table.mixture[label]), rel=1e-12)
        assert score.details["encoder"] == "clip"
        used = [arm for arm, weight in mixture.weights.items() if weight]
        assert score.details["n"] == sum(len(world.arms[arm]) for arm in used)
    for arm in ARMS:
        for label, score in as_table(mixture.single_scores[arm]).items():
            assert float(score) == pytest.approx(float(table.arms[arm][label]), rel=1e-12)
            assert score.details["n"] == len(world.arms[arm])


@pytest.mark.parametrize("name", [name for name in OBJECTIVES if "sum" not in name])
def test_no_single_arm_scores_better_than_the_mixture(name: str) -> None:
    world = make_world(name)
    mixture = optimum(world)
    score, singles = mixture.score, mixture.single_scores.values()
    best = max(singles) if score.maximise else min(singles)
    worse = float(best) - float(score) if score.maximise else float(score) - float(best)
    # The reported normalisation 1/(n−1) is not the one that is optimised.
    assert worse <= (1e-7 if name != "frechet_ddof1" else 0.1) * max(1, abs(float(score)))


class Face(Loss):
    """A loss on the mixtures that leave one arm out, from nothing but the loss itself."""

    def __init__(self, whole: Loss, arm: int) -> None:
        self._whole = whole
        self._rest = [i for i in range(whole.size) if i != arm]
        self.size, self.scale = len(self._rest), whole.scale
        self.singular_boundary, self.smooth = whole.singular_boundary, whole.smooth

    def _padded(self, alpha: Matrix) -> Matrix:
        return np.bincount(self._rest, alpha, minlength=self._whole.size)

    def value(self, alpha: Matrix, smoothing: float = 0.0) -> float:
        return self._whole.value(self._padded(alpha), smoothing)

    def score(self, alpha: Matrix) -> float:
        return self._whole.score(self._padded(alpha))

    def expand(self, alpha: Matrix, smoothing: float = 0.0) -> Expansion:
        found = self._whole.expand(self._padded(alpha), smoothing)
        grid = np.ix_(self._rest, self._rest)
        plane = found.gradient[self._rest]
        return Expansion(
            found.value, plane, lambda: found.hessian[grid], found.noise, found.magnitude
        )


@every_objective
def test_leave_one_out_is_the_rise_of_the_least_loss_on_the_face_without_the_arm(name: str) -> None:
    world = make_world(name)
    mixture = optimum(world)
    whole = mixture.pool.tally.loss(range(3))
    for index, arm in enumerate(ARMS):
        face = gx.solve(Face(whole, index))
        slack = mixture.gap + face.gap + 1e-9 * max(1, abs(mixture.loss))
        expected = face.loss - mixture.loss
        assert mixture.leave_one_out[arm] == pytest.approx(expected, abs=slack)
        assert mixture.leave_one_out[arm] >= -slack
    rising = [arm for arm, rise in mixture.leave_one_out.items() if rise > mixture.gap]
    assert mixture.active == tuple(rising)


@pytest.mark.parametrize("name", [name for name in OBJECTIVES if "unbiased" not in name])
def test_leave_one_out_is_what_solving_without_the_arm_gives(name: str) -> None:
    world = make_world(name)
    mixture = optimum(world)
    for arm in ARMS:
        rest = [other for other in ARMS if other != arm]
        without = gx.optimal_mixture(
            {other: world.arms[other] for other in rest},
            world.objective,
            quality={other: world.quality[other] for other in rest},
            cost={other: world.cost[other] for other in rest},
        )
        slack = mixture.gap + without.gap + 1e-9 * max(1, abs(mixture.loss))
        assert mixture.leave_one_out[arm] == pytest.approx(without.loss - mixture.loss, abs=slack)


def test_an_arm_that_adds_nothing_is_not_active() -> None:
    rng = np.random.default_rng(0)
    wide = rng.standard_normal((40, 4))
    arms = {"wide": wide, "collapsed": wide[:1].repeat(20, axis=0), "twin": wide.copy()}
    mixture = gx.optimal_mixture(arms, gx.Vendi())
    assert mixture.active == ()  # each of the twins can replace the other
    alone = gx.optimal_mixture({"wide": wide, "collapsed": arms["collapsed"]}, gx.Vendi())
    assert alone.active == ("wide",)
    assert alone.weights["collapsed"] == 0.0


def test_an_arm_with_all_the_quality_cannot_be_left_out() -> None:
    arms = {"good": np.eye(4)[:1], "worthless": np.eye(4)[1:]}
    quality = {"good": 1.0, "worthless": 0.0}
    mixture = gx.optimal_mixture(arms, gx.QualityVendi(), quality)
    assert mixture.leave_one_out["good"] == math.inf
    assert "good" in mixture.active
    assert float(mixture.single_scores["worthless"]) == 0.0


@every_objective
def test_one_arm_is_the_whole_mixture(name: str) -> None:
    world = make_world(name, sizes=(12,))
    mixture = optimum(world)
    assert mixture.weights == {"a": 1.0}
    assert mixture.gap == pytest.approx(0, abs=1e-9)
    assert mixture.leave_one_out == {"a": math.inf}
    assert mixture.active == ("a",)
    table = gx.score(world.arms, world.objective, quality=world.quality, cost=world.cost)
    for label, score in as_table(mixture.score).items():
        assert score == as_table(mixture.single_scores["a"])[label]
        assert float(score) == pytest.approx(float(table.pooled[label]), rel=1e-9)


def test_quality_and_cost_may_be_arrays_tensors_or_one_number() -> None:
    arms = {"a": np.ones((4, 2)), "b": np.zeros((2, 2))}
    objective = gx.Quality() + 2 * gx.Cost()
    forms: list[dict[str, Any]] = [
        {"a": [1.0, 0.0, 1.0, 0.0], "b": [0.25, 0.75]},
        {"a": np.array([1, 0, 1, 0]), "b": np.array([0.25, 0.75], dtype=np.float32)},
        {"a": torch.tensor([1.0, 0.0, 1.0, 0.0]), "b": torch.tensor([0.25, 0.75])},
        {"a": 0.5, "b": np.float64(0.5)},
        {"a": 0.5, "b": torch.tensor(0.5)},
    ]
    for quality in forms:
        mixture = gx.optimal_mixture(arms, objective, quality, {"a": 3, "b": [0.0, 1.0]})
        assert mixture.weights == {"a": 0.0, "b": 1.0}
        assert {k: float(s) for k, s in mixture.single_scores["a"].items()} == pytest.approx(
            {"quality": 0.5, "cost": 3.0}
        )
        assert {k: float(s) for k, s in mixture.score.items()} == pytest.approx(
            {"quality": 0.5, "cost": 0.5}
        )


def test_torch_arms_and_arms_of_both_kinds() -> None:
    world = make_world("frechet")
    plain = optimum(world)
    for kinds in ("ttt", "tnt", "ntn"):
        arms = {
            arm: torch.tensor(rows, dtype=torch.float64) if kind == "t" else rows
            for kind, (arm, rows) in zip(kinds, world.arms.items(), strict=True)
        }
        mixture = gx.optimal_mixture(arms, world.described)
        assert mixture.weights == pytest.approx(plain.weights, abs=1e-6)
        assert float(mixture.score) == pytest.approx(float(plain.score), rel=1e-9)
        table = gx.score(arms, gx.Vendi(), reference=world.arms["a"])
        expected = gx.score(world.arms, gx.Vendi(), reference=world.arms["a"])
        for row, other in ((table.pooled, expected.pooled), (table.arms["b"], expected.arms["b"])):
            assert {k: float(v) for k, v in row.items()} == pytest.approx(
                {k: float(v) for k, v in other.items()}, rel=1e-9
            )


def test_nested_lists_and_integers_are_samples_too() -> None:
    mixture = gx.optimal_mixture({"a": [[1, 0]], "b": [[0, 1], [0, 2]]}, gx.Vendi())
    assert mixture.weights == pytest.approx({"a": 0.5, "b": 0.5}, abs=1e-6)


def test_the_input_is_left_alone() -> None:
    world = make_world("sum")
    before = copy.deepcopy((world.arms, world.quality, world.cost))
    optimum(world)
    after = (world.arms, world.quality, world.cost)
    for one, other in zip(before, after, strict=True):
        for arm in ARMS:
            np.testing.assert_array_equal(one[arm], other[arm])


@pytest.mark.parametrize("name", ["frechet", "kd", "vendi_one_cosine", "inception", "sum"])
def test_another_solver_reaches_the_same_loss(name: str) -> None:
    world = make_world(name)
    mixture, slow = optimum(world), optimum(world, solver=gx.EG(step=0.5, steps=500))
    assert slow.iterations == 500
    assert mixture.loss <= slow.loss + mixture.gap
    assert slow.loss - slow.gap <= mixture.loss + 1e-12
    assert slow.loss == pytest.approx(mixture.loss, abs=2e-3 * max(1, abs(mixture.loss)))


def test_it_prints_weights_scores_and_the_certificate() -> None:
    world = make_world("vendi_one_rff")
    mixture = optimum(world, encoder="clip")
    lines = str(mixture).splitlines()
    assert lines[0].split() == ["arm", "weight", "loss", "alone", "score", "alone"]
    for line, arm in zip(lines[1:4], ARMS, strict=True):
        label, weight, loss, alone = line.split()
        assert label == arm
        assert float(loss) == pytest.approx(mixture.single_losses[arm], rel=1e-5)
        assert float(weight) == pytest.approx(mixture.weights[arm], abs=6e-4)
        assert float(alone) == pytest.approx(float(mixture.single_scores[arm]), rel=1e-5)
    assert lines[4].startswith("mixture: vendi ")
    assert "bandwidth=" in lines[4]
    assert "encoder clip" in lines[4]
    assert lines[5].startswith("mixture: loss ")
    assert f"at most {number(mixture.gap, 2)} above" in lines[5]
    assert len(lines) == 6
    assert "pool" not in repr(mixture)


def test_a_sum_prints_each_of_its_scores() -> None:
    mixture = optimum(make_world("sum"))
    assert list(mixture.score) == ["vendi", "precision", "cost"]
    text = str(mixture)
    assert all(text.count(f"{name} ") >= 4 for name in mixture.score)


def test_terms_of_the_same_kind_get_names_of_their_own() -> None:
    arms = {"a": np.eye(3), "b": np.ones((2, 3))}
    objective = gx.Vendi() + gx.Vendi(order=2) + gx.Vendi(order=math.inf)
    mixture = gx.optimal_mixture(arms, objective)
    assert list(mixture.score) == ["vendi", "vendi 2", "vendi 3"]
    assert [s.details["order"] for s in mixture.score.values()] == [1, 2, math.inf]


def test_a_negative_weight_turns_a_linear_term_around() -> None:
    arms, quality = {"a": np.eye(3), "b": np.eye(3)}, {"a": 1.0, "b": 0.2}
    assert gx.optimal_mixture(arms, gx.Quality(), quality).weights == {"a": 1.0, "b": 0.0}
    assert gx.optimal_mixture(arms, -1 * gx.Quality(), quality).weights == {"a": 0.0, "b": 1.0}


def test_sums_and_weights_of_objectives_obey_arithmetic() -> None:
    one, two, three = gx.Vendi(), gx.Quality(), gx.Cost()
    assert one + two + three == one + (two + three)
    assert 2 * (one + 0.5 * two) == (one * 2) + two
    assert 3 * (2 * one) == 6 * one
    assert sum([one, two, three]) == one + two + three
    assert one + two != two + one  # the order is that of the scores
    assert str(one + 0.3 * two) == f"{one} + 0.3 * {two}"
    arms, quality = {"a": np.eye(4)[:3], "b": np.eye(4)[1:]}, {"a": [1, 0, 1], "b": [0, 0, 1]}
    loss = gx.optimal_mixture(arms, one + 0.5 * two, quality).loss
    assert gx.optimal_mixture(arms, 2 * (one + 0.5 * two), quality).loss == pytest.approx(2 * loss)


def test_what_cannot_be_added_is_a_type_error() -> None:
    for call in (
        lambda: gx.Vendi() + 3,
        lambda: "2" * gx.Vendi(),
        lambda: gx.Vendi() * True,
        lambda: gx.Vendi() * gx.Quality(),
    ):
        with pytest.raises(TypeError):
            call()


def test_while_nothing_has_quality_only_diversity_counts() -> None:
    arms = {"a": np.eye(5)[:2], "b": np.eye(5)[2:]}
    mixture = gx.optimal_mixture(arms, gx.QualityVendi(), {"a": 0.0, "b": 0.0})
    assert mixture.weights == pytest.approx({"a": 0.4, "b": 0.6}, abs=1e-6)
    assert float(mixture.score) == 0.0


# -- score -------------------------------------------------------------------------------------------


def brute_force(reference: Matrix, samples: Matrix, k: int) -> dict[str, float]:
    """Precision, recall, density and coverage from all distances, with strict balls."""
    real = np.sort(cdist(reference, reference), axis=1)[:, k]
    fake = np.sort(cdist(samples, samples), axis=1)[:, k]
    between = cdist(reference, samples)
    inside = between < real[:, None]
    return {
        "precision": inside.any(0).mean(),
        "recall": (between < fake[None, :]).any(1).mean(),
        "density": inside.sum(0).mean() / k,
        "coverage": inside.any(1).mean(),
    }


@pytest.mark.parametrize("k", [1, 3, 5])
def test_the_table_has_precision_recall_density_and_coverage(k: int) -> None:
    rng = np.random.default_rng(2)
    reference = rng.standard_normal((60, 3))
    arms = {"a": rng.standard_normal((30, 3)), "b": 0.3 * rng.standard_normal((25, 3)) + 1}
    table = gx.score(arms, gx.Vendi(), reference=reference, k=k, encoder="clip")
    assert list(table.pooled) == ["vendi", "precision", "density", "recall", "coverage"]
    sets = {**arms, "pooled": np.concatenate(list(arms.values()))}
    for label, rows in sets.items():
        row = table.pooled if label == "pooled" else table.arms[label]
        for name, value in brute_force(reference, rows, k).items():
            assert float(row[name]) == pytest.approx(value, abs=1e-12), (label, name)
            assert row[name].maximise
            assert row[name].details == {
                "k": k,
                "reference n": 60,
                "n": len(rows),
                "encoder": "clip",
            }
    assert table.mixture is None


def test_the_reference_of_the_objective_is_taken_where_there_is_one() -> None:
    rng = np.random.default_rng(3)
    reference, rows = rng.standard_normal((30, 3)), rng.standard_normal((20, 3))
    expected = brute_force(reference, rows, 5)
    for objective in (
        gx.KernelDistance(reference),
        gx.Precision(reference),
        gx.Density(reference),
        gx.Vendi() + 0.1 * gx.Density(reference),
    ):
        row = gx.score({"a": rows}, objective).arms["a"]
        for label, value in expected.items():
            assert float(row[label]) == pytest.approx(value)
    for objective in (gx.Vendi(), gx.FrechetDistance((reference.mean(0), np.eye(3), 30))):
        assert "recall" not in gx.score({"a": rows}, objective).arms["a"]


def test_a_given_reference_comes_before_that_of_the_objective() -> None:
    rng = np.random.default_rng(3)
    near, far = rng.standard_normal((30, 3)), rng.standard_normal((30, 3)) + 50
    table = gx.score({"a": near[:10]}, gx.KernelDistance(near), reference=far)
    assert float(table.arms["a"]["coverage"]) == 0.0


def test_the_neighbours_of_the_objective_are_not_mistaken_for_those_of_the_table() -> None:
    rng = np.random.default_rng(3)
    reference, rows = rng.standard_normal((30, 3)), 1.5 * rng.standard_normal((20, 3))
    table = gx.score({"a": rows}, gx.Precision(reference, k=1), weights={"a": 1.0})
    expected = brute_force(reference, rows, 1)["precision"]
    assert expected != brute_force(reference, rows, 5)["precision"]
    for row in (table.arms["a"], table.pooled, table.mixture):
        assert float(row["precision"]) == pytest.approx(expected)
        assert row["precision"].details["k"] == 1


def test_a_small_reference_of_the_objective_does_not_spoil_its_own_score() -> None:
    rows = np.random.default_rng(3).standard_normal((20, 3))
    table = gx.score({"a": rows}, gx.KernelDistance(rows[:4]))
    assert float(table.arms["a"]["kernel_distance"]) > 0


def test_an_arm_with_too_few_samples_for_recall_has_none() -> None:
    rng = np.random.default_rng(4)
    reference = rng.standard_normal((20, 2))
    arms = {"few": rng.standard_normal((5, 2)), "many": rng.standard_normal((9, 2))}
    table = gx.score(arms, gx.Precision(reference))
    assert "recall" not in table.arms["few"]
    assert {"recall", "coverage"} <= set(table.arms["many"]) & set(table.pooled)
    (line,) = [line for line in str(table).splitlines() if line.startswith("few")]
    assert "–" in line


@every_objective
def test_the_score_of_a_vertex_is_that_of_the_arm_alone(name: str) -> None:
    world = make_world(name)
    extra = {"quality": world.quality, "cost": world.cost}
    for arm in ARMS:
        table = gx.score(world.arms, world.objective, weights={arm: 1.0}, **extra)
        for label, score in table.mixture.items():
            assert float(score) == pytest.approx(float(table.arms[arm][label]), rel=1e-12)
            assert score.details == table.arms[arm][label].details


def test_the_mixture_of_a_table_has_the_given_weights() -> None:
    arms = {"a": np.eye(4)[:2], "b": np.eye(4)[2:]}
    table = gx.score(arms, gx.Vendi(), weights={"b": 0.25, "a": 0.75})
    # Two kinds with 3/8 each, two with 1/8 each.
    entropy = -2 * (3 / 8 * math.log(3 / 8) + 1 / 8 * math.log(1 / 8))
    assert float(table.mixture["vendi"]) == pytest.approx(math.exp(entropy))
    assert float(table.pooled["vendi"]) == pytest.approx(4)


def test_the_table_prints_every_row_and_what_the_scores_depend_on() -> None:
    world = make_world("sum")
    table = gx.score(
        world.arms,
        world.objective,
        weights={"a": 0.5, "c": 0.5},
        quality=world.quality,
        cost=world.cost,
        encoder="clip",
    )
    lines = str(table).splitlines()
    assert lines[0].split() == ["vendi", "precision", "cost", "density", "recall", "coverage"]
    assert [line.split()[0] for line in lines[1:6]] == [*ARMS, "pooled", "mixture"]
    assert lines[4].split()[1] == f"{float(table.pooled['vendi']):.6g}"
    assert "encoder clip" in str(table)
    assert "kernel Cosine()" in str(table)


# -- Score -------------------------------------------------------------------------------------------


@pytest.fixture
def score() -> gx.Score:
    rows = np.random.default_rng(0).standard_normal((20, 3))
    return gx.optimal_mixture({"a": rows}, gx.Vendi(kernel=gx.Gaussian()), encoder="clip").score


def test_a_score_is_a_float(score: gx.Score) -> None:
    plain = float(score)
    assert type(plain) is float
    assert isinstance(score, float)
    assert score == plain
    assert score + 1 == plain + 1
    assert 2 * score == 2 * plain
    assert -score == -plain
    assert score / 3 == plain / 3
    assert score > plain - 1
    assert sorted([score, 0.0, 1e9]) == [0.0, plain, 1e9]
    assert f"{score:.3f}" == f"{plain:.3f}"
    assert hash(score) == hash(plain)
    assert np.array([score]).dtype == np.float64
    assert np.mean([score, score]) == plain
    assert math.sqrt(score) == math.sqrt(plain)


def test_a_score_goes_through_json_as_a_number(score: gx.Score) -> None:
    assert json.loads(json.dumps({"vendi": score})) == {"vendi": float(score)}


@pytest.mark.parametrize(
    "copied", [lambda s: pickle.loads(pickle.dumps(s)), copy.copy, copy.deepcopy]
)
def test_a_score_survives_copying(copied: Any, score: gx.Score) -> None:
    again = copied(score)
    assert type(again) is gx.Score
    assert again == score
    assert (again.name, again.maximise, again.details) == ("vendi", True, score.details)
    assert repr(again) == repr(score)


def test_a_score_says_what_it_depends_on(score: gx.Score) -> None:
    sigma = score.details["kernel"].bandwidth
    for text in (repr(score), str(score), f"{score}"):
        assert text.startswith(f"vendi {float(score):.6g} ↑ (")
        assert f"bandwidth={sigma:.4g}" in text
        assert "n 20" in text
        assert "encoder clip" in text
        assert "order 1" in text
    assert "↓" in repr(gx.Score(1.0, "cost", False, {}))


def test_an_arm_that_is_there_twice_is_not_active() -> None:
    rng = np.random.default_rng(10)
    arms = {f"{i}": rng.standard_normal((12, 6)) for i in range(4)}
    twice = arms | {f"{name} copy": rows for name, rows in arms.items()}
    for objective in (gx.Vendi(), gx.Vendi(0.5), gx.FrechetDistance(rng.standard_normal((30, 6)))):
        assert gx.optimal_mixture(twice, objective).active == ()


def test_the_effective_number_of_samples_is_said_where_it_differs() -> None:
    rng = np.random.default_rng(0)
    arms = {"few": rng.standard_normal((10, 3)), "many": rng.standard_normal((90, 3))}
    row = gx.score(arms, gx.Vendi(), weights={"few": 0.5, "many": 0.5})
    assert row.mixture is not None
    assert row.mixture["vendi"].details["n"] == 100
    assert row.mixture["vendi"].details["effective n"] == round(1 / (0.25 / 10 + 0.25 / 90))
    assert "effective n" not in row.pooled["vendi"].details


def test_a_face_is_solved_to_the_same_relative_tolerance() -> None:
    """A small distance between large spreads: the tolerance must follow the distance on faces too."""
    rng = np.random.default_rng(0)
    arms = {name: 10 * rng.standard_normal((400, 4)) for name in "abc"}
    mixture = gx.optimal_mixture(arms, gx.FrechetDistance(10 * rng.standard_normal((400, 4))))
    alpha = np.array([0.3, 0.7])
    face = mixture.function.face([0, 2]).expand(alpha)
    whole = mixture.function.expand(np.array([0.3, 0.0, 0.7]))
    assert face.value == pytest.approx(whole.value, rel=1e-9)
    assert face.magnitude == pytest.approx(whole.magnitude, rel=1e-9)
