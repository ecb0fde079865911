"""What makes it fast must not change what it computes: each shortcut beside the long way round."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.objectives import Batch, frechet
from genmix.objectives.frechet import FrechetTally
from genmix.objectives.trace_loss import TraceLoss
from genmix.selector import learner as learner_module
from genmix.solvers.newton import Newton, bfgs_update
from tests.support.conformance import assert_same_bits
from tests.support.helpers import Matrix, gaussian_arms, loss_of


def tally_of(arms: list[Matrix], reference: Any) -> FrechetTally:
    tally = gx.FrechetDistance(reference).tally(len(arms), arms[0])
    for arm, rows in enumerate(arms):
        tally.add(arm, Batch(rows))
    return tally


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Callable[[type, str], list[int]]:
    """Counts how often a method is called."""

    def count(owner: type, name: str) -> list[int]:
        calls = [0]
        real = getattr(owner, name)

        def counting(*args: Any, **options: Any) -> Any:
            calls[0] += 1
            return real(*args, **options)

        monkeypatch.setattr(owner, name, counting)
        return calls

    return count


@pytest.mark.parametrize("kind", ["frechet", "vendi"])
def test_a_run_takes_few_hessians_and_few_steps(
    kind: str, counted: Callable[[type, str], list[int]]
) -> None:
    rng = np.random.default_rng(0)
    arms = gaussian_arms(rng, [700] * 4, 12, spread=0.4)
    objective = gx.Vendi() if kind == "vendi" else gx.FrechetDistance(rng.normal(size=(300, 12)))
    run = gx.Selector(list("abcd"), objective, seed=0)
    hessians, expansions = counted(TraceLoss, "_hessian"), counted(TraceLoss, "expand")
    solves = counted(Newton, "resolve")
    for _ in range(600):
        (ticket,) = run.ask()
        run.tell(ticket, arms["abcd".index(ticket.arm)][run.counts[ticket.arm]])
        assert run.gap == np.inf or run.gap < 1e-7
    assert hessians[0] < 0.05 * solves[0]
    assert expansions[0] < 6 * solves[0]


@pytest.mark.parametrize("kind", ["frechet", "vendi"])
def test_gaps_that_nobody_reads_cost_nothing_and_reading_them_changes_nothing(
    kind: str, counted: Callable[[type, str], list[int]]
) -> None:
    rng = np.random.default_rng(0)
    arms = gaussian_arms(rng, [700] * 4, 12, spread=0.4)
    objective = gx.Vendi() if kind == "vendi" else gx.FrechetDistance(rng.normal(size=(300, 12)))
    expansions = counted(TraceLoss, "expand")
    runs, taken = [], []
    for reads in (False, True):
        run, before = gx.Selector(list("abcd"), objective, gx.MixtureGreedy()), expansions[0]
        for _ in range(600):
            (ticket,) = run.ask()
            run.tell(ticket, arms["abcd".index(ticket.arm)][run.counts[ticket.arm]])
            assert not reads or run.gap == np.inf or run.gap < 1e-7
        runs.append(run)
        taken.append(expansions[0] - before)
    assert taken[0] < 0.9 * taken[1]
    assert_same_bits(runs[0].state_dict(), runs[1].state_dict())


def test_a_gap_is_that_of_the_last_solve_also_after_a_block_without_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("genmix.selector.learner.MOST_PENDING", 16)
    rng = np.random.default_rng(0)
    rows = iter(rng.normal(size=(500, 6)))
    runs = [gx.Selector(["a", "b"], gx.Vendi(), resolve_growth=0.5) for _ in range(2)]
    for _ in range(200):
        row = next(rows)
        for run in runs:
            run.tell(run.ask()[0], row)
        at_once = runs[0].gap  # the other's is first read at the end, after blocks without a solve
    assert runs[1].gap == at_once


def test_a_mended_hessian_has_the_curvature_seen_and_stays_positive() -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        root, other = rng.normal(size=(2, 4, 4))
        old, true = root @ root.T + 0.1 * np.eye(4), other @ other.T + 0.1 * np.eye(4)
        step = rng.normal(size=4)
        step -= step.mean()
        change = true @ step + rng.normal()  # a tangent plane's values, up to a constant
        new = bfgs_update(old, step, change)
        expected = change - change.mean()
        if step @ change > 1e-3 * step @ old @ step:
            assert new @ step == pytest.approx(expected, abs=1e-9 * np.abs(expected).max())
        else:
            assert new is old
        assert np.linalg.eigvalsh(new)[0] > 0


def test_a_hessian_that_no_longer_fits_is_not_mended() -> None:
    hessian = np.eye(3)
    step = np.array([1.0, -1.0, 0.0])
    assert bfgs_update(hessian, step, np.zeros(3)) is hessian
    assert bfgs_update(hessian, step, -step) is hessian
    assert bfgs_update(hessian, 0 * step, step) is hessian


@pytest.mark.parametrize("constant", [False, True])
def test_covariances_in_the_eigenbasis_are_those_of_the_samples(constant: bool) -> None:
    rng = np.random.default_rng(2)
    arms = gaussian_arms(rng, [30, 25, 40], 7)
    reference = rng.normal(size=(50, 7)) @ rng.normal(size=(7, 7))
    if constant:
        for rows in arms:
            rows[:, 3] = 1.5
    tally = tally_of(arms, reference)
    assert tally.turned is not constant
    for arm, rows in enumerate(arms):
        assert tally.covariance(arm) == pytest.approx(np.cov(rows.T, ddof=0), abs=1e-12)
        assert tally.offset(arm) == pytest.approx(rows.mean(0) - reference.mean(0), abs=1e-12)


@pytest.mark.parametrize("order", ["constant first", "constant last"])
def test_a_turned_part_and_one_that_is_not_merge_into_the_whole(order: str) -> None:
    rng = np.random.default_rng(3)
    plain = gaussian_arms(rng, [20, 30], 5)
    flat = gaussian_arms(rng, [25, 15], 5)
    for rows in flat:
        rows[:, 2] = 0.25
    reference = rng.normal(size=(40, 5)) * np.arange(1, 6)
    parts = [tally_of(plain, reference), tally_of(flat, reference)]
    assert [part.turned for part in parts] == [True, False]
    first, second = parts if order == "constant last" else parts[::-1]
    before = second.state_dict()
    first.merge(second)
    whole = tally_of([np.concatenate(pair) for pair in zip(plain, flat, strict=True)], reference)
    for alpha in (np.array([0.3, 0.7]), np.array([1.0, 0.0])):
        expected = whole.loss([0, 1]).value(alpha)
        assert first.loss([0, 1]).value(alpha) == pytest.approx(expected, rel=1e-10)
    after = second.state_dict()
    assert all(np.array_equal(a, b) for a, b in zip(before["second"], after["second"], strict=True))


def other_eigenvectors(covariance: Matrix) -> tuple[Matrix, Matrix]:
    """What another machine can find: opposite signs, and another basis for the two equal eigenvalues."""
    values, basis = np.linalg.eigh(covariance)
    turn = np.array([[0.6, 0.8], [-0.8, 0.6]])
    return values, np.column_stack([-basis[:, 0], basis[:, 1], basis[:, 2:] @ turn])


@pytest.mark.parametrize("way", ["load", "merge", "merge into rows"])
def test_statistics_of_another_machine_are_read_in_their_own_basis(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(8)
    moments = (np.zeros(4), np.diag([1.0, 2.0, 3.0, 3.0]), 50)
    arms = gaussian_arms(rng, [40, 60], 4)
    halves = [[rows[:20] for rows in arms], [rows[20:] for rows in arms]]
    there = tally_of(halves[0], moments)
    monkeypatch.setattr(frechet, "_eigenbasis", other_eigenvectors)
    if way == "load":
        found = gx.FrechetDistance(moments).tally(2, arms[0])
        found.load_state_dict(there.state_dict())
        assert all(np.array_equal(*pair) for pair in zip(found.second, there.second, strict=True))
        for arm, rows in enumerate(halves[1]):
            found.add(arm, Batch(rows))
    elif way == "merge":
        found = tally_of(halves[1], moments)
        found.merge(there)
    else:
        found = gx.FrechetDistance(moments).tally(2, arms[0])
        found.merge(there)
        for arm, rows in enumerate(halves[1]):
            found.add(arm, Batch(rows))
    assert found.turned
    for arm, rows in enumerate(arms):
        assert found.covariance(arm) == pytest.approx(np.cov(rows.T, ddof=0), abs=1e-12)
        assert found.offset(arm) == pytest.approx(rows.mean(0), abs=1e-12)
    expected = tally_of(arms, moments).loss([0, 1])
    for alpha in (np.array([0.3, 0.7]), np.array([1.0, 0.0])):
        assert found.loss([0, 1]).value(alpha) == pytest.approx(expected.value(alpha), rel=1e-11)


def test_a_state_without_a_basis_is_in_the_basis_of_this_machine() -> None:
    """Version 0.1 saved none. What was loaded before does not matter."""
    rng = np.random.default_rng(9)
    reference, arms = rng.normal(size=(40, 4)), gaussian_arms(rng, [30, 20], 4)
    state = tally_of(arms, reference).state_dict()
    found = tally_of(arms, reference)
    found.load_state_dict(state | {"basis": state["basis"][:, ::-1].copy()})
    found.load_state_dict({key: value for key, value in state.items() if key != "basis"})
    for arm, rows in enumerate(arms):
        assert found.covariance(arm) == pytest.approx(np.cov(rows.T, ddof=0), abs=1e-12)


@pytest.mark.parametrize("basis", [np.full((4, 4), np.nan), np.ones((4, 4)), np.eye(3)], ids=str)
def test_a_damaged_basis_is_refused(basis: Matrix) -> None:
    rng = np.random.default_rng(10)
    tally = tally_of(gaussian_arms(rng, [30, 20], 4), rng.normal(size=(40, 4)))
    with pytest.raises(ValueError, match="basis"):
        tally.load_state_dict(tally.state_dict() | {"basis": basis})


def test_the_basis_of_a_reference_does_not_travel_with_the_objective() -> None:
    objective = gx.FrechetDistance(np.random.default_rng(11).normal(size=(40, 30)))
    before = pickle.dumps(objective)
    objective.tally(1, np.zeros((1, 30)))
    assert len(pickle.dumps(objective)) == len(before)


def test_many_arms_with_few_samples_stay_rows_and_give_the_same_loss() -> None:
    rng = np.random.default_rng(4)
    arms = gaussian_arms(rng, [3] * 40, 6)
    reference = rng.normal(size=(50, 6))
    kept = tally_of(arms, reference)
    assert kept.keeps_rows
    folded = kept.fork()
    folded._fold()
    assert not folded.keeps_rows
    assert kept.keeps_rows
    for alpha in rng.dirichlet(np.ones(40), size=5):
        mine, theirs = (t.loss(range(40)).expand(alpha) for t in (kept, folded))
        assert mine.value == pytest.approx(theirs.value, rel=1e-11)
        assert mine.gradient == pytest.approx(theirs.gradient, rel=1e-9)
        assert mine.hessian == pytest.approx(theirs.hessian, rel=1e-6)


def test_many_arms_fold_once_the_rows_are_more_than_the_matrices_are_worth() -> None:
    rng = np.random.default_rng(5)
    arms = gaussian_arms(rng, [33] * 40, 6)
    assert not tally_of(arms, rng.normal(size=(50, 6))).keeps_rows


def test_a_hundred_arms_are_solved_to_the_same_certificate() -> None:
    rng = np.random.default_rng(6)
    arms = gaussian_arms(rng, [12] * 100, 10, spread=0.5)
    for objective in (gx.FrechetDistance(rng.normal(size=(200, 10))), gx.Vendi()):
        loss = loss_of(objective, arms)
        found = Newton().solve(loss, np.full(100, 0.01))
        assert found.gap <= 1e-7 * max(1.0, abs(found.loss))


def told(run: gx.Selector, rows: Matrix) -> None:
    for row in rows:
        (ticket,) = run.ask()
        run.tell(ticket, row)


def test_samples_waiting_for_a_solve_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learner_module, "MOST_PENDING", 8)
    rows = np.random.default_rng(7).normal(size=(100, 3))
    run = gx.Selector(["a", "b"], gx.Vendi(), warm_start=2, seed=0, resolve_growth=1000.0)
    waiting = []
    for row in rows:
        told(run, row[None, :])
        waiting.append(len(run.state_dict()["pending"]["arms"]))
    assert max(waiting) < 8
    assert sum(run.counts.values()) == 100
    resumed = gx.Selector.from_state_dict(run.state_dict())
    assert float(resumed.pooled_score) == pytest.approx(float(run.pooled_score), rel=1e-13)


@pytest.mark.parametrize(
    "objective",
    [gx.Vendi(), gx.RKE(gx.Gaussian(2.0)), gx.KernelDistance(np.eye(3)), gx.Vendi() + gx.RKE()],
    ids=["vendi", "rke", "kd", "sum"],
)
def test_a_pooled_score_read_at_every_sample_is_that_of_all_samples(objective: Any) -> None:
    rows = np.random.default_rng(8).normal(size=(40, 3))
    often = gx.Selector(["a", "b"], objective, warm_start=3, seed=0, resolve_growth=0.5)
    rarely = gx.Selector(["a", "b"], objective, warm_start=3, seed=0, resolve_growth=0.5)
    for count, row in enumerate(rows):
        told(often, row[None, :])
        told(rarely, row[None, :])
        score = often.pooled_score
        if count in (20, 31, 39):
            assert numbers(score) == pytest.approx(numbers(rarely.pooled_score), rel=1e-12)
    assert often.weights == rarely.weights


def numbers(score: Any) -> list[float]:
    return [float(s) for s in score.values()] if isinstance(score, dict) else [float(score)]


def test_reading_ahead_adds_every_sample_once(counted: Callable[[type, str], list[int]]) -> None:
    rows = np.random.default_rng(9).normal(size=(60, 3))
    run = gx.Selector(["a", "b"], gx.Vendi(), warm_start=3, seed=0, resolve_growth=100.0)
    told(run, rows[:10])
    assert run.pooled_score is not None
    adds = counted(type(run._learner.tally), "add")
    for row in rows[10:]:
        told(run, row[None, :])
        assert run.pooled_score is not None
        assert run.pooled_score is not None
    assert adds[0] == 50


def test_a_read_ahead_does_not_survive_a_solve_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(10).normal(size=(30, 3))
    objective = gx.KernelDistance(np.eye(3), gx.Gaussian(1.5))
    run = gx.Selector(["a", "b"], objective, warm_start=3, seed=0, resolve_growth=0.5)
    told(run, rows[:11])
    before = numbers(run.pooled_score)
    (ticket,) = run.ask()
    with monkeypatch.context() as patch:
        patch.setattr(Newton, "resolve", lambda *args: 1 / 0)
        patch.setattr(run._learner, "growth", 0.0)
        with pytest.raises(ZeroDivisionError):
            run.tell(ticket, 100 * rows[11])
    run._pooled = None
    assert numbers(run.pooled_score) == pytest.approx(before, rel=1e-13)


@pytest.mark.parametrize("rows", [40, 5], ids=["moments", "rows"])
def test_the_predicted_gradient_is_right_to_second_order(rows: int) -> None:
    rng = np.random.default_rng(11)
    arms = gaussian_arms(rng, [rows] * 4, 18)
    loss = loss_of(gx.FrechetDistance(rng.normal(size=(60, 18))), arms)
    loss.hessian_reuse_ratio = 0.0
    alpha = np.array([0.3, 0.2, 0.4, 0.1])
    here = loss.expand(alpha)
    assert here.gradient_predictor is not None
    step = np.array([0.02, -0.03, 0.015, -0.005])
    errors, rough = [], []
    for size in (1.0, 0.5):
        there = loss.expand(alpha + size * step).gradient
        errors.append(spread(here.predict_gradient(size * step) - there))
        rough.append(spread(here.gradient + here.hessian @ (size * step) - there))
    assert errors[1] < errors[0] / 6  # a third-order error falls by 8
    assert rough[1] > rough[0] / 6  # a second-order error by 4
    assert errors[0] < 0.2 * rough[0]


def spread(values: Matrix) -> float:
    """The size of a vector that is known up to a constant."""
    return float(np.ptp(values))


def test_a_gradient_is_not_predicted_where_hessians_are_expensive() -> None:
    rng = np.random.default_rng(12)
    arms = gaussian_arms(rng, [9] * 3, 5)
    uniform = np.full(3, 1 / 3)
    assert loss_of(gx.FrechetDistance(rng.normal(size=(60, 5))), arms).hessian_reuse_ratio > 0
    for objective in (gx.FrechetDistance(rng.normal(size=(60, 5))), gx.Vendi()):
        assert loss_of(objective, arms).expand(uniform).gradient_predictor is None


@pytest.mark.parametrize("total", [False, True], ids=["alone", "in a sum"])
def test_a_predicted_gradient_saves_a_step_and_leads_to_the_same_mixture(total: bool) -> None:
    rng = np.random.default_rng(13)
    arms = gaussian_arms(rng, [60] * 4, 6, spread=0.4)
    objective: Any = gx.FrechetDistance(rng.normal(size=(100, 6)))
    loss: Any = loss_of(objective + 0.1 * gx.Vendi() if total else objective, arms)
    far = loss.terms[0][1] if total else loss
    start = Newton(tolerance=1e-13).solve(loss, np.full(4, 0.25)).weights
    start = 0.97 * start + 0.03 * np.array([1.0, 0, 0, 0])
    plain = Newton().solve(loss, start)
    far.hessian_reuse_ratio = 0.0
    if total:
        loss.hessian_reuse_ratio = loss.terms[1][1].hessian_reuse_ratio = 0.0
    predicted = Newton().solve(loss, start)
    assert predicted.iterations < plain.iterations
    assert predicted.loss == pytest.approx(plain.loss, rel=1e-12)
    assert predicted.gap <= 1e-8 * max(1.0, abs(plain.loss))


@pytest.mark.parametrize("far", [1e3, 1e6, 1e8])
def test_kernel_sums_of_arms_far_apart_are_those_of_differences(far: float) -> None:
    rng = np.random.default_rng(14)
    arms = [rng.normal(size=(30, 5)), far + rng.normal(size=(40, 5)), rng.normal(size=(20, 5))]
    reference = far + rng.normal(size=(25, 5))
    kernel = gx.Gaussian(1.0)
    groups = [*arms, reference]
    exact = [
        [np.mean(np.exp(-((x[:, None] - y[None]) ** 2).sum(-1) / 2)) for y in groups]
        for x in groups
    ]
    distance: Any = loss_of(gx.KernelDistance(reference, kernel), arms)
    entropy: Any = loss_of(gx.RKE(kernel), arms)
    expected = np.array(exact)
    np.testing.assert_allclose(distance.matrix, expected[:3, :3], rtol=1e-6, atol=1e-300)
    np.testing.assert_allclose(distance.linear, expected[:3, 3], rtol=1e-6, atol=1e-300)
    assert distance.constant == pytest.approx(expected[3, 3], rel=1e-6)
    squares = [np.mean(np.exp(-((x[:, None] - x[None]) ** 2).sum(-1))) for x in arms]
    assert np.diag(entropy.matrix) == pytest.approx(squares, rel=1e-6)


def test_a_score_between_solves_is_of_the_samples_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learner_module, "MOST_PENDING", 8)
    rows = np.random.default_rng(15).normal(size=(40, 3))
    run = gx.Selector(["a", "b"], gx.RKE(gx.Gaussian(2.0)), warm_start=2, resolve_growth=1000.0)
    told(run, rows[:30])
    resumed = gx.Selector.from_state_dict(run.state_dict())
    score: Any = run.score
    assert score.details["n"] == 28  # 4 at the solve, and three full blocks
    assert float(score) == pytest.approx(numbers(resumed.score)[0], rel=1e-13)


@pytest.mark.parametrize("objective", [gx.RKE(), gx.Vendi() + gx.RKE()], ids=["rke", "sum"])
def test_reading_between_full_blocks_changes_no_bit(
    objective: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learner_module, "MOST_PENDING", 16)
    rows = np.random.default_rng(16).normal(size=(300, 3))
    read = gx.Selector(["a", "b"], objective, warm_start=3, seed=1, resolve_growth=3.0)
    left = gx.Selector(["a", "b"], objective, warm_start=3, seed=1, resolve_growth=3.0)
    for count, row in enumerate(rows):
        told(read, row[None, :])
        told(left, row[None, :])
        if count % 7 == 0:
            read.state_dict()
            assert read.pooled_score is not None or count < 6
    assert read.weights == left.weights
    assert read.gap == left.gap


def test_a_kernel_derived_from_the_gaussian_is_asked_itself() -> None:
    class Half(gx.Gaussian):
        def __call__(self, x: Any, y: Any) -> Any:
            return 0.5 * gx.Gaussian(1.0)(x, y)

    rows = np.random.default_rng(17).normal(size=(6, 2))
    own = Half(1.0)
    loss: Any = loss_of(gx.KernelDistance(rows, own), [rows])
    assert loss.matrix[0, 0] == pytest.approx(np.mean(own(rows, rows)), rel=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_a_step_taken_on_trust_keeps_near_the_tolerance(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count, d = int(rng.integers(2, 7)), int(rng.integers(2, 12))
    spreads = rng.uniform(0.02, 1.5, (count, d))
    centres = rng.normal(size=(count, d)) * rng.uniform(0, 2, (count, 1))
    kinds = [
        gx.Vendi(),
        gx.FrechetDistance(rng.normal(size=(200, d))),
        gx.Vendi(kernel=gx.Gaussian()),
    ]
    arms, greedy = [str(i) for i in range(count)], gx.MixtureGreedy()
    run = gx.Selector(arms, kinds[seed % 3], greedy, seed=seed, warm_start=6)
    for _ in range(150):
        (ticket,) = run.ask()
        arm = int(ticket.arm)
        run.tell(ticket, centres[arm] + spreads[arm] * rng.normal(size=d) + 0.01)
        assert not run.is_warm or run.gap <= 2e-7 * max(1.0, abs(float(run.score)))  # type: ignore[arg-type]
