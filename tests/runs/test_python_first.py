"""Whole runs of studies with Python objects, as in a notebook: functions, objectives, arrays."""

from __future__ import annotations

import asyncio
import functools
import json
import linecache
import runpy
import textwrap
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import genmix as gx
from genmix.cli import app
from genmix.data.samples import Sample
from genmix.generators.base import GenerationError
from genmix.journal.integrity import check_run
from genmix.journal.reader import JournalReader
from genmix.journal.schema import embedding_of
from genmix.policies.policy import Decision
from genmix.report.advice import advise
from genmix.report.facts import Facts
from genmix.report.run_pool import load_pool
from genmix.runs.check import check_study

EXAMPLE = Path(__file__).parents[2] / "examples" / "python_first.py"
REAL = np.random.default_rng(7).normal(size=(40, 4))


def cloud(seeds: list[int], axis: int = 0) -> list[Any]:
    """Points that vary along one axis."""
    return [
        np.random.default_rng(s).normal(size=4) * (1 + 9 * (np.arange(4) == axis)) for s in seeds
    ]


def study(**changes: Any) -> dict[str, Any]:
    arms = {f"axis {k}": functools.partial(cloud, axis=k) for k in range(3)}
    objective = gx.Vendi() + 0.3 * gx.Precision(REAL)
    return {
        "arms": arms,
        "objective": objective,
        "warm_start": 3,
        "budget": {"samples": 18},
        **changes,
    }


def stop_at(told: int) -> Callable[[Any], None]:
    return lambda live: live.loop.stop("interrupted") if live.told == told else None


def interrupted(given: dict[str, Any], folder: Path) -> gx.Run:
    run = gx.run(given, folder, callbacks=[stop_at(12)])
    assert run.status == "interrupted"
    return run


def samples(run: gx.Run) -> list[Any]:
    return [(row["model_name"], row["propensity"]) for row in run.samples()]


@pytest.fixture(autouse=True)
def no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GENMIX_REPORT", "off")


# -- resuming ----------------------------------------------------------------------------------------


def test_a_run_resumes_with_the_same_objects_bit_for_bit(tmp_path: Path) -> None:
    whole = gx.run(study(), tmp_path / "whole")
    interrupted(study(), tmp_path / "parts")
    parts = gx.resume(tmp_path / "parts", study=study())
    assert (parts.status, samples(parts)) == ("finished", samples(whole))
    assert parts.weights == whole.weights


def test_without_the_objects_one_sentence_says_what_to_pass(tmp_path: Path) -> None:
    folder = interrupted(study(), tmp_path / "run").folder
    before = (folder / "journal.sqlite").read_bytes()
    for options in ({}, {"samples": 22}):
        with pytest.raises(gx.InputError) as error:
            gx.resume(folder, **options)
        assert str(error.value) == (
            f"the study of {folder} contains Python objects ({__name__}:cloud and 40 reference samples of "
            f"dimension 4), which a journal cannot store; pass the same study: "
            f"gx.resume({str(folder)!r}, study=study)."
        )
    answer = CliRunner().invoke(app, ["resume", str(folder)])
    assert answer.exit_code == 2
    assert "pass the same study: gx.resume(" in answer.output.replace("\n", " ")
    assert (folder / "journal.sqlite").read_bytes() == before


def test_an_extension_survives_the_study_that_the_run_was_started_with(tmp_path: Path) -> None:
    folder = gx.run(study(), tmp_path / "run").folder
    assert sum(gx.resume(folder, study=study(), samples=24).counts.values()) == 24
    assert sum(gx.resume(folder, study=study()).counts.values()) == 24
    extend = {"study": study(), "samples": 40, "callbacks": [stop_at(30)]}
    assert gx.resume(folder, **extend).status == "interrupted"
    assert sum(gx.resume(folder, study=study()).counts.values()) == 40

    larger = study(budget={"samples": 44})
    assert sum(gx.resume(folder, study=larger).counts.values()) == 44
    assert sum(gx.resume(folder, study=larger, samples=46).counts.values()) == 46
    assert sum(gx.resume(folder, study=larger).counts.values()) == 46
    with pytest.raises(gx.InputError, match=r"budget\.samples is 18, but the run already has 46"):
        gx.resume(folder, study=study())


def test_a_study_that_was_edited_to_match_an_extension_counts_as_passed(tmp_path: Path) -> None:
    folder = gx.run(study(), tmp_path / "run").folder
    gx.resume(folder, study=study(), samples=22)
    edited = study(budget={"samples": 22})
    gx.resume(folder, study=edited)
    gx.resume(folder, study=edited, samples=26)
    assert sum(gx.resume(folder, study=edited).counts.values()) == 26


def test_every_function_that_cannot_be_called_is_named_at_once(tmp_path: Path) -> None:
    def nothing() -> None:
        """Take no seeds."""

    with pytest.raises(gx.InputError) as error:
        gx.run(study(arms={"a": nothing, "b": cloud, "c": nothing}), tmp_path / "run")
    assert [line[:7] for line in str(error.value).splitlines()] == ["arm 'a'", "arm 'c'"]
    assert not (tmp_path / "run").exists()


def test_a_finished_run_needs_its_objects_only_to_be_extended(tmp_path: Path) -> None:
    run = gx.run(study(), tmp_path / "run")
    assert gx.resume(run).counts == run.counts
    more = gx.resume(run, study=study(), samples=22)
    assert sum(more.counts.values()) == 22
    assert samples(more) == samples(gx.run(study(budget={"samples": 22}), tmp_path / "whole"))


@pytest.mark.parametrize(
    "changes, where",
    [
        (
            {"objective": gx.Vendi() + 0.3 * gx.Precision(REAL + 1e-9)},
            "objective",
        ),
        ({"objective": gx.RKE()}, "objective"),
        ({"policy": gx.Uniform()}, "policy"),
        ({"seed": 1}, "seed"),
    ],
)
def test_other_objects_are_refused(tmp_path: Path, changes: dict[str, Any], where: str) -> None:
    folder = interrupted(study(), tmp_path / "run").folder
    with pytest.raises(gx.InputError, match=f"{where}.* cannot change during a run"):
        gx.resume(folder, study=study(**changes))


def test_a_function_can_be_fixed_and_the_run_continued(tmp_path: Path) -> None:
    def version(body: str) -> Callable[..., Any]:
        space: dict[str, Any] = {
            "__name__": "__main__",
            "cloud": cloud,
            "GenerationError": GenerationError,
        }
        exec(f"def caption(seeds):\n    {body}", space)
        return space["caption"]  # type: ignore[no-any-return]

    broken = version("raise GenerationError('no credit', retryable=False)")
    given = study(retries={"give_up": 0.01})
    run = gx.run(given | {"arms": {"mine": broken}}, tmp_path / "run")
    assert run.status == "trouble"
    fixed = gx.resume(run, study=given | {"arms": {"mine": version("return cloud(seeds)")}})
    assert fixed.counts == {"mine": 18}
    with pytest.raises(gx.InputError, match=r"function.* cannot change during a run"):
        gx.resume(run, study=given | {"arms": {"mine": cloud}}, samples=22)


# -- objects of the user -----------------------------------------------------------------------------


def own_kernel(x: Any, y: Any) -> Any:
    return np.exp(-np.abs(x[:, None] - y[None]).sum(-1))


@dataclass(frozen=True, eq=False)
class Close(gx.Precision):
    name = "close"


@dataclass(frozen=True, eq=False)
class Favorite(gx.Policy):
    arm: str

    def decide(self, situation: Any) -> Decision:
        return Decision(np.array([float(arm == self.arm) for arm in situation.arms]))


@pytest.mark.parametrize(
    "changes",
    [
        {"objective": {"vendi": {"kernel": own_kernel}}},
        {"objective": gx.Vendi() + 0.5 * Close(REAL)},
        {"policy": Favorite("axis 1")},
    ],
)
def test_own_kernels_objectives_and_policies_run_and_resume(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    notes: list[str] = []
    whole = gx.run(study(**changes), tmp_path / "whole", note=notes.append)
    interrupted(study(**changes), tmp_path / "parts")
    parts = gx.resume(tmp_path / "parts", study=study(**changes), note=notes.append)
    assert samples(parts) == samples(whole)
    assert notes == []


# -- functions as arms -------------------------------------------------------------------------------


class Writer:
    def __call__(self, seeds: list[int]) -> list[Any]:
        return cloud(seeds)

    def method(self, seeds: list[int]) -> list[Any]:
        return cloud(seeds)


class AsyncWriter:
    async def __call__(self, seeds: list[int]) -> list[Any]:
        await asyncio.sleep(0)
        return cloud(seeds)


async def asynchronous(seeds: list[int], axis: int = 0) -> list[Any]:
    await asyncio.sleep(0)
    return cloud(seeds, axis)


def test_every_kind_of_function_is_an_arm(tmp_path: Path) -> None:
    arms = {
        "function": {"kind": "callable", "function": cloud, "arguments": {"axis": 2}},
        "async": asynchronous,
        "lambda": lambda seeds: cloud(seeds),
        "partial": functools.partial(asynchronous, axis=1),
        "object": Writer(),
        "method": Writer().method,
        "async object": AsyncWriter(),
    }
    given = study(arms=arms, objective="vendi", budget={"samples": 21})
    assert gx.run(given, tmp_path / "run").counts == dict.fromkeys(arms, 3)


@pytest.mark.parametrize(
    "result",
    [
        "a text",
        {"text": "a text", "cost": 0.25, "quality": 0.5},
        Sample(text="a text", cost=0.25),
        np.zeros((2, 2, 3), np.uint8),
        Image.new("RGB", (2, 2)),
    ],
)
def test_every_kind_of_result_is_a_sample(tmp_path: Path, result: Any) -> None:
    def embed(contents: list[Any]) -> Any:
        return np.ones((len(contents), 2))

    run = gx.run(
        {
            "arms": {"a": {"kind": "callable", "function": lambda seeds: [result for _ in seeds]}},
            "encoder": embed,
            "objective": gx.Vendi(),
            "warm_start": 1,
            "budget": {"samples": 2},
        },
        tmp_path / "run",
    )
    row = next(iter(run.samples()))
    assert row["text"] == "a text" or row["image_path"]
    assert row["cost"] == (0.25 if isinstance(result, dict | Sample) else None)


def test_a_failing_function_is_named_in_the_error(tmp_path: Path) -> None:
    def unlucky(seeds: list[int]) -> list[Any]:
        raise ValueError("out of paper")

    retries = {"attempts": 1, "suspend_after": 1, "give_up": 0.01, "probe_after": 0.01}
    given = study(arms={"a": unlucky, "b": cloud}, objective="vendi", retries=retries)
    run = gx.run(given, tmp_path / "run", callbacks=[stop_at(8)])
    message = run.summary["last_failure"]["a"]
    assert "unlucky failed (ValueError: out of paper); fix the function." in message
    assert "#" not in message


# -- encoders ----------------------------------------------------------------------------------------


def test_a_script_is_warned_of_trouble_and_of_arms_that_never_deliver(tmp_path: Path) -> None:
    def broken(seeds: list[int]) -> list[Any]:
        raise ValueError("out of paper")

    retries = {"attempts": 1, "suspend_after": 1, "give_up": 0.01, "probe_after": 60}
    patient = retries | {"give_up": 600}
    given = study(arms={"a": broken, "b": cloud}, objective="vendi", retries=patient)
    with pytest.warns(UserWarning, match="never delivered") as told:
        run = gx.run(given, tmp_path / "one")
    (warning,) = told
    assert str(warning.message).startswith("arm 'a' never delivered a sample: ")
    assert "out of paper" in str(warning.message)
    assert warning.filename == __file__
    assert (run.status, run.counts["b"]) == ("finished", 18)

    given = study(arms={"a": broken}, objective="vendi", retries=retries)
    with pytest.warns(UserWarning, match="stopped early") as told:
        run = gx.run(given, tmp_path / "none")
    first, second = (str(each.message) for each in told)
    assert run.status == "trouble"
    assert run.reason in first
    assert first.startswith(f"the run in {tmp_path / 'none'} stopped early with 0 samples (")
    assert second.startswith("arm 'a' never delivered a sample: ")
    assert f"{tmp_path / 'none'}: trouble" in str(run)
    assert run.score == {}
    with pytest.warns(UserWarning, match="stopped early") as told:
        gx.resume(run, study=given)
    assert len(told) == 2


def test_a_run_that_succeeds_or_is_stopped_warns_of_nothing(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gx.run(study(), tmp_path / "whole")
        gx.run(study(), tmp_path / "stopped", callbacks=[stop_at(1)])


def test_functions_that_look_the_same_do_not_share_embeddings(tmp_path: Path) -> None:
    def encoder(scale: float) -> Callable[[list[str]], Any]:
        return lambda contents: scale * np.array([[len(text), 1.0] for text in contents])

    def rows(run: gx.Run) -> Any:
        with JournalReader.open(run.folder) as journal:
            return np.array([embedding_of(row) for row in journal.told_rows()])

    def words(seeds: list[int]) -> list[str]:
        return ["a" * (1 + seed % 9) for seed in seeds]

    found = []
    for scale in (1.0, 2.0):
        given = {"arms": {"a": words}, "encoder": {"kind": "callable", "function": encoder(scale)}}
        more = {"objective": "vendi", "warm_start": 4, "budget": {"samples": 8}}
        run = gx.run(given | more, tmp_path / str(scale))
        found.append(rows(run))
        assert f"callable {__name__}:<lambda> #" in run.summary["encoder"]
    np.testing.assert_array_equal(2 * found[0], found[1])


# -- notebooks ---------------------------------------------------------------------------------------


class Notebook:
    """Runs cells in ``__main__`` while an event loop is running, as Jupyter does."""

    def __init__(self, **names: Any) -> None:
        self.space: dict[str, Any] = {"__name__": "__main__", **names}
        self.count = 0

    def cell(self, code: str) -> None:
        self.count += 1
        file, code = f"<cell {self.count}>", textwrap.dedent(code)
        linecache.cache[file] = (len(code), None, code.splitlines(True), file)
        exec(compile(code, file, "exec"), self.space)

    async def run(self, *cells: str) -> dict[str, Any]:
        for code in cells:
            self.cell(code)
            await asyncio.sleep(0)
        return self.space


SETUP = """
    import asyncio, random
    import numpy as np
    import genmix as gx

    WORDS = {"city": ["Boston", "Denver", "Austin"], "food": ["soup", "rice", "figs", "plums"]}

    async def cities(seeds):
        await asyncio.sleep(0)
        return [{"text": random.Random(s).choice(WORDS["city"]), "cost": 0.01} for s in seeds]

    def foods(seeds, n=4):
        return [random.Random(s).choice(WORDS["food"][:n]) for s in seeds]

    def embed(texts):
        return np.array([[np.sin(3 + k * sum(map(ord, t))) for k in range(1, 6)] for t in texts])

    study = {
        "arms": {"cities": cities, "foods": {"kind": "callable", "function": foods, "price": 0.02}},
        "encoder": embed,
        "objective": gx.Vendi() + 0.1 * gx.FrechetDistance(real),
        "policy": gx.MixtureGreedy(),
        "warm_start": 5,
        "budget": {"samples": 20},
    }
"""


def test_a_notebook_runs_stops_and_resumes_in_a_new_kernel(tmp_path: Path) -> None:
    real = np.random.default_rng(0).normal(size=(30, 5))
    start = """
        def stop(live):
            if live.told == 14:
                live.loop.stop("interrupted")

        run = gx.run(study, folder, callbacks=[stop])
    """
    first = asyncio.run(Notebook(folder=tmp_path / "run", real=real).run(SETUP, start))
    assert first["run"].status == "interrupted"
    resume = "run = gx.resume(folder, study=study)"
    second = asyncio.run(Notebook(folder=tmp_path / "run", real=real).run(SETUP, resume))
    whole = "run = gx.run(study, folder)"
    third = asyncio.run(Notebook(folder=tmp_path / "whole", real=real).run(SETUP, whole))
    assert second["run"].status == "finished"
    assert samples(second["run"]) == samples(third["run"])
    with JournalReader.open(tmp_path / "run") as journal:
        stored = json.dumps(journal.meta("study"))
    assert '"<__main__:cities #' in stored
    assert '"<moments of 30 reference samples of dimension 5 #' in stored


# -- the report and the example ----------------------------------------------------------------------


def test_the_report_needs_no_array_but_says_what_it_omits_without_a_function(
    tmp_path: Path,
) -> None:
    objectives = {"array": study()["objective"], "function": gx.Vendi(kernel=own_kernel)}
    notes: dict[str, list[str]] = {name: [] for name in objectives}
    for name, objective in objectives.items():
        run = gx.run(study(objective=objective), tmp_path / name)
        with JournalReader.open(run.folder) as journal:
            assert (load_pool(journal, notes[name].append) is None) == (name == "function")
        assert check_run(run.folder).problems == []
    assert notes["array"] == []
    (note,) = notes["function"]
    assert f"contains the Python object {__name__}:own_kernel, which a journal cannot store" in note


def test_the_example_in_the_guide_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert capsys.readouterr().out.count("finished") == 2
    assert sum(gx.Run("runs/cities").counts.values()) == 75


# -- checking and comparing --------------------------------------------------------------------------


def test_a_dict_can_be_checked_first_even_in_a_notebook(tmp_path: Path) -> None:
    async def cell() -> Any:
        return check_study(study(arms={"good": cloud, "short": lambda seeds: []}))

    report = asyncio.run(cell())
    assert [arm.dimension for arm in report.arms] == [4, None]
    (problem,) = report.problems
    assert "<lambda> returned 0 samples for 1 seed" in problem


def test_policies_can_be_compared_on_the_run_and_on_a_dict(tmp_path: Path) -> None:
    run = gx.run(study(policy=gx.Uniform()), tmp_path / "run")
    objective = study()["objective"]
    found = gx.compare(run, ["uniform"], 2, workers=1)
    given = gx.compare(run, ["uniform"], 2, workers=1, objective=objective)
    assert found.best_score == given.best_score
    np.save(tmp_path / "a.npy", REAL)
    arm = {"kind": "recorded", "path": str(tmp_path / "a.npy")}
    recorded = study(arms={"a": arm, "b": arm})
    assert gx.compare(recorded, ["uniform"], 2, workers=1).best_score is not None


def test_a_comparison_on_a_run_with_an_own_kernel_says_what_to_pass(tmp_path: Path) -> None:
    run = gx.run(study(objective=gx.Vendi(kernel=own_kernel)), tmp_path / "run")
    with pytest.raises(
        gx.InputError, match="own_kernel, which a journal cannot store; pass objective="
    ):
        gx.compare(run, ["uniform"], 2, workers=1)
    objective = gx.Vendi(kernel=own_kernel)
    assert gx.compare(run, ["uniform"], 2, workers=1, objective=objective).best_score is not None


def test_advice_for_a_run_with_python_objects_is_a_call(tmp_path: Path) -> None:
    folder = interrupted(study(), tmp_path / "run").folder
    texts = [advice.text for advice in advise(Facts(folder))]
    assert f"Continue the run: gx.resume({str(folder)!r}, study=study)" in texts
