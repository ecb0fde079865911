"""Comparisons: paired, exact, from studies, runs and arrays."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet
import pytest
from typer.testing import CliRunner

import genmix as gx
from genmix.cli import app
from genmix.comparison.compare import compare
from genmix.comparison.comparison import Comparison
from genmix.comparison.plan import Options, Plan
from genmix.comparison.presentation import comparison_charts
from genmix.comparison.statistics import settling_time
from genmix.comparison.trial import Trial, draws, run_trial
from genmix.comparison.variant import read_variants
from genmix.comparison.worlds import World, gaussians
from tests.support.small_comparisons import OBJECTIVES, WORLD, FirstArm, plan_of, small


@pytest.fixture(scope="module")
def usual() -> Comparison:
    """The default policies, three repeats."""
    return small()


# -- exact -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_pooled_curve_is_the_score_of_the_samples_drawn(name: str) -> None:
    plan = plan_of(OBJECTIVES[name])
    trial = run_trial(plan, "Mixture-Greedy", 1)
    pools = list(WORLD.arms.values())
    drawn = list(draws(plan, plan.variants["Mixture-Greedy"], 1))
    for k in (5, -1):
        rows = np.array([pools[draw.arm][draw.row] for draw in drawn[: trial.times[k]]])
        judged = gx.score({"all": rows}, plan.objective).pooled[plan.objective.name]
        assert trial.pooled[plan.objective.name][k] == pytest.approx(float(judged), rel=1e-9)
        counted = np.bincount([draw.arm for draw in drawn[: trial.times[k]]], minlength=len(pools))
        assert trial.counts[k] == counted.tolist()


def test_the_mixture_curve_is_the_population_score_of_its_weights() -> None:
    plan = plan_of(gx.Vendi())
    trial = run_trial(plan, "Mixture-Greedy", 0)
    for k in (10, -1):
        moment = sum(
            weight * pool.T @ pool / len(pool)
            for weight, pool in zip(trial.weights[k], WORLD.arms.values(), strict=True)
        )
        spectrum = np.linalg.eigvalsh(moment)
        spectrum = spectrum[spectrum > 1e-15]
        assert trial.mixture["vendi"][k] == pytest.approx(
            np.exp(-np.sum(spectrum * np.log(spectrum)))
        )


def test_the_oracle_has_no_regret_and_the_best_score(usual: Comparison) -> None:
    found = usual
    oracle = found.outcomes["Mixture oracle"]
    assert oracle.regret is not None
    assert oracle.regret.mean == 0
    assert oracle.exponent is None
    assert oracle.mixture is not None
    assert oracle.mixture.mean == pytest.approx(found.best_score)
    assert oracle.reached == {"1%": 2, "5%": 2}
    alone = found.outcomes["One-arm oracle"]
    assert alone.shares[found.plan.best_arm] == 1
    assert alone.locked_out == 1


@pytest.mark.parametrize("policy", ["Mixture-Greedy", "Mixture-OGD"])
def test_regret_from_sixty_times_is_near_the_sum_over_all_rounds(policy: str) -> None:
    plan = plan_of(gx.RKE(gx.Cosine()), ["mixture-greedy", "mixture-ogd"], repeats=2, rounds=400)
    best = plan.best
    exact = []
    for repeat in range(2):
        drawn = draws(plan, plan.variants[policy], repeat)
        exact.append(sum(best.function.value(draw.mixture) - best.loss for draw in drawn))
    runs = [run_trial(plan, policy, repeat) for repeat in range(2)]
    found = Comparison(plan, runs).regret(policy)[:, -1]
    assert found.mean() == pytest.approx(np.mean(exact), rel=0.05)


def test_the_mixture_of_ogd_is_the_share_of_its_pulls_and_not_the_last_of_them() -> None:
    found = small(policies=[gx.MixtureOGD(0.1)], resolve_growth=0.0, budget=400, seed=1)
    counts = found.counts("Mixture-OGD")
    after = found.times > 16
    before = (counts / counts.sum(axis=2, keepdims=True))[:, after]
    apart = np.abs(found.weights("Mixture-OGD")[:, after] - before).max(axis=2)
    assert np.all(apart <= 1 / found.times[after])  # the draw of that very time is in the counts
    outcome = found.outcomes["Mixture-OGD"]
    assert outcome.mixture is not None
    assert outcome.mixture.mean == pytest.approx(found.best_score, rel=0.03)
    assert outcome.reached["5%"] < 400


def test_what_a_run_of_ogd_leaves_is_the_share_of_its_pulls(tmp_path: Path) -> None:
    study = write_study(tmp_path, policy="mixture-ogd", resolve_growth=0.0)
    run = gx.run(study, tmp_path / "run")
    shares = {arm: count / 120 for arm, count in run.counts.items()}
    assert run.weights == pytest.approx(shares)
    assert json.loads((tmp_path / "run" / "weights.json").read_text())["weights"] == run.weights


def test_ucb_without_bonus_is_greedy() -> None:
    found = small(policies={"greedy": gx.MixtureGreedy(), "ucb": gx.MixtureUCB(0.0, 0.0)})
    assert np.array_equal(found.pooled("greedy"), found.pooled("ucb"))
    assert found.against("greedy", "ucb").t_test == 1.0


def test_an_arms_samples_are_the_same_for_every_policy() -> None:
    plan = plan_of(gx.RKE(gx.Cosine()))
    streams: dict[str, list[list[int]]] = {}
    for label, variant in plan.variants.items():
        streams[label] = [[] for _ in WORLD.arms]
        for draw in draws(plan, variant, 1):
            streams[label][draw.arm].append(draw.row)
    first = streams["Mixture-Greedy"]
    for other in streams.values():
        for mine, theirs in zip(first, other, strict=True):
            common = min(len(mine), len(theirs))
            assert mine[:common] == theirs[:common]


def test_policies_go_by_the_names_that_were_passed(usual: Comparison) -> None:
    assert usual.policies[:2] == ("Mixture-UCB-V", "Mixture-Greedy")
    assert "Uniform" in usual.policies
    by_name = usual.against("mixture-ucbv", "one-arm-oracle")
    assert by_name == usual.against("Mixture-UCB-V", "One-arm oracle")
    assert np.array_equal(usual.regret("mixture_ucb"), usual.regret("Mixture-UCB"))
    with pytest.raises(gx.InputError, match="'mixture-ogd' was not compared; use one of Mix"):
        usual.pooled("mixture-ogd")
    twice = small(policies={"a": gx.MixtureUCB(0.1), "b": gx.MixtureUCB(0.2)}, budget=60)
    with pytest.raises(gx.InputError, match="'mixture-ucb' was not compared; use one of a, b"):
        twice.pooled("mixture-ucb")


def test_repeats_differ(usual: Comparison) -> None:
    assert len(set(usual.pooled("Mixture-Greedy")[:, -1].tolist())) == 3


def test_what_is_learnt_may_differ_from_what_is_scored() -> None:
    kernel = gx.Cosine()
    policies = {"plain": gx.Variant(), "other": gx.Variant(objective=gx.RKE(kernel, unbiased=True))}
    found = small(policies=policies, budget=60)
    assert not np.array_equal(found.pooled("plain"), found.pooled("other"))
    again = small(policies={"other": policies["other"]}, budget=60)
    assert np.array_equal(again.pooled("other"), found.pooled("other"))


def test_options_of_a_variant_are_its_own() -> None:
    found = small(policies={"long": gx.Variant(warm_start=20), "short": gx.Variant()})
    assert found.counts("long")[:, -1].min() >= 20
    plan = found.plan
    assert list(draws(plan, plan.variants["long"], 0))[79].mixture.tolist() == [0.25] * 4


def test_costs_and_qualities_reach_the_objective() -> None:
    rng = np.random.default_rng(0)
    world = World(
        "priced",
        WORLD.arms,
        costs={arm: float(i) for i, arm in enumerate(WORLD.arms)},
        qualities={arm: rng.random(len(pool)) for arm, pool in WORLD.arms.items()},
    )
    objective = gx.Vendi() + 0.5 * gx.Cost() + 0.1 * gx.Quality()
    found = compare(world, ["mixture-greedy"], 2, objective=objective, budget=100, workers=1)
    assert found.score_name == "loss"
    assert not found.maximise
    counts = found.counts("Mixture-Greedy")[:, -1]
    assert found.pooled("Mixture-Greedy", "cost")[:, -1] == pytest.approx(
        counts @ np.arange(4) / 100
    )
    spent = found.outcomes["Mixture-Greedy"].cost
    assert spent is not None
    assert spent.mean == pytest.approx(np.mean(counts @ np.arange(4)) / 100)
    assert 0 < found.pooled("Mixture-Greedy", "quality")[0, -1] < 1


def test_costs_are_found_by_the_arms_name() -> None:
    prices = {"a": 1.0, "b": 100.0}
    turned = dict(reversed(prices.items()))
    arms = {"a": np.eye(2)[:1], "b": np.eye(2)[1:]}
    for costs in (prices, turned):
        found = compare(
            World("two", arms, costs=costs),
            {"a alone": gx.Fixed({"a": 1.0})},
            2,
            objective=gx.Vendi(),
            budget=20,
            workers=1,
        )
        spent = found.outcomes["a alone"].cost
        assert spent is not None
        assert spent.mean == 1.0


GREEDY_ONLY = {"policies": ["mixture-greedy"], "repeats": 3, "budget": 200, "warm_start": 4}


@pytest.fixture(scope="module")
def vendi_alone() -> Comparison:
    return compare(WORLD, objective=gx.Vendi(), workers=1, **GREEDY_ONLY)


@pytest.mark.parametrize("constant", [-3.0, 3.0, pytest.param(0.0, marks=pytest.mark.drill)])
def test_how_near_a_sum_is_does_not_depend_on_where_its_loss_begins(
    constant: float, vendi_alone: Comparison
) -> None:
    """A quality that all samples have alike moves every loss by the same."""
    alike = {arm: np.ones(len(pool)) for arm, pool in WORLD.arms.items()}
    world = World("alike", WORLD.arms, qualities=alike)
    objective = gx.Vendi() + constant * gx.Quality()
    found = compare(world, objective=objective, workers=1, **GREEDY_ONLY)
    best = gx.optimal_mixture(WORLD.arms, gx.Vendi())
    stake = best.function.value(np.full(4, 0.25)) - best.loss
    off = vendi_alone.mixture("Mixture-Greedy", "loss")
    for near, reached in found.outcomes["Mixture-Greedy"].reached.items():
        within = off - best.loss <= float(near[:-1]) / 100 * stake + best.gap
        judged = sorted(settling_time(found.times, row) for row in within)
        assert reached == judged[1]


def test_where_even_weights_are_best_a_sum_is_measured_by_the_worst_arm() -> None:
    arms = {"a": np.eye(3)[:2], "b": np.eye(3)[1:]}
    found = compare(
        World("even", arms),
        {"nearly even": gx.Fixed({"a": 0.49, "b": 0.51}), "alone": gx.OneArmOracle("a")},
        2,
        objective=gx.Vendi() + gx.Vendi(order=2),
        budget=40,
        workers=1,
    )
    assert found.best_weights == pytest.approx({"a": 0.5, "b": 0.5})
    assert found.outcomes["nearly even"].reached == {"1%": 2, "5%": 2}
    assert found.outcomes["alone"].reached == {"1%": np.inf, "5%": np.inf}


def test_the_population_is_no_sample_of_itself() -> None:
    """Pools are drawn from with replacement, so the optimum is that of the V-statistic."""
    few = World("few", {arm: pool[::20] for arm, pool in WORLD.arms.items()})
    given = {"budget": 100, "repeats": 2, "workers": 1, "warm_start": 4}
    plain = compare(few, ["mixture-oracle"], objective=gx.RKE(gx.Cosine()), **given)
    unbiased = compare(
        few, ["mixture-oracle"], objective=gx.RKE(gx.Cosine(), unbiased=True), **given
    )
    assert unbiased.best_score == pytest.approx(plain.best_score)
    assert unbiased.best_weights == pytest.approx(plain.best_weights)


def test_an_arm_that_another_can_replace_is_not_locked_out() -> None:
    eye = np.eye(6)
    twins = World("twins", {"a": eye[:2], "b": eye[:2], "c": eye[2:]})
    found = compare(
        twins, ["mixture-greedy"], 2, objective=gx.Vendi(), budget=120, warm_start=2, workers=1
    )
    assert found.plan.best.active == ("c",)
    assert found.outcomes["Mixture-Greedy"].locked_out == 0


def test_a_best_score_of_zero_is_reached() -> None:
    world = World("hull", {"a": np.eye(2)[:1], "b": np.eye(2)[1:]}, np.eye(2))
    found = compare(
        world,
        ["mixture-oracle"],
        2,
        objective=gx.KernelDistance(world.reference, gx.Cosine()),
        budget=50,
        workers=1,
    )
    assert found.best_score == pytest.approx(0, abs=1e-12)
    assert found.outcomes["Mixture oracle"].reached == {"1%": 2, "5%": 2}


def test_shares_known_beforehand_can_be_tracked() -> None:
    found = small(policies={"tracked": gx.Variant(gx.Uniform(), draw="tracking")})
    assert found.counts("tracked")[:, -1].tolist() == [[30] * 4] * 3


def test_linear_regret_after_a_long_warm_start_has_exponent_one() -> None:
    found = small(policies={"own": FirstArm()}, warm_start=15, budget=300, repeats=3)
    slope = found.outcomes["own"].exponent
    assert slope is not None
    assert slope.slope == pytest.approx(1.0, abs=0.05)


def test_times_beyond_the_end_are_refused(usual: Comparison) -> None:
    with pytest.raises(gx.InputError, match="from 1 to 120"):
        usual.against("Mixture-Greedy", "Mixture-UCB", 121)


def test_oracles_alone_need_no_warm_start_and_are_drawn() -> None:
    found = small(policies=["mixture-oracle", "one-arm-oracle"], budget=10, warm_start=50)
    charts = comparison_charts(found)
    assert set(charts) == {"pooled", "overview"}  # their weights do not change
    assert all(chart.to_dict() for chart in charts.values())


def test_a_mixture_beats_its_arms_where_they_complement_each_other() -> None:
    world = gaussians(1, arms=3, d=4)
    found = compare(
        world,
        ["mixture-greedy", "mixture-oracle", "one-arm-oracle", "one-arm-greedy"],
        5,
        objective=gx.FrechetDistance(world.reference),
        budget=200,
        workers=1,
    )
    assert found.is_better("Mixture oracle", "One-arm oracle")
    assert found.is_better("Mixture-Greedy", "One-arm greedy")
    assert found.is_better("One-arm oracle", "Mixture-Greedy") is False


# -- in numbers --------------------------------------------------------------------------------------


def invented(drawn: list[Any], scores: list[Any]) -> Comparison:
    """A comparison of one policy whose counts and population scores are these functions of t."""
    world = World("two", {"a": np.eye(2)[:1], "b": np.eye(2)[1:]})
    options = Options(rounds=100, warm_start=1)
    plan = Plan.of(world, gx.Vendi(), read_variants(["mixture-greedy"]), len(drawn), options)
    times = plan.times.tolist()
    found = [
        Trial(
            "Mixture-Greedy",
            repeat,
            times,
            {"loss": [0.0] * len(times), "vendi": [1.0] * len(times)},
            {"loss": [-np.log(score(t)) for t in times], "vendi": [score(t) for t in times]},
            [count(t) for t in times],
            [[0.5, 0.5]] * len(times),
        )
        for repeat, (count, score) in enumerate(zip(drawn, scores, strict=True))
    ]
    return Comparison(plan, found)


def test_an_arm_drawn_just_after_the_middle_is_not_locked_out() -> None:
    for first in (51, 53, 56):
        found = invented(
            [lambda t, first=first: [t - 1 - (t >= first), 1 + (t >= first)]], [lambda t: 2.0]
        )
        assert found.outcomes["Mixture-Greedy"].locked_out == 0


def test_locked_out_means_never_in_the_second_half() -> None:
    never, early, late, even = (
        lambda t: [t - 1, 1],
        lambda t: [t - min(t // 2, 20), min(t // 2, 20)],
        lambda t: [t - 1 - (t > 90), 1 + (t > 90)],
        lambda t: [t - t // 2, t // 2],
    )
    found = invented([never, early, late, even], [lambda t: 2.0] * 4)
    assert found.outcomes["Mixture-Greedy"].locked_out == 0.5
    assert found.outcomes["Mixture-Greedy"].least_share.mean == pytest.approx(0.73 / 4)


def test_time_to_the_oracle_is_the_median_of_when_it_stays() -> None:
    def even(t: int) -> list[int]:
        return [t - t // 2, t // 2]

    def from_30(t: int) -> float:
        return 1.97 if t >= 30 or t == 5 else 1.0

    found = invented([even] * 3, [from_30, lambda t: 1.999, lambda t: 1.0])
    first = min(t for t in found.times.tolist() if t >= 30)
    assert found.best_score == pytest.approx(2.0)
    assert found.outcomes["Mixture-Greedy"].reached == {"1%": np.inf, "5%": float(first)}


def test_tables_hold_everything(usual: Comparison, tmp_path: Path) -> None:
    found = usual
    found.save(tmp_path, figures=False)
    curves = parquet.read_table(tmp_path / "curves.parquet").to_pylist()
    assert len(curves) == 7 * 3 * len(found.times)
    last = [row for row in curves if row["policy"] == "Mixture-Greedy" and row["t"] == 120]
    assert [row["pooled_rke"] for row in last] == found.pooled("Mixture-Greedy")[:, -1].tolist()
    assert [row["regret"] for row in last] == found.regret("Mixture-Greedy")[:, -1].tolist()
    shares = parquet.read_table(tmp_path / "shares.parquet").to_pylist()
    ends = [row["count"] for row in shares if row["t"] == 120 and row["repeat"] == 0]
    assert sum(ends) == 7 * 120
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["outcomes"]["Mixture-Greedy"]["pooled"]["n"] == 3
    assert summary["best"]["best_arm"] == found.plan.best_arm


def test_the_page_names_what_it_depends_on(usual: Comparison) -> None:
    page = str(usual)
    for part in ("RKE(kernel=Cosine()", "3 paired repeats of 120", "one-hot", "gap", "Wilcoxon"):
        assert part in page


def test_a_remark_is_about_the_objective_that_a_policy_learns_with() -> None:
    plain = gx.Variant(gx.MixtureUCB())
    other = gx.Variant(gx.MixtureUCB(), objective=gx.RKE(gx.Cosine()))
    found = small(policies={"plain": plain, "other": other}, objective=gx.Vendi(), repeats=1)
    assert [found.named(policy) for policy in found.policies] == ["plain (extended)", "other"]


# -- what can be compared on -------------------------------------------------------------------------


def write_study(folder: Path, **more: Any) -> Path:
    for arm, rows in WORLD.arms.items():
        np.save(folder / f"{arm}.npy", rows)
    np.save(folder / "reference.npy", WORLD.reference)
    arms = {arm: {"kind": "recorded", "path": f"{arm}.npy"} for arm in WORLD.arms}
    study: dict[str, Any] = {
        "name": "recorded",
        "arms": arms,
        "objective": {"kernel-distance": {"kernel": "cosine"}},
        "reference": "reference.npy",
        "budget": {"samples": 120},
        "warm_start": 4,
    }
    file = folder / "study.yaml"
    file.write_text(json.dumps(study | more), "utf-8")
    return file


def test_a_study_file(tmp_path: Path) -> None:
    found = compare(write_study(tmp_path), ["uniform"], 2, workers=1)
    direct = compare(
        WORLD, ["uniform"], 2, workers=1, budget=120, warm_start=4, objective=OBJECTIVES["KD"]
    )
    assert found.best_score == pytest.approx(direct.best_score)
    assert found.plan.options.rounds == 120


def test_a_run_folder(tmp_path: Path) -> None:
    study = write_study(tmp_path, policy="uniform")
    run = gx.run(study, tmp_path / "run")
    for given in (run, tmp_path / "run", str(tmp_path / "run")):
        found = compare(given, ["mixture-greedy", "uniform"], 2, workers=1)
        assert sum(len(pool) for pool in found.plan.world.arms.values()) == 120
        assert found.objective.name == "kernel_distance"


def test_arrays_and_plain_data(tmp_path: Path) -> None:
    found = compare(dict(WORLD.arms), repeats=2, objective=gx.Vendi(), budget=60, workers=1)
    assert list(found.best_weights) == list(WORLD.arms)
    content = json.loads(write_study(tmp_path).read_text())
    for arm in content["arms"].values():
        arm["path"] = str(tmp_path / arm["path"])
    content["reference"] = str(tmp_path / "reference.npy")
    assert compare(content, ["uniform"], 2, workers=1).repeats == 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"budget": None}, "the budget is missing"),
        ({"objective": None}, "the objective is missing"),
        ({"budget": 16}, "16 samples does not exceed the warm start of 16"),
        ({"repeats": 0}, "repeats is 0"),
        ({"policies": []}, "no policies"),
        ({"policies": "uniform"}, "pass a list"),
        ({"policies": ["gredy"]}, "unknown policy 'gredy'"),
        ({"policies": [gx.MixtureGreedy(), gx.MixtureGreedy()]}, "listed twice"),
        ({"policies": [3]}, "3 is not a policy"),
        ({"draw": "often"}, 'pass "iid" or "tracking"'),
        ({"workers": 0}, "workers is 0"),
        ({"policies": {}}, "no policies"),
        ({"policies": [gx.OneArmOracle("typo")]}, "names an arm that is not active"),
        ({"policies": [gx.Fixed({"arm 0": 0.2, "typo": 0.8})]}, "unknown arm 'typo'"),
        ({"policies": [gx.FrechetUCB()]}, "works only with FrechetDistance"),
    ],
)
def test_bad_input_is_one_sentence(change: dict[str, Any], words: str) -> None:
    with pytest.raises(gx.InputError, match=words):
        small(**change)


def test_arms_that_cost_anew_are_refused(tmp_path: Path) -> None:
    study = {
        "arms": {"a": {"kind": "callable", "function": "os:getpid"}},
        "encoder": {"kind": "callable", "function": "os:getpid"},
        "objective": "vendi",
        "budget": {"samples": 10},
    }
    with pytest.raises(gx.InputError, match="compare on its run folder"):
        compare(study)


def test_two_of_a_kind_are_told_apart_by_their_parameters() -> None:
    found = read_variants([gx.MixtureUCB(0.6), gx.MixtureUCB(0.1)])
    assert list(found) == ["Mixture-UCB", "Mixture-UCB δ=0.1"]


def test_a_study_is_read_where_an_event_loop_runs_already(tmp_path: Path) -> None:
    async def notebook() -> gx.Comparison:
        return compare(write_study(tmp_path), ["mixture-greedy"], 2, workers=1)

    assert asyncio.run(notebook()).repeats == 2


def test_costs_of_nothing_are_costs(tmp_path: Path) -> None:
    study = json.loads(write_study(tmp_path).read_text())
    for arm in study["arms"].values():
        arm["cost"] = 0.0
    study["objective"] = ["vendi", {"cost": {"weight": 0.1}}]
    del study["reference"]
    (tmp_path / "study.yaml").write_text(json.dumps(study))
    found = compare(tmp_path / "study.yaml", ["mixture-greedy"], 2, workers=1)
    assert found.pooled("Mixture-Greedy", "cost").max() == 0


MAKER = """
import numpy as np

def vectors(seeds):
    return [np.eye(3)[seed % 3] for seed in seeds]
"""


@pytest.mark.parametrize(("prices", "known"), [((2.0, None), False), ((2.0, 6.0), True)])
def test_an_arm_whose_cost_nobody_told_is_not_free(
    prices: tuple[float | None, ...], known: bool, tmp_path: Path
) -> None:
    (tmp_path / "maker.py").write_text(MAKER)
    arms = {
        name: {"kind": "callable", "function": "maker:vectors"}
        | ({"price": price} if price else {})
        for name, price in zip("ab", prices, strict=True)
    }
    budget = {"samples": 40}
    study = {"name": "s", "arms": arms, "objective": "vendi", "policy": "uniform", "budget": budget}
    (tmp_path / "study.yaml").write_text(json.dumps(study))
    run = gx.run(tmp_path / "study.yaml", tmp_path / "run")
    found = compare(run, {"even": gx.Variant(gx.Uniform(), draw="tracking")}, 2, workers=1)
    spent = found.outcomes["even"].cost
    assert (None if spent is None else spent.mean) == (4.0 if known else None)


# -- the command -------------------------------------------------------------------------------------


def command(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-m", "genmix", "compare", *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
    )


def test_the_command_prints_and_leaves_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_study(tmp_path, budget={"samples": 40})
    given = ["study.yaml", "--repeats", "2", "--workers", "2"]
    done = command(*given, "--no-figures", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Mixture-UCB-V − Uniform" in done.stdout
    assert "comparing 14/14" in done.stderr
    place = tmp_path / "comparisons" / "recorded"  # the name of the study
    tables = {"curves.parquet", "shares.parquet", "summary.json", "runs"}
    assert {path.name for path in place.iterdir()} == tables
    monkeypatch.chdir(tmp_path)
    again = CliRunner().invoke(app, ["compare", *given, "--json"])
    assert json.loads(again.stdout)["repeats"] == 2
    assert "comparing 14/14" in again.stderr
    for name in (*tables, "pooled.pdf", "overview.png", "shares.png"):
        assert (place / name).stat().st_size > 0


def test_the_command_refuses_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["compare", "nowhere.yaml"])
    assert done.exit_code == 2
    assert done.stderr.startswith("genmix: ")
    assert done.stderr.count("\n") == 1


def test_an_interrupted_command_says_how_to_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    write_study(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("genmix.comparison.compare.run_plan", interrupt)
    done = CliRunner().invoke(app, ["compare", "study.yaml"])
    assert done.exit_code == 130
    assert "run the same command again to continue from comparisons/recorded" in done.stderr
