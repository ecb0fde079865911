"""The suite that every objective passes; a new one is tested by being listed in ``conformance.py``."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

import genmix as gx
from genmix.core.arrays import Rows, is_torch, like
from genmix.core.description import from_plain, graft, to_plain
from genmix.objectives import Batch, Tally
from genmix.objectives.pool import Pool
from genmix.solvers.loss import Loss, SumLoss
from tests.support.conformance import (
    DEVICES,
    OBJECTIVES,
    Matrix,
    World,
    assert_plain,
    assert_same_bits,
    holds_own_function,
    leaves,
    make_world,
    public,
    terms_of,
)

every_objective = pytest.mark.parametrize("name", OBJECTIVES)

FEW = (3, 2, 3)
"""Sizes for which N stays below the columns of every feature map at dimension 10."""
MANY = (14, 11, 17)
"""Sizes for which N exceeds them at dimension 6."""
REGIMES = {"rows": (FEW, 10), "moments": (MANY, 6)}
both_regimes = pytest.mark.parametrize("regime", REGIMES)

POINTS = np.array([[1 / 3, 1 / 3, 1 / 3], [0.6, 0.3, 0.1], [0.05, 0.15, 0.8]])


def world_in(name: str, regime: str, seed: int = 0) -> World:
    sizes, dimension = REGIMES[regime]
    return make_world(name, sizes, dimension, seed)


def empty_tally(world: World, arms: int = 3) -> Tally:
    return world.objective.tally(arms, world.batches[0].embeddings)


def part(batch: Batch, rows: slice) -> Batch:
    return Batch(batch.embeddings[rows], batch.quality[rows], batch.cost[rows])


def filled(world: World, batches: Sequence[Batch] | None = None) -> Tally:
    tally = empty_tally(world)
    for arm, batch in enumerate(batches or world.batches):
        tally.add(arm, batch)
    return tally


def reading(world: World, tally: Tally) -> dict[str, Any]:
    """Everything that can be read from the statistics, at several mixtures."""
    loss = tally.loss(range(3))
    expansions = [loss.expand(alpha, smoothing=0.0 if loss.smooth else 0.05) for alpha in POINTS]
    scores = [world.objective.scores(loss, alpha, {}) for alpha in POINTS]
    table = [s if isinstance(s, dict) else {"score": s} for s in scores]
    return {
        "value": np.array([loss.value(alpha) for alpha in POINTS]),
        "expanded value": np.array([e.value for e in expansions]),
        "gradient": np.array([e.gradient for e in expansions]),
        "hessian": np.array([e.hessian for e in expansions]),
        **{key: np.array([float(row[key]) for row in table]) for key in table[0]},
    }


def assert_close(one: dict[str, Any], other: dict[str, Any], tolerance: float = 1e-9) -> None:
    assert one.keys() == other.keys()
    for key in one:
        scale = max(np.abs(one[key]).max(), 1e-300)
        np.testing.assert_allclose(
            other[key], one[key], rtol=0, atol=tolerance * scale, err_msg=key
        )


# -- the list ----------------------------------------------------------------------------------------


def test_every_public_objective_is_listed() -> None:
    reference = np.random.default_rng(0).standard_normal((10, 3))
    listed = {type(t) for make in OBJECTIVES.values() for t in terms_of(make(reference))}
    assert public(gx.Objective) == listed


# -- streaming statistics ----------------------------------------------------------------------------


@both_regimes
@every_objective
def test_two_parts_merge_into_the_whole_stream(name: str, regime: str) -> None:
    world = world_in(name, regime)
    cuts = [(len(batch) + arm) // 2 for arm, batch in enumerate(world.batches)]
    first, second = empty_tally(world), empty_tally(world)
    for arm, (batch, cut) in enumerate(zip(world.batches, cuts, strict=True)):
        first.add(arm, part(batch, slice(0, cut)))
        second.add(arm, part(batch, slice(cut, None)))
    first.merge(second)
    assert first.counts == [len(batch) for batch in world.batches]
    assert_close(reading(world, filled(world)), reading(world, first))


@pytest.mark.parametrize("small_first", [True, False])
@every_objective
def test_a_part_with_fewer_rows_than_columns_merges_with_one_that_has_more(
    name: str, small_first: bool
) -> None:
    world = make_world(name, MANY, 6)
    small, large = empty_tally(world), empty_tally(world)
    for arm, batch in enumerate(world.batches):
        small.add(arm, part(batch, slice(0, 1)))
        large.add(arm, part(batch, slice(1, None)))
    into, other = (small, large) if small_first else (large, small)
    kept = copy.deepcopy(other.state_dict())
    into.merge(other)
    assert_close(reading(world, filled(world)), reading(world, into))
    assert_same_bits(other.state_dict(), kept)


@every_objective
def test_small_parts_cross_the_switch_by_merging(name: str) -> None:
    """Neither part has as many rows as columns, the two together have more."""
    world = make_world(name, (3, 3, 4), 6)
    first, second = empty_tally(world), empty_tally(world)
    for arm, batch in enumerate(world.batches):
        first.add(arm, part(batch, slice(0, 1 + arm % 2)))
        second.add(arm, part(batch, slice(1 + arm % 2, None)))
    first.merge(second)
    assert_close(reading(world, filled(world)), reading(world, first))


@every_objective
def test_merging_an_empty_part_changes_nothing(name: str) -> None:
    world = world_in(name, "moments")
    tally = filled(world)
    before = copy.deepcopy(tally.state_dict())
    tally.merge(empty_tally(world))
    assert_same_bits(tally.state_dict(), before)
    empty = empty_tally(world)
    empty.merge(filled(world))
    assert_close(reading(world, tally), reading(world, empty))


@both_regimes
@every_objective
def test_a_batch_equals_its_samples_one_by_one(name: str, regime: str) -> None:
    world = world_in(name, regime)
    single = empty_tally(world)
    longest = max(len(batch) for batch in world.batches)
    for row in range(longest):
        for arm, batch in enumerate(world.batches):
            if row < len(batch):
                single.add(arm, part(batch, slice(row, row + 1)))
    assert single.counts == [len(batch) for batch in world.batches]
    assert_close(reading(world, filled(world)), reading(world, single))


@pytest.mark.parametrize("already", [2, 9], ids=["before the switch", "after the switch"])
@every_objective
def test_an_arm_added_later_equals_one_that_was_there_from_the_start(
    name: str, already: int
) -> None:
    world = make_world(name, MANY, 6)
    grown = empty_tally(world, arms=2)
    for arm in range(2):
        grown.add(arm, part(world.batches[arm], slice(0, already)))
    grown.grow()
    for arm in range(2):
        grown.add(arm, part(world.batches[arm], slice(already, None)))
    grown.add(2, world.batches[2])
    assert grown.counts == [len(batch) for batch in world.batches]
    assert_close(reading(world, filled(world)), reading(world, grown))


@every_objective
def test_the_loss_of_some_arms_ignores_the_others(name: str) -> None:
    world = world_in(name, "moments")
    everything = filled(world).loss([0, 2])
    alone = empty_tally(world)
    alone.add(0, world.batches[0])
    alone.add(2, world.batches[2])
    for share in (0.2, 0.7):
        alpha = np.array([share, 1 - share])
        expected = alone.loss([0, 2]).value(alpha)
        assert everything.value(alpha) == pytest.approx(expected, rel=1e-9, abs=1e-12)


# -- array libraries ---------------------------------------------------------------------------------


def on_torch(world: World, device: str, dtype: Any = None) -> list[Batch]:
    kind = dtype or torch.float64
    return [
        Batch(torch.tensor(b.embeddings, dtype=kind, device=device), b.quality, b.cost)
        for b in world.batches
    ]


@pytest.mark.parametrize("device", DEVICES)
@both_regimes
@every_objective
def test_numpy_and_torch_agree(name: str, regime: str, device: str) -> None:
    world = world_in(name, regime)
    batches = on_torch(world, device)
    theirs = world.objective.tally(3, batches[0].embeddings)
    for arm, batch in enumerate(batches):
        theirs.add(arm, batch)
    assert_close(reading(world, filled(world)), reading(world, theirs))


@pytest.mark.parametrize("device", DEVICES)
@every_objective
def test_numpy_and_torch_have_the_same_optimum(name: str, device: str) -> None:
    world = world_in(name, "moments")
    options = {"quality": world.quality, "cost": world.cost, "solver": gx.Newton(tolerance=1e-13)}
    ours = gx.optimal_mixture(world.arms, world.described, **options)
    moved = {label: torch.tensor(rows, device=device) for label, rows in world.arms.items()}
    theirs = gx.optimal_mixture(moved, world.described, **options)
    assert theirs.loss == pytest.approx(ours.loss, rel=1e-9)
    assert list(theirs.weights.values()) == pytest.approx(list(ours.weights.values()), abs=1e-6)
    assert theirs.objective == world.objective


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@every_objective
def test_other_floats_are_cast_to_float64(name: str, dtype: Any) -> None:
    world = world_in(name, "moments")
    rounded = {a: torch.tensor(rows).to(dtype) for a, rows in world.arms.items()}
    exact = {a: rows.double().numpy() for a, rows in rounded.items()}
    extra = (world.quality, world.cost)
    mine = Pool.of(rounded, world.described, *extra)
    theirs = Pool.of(exact, world.described, *extra)
    assert mine.tally.sample.dtype == torch.float64
    assert_close(reading(world, theirs.tally), reading(world, mine.tally))


@pytest.mark.parametrize(
    "convert",
    [
        np.asfortranarray,
        lambda rows: np.repeat(rows, 2, axis=0)[::2],
        lambda rows: rows[::-1][::-1],
        lambda rows: rows.astype(np.longdouble),
        lambda rows: np.frombuffer(rows.tobytes()).reshape(rows.shape),
        lambda rows: torch.tensor(rows, requires_grad=True),
        lambda rows: rows.tolist(),
    ],
    ids=["fortran", "strided", "reversed", "longdouble", "read-only", "with gradient", "lists"],
)
@pytest.mark.parametrize("name", ["frechet", "kd", "vendi_one_cosine", "rke_rff", "inception"])
def test_the_layout_of_the_samples_does_not_matter(name: str, convert: Any) -> None:
    world = world_in(name, "moments")
    extra = (world.quality, world.cost)
    given = {a: convert(rows) for a, rows in world.arms.items()}
    mine, theirs = (Pool.of(arms, world.described, *extra) for arms in (given, world.arms))
    assert_close(reading(world, theirs.tally), reading(world, mine.tally), 1e-12)


@pytest.mark.parametrize(
    "name", ["frechet", "frechet_ddof1", "kd", "kd_rff", "precision", "density"]
)
def test_a_torch_reference_goes_with_numpy_samples_and_the_other_way_round(name: str) -> None:
    world = world_in(name, "moments")
    reference = np.random.default_rng(0).standard_normal((30, 6))
    plain = OBJECTIVES[name](reference).fix_bandwidths(list(world.arms.values()))
    moved = OBJECTIVES[name](torch.tensor(reference)).fix_bandwidths(list(world.arms.values()))
    tensors = {a: torch.tensor(rows) for a, rows in world.arms.items()}
    expected = reading(world, Pool.of(world.arms, plain).tally)
    assert_close(expected, reading(world, Pool.of(world.arms, moved).tally))
    assert_close(expected, reading(world, Pool.of(tensors, plain).tally))
    assert_close(expected, reading(world, Pool.of(tensors, moved).tally))


def stored_arrays(tally: Tally) -> list[Any]:
    """The arrays of a tally's state, including those of its parts."""
    found: list[Any] = []
    for key in tally.STATE:
        value = getattr(tally, key)
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, Tally):
                found += stored_arrays(item)
            elif isinstance(item, Rows):
                found.append(item.array)
            elif isinstance(item, np.ndarray) or is_torch(item):
                found.append(item)
    return found


@pytest.mark.parametrize("device", DEVICES)
@both_regimes
@every_objective
def test_statistics_live_where_the_samples_came_from(name: str, regime: str, device: str) -> None:
    world = world_in(name, regime)
    batches = on_torch(world, device)
    tally = world.objective.tally(3, batches[0].embeddings)
    for arm, batch in enumerate(batches):
        tally.add(arm, batch)
    tally.grow()
    assert is_torch(tally.sample)
    for array in stored_arrays(tally):
        assert is_torch(array)
        assert array.device.type == device
        assert array.dtype == torch.float64
    ours = filled(world)
    ours.grow()
    assert len(stored_arrays(ours)) == len(stored_arrays(tally))
    assert all(isinstance(a, np.ndarray) and a.dtype == np.float64 for a in stored_arrays(ours))


def test_only_running_sums_of_numbers_store_no_array() -> None:
    """Otherwise the test above would pass on an objective whose arrays it does not find."""
    bare = {n for n in OBJECTIVES if not stored_arrays(filled(world_in(n, "moments")))}
    assert bare == {"precision", "density", "quality", "cost"}


# -- state -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("library", ["numpy", "torch"])
@both_regimes
@every_objective
def test_a_loaded_tally_continues_bit_for_bit(name: str, regime: str, library: str) -> None:
    world = world_in(name, regime)
    sample = world.batches[0].embeddings
    if library == "torch":
        sample = torch.tensor(sample)
    halves = [part(b, slice(0, len(b) // 2 + 1)) for b in world.batches]
    rest = [part(b, slice(len(b) // 2 + 1, None)) for b in world.batches]

    def fill(tally: Tally, batches: Sequence[Batch]) -> Tally:
        for arm, b in enumerate(batches):
            if len(b):
                tally.add(arm, Batch(like(b.embeddings, sample), b.quality, b.cost))
        return tally

    original = fill(world.objective.tally(3, sample), halves)
    state = original.state_dict()
    assert_plain(state)
    untouched = copy.deepcopy(state)
    loaded = world.objective.tally(3, sample)
    loaded.load_state_dict(state)
    assert_same_bits(loaded.state_dict(), state)
    for key, value in reading(world, original).items():
        assert_same_bits(reading(world, loaded)[key], value, key)
    fill(original, rest)
    fill(loaded, rest)
    assert_same_bits(loaded.state_dict(), original.state_dict())
    assert_same_bits(state, untouched)


# -- the description ---------------------------------------------------------------------------------


@every_objective
def test_the_description_prints_briefly(name: str) -> None:
    world = world_in(name, "moments")
    for objective in (world.described, world.objective):
        text = str(objective)
        assert all(type(term).__name__ in text for term in terms_of(objective))
        assert "\n" not in text
        assert "array" not in text
        assert len(text) < 400


@every_objective
def test_descriptions_compare_by_content_and_hash_alike(name: str) -> None:
    reference = np.random.default_rng(0).standard_normal((30, 6))
    one, same = OBJECTIVES[name](reference), OBJECTIVES[name](reference.copy())
    assert one == same
    assert hash(one) == hash(same)
    assert len({one, same}) == 1
    has_reference = any(hasattr(term, "reference") for term in terms_of(one))
    assert (one == OBJECTIVES[name](reference + 1.0)) is not has_reference
    others = [OBJECTIVES[other](reference) for other in OBJECTIVES if other != name]
    assert one not in others
    assert one != "objective"


@every_objective
def test_a_description_survives_its_plain_form(name: str) -> None:
    world = world_in(name, "moments")
    for objective in (world.described, world.objective):
        plain = to_plain(objective)
        assert_plain(plain)
        again = from_plain(plain)
        if holds_own_function(name):
            assert again != objective
            again = graft(again, world.described)
        assert again == objective
        assert hash(again) == hash(objective)


@every_objective
def test_a_description_does_not_change(name: str) -> None:
    reference = np.random.default_rng(0).standard_normal((30, 6))
    objective = OBJECTIVES[name](reference)
    copied = OBJECTIVES[name](reference.copy())
    for field in dataclasses.fields(objective):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(objective, field.name, None)
    reference += 1.0
    assert objective == copied


# -- score and loss ----------------------------------------------------------------------------------


def parts_of(objective: gx.Objective, loss: Loss) -> list[tuple[gx.Objective, Loss]]:
    terms = terms_of(objective)
    if len(terms) == 1:
        return [(objective, loss)]
    assert isinstance(loss, SumLoss)
    return [(term, inner) for term, (_, inner) in zip(terms, loss.terms, strict=True)]


@every_objective
def test_a_smaller_loss_is_a_better_score(name: str) -> None:
    world = world_in(name, "moments")
    alphas = np.random.default_rng(1).dirichlet(np.ones(3), 12)
    for objective, loss in parts_of(world.objective, filled(world).loss(range(3))):
        losses = np.array([loss.value(alpha) for alpha in alphas])
        scores = np.array([float(objective.scores(loss, alpha, {})) for alpha in alphas])
        # The reported normalization may reorder only mixtures that are nearly equal.
        apart = losses[:, None] - losses[None, :] > 0.1 * np.ptp(losses)
        assert apart.any()
        worse = scores[:, None] - scores[None, :]
        assert np.all(worse[apart] < 0 if objective.maximise else worse[apart] > 0)


@every_objective
def test_every_score_says_what_it_depends_on(name: str) -> None:
    world = world_in(name, "moments")
    scores = world.objective.scores(filled(world).loss(range(3)), POINTS[0], {"n": 42})
    table = scores if isinstance(scores, dict) else {scores.name: scores}
    for term, score in zip(terms_of(world.objective), table.values(), strict=True):
        assert (score.name, score.maximise) == (term.name, term.maximise)
        assert score.details["n"] == 42
        if hasattr(term, "kernel"):
            assert score.details["kernel"] == term.kernel
            assert "median" not in repr(term.kernel)
        if isinstance(term, gx.FrechetDistance):
            assert score.details["normalisation"] == ("1/n" if term.ddof == 0 else "1/(n-1)")
        if hasattr(term, "unbiased"):
            expected = "unbiased" if term.unbiased else "V-statistic"
            assert score.details["estimator"] == expected
        if hasattr(term, "reference"):
            assert score.details["reference n"] == 30
        if hasattr(term, "order"):
            assert score.details["order"] == term.order


def textbook_distance(rows: Matrix, reference: Matrix, ddof: int) -> float:
    gap = rows.mean(0) - reference.mean(0)
    mine, theirs = np.cov(rows.T, ddof=ddof), np.cov(reference.T, ddof=ddof)
    # The eigenvalues of a product of two covariances are real and not negative.
    overlap = np.sqrt(np.linalg.eigvals(mine @ theirs).real.clip(0)).sum()
    return float(gap @ gap + np.trace(mine) + np.trace(theirs) - 2 * overlap)


@pytest.mark.parametrize("ddof", [0, 1])
def test_the_reported_normalisation_is_the_one_that_was_asked_for(ddof: int) -> None:
    world = make_world("frechet")
    reference = np.random.default_rng(5).standard_normal((20, 6))
    table = gx.score(world.arms, gx.FrechetDistance(reference, ddof=ddof))
    for arm, rows in world.arms.items():
        expected = textbook_distance(rows, reference, ddof)
        assert float(table.arms[arm]["frechet_distance"]) == pytest.approx(expected, rel=1e-7)
    everything = np.concatenate(list(world.arms.values()))
    expected = textbook_distance(everything, reference, ddof)
    assert float(table.pooled["frechet_distance"]) == pytest.approx(expected, rel=1e-7)


def test_the_distance_to_a_single_point_is_the_mean_squared_distance_to_it() -> None:
    world = make_world("frechet")
    point = np.arange(6.0)
    loss = Pool.of(world.arms, gx.FrechetDistance(point[None, :])).tally.loss(range(3))
    expected = [np.mean(np.sum((rows - point) ** 2, axis=1)) for rows in world.arms.values()]
    assert loss.singles() == pytest.approx(expected)
    assert loss.value(POINTS[1]) == pytest.approx(POINTS[1] @ expected)


def test_numbers_of_numpy_become_plain_ones() -> None:
    plain = to_plain({"a": np.float32(0.5), "b": (np.int64(3), np.bool_(True), np.float64(np.inf))})
    assert_plain(plain)
    assert from_plain(plain) == {"a": 0.5, "b": (3, True, np.inf)}


# -- from rows to moments ----------------------------------------------------------------------------

SWITCHING = [
    "frechet",
    *(
        f"vendi_{order}_{kernel}"
        for order in ("half", "one", "two")
        for kernel in ("cosine", "rff")
    ),
    "vendi_infinity_cosine",
    "vendi_infinity_rff",
    "rke_cosine",
    "rke_rff",
    "quality_vendi",
]
"""The objectives whose tallies keep rows first and moments later."""


def columns_of(objective: gx.Objective, dimension: int) -> int:
    kernel = getattr(objective, "kernel", None)
    return dimension if kernel is None else kernel.columns(dimension)


def direct_features(objective: gx.Objective, rows: Matrix) -> Matrix:
    kernel = objective.kernel
    if isinstance(kernel, gx.Cosine):
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)
    phase = rows @ kernel.frequencies / kernel.bandwidth
    return np.hstack([np.cos(phase), np.sin(phase)]) / np.sqrt(kernel.features)


def direct_loss(objective: gx.Objective, batches: Sequence[Batch], alpha: Matrix) -> float:
    """The loss from the samples alone, through singular values of the weighted rows."""
    rows = np.concatenate([b.embeddings for b in batches])
    weights = np.concatenate(
        [np.full(len(b), a / len(b)) for a, b in zip(alpha, batches, strict=True)]
    )
    if isinstance(objective, gx.FrechetDistance):
        reference = objective.reference
        values, basis = np.linalg.eigh(reference.covariance)
        mean = weights @ rows
        centred = np.sqrt(weights)[:, None] * (rows - mean)
        overlap = np.linalg.svd(centred @ (basis * np.sqrt(values)), compute_uv=False).sum()
        distance = np.sum((mean - reference.mean) ** 2)
        return distance + np.sum(centred**2) + np.trace(reference.covariance) - 2 * overlap
    features = np.sqrt(weights)[:, None] * direct_features(objective, rows)
    roots = np.linalg.svd(features, compute_uv=False)
    spectrum = roots[roots > 1e-14] ** 2
    if isinstance(objective, gx.RKE):
        return np.sum(spectrum**2)
    order = getattr(objective, "order", 1.0)
    if order == np.inf:
        return spectrum.max()
    if order != 1:
        return (np.sum(spectrum**order) - 1) / (order - 1)
    entropy = np.sum(spectrum * np.log(spectrum))
    if isinstance(objective, gx.QualityVendi):
        quality = np.concatenate([b.quality for b in batches])
        return entropy - np.log(weights @ quality)
    return entropy


@pytest.mark.parametrize("name", SWITCHING)
def test_nothing_jumps_when_rows_turn_into_moments(name: str) -> None:
    dimension = 6
    world = make_world(name, (10, 10, 10), dimension)
    columns = columns_of(world.objective, dimension)
    alpha = np.array([0.5, 0.3, 0.2])
    tally = empty_tally(world)
    seen = []
    for total in range(1, columns + 4):
        arm, row = (total - 1) % 3, (total - 1) // 3
        tally.add(arm, part(world.batches[arm], slice(row, row + 1)))
        if total < columns - 3 or total < 3:
            continue
        seen.append(
            tally.keeps_rows if hasattr(tally, "keeps_rows") else tally.diversity.keeps_rows
        )
        told = [part(b, slice(0, n)) for b, n in zip(world.batches, tally.counts, strict=True)]
        expected = direct_loss(world.objective, told, alpha)
        assert tally.loss(range(3)).value(alpha) == pytest.approx(expected, rel=1e-9), total
    assert seen == [True] * 3 + [False] * 4


def stored_numbers(tally: Tally) -> int:
    return sum(np.size(leaf) for _, leaf in leaves(tally.state_dict()))


def has_fixed_memory(name: str) -> bool:
    terms = terms_of(make_world(name).objective)
    return all(t.kernel.columns(6) is not None for t in terms if hasattr(t, "kernel"))


FIXED = [name for name in OBJECTIVES if has_fixed_memory(name)]


def test_frechet_cosine_and_random_features_are_among_those_of_fixed_memory() -> None:
    assert {
        "frechet",
        "kd_rff",
        "kd_cosine",
        "rke_rff",
        "vendi_one_rff",
        "quality_vendi",
        "sum",
    } <= set(FIXED)
    assert {"vendi_one_cosine", "vendi_infinity_cosine", "rke_cosine", "precision"} <= set(FIXED)
    assert not {"kd", "kd_own", "vendi_one_gaussian", "rke"} & set(FIXED)


@pytest.mark.parametrize("name", FIXED)
def test_memory_is_fixed_once_there_are_as_many_samples_as_columns(name: str) -> None:
    world = make_world(name, (40, 40, 40), 6)
    tally = empty_tally(world)
    sizes = []
    for start in range(0, 40, 10):
        for arm, batch in enumerate(world.batches):
            tally.add(arm, part(batch, slice(start, start + 10)))
        sizes.append(stored_numbers(tally))
    assert len(set(sizes)) == 1
    assert sizes[0] <= 3 * (16 * 16 + 16 + 6) * len(terms_of(world.objective))


@every_objective
@both_regimes
@pytest.mark.parametrize("library", [np.asarray, torch.as_tensor], ids=["numpy", "torch"])
def test_the_memory_layout_of_samples_does_not_matter(name: str, regime: str, library: Any) -> None:
    world = world_in(name, regime)
    numbers = {
        key: {str(arm): getattr(batch, key) for arm, batch in enumerate(world.batches)}
        for key in ("quality", "cost")
    }

    def state(order: Any) -> dict[str, Any]:
        rows = [np.array(batch.embeddings, order=order) for batch in world.batches]
        arms = {str(arm): library(each) for arm, each in enumerate(rows)}
        return Pool.of(arms, world.objective, **numbers).tally.state_dict()

    assert_same_bits(state("C"), state("F"))
