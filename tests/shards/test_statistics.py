"""Results of shards are those of the same samples in memory, wherever the work was interrupted."""

from __future__ import annotations

import gc
import logging
import time
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.core.atomic import draft_path
from genmix.data import shards as shards_module
from genmix.diagnosis import passes, samples
from genmix.objectives import MeanObjective
from genmix.shards import saved_progress, statistics
from genmix.shards.processes import run_jobs
from tests.support.shard_folders import clouds, sharded, write_folder

ARMS = clouds()
REFERENCE = np.random.default_rng(9).normal(size=(40, 5))
OBJECTIVES = {
    "vendi": gx.Vendi(),
    "order inf": gx.Vendi(np.inf),
    "random features": gx.Vendi(2.0, gx.Gaussian(features=20)),
    "rke": gx.RKE(gx.Gaussian(features=10)),
    "kd": gx.KernelDistance(REFERENCE, gx.Gaussian(features=10), unbiased=True),
    "fd": gx.FrechetDistance(REFERENCE),
    "sum": gx.Vendi() + 0.3 * gx.Precision(REFERENCE) + 0.2 * gx.Density(REFERENCE),
    "coverage": gx.Coverage(REFERENCE, at=50),
    "joint": gx.Vendi(kernel=gx.Joint(2, gx.Gaussian(features=8), gx.Gaussian(features=8))),
}


def assert_close(found: Any, expected: Any, where: str = "") -> None:
    """Compare nested results; numbers may differ by 1e-10."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), where
        for key in expected:
            assert_close(found[key], expected[key], f"{where}/{key}")
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected), where
        for k, (a, b) in enumerate(zip(found, expected, strict=True)):
            assert_close(a, b, f"{where}/{k}")
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-10, abs=1e-10), where
    else:
        assert found == expected, where


@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_mixture_is_the_same_as_in_memory(name: str, in_blocks: Path, tmp_path: Path) -> None:
    files = sharded(tmp_path, ARMS)
    expected = gx.optimal_mixture(ARMS, OBJECTIVES[name])
    for arms in (files, {**files, "b": ARMS["b"]}):
        found = gx.optimal_mixture(arms, OBJECTIVES[name])
        assert_close(found.weights, expected.weights)
        assert_close(found.single_losses, expected.single_losses)
        assert str(found.objective) == str(expected.objective), "the same bandwidth"
        assert found.loss == pytest.approx(expected.loss, abs=1e-10)
        assert found.score == pytest.approx(expected.score, abs=1e-10)


def test_scores_are_the_same_as_in_memory(
    in_blocks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = {"a": 0.2, "c": 0.8}
    expected = gx.score(ARMS, gx.Vendi(), reference=REFERENCE, weights=weights)
    found = gx.score(sharded(tmp_path, ARMS), gx.Vendi(), reference=REFERENCE, weights=weights)
    names = ["vendi", "precision", "density", "coverage"]
    assert list(found.pooled) == names, "recall compares all pairs"
    for label, row in [*expected.arms.items(), ("pooled", expected.pooled)]:
        mine = found.pooled if label == "pooled" else found.arms[label]
        assert [mine[n] for n in names] == pytest.approx([row[n] for n in names], abs=1e-12)
        assert repr(mine["density"]) == repr(row["density"])
    assert found.mixture == pytest.approx(expected.mixture, abs=1e-12)
    monkeypatch.setattr(shards_module, "HELD_BYTES", 8 * 5 * 100)  # one arm, but not all
    part = gx.score(sharded(tmp_path / "2", ARMS), gx.Vendi(), reference=REFERENCE)
    assert part.arms["c"]["recall"] == expected.arms["c"]["recall"]
    assert "recall" not in part.pooled


@pytest.mark.parametrize("name, size", [("vendi", None), ("fd", 30)])
def test_a_diagnosis_is_the_same_as_in_memory(
    name: str, size: int | None, in_blocks: Path, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"repeats": 2, "subsample": size, "seed": 3}
    expected = gx.diagnose(ARMS, OBJECTIVES[name], **options)
    found = gx.diagnose(sharded(tmp_path, ARMS), OBJECTIVES[name], **options)
    assert_close(found.as_dict(), expected.as_dict())


def passes_of(arms: Any, objective: Any, folder: Path) -> tuple[Any, list[str]]:
    """Return a diagnosis, and the titles of the passes over the files that it took."""
    titles: list[str] = []

    def progress(title: str, done: int, total: int) -> None:
        if done == total:
            titles.append(title)

    with gx.streaming(workers=1, folder=folder, progress=progress):
        found = gx.diagnose(arms, objective, repeats=3, subsample=30)
    return found.as_dict(), titles


@pytest.mark.parametrize("name", ["vendi", "fd", "sum"])
def test_all_splits_are_read_in_one_pass_if_they_fit_in_memory(
    name: str, in_blocks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = sharded(tmp_path, ARMS)
    once, titles = passes_of(files, OBJECTIVES[name], tmp_path / "p")
    assert titles == ["reading shards", "reading halves", "reading subsamples"]
    monkeypatch.setattr(passes, "PASS_BYTES", 0)
    apart, titles = passes_of(files, OBJECTIVES[name], tmp_path / "q")
    assert titles == ["reading shards"] + 6 * ["reading halves"] + 3 * ["reading subsamples"]
    assert once == apart, "bit for bit"


def test_no_pass_keeps_the_statistics_of_the_one_before(
    in_blocks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alive, last, original = [], [], samples.statistics

    def watched(arms: Any, requests: Any, title: str) -> Any:
        gc.collect()
        alive.append(sum(each() is not None for each in last))
        found = original(arms, requests, title)
        last[:] = map(weakref.ref, found) if title != "reading shards" else []
        return found

    monkeypatch.setattr(samples, "statistics", watched)
    monkeypatch.setattr(passes, "PASS_BYTES", 0)
    passes_of(sharded(tmp_path, ARMS), OBJECTIVES["fd"], tmp_path / "p")
    assert alive == [0] * (1 + 6 + 3)


def test_a_pass_holds_what_fits_in_memory_and_at_least_one_split(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(passes, "PASS_BYTES", 3)
    assert list(passes.in_passes([1, 1, 1, 5, 1, 2, 1], int)) == [[1, 1, 1], [5], [1, 2], [1]]
    assert list(passes.in_passes([], int)) == []
    assert passes.memory(10, workers=16) > 4 * passes.memory(10, workers=1)


def test_only_the_rows_of_a_subsample_count(
    in_blocks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Splits have all rows, but all subsamples of a few rows fit in one pass."""
    total = sum(map(len, ARMS.values()))
    limit = passes.BYTES_PER_ROW * total * 2**20  # makes the statistics negligible
    monkeypatch.setattr(samples, "BYTES_PER_ROW", passes.BYTES_PER_ROW * 2**20)
    monkeypatch.setattr(passes, "PASS_BYTES", limit)
    _, titles = passes_of(sharded(tmp_path, ARMS), OBJECTIVES["vendi"], tmp_path / "p")
    assert titles == ["reading shards"] + 6 * ["reading halves"] + ["reading subsamples"]


def test_samples_by_group(in_blocks: Path, tmp_path: Path) -> None:
    groups = {"travel": clouds(1, {"a": 40, "b": 30}), "food": clouds(2, {"a": 20, "b": 50})}
    files = {g: sharded(tmp_path / g, arms) for g, arms in groups.items()}
    found, expected = (gx.optimal_mixture(each, gx.Vendi()) for each in (files, groups))
    assert_close(found.weights_by_group, expected.weights_by_group)  # type: ignore[attr-defined]


def test_quality_and_cost_in_the_files_count(in_blocks: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    numbers = {
        name: {what: rng.random(len(rows)) for what in ("quality", "cost")}
        for name, rows in ARMS.items()
    }
    files = {n: gx.Shards(write_folder(tmp_path / n, ARMS[n], **numbers[n])) for n in ARMS}
    quality, cost = ({n: numbers[n][what] for n in ARMS} for what in ("quality", "cost"))
    objective = gx.Vendi() + gx.Quality()
    expected = gx.optimal_mixture(ARMS, objective, quality, cost, mean_cost=0.55)
    assert_close(gx.optimal_mixture(files, objective, mean_cost=0.55).weights, expected.weights)
    none = dict.fromkeys(ARMS, 0.0)
    given = gx.optimal_mixture(files, objective, quality=none)
    assert_close(given.weights, gx.optimal_mixture(ARMS, objective, quality=none).weights)


def test_worker_processes_and_small_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, expected = sharded(tmp_path, ARMS), gx.optimal_mixture(ARMS, gx.Vendi())
    calls: list[Any] = []
    with gx.streaming(progress=lambda *step: calls.append(step)):
        small = gx.optimal_mixture(files, gx.Vendi())
    assert not calls, "a small folder is loaded"
    assert small.pool.samples is not None
    assert small.weights == expected.weights
    monkeypatch.setattr(shards_module, "HELD_BYTES", 0)
    with gx.streaming(workers=2, folder=tmp_path / "p", progress=lambda *step: calls.append(step)):
        both = gx.optimal_mixture(files, gx.Vendi())
    with gx.streaming(workers=1, folder=tmp_path / "p"):
        one = gx.optimal_mixture(files, gx.Vendi())
    assert calls == [("reading shards", k, 15) for k in range(1, 16)]
    assert both.weights == one.weights, "bit for bit"
    assert_close(both.weights, expected.weights)


# -- interruptions -----------------------------------------------------------------------------------


class Stop(Exception):
    pass


def interrupted_after(count: int, arms: Any, objective: Any, folder: Path) -> None:
    def progress(title: str, done: int, total: int) -> None:
        if done == count:
            raise Stop

    with pytest.raises(Stop), gx.streaming(workers=1, folder=folder, progress=progress):
        gx.optimal_mixture(arms, objective)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_an_interrupted_computation_continues(
    name: str, in_blocks: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files, folder = sharded(tmp_path, ARMS), tmp_path / "saved"
    expected = gx.optimal_mixture(files, OBJECTIVES[name])
    caplog.set_level(logging.INFO, "genmix.shards")
    interrupted_after(4, files, OBJECTIVES[name], folder)
    interrupted_after(11, files, OBJECTIVES[name], folder)
    steps: list[int] = []
    with gx.streaming(workers=1, folder=folder, progress=lambda _, done, total: steps.append(done)):
        found = gx.optimal_mixture(files, OBJECTIVES[name])
    assert steps == [12, 13, 14, 15]
    assert found.weights == expected.weights, "bit for bit"
    assert [record.getMessage() for record in caplog.records] == [
        "4 of 15 shards are saved; run the same command again to continue",
        "continuing after 4 of 15 shards",
        "11 of 15 shards are saved; run the same command again to continue",
        "continuing after 11 of 15 shards",
    ]


@pytest.mark.parametrize("name", ["vendi", "fd"])
def test_an_interrupted_diagnosis_continues_where_it_stopped(
    name: str, in_blocks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_progress, "SAVE_SECONDS", 0.0)  # as if every pass took long
    files, folder = sharded(tmp_path, ARMS), tmp_path / "saved"
    expected = gx.diagnose(files, OBJECTIVES[name]).as_dict()
    steps: list[tuple[str, int]] = []

    def progress(title: str, done: int, total: int) -> None:
        steps.append((title, done))
        if steps == [*(("reading shards", k) for k in range(1, 16)), ("reading halves", 1)]:
            raise Stop

    with gx.streaming(workers=1, folder=folder, progress=progress):
        with pytest.raises(Stop):
            gx.diagnose(files, OBJECTIVES[name])
        steps.clear()
        found = gx.diagnose(files, OBJECTIVES[name]).as_dict()
    assert steps == [("reading halves", k) for k in range(2, 16)]
    assert found == expected, "bit for bit"


def test_an_interrupt_while_merging_loses_and_repeats_nothing(
    in_blocks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, merge = sharded(tmp_path, ARMS), statistics._merge
    objective = OBJECTIVES["fd"] + gx.Vendi()
    expected = gx.optimal_mixture(files, objective)
    calls: list[int] = []

    def half_merged(totals: Any, states: Any, *rest: Any) -> None:
        calls.append(1)
        merge(totals, states, *rest)
        if len(calls) == 7:
            raise KeyboardInterrupt  # before the file is counted

    monkeypatch.setattr(statistics, "_merge", half_merged)
    monkeypatch.setattr(saved_progress, "SAVE_SECONDS", 0.0)
    with pytest.raises(KeyboardInterrupt):
        gx.optimal_mixture(files, objective)
    found = gx.optimal_mixture(files, objective)
    assert found.weights == expected.weights
    assert len(calls) == 7 + 9


def test_what_changed_is_computed_again(in_blocks: Path, tmp_path: Path) -> None:
    files, folder = sharded(tmp_path, ARMS), tmp_path / "saved"

    def steps(arms: Any, objective: Any = OBJECTIVES["vendi"], **numbers: Any) -> int:
        found: list[int] = []
        with gx.streaming(workers=1, folder=folder, progress=lambda _, d, t: found.append(d)):
            gx.optimal_mixture(arms, objective, **numbers)
        return len(found)

    interrupted_after(4, files, gx.Vendi(), folder)
    assert steps(files, gx.Vendi(2.0)) == 15, "another objective"
    assert steps(files, gx.Vendi(), quality={"a": 1.0}) == 15, "another quality"
    assert steps(files) == 11
    rows = ARMS["c"][56:].copy()
    rows[0] += 1
    np.save(tmp_path / "c" / "4.npy", rows)
    changed = sharded_again(tmp_path)
    assert steps(changed) == 15, "another file"


def sharded_again(place: Path) -> dict[str, gx.Shards]:
    return {name: gx.Shards(place / name) for name in ARMS}


def test_damaged_and_unwritable_progress_is_ignored(in_blocks: Path, tmp_path: Path) -> None:
    files, folder = sharded(tmp_path, ARMS), tmp_path / "saved"
    expected = gx.optimal_mixture(files, gx.Vendi())
    interrupted_after(4, files, gx.Vendi(), folder)
    [file] = folder.iterdir()
    file.write_bytes(file.read_bytes()[:-100])
    with gx.streaming(workers=1, folder=folder):
        assert gx.optimal_mixture(files, gx.Vendi()).weights == expected.weights
    blocked = tmp_path / "blocked"
    blocked.write_text("a file, not a folder")
    interrupted_after(4, files, gx.Vendi(), blocked)
    with gx.streaming(workers=1, folder=blocked):
        assert gx.optimal_mixture(files, gx.Vendi()).weights == expected.weights


def test_functions_are_not_saved_because_their_code_can_change(
    in_blocks: Path, tmp_path: Path
) -> None:
    shards_module.HELD_BYTES = 8 * 5 * 280  # undone by the fixture
    files, folder = sharded(tmp_path, ARMS), tmp_path / "saved"
    with gx.streaming(workers=1, folder=folder):
        statistics_of = gx.optimal_mixture({**files}, gx.Vendi(kernel=lambda x, y: x @ y.T + 9.0))
    assert not folder.exists()
    assert statistics_of.weights


def test_long_computations_are_saved_now_and_then(
    in_blocks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_progress, "SAVE_SECONDS", 0.0)
    monkeypatch.setattr(saved_progress, "MAX_BYTES", 0)
    files = sharded(tmp_path, ARMS)
    gx.optimal_mixture(files, gx.Vendi())
    gx.optimal_mixture(files, gx.Vendi(2.0))
    assert len(list(in_blocks.iterdir())) == 1, "the oldest is removed"
    steps: list[int] = []
    with gx.streaming(workers=1, folder=in_blocks, progress=lambda _, d, t: steps.append(d)):
        gx.score(files, gx.Vendi(2.0))
    assert not steps, "another command uses the statistics"


def test_files_that_changed_are_not_mixed_with_saved_statistics(
    in_blocks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_progress, "SAVE_SECONDS", 0.0)
    np.save(tmp_path / "a.npy", ARMS["a"])
    stale = gx.Shards(tmp_path / "a.npy")
    np.save(tmp_path / "a.npy", ARMS["b"])
    with pytest.raises(gx.InputError, match=r"a\.npy changed while it was being read"):
        gx.score({"a": stale}, gx.Vendi())
    found = gx.score({"a": gx.Shards(tmp_path / "a.npy")}, gx.Vendi())
    assert_close(found.pooled["vendi"], gx.score({"a": ARMS["b"]}, gx.Vendi()).pooled["vendi"])


def user_objective(power: int) -> gx.Objective:
    """An objective of the same name and parameters, whose code depends on ``power``."""

    @dataclass(frozen=True, eq=False)
    class PowerOfLength(MeanObjective):
        name = "length"
        maximise = True

        def measure(self, sample: Any) -> Any:
            return lambda batch: np.linalg.norm(batch.embeddings, axis=1) ** power

    return PowerOfLength()


@pytest.mark.parametrize("wrap", [lambda o: o, lambda o: o + 0.5 * gx.Vendi()])
def test_objectives_of_users_are_not_saved_because_their_code_can_change(
    wrap: Any, in_blocks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_progress, "SAVE_SECONDS", 0.0)
    np.save(tmp_path / "a.npy", np.full((60, 4), 2.0))
    for power in (1, 2):
        found = gx.score({"a": gx.Shards(tmp_path / "a.npy")}, wrap(user_objective(power)))
        assert float(found.pooled["length"]) == pytest.approx(4.0**power)
    assert not in_blocks.exists()


def test_only_own_files_are_removed_and_none_is_a_shard(
    in_blocks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_progress, "SAVE_SECONDS", 0.0)
    monkeypatch.setattr(saved_progress, "MAX_BYTES", 0)
    files = sharded(tmp_path, ARMS)
    mine = sorted((tmp_path / "a").iterdir())
    np.save(tmp_path / "a" / f"{'0' * 32}.npy", ARMS["a"])
    with gx.streaming(workers=1, folder=tmp_path / "a"):
        gx.score({"a": files["a"]}, gx.Vendi())
        gx.score({"a": files["a"]}, gx.Vendi(2.0))
    left = sorted((tmp_path / "a").iterdir())
    assert len(left) == len(mine) + 2, "one of mine, and one of progress"
    assert set(mine) < set(left)
    assert len(gx.Shards(tmp_path / "a").files) == 6


def test_drafts_of_killed_processes_are_removed(
    in_blocks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_progress, "SAVE_SECONDS", 0.0)
    with monkeypatch.context() as other:
        other.setattr("os.getpid", lambda: 2**22 + 1)  # larger than any process ID
        draft = draft_path(in_blocks / "x")
    in_blocks.mkdir()
    draft.write_text("half")
    gx.score(sharded(tmp_path, ARMS), gx.Vendi())
    assert not draft.exists()


def test_digests_differ_if_descriptions_do(monkeypatch: pytest.MonkeyPatch) -> None:
    different: list[Any] = [[1, 23], [12, 3], [[1, 2], 3], [1, [2, 3]], ["1", 23], {"1": 23}]
    assert len({saved_progress.digest(each) for each in different}) == len(different)
    before = saved_progress.digest([1])
    monkeypatch.setattr(gx, "__version__", "99")
    assert saved_progress.digest([1]) != before, "another version can compute something else"


def test_results_do_not_pile_up_behind_a_slow_file() -> None:
    waiting = run_jobs(first_is_slow, None, range(20), 2, in_order=True)
    started = [result for _, result in waiting]
    assert [index for index, _ in started] == list(range(20))
    slow_end = started[0][1]
    early = sum(end < slow_end for _, end in started[1:])
    assert early < 2 * 2, "the first job, and those that wait for it, are at most twice the workers"


def first_is_slow(shared: None, job: int) -> tuple[int, float]:
    time.sleep(1.0 if job == 0 else 0.0)
    return job, time.monotonic()


# -- refusals ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2])
def test_a_file_that_vanished_is_one_sentence(
    workers: int, in_blocks: Path, tmp_path: Path
) -> None:
    files = sharded(tmp_path, ARMS)
    (tmp_path / "b" / "4.npy").unlink()
    with (
        gx.streaming(workers=workers, folder=in_blocks),
        pytest.raises(gx.InputError, match=r"4\.npy cannot be read \(No such file"),
    ):
        gx.score(files, gx.Vendi())


@pytest.mark.parametrize(
    "objective", [gx.RKE(), gx.KernelDistance(REFERENCE), gx.Vendi(kernel=gx.Gaussian())]
)
def test_exact_kernels_need_samples_in_memory(
    objective: Any, in_blocks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = sharded(tmp_path, ARMS)
    with pytest.raises(
        gx.InputError, match=r"280 samples, which do not fit .* Gaussian\(features=512\)"
    ):
        gx.optimal_mixture(files, objective)
    monkeypatch.setattr(shards_module, "HELD_BYTES", 8 * 5 * 280)
    monkeypatch.setattr("genmix.offline.mixture.loaded_if_small", lambda *given: given)
    found = gx.optimal_mixture(files, objective)
    assert_close(found.weights, gx.optimal_mixture(ARMS, objective).weights)


def test_bad_samples_are_located(in_blocks: Path, tmp_path: Path) -> None:
    bad = ARMS["a"].copy()
    bad[117] = 0
    files = {"a": gx.Shards(write_folder(tmp_path / "a", bad))}
    with pytest.raises(gx.InputError, match=r"4\.npy, sample 21: .* zero vector.* cosine"):
        gx.optimal_mixture(files, gx.Vendi())
    with pytest.raises(gx.InputError, match=r"4\.npy, sample 21: .*innovation gap"):
        gx.diagnose(files, gx.FrechetDistance(REFERENCE))
    with pytest.raises(gx.InputError, match=r"0\.npz .*needs a quality"):
        gx.optimal_mixture(files, gx.Quality())


def test_arms_must_fit_together(in_blocks: Path, tmp_path: Path) -> None:
    files = sharded(tmp_path, ARMS)
    with pytest.raises(gx.InputError, match="arm 'x' has dimension 2, but arm 'a' has 5"):
        gx.optimal_mixture({**files, "x": np.eye(2)}, gx.Vendi())
    with pytest.raises(gx.InputError, match="quality names an unknown arm 'x'"):
        gx.optimal_mixture(files, gx.Vendi(), quality={"x": 1.0})
    with pytest.raises(gx.InputError, match="has 1 sample, but the objective needs 2"):
        gx.optimal_mixture({**files, "x": np.ones((1, 5))}, gx.FrechetDistance(REFERENCE, ddof=1))


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"workers": 0}, "workers"),
        ({"engine": "dask"}, "engine is 'dask'; pass one of local, ray"),
        ({"address": "auto"}, "use the ray engine"),
    ],
)
def test_bad_settings_are_refused(settings: Any, message: str) -> None:
    with pytest.raises(gx.InputError, match=message), gx.streaming(**settings):
        pass


def test_holding_samples_is_known() -> None:
    sample = np.zeros((1, 5))
    exact = gx.RKE(gx.Gaussian(1.0)) + gx.Vendi()
    assert statistics.holds_samples(exact.tally(1, sample))
    assert not statistics.holds_samples((gx.Vendi() + gx.Quality()).tally(1, sample))
