"""The opponents in the benchmarks are correct, reports contain the results, and every benchmark runs."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench.__main__ import listing, main
from bench.child import ROOT, in_child
from bench.clouds import clouds, reference, samples
from bench.online import drive
from bench.opponents import distance_formulas, naive_kernels, paper, slsqp
from bench.opponents.recompute import Recompute
from bench.profile import shares
from bench.registry import BENCHMARKS, benchmark
from bench.table import Claim, Report, Row, Table
from bench.timing import over_rounds

import genmix as gx
from bench import gpu
from genmix.objectives import Batch
from genmix.solvers.loss import Loss, QuadraticLoss
from tests.support import helpers
from tests.support.helpers import safe_dirichlet

ARMS, D = 4, 12
WORLD = clouds(ARMS, D)
REAL = reference(WORLD, 100)
KERNEL = gx.Gaussian(2.5)


def loss_of(objective: gx.Objective, each: int = 40) -> Any:
    return helpers.loss_of(objective, samples(WORLD, each))


def frechet_problem() -> paper.Statistics:
    return paper.Frechet(ARMS, REAL.mean(axis=0), np.cov(REAL, rowvar=False, bias=True))


CASES = {
    "frechet": (gx.FrechetDistance(REAL), frechet_problem, 40),
    "vendi": (gx.Vendi(), lambda: paper.Vendi(ARMS, D), 40),
    "vendi gram": (gx.Vendi(), lambda: paper.VendiGram(ARMS, D, 2 * ARMS), 2),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> tuple[Loss, paper.Statistics]:
    """Our loss and the paper's statistics of the same samples, added one by one."""
    objective, make, each = CASES[request.param]
    problem = make()
    for arm, rows in enumerate(samples(WORLD, each).values()):
        for row in rows:
            problem.add(arm, row[None, :])
    return loss_of(objective, each), problem


def test_the_papers_loss_and_gradient_are_ours(case: tuple[Loss, paper.Statistics]) -> None:
    loss, problem = case
    rng = np.random.default_rng(0)
    for _ in range(10):
        alpha = safe_dirichlet(rng, np.ones(ARMS))
        here = loss.expand(alpha)
        value, slope = problem.expand(alpha)
        assert value == pytest.approx(here.value, rel=1e-9)
        # On the simplex, a gradient is determined up to a constant.
        ours = here.gradient - here.gradient @ alpha
        assert slope - slope @ alpha == pytest.approx(ours, rel=1e-9, abs=1e-9)


def test_the_papers_steps_end_at_our_optimum(case: tuple[Loss, paper.Statistics]) -> None:
    loss, problem = case
    ours = gx.solve(loss)
    step = paper.tuned_step(problem, 30)
    mixture, gaps = paper.descend(problem, paper.uniform(problem), step, 400)
    there = loss.expand(mixture)
    assert there.value == pytest.approx(ours.loss, abs=1e-8)
    assert there.gap <= 1e-6
    # Its gap equals the certificate's, except for what rounding adds to that.
    assert gaps[0] == pytest.approx(loss.expand(paper.uniform(problem)).gap, rel=1e-6)
    reached = paper.steps_until(gaps, 1e-3)
    assert reached is not None
    assert gaps[reached] <= 1e-3 < gaps[reached - 1]


@pytest.mark.parametrize("objective", [gx.FrechetDistance(REAL), gx.Vendi(), gx.RKE(KERNEL)])
def test_slsqp_ends_at_our_optimum(objective: gx.Objective) -> None:
    loss = loss_of(objective)
    ours, theirs = gx.solve(loss), slsqp.solve(loss, np.full(ARMS, 1 / ARMS))
    assert theirs == pytest.approx(ours.weights, abs=1e-4)
    assert loss.value(theirs) == pytest.approx(ours.loss, rel=1e-6)


@pytest.mark.parametrize("objective", [gx.KernelDistance(REAL, KERNEL), gx.RKE(KERNEL)])
def test_cvxpy_ends_at_our_optimum(objective: gx.Objective) -> None:
    from bench.opponents import cvxpy_loop

    loss = loss_of(objective)
    ours = gx.solve(loss)
    name, taken, solve = cvxpy_loop.fastest(loss.matrix, loss.linear, 1)
    assert name in taken
    for theirs in (solve(loss.matrix, loss.linear), cvxpy_loop.rebuilt(loss.matrix, loss.linear)):
        assert theirs == pytest.approx(ours.weights, abs=1e-4)
        assert loss.value(theirs) == pytest.approx(ours.loss, rel=1e-6)
    quadratic = paper.Quadratic(loss.matrix, loss.linear, loss.constant)
    alpha = np.full(ARMS, 1 / ARMS)
    value, slope = quadratic.expand(alpha)
    assert value == pytest.approx(loss.value(alpha), rel=1e-12)
    plane = loss.expand(alpha).gradient
    assert slope - slope @ alpha == pytest.approx(plane - plane @ alpha, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("shape", [(1, 5), (3, 4), (64, 64)])
@pytest.mark.parametrize("make", naive_kernels.MAKERS.values())
def test_naive_kernel_sums_are_ours(make: Any, shape: tuple[int, int], power: int) -> None:
    x, y = list(samples(WORLD, 17).values())[:2]
    expected = float(np.sum(KERNEL(x, y) ** power))
    assert make(D, shape, 2.5, power)(x, y) == pytest.approx(expected, rel=1e-12)
    single = naive_kernels.TorchSum(D, shape, 2.5, power, "float32")
    got = single(x.astype(np.float32), y.astype(np.float32))
    assert got == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    "objective, power, real",
    [(gx.RKE(KERNEL), 2, None), (gx.KernelDistance(REAL, KERNEL), 1, REAL)],
)
def test_sums_row_by_row_are_those_of_our_tally(
    objective: gx.Objective, power: int, real: Any
) -> None:
    """Existing sums plus new rows, where the pair of a sample with itself counts once."""
    drawn = list(samples(WORLD, 12).values())
    arms = [rows[:10] for rows in drawn]
    before, after = (helpers.loss_of(objective, rows) for rows in (arms, drawn))
    assert isinstance(before, QuadraticLoss)
    assert isinstance(after, QuadraticLoss)
    cross = before.linear * 10 * (0 if real is None else len(real))
    sum_of = naive_kernels.NumpySum(D, (1, 8), 2.5, power)
    sums = naive_kernels.PairSums(arms, 2, before.matrix * 100, cross, real, sum_of)
    for arm, rows in enumerate(drawn):
        for row in rows[10:]:
            sums.add(arm, row)
    matrix, linear = sums.means()
    assert matrix == pytest.approx(after.matrix, rel=1e-10)
    assert linear == pytest.approx(after.linear, rel=1e-10)


@pytest.mark.parametrize("objective", [gx.FrechetDistance(REAL), gx.Vendi(), gx.RKE(KERNEL)])
def test_statistics_anew_are_the_streaming_ones(objective: gx.Objective) -> None:
    arms = list(samples(WORLD, 20).values())
    tally = objective.tally(ARMS, arms[0])
    for arm, rows in enumerate(arms):
        for row in rows:
            tally.add(arm, Batch(row[None, :]))
    streaming = tally.loss(range(ARMS))
    engine = Recompute(objective, ARMS, D)
    for _ in range(2):  # the second round also starts from scratch
        anew = engine.loss(arms)
        for alpha in np.random.default_rng(1).dirichlet(np.ones(ARMS), 5):
            assert anew.value(alpha) == pytest.approx(streaming.value(alpha), rel=1e-10)
    last = gx.solve(streaming)
    assert engine.round(arms, last).loss == pytest.approx(last.loss, rel=1e-7)


def test_scores_of_the_opponents_are_ours() -> None:
    from bench.opponents import vendi_package

    rows = samples(WORLD, 30)["arm 0"]
    for part in (rows, rows[:6]):
        ours = gx.score({"all": part}, gx.Vendi()).pooled["vendi"]
        assert vendi_package.score(part) == pytest.approx(float(ours), rel=1e-9)
    ours = gx.score({"all": rows}, gx.FrechetDistance(REAL, ddof=1)).pooled["frechet_distance"]
    moments = REAL.mean(axis=0), np.cov(REAL, rowvar=False)
    for formula in ("clean_fid", "torch_fidelity", "optimal_transport"):
        theirs = getattr(distance_formulas, formula)(rows, *moments)
        assert theirs == pytest.approx(float(ours), rel=1e-8)
    distance = gx.KernelDistance(REAL, gx.Polynomial(), unbiased=True)
    ours = gx.score({"all": rows}, distance).pooled["kernel_distance"]
    assert distance_formulas.kernel_distance(rows, REAL) == pytest.approx(float(ours), rel=1e-9)


def test_a_run_knows_what_it_drew() -> None:
    run = drive(WORLD, gx.Vendi(), 90)
    counts = {arm: len(rows) for arm, rows in run.first(90).items()}
    assert counts == run.selector.counts
    assert sum(map(len, run.first(50).values())) == 50
    assert run.resolves[0] == 10 * ARMS
    assert run.resolves == list(range(10 * ARMS, 91))  # below 100 samples, each adds more than 1%
    last = gx.solve(run.loss(90))
    assert run.weights == pytest.approx(last.weights, abs=1e-3)


# --- reports --------------------------------------------------------------------------------------

REPORT = Report(
    "a title",
    "quick",
    {"d": 3, "sizes": (1, 2)},
    [Table("a table", "s", [Row("ours", 0.5, 1.25, 1e-9), Row("theirs", 2.0, how="scaled")])],
    [Claim("theirs over ours", 4.0, 3), Claim("error", np.inf, 1e-6, at_least=False)],
    ["a note"],
    {"array": np.arange(3.0), "nan": math.nan},
)


def test_a_report_prints_ratios_claims_and_notes() -> None:
    text = str(REPORT)
    assert "4×" in text
    assert "theirs over ours: 4 (at full size ≥ 3)" in text
    assert "error: inf (at full size ≤ 1e-06)" in text
    full = str(replace(REPORT, size="full"))
    assert "theirs over ours: 4 (target ≥ 3: met)" in full
    assert "error: inf (target ≤ 1e-06: NOT met)" in full
    assert "a note" in text


def test_a_report_is_written_with_its_machine(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "report.json"
    REPORT.write(path)
    found = json.loads(path.read_text(encoding="utf-8"))
    assert [row["ratio"] for row in found["tables"][0]["rows"]] == [1.0, 4.0]
    assert [claim["met"] for claim in found["claims"]] == [True, False]
    assert found["figures"] == {"array": [0.0, 1.0, 2.0], "nan": "nan"}
    assert found["parameters"] == {"d": 3, "sizes": [1, 2]}
    assert found["machine"]["versions"]["numpy"] == np.__version__
    assert {"processor", "cores", "threads", "blas", "date"} <= set(found["machine"])


def test_rounds_between_measured_ones_are_interpolated() -> None:
    assert over_rounds([10, 20], [1.0, 3.0], range(10, 20)) == pytest.approx(19.0)


def test_a_child_tells_its_own_memory_and_not_that_of_its_parent() -> None:
    ballast = np.ones(2**25)  # 256 MiB
    child = in_child("os:getpid")
    assert child.value != os.getpid()
    assert 1 < child.peak < ballast.nbytes / 2**20


def test_profiled_time_goes_to_the_part_that_asked_for_it() -> None:
    """The seconds of a helper are split among its callers in proportion to the time of their calls."""
    solver, tell = (
        ("src/genmix/solvers/simplex.py", 1, "solve"),
        ("src/genmix/selector/selector.py", 1, "tell"),
    )
    eigh, helper = ("numpy/linalg/_linalg.py", 1, "eigh"), ("~", 0, "<built-in method dot>")
    stats = {
        tell: (1, 1, 1.0, 10.0, {}),
        solver: (1, 1, 2.0, 9.0, {tell: (1, 1, 2.0, 9.0)}),
        eigh: (1, 1, 3.0, 3.0, {solver: (1, 1, 3.0, 3.0)}),
        helper: (4, 4, 4.0, 4.0, {solver: (3, 3, 3.0, 3.0), tell: (1, 1, 1.0, 1.0)}),
    }
    parts = shares(stats)
    assert parts["solver"] == pytest.approx(5.0)
    assert parts["ask and tell"] == pytest.approx(2.0)
    assert sum(parts.values()) == pytest.approx(10.0)


# --- every benchmark ------------------------------------------------------------------------------


@pytest.mark.drill
@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_runs_and_its_ratios_are_finite(name: str) -> None:
    report = gpu.run("tiny", device="cpu") if name == "gpu" else benchmark(name)("tiny")
    assert report.tables
    for table in report.tables:
        for row in table.rows:
            assert 0 < row.cost < math.inf, row
            assert 0 < table.ratio(row) < math.inf
    assert all(math.isfinite(claim.value) for claim in report.claims)
    json.dumps(report.plain(), allow_nan=False)
    assert all(table.title in str(report) for table in report.tables)


def test_without_a_cuda_device_the_gpu_benchmark_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    report = gpu.run("tiny")
    assert not report.tables
    assert "no CUDA device" in str(report)


def test_the_gpu_benchmark_needs_torch_alone() -> None:
    """Apart from numpy and the dependencies of genmix."""
    code = "import sys, bench.__main__, bench.gpu; print(*{n.split('.')[0] for n in sys.modules})"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "genmix" in loaded
    assert not {"scipy", "cvxpy", "psutil", "threadpoolctl", "vendi_score"} & loaded


def test_the_command_line_lists_and_runs(tmp_path: Path, capsys: Any) -> None:
    assert main([]) == 0
    printed = capsys.readouterr().out
    assert printed.strip() == listing()
    assert all(f"  {name} " in printed for name in BENCHMARKS)
    assert main(["gpu", "--quick", "--out", str(tmp_path)]) == 0
    assert (tmp_path / "gpu.json").is_file()
    with pytest.raises(SystemExit):
        main(["nothing"])
    assert "there is no benchmark 'nothing'" in capsys.readouterr().err


@pytest.mark.parametrize("power", [1, 2])
def test_plain_and_published_kernel_sums_are_ours(power: int) -> None:
    from bench.opponents import published_loop

    x, y = list(samples(WORLD, 17).values())[:2]
    expected = float(np.sum(KERNEL(x, y) ** power))
    assert naive_kernels.PlainSum((3, 4), 2.5, power)(x, y) == pytest.approx(expected, rel=1e-12)
    assert published_loop.kernel_total(x, y, 2.5, power) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    "objective, power, real",
    [(gx.RKE(KERNEL), 2, None), (gx.KernelDistance(REAL, KERNEL), 1, REAL)],
)
def test_the_published_loop_finds_our_mixture(objective: Any, power: int, real: Any) -> None:
    from bench.opponents import published_loop

    drawn = list(samples(WORLD, 12).values())
    arms = [rows[:10] for rows in drawn]
    before: Any = helpers.loss_of(objective, arms)
    after = helpers.loss_of(objective, drawn)
    cross = before.linear * 10 * (0 if real is None else len(real))
    loop = published_loop.PublishedLoop(arms, before.matrix * 100, cross, real, 2.5, power)
    for arm, rows in enumerate(drawn):
        for row in rows[10:]:
            loop.add(arm, row)
    assert loop.counts == [12] * ARMS
    found = after.expand(loop.solve())
    assert found.value == pytest.approx(gx.solve(after).loss, rel=1e-4)
    pooled = helpers.pool_of(objective, drawn).pooled_score()
    constant = 0.0 if real is None else float(np.mean(KERNEL(real, real)))
    assert loop.score() + constant == pytest.approx(float(pooled), rel=1e-4)  # type: ignore[arg-type]
