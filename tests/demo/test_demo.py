"""The demo: the fitted generators, the run, and what it reports."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from genmix import InputError
from genmix.demo import DemoResult, Step, run_demo
from genmix.demo import digits as digits_module
from genmix.demo.digits import World, make_world
from genmix.demo.view import ProgressLine, print_result

BUDGET = 400


@pytest.fixture(scope="module")
def world() -> World:
    return make_world(seed=0)


@pytest.fixture(scope="module")
def result() -> DemoResult:
    return run_demo(BUDGET, seed=0)


def test_generators_draw_seeded_images_in_range(world: World) -> None:
    for name, sample in world.samplers.items():
        first, again, other = (sample(20, np.random.default_rng(s)) for s in (1, 1, 2))
        assert first.shape == (20, 64), name
        assert first.min() >= 0, name
        assert first.max() <= 1, name
        np.testing.assert_array_equal(first, again, err_msg=name)
        assert not np.array_equal(first, other), name
        assert len(np.unique(first, axis=0)) == 20, name


def test_specialists_make_the_digits_they_know(world: World) -> None:
    images, labels = digits_module.load_digits(return_X_y=True)
    means = np.stack([images[labels == digit].mean(axis=0) / 16 for digit in range(10)])
    for name, few in {"kde-three-digits": True, "kde-most-digits": False}.items():
        drawn = world.samplers[name](300, np.random.default_rng(0))
        nearest = np.argmin(((drawn[:, None] - means) ** 2).sum(axis=-1), axis=1)
        assert np.mean((nearest <= 2) == few) > 0.85, name


def test_mixture_beats_every_single_generator(result: DemoResult) -> None:
    scores = result.scores
    assert scores is not None
    best = scores.singles[scores.best_single(maximise=False)]
    assert scores.oracle <= best + scores.oracle_gap
    assert scores.oracle <= scores.learnt + scores.oracle_gap
    assert scores.oracle <= scores.uniform + scores.oracle_gap
    assert scores.learnt < best
    assert scores.learnt < scores.uniform


def test_gaps_certify_both_solutions(result: DemoResult) -> None:
    assert result.scores is not None
    assert 0 <= result.scores.oracle_gap < 1e-6
    assert 0 <= result.gap < 1e-3


def test_weights_and_counts_add_up(result: DemoResult) -> None:
    assert result.scores is not None
    for weights in (result.weights, result.scores.oracle_weights):
        assert list(weights) == list(result.counts)
        assert min(weights.values()) >= 0
        assert sum(weights.values()) == pytest.approx(1, abs=1e-12)
    assert sum(result.counts.values()) == BUDGET
    assert min(result.counts.values()) >= 10


def test_same_seed_same_result(result: DemoResult) -> None:
    again = run_demo(BUDGET, seed=0)
    assert replace(again, seconds=result.seconds) == result
    assert run_demo(BUDGET, seed=1).weights != result.weights


def test_vendi_run_is_maximised() -> None:
    result = run_demo(300, seed=0, objective="vendi")
    scores = result.scores
    assert result.maximise
    assert scores is not None
    best = scores.singles[scores.best_single(maximise=True)]
    assert scores.oracle >= best * (1 - 1e-6)
    assert scores.oracle >= scores.learnt * (1 - 1e-6)
    assert scores.learnt > best


def test_interrupt_keeps_what_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(step: Step) -> None:
        if step.done >= 104:
            raise KeyboardInterrupt

    result = run_demo(BUDGET, seed=0, report=interrupt)
    assert result.interrupted
    assert sum(result.counts.values()) == 104
    assert sum(result.weights.values()) == pytest.approx(1, abs=1e-12)
    print_result(result)
    assert "Interrupted after 104 samples" in capsys.readouterr().out


def test_budget_inside_the_warm_start_is_refused() -> None:
    with pytest.raises(InputError, match=r"a budget of 49 samples .* give 50 or more"):
        run_demo(49)


def test_table_names_every_generator_and_mixture(
    result: DemoResult, capsys: pytest.CaptureFixture[str]
) -> None:
    print_result(result)
    out, err = capsys.readouterr()
    assert result.scores is not None
    for name in (*result.weights, "learnt mixture", "uniform mixture", "best mixture"):
        assert name in out
    for score in (*result.scores.singles.values(), result.scores.learnt, result.scores.oracle):
        assert f"{score:.3f}" in out
    assert "normalisation" in out
    assert err == ""


def test_progress_is_a_few_plain_lines_off_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with ProgressLine() as progress:
        progress(Step("fitting"))
        for done in range(1, 101):
            progress(Step("generating", done, 100, "FD 0.5"))
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == ""
    assert lines[0] == "fitting"
    assert lines[1] == "generating 1/100 FD 0.5"
    assert 8 <= len(lines) <= 11


def test_progress_is_one_live_line_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with ProgressLine() as progress:
        for step in (Step("fitting"), Step("generating", 50, 100, "FD 0.5")):
            progress(step)
            progress.bar.refresh()
            assert [task.description for task in progress.bar.tasks] == [step.stage]
    out, err = capsys.readouterr()
    assert out == ""
    assert err.index("fitting") < err.index("generating")
    assert "50/100" in err
