"""Whole studies: what a run leaves behind, what it refuses, and what it never writes down."""

from __future__ import annotations

import asyncio
import json
import math
import os
import shutil
import sys
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

import genmix as gx
from genmix.cli import app
from genmix.core.atomic import draft_path
from genmix.data.png import as_png
from genmix.journal.journal import Journal
from genmix.journal.lock import FolderLock
from genmix.journal.reader import JournalReader
from genmix.runs.execution import Options
from genmix.runs.resume import _check_encoder
from tests.support.endpoint import EMPTY, HALF, NOT_JSON, Answer, Call, Endpoint, error, says

HUGE = {"prompt_tokens": 10**30, "completion_tokens": 1}
SECRET = "sk-very-secret-4711"


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the encoder retry as often as ever, but sooner; its own tests check the waits."""
    monkeypatch.setattr("genmix.encoders.openai.WAITS", (0.01, 0.02, 0.04))


@pytest.fixture
def features(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for arm, scale in (("flat", [1, 1, 0.1, 0.1]), ("tall", [0.1, 0.1, 1, 1]), ("dot", [0.01] * 4)):
        np.save(tmp_path / f"{arm}.npy", 1 + rng.normal(size=(200, 4)) * scale)
    np.savez(tmp_path / "real.npz", reps=1 + rng.normal(size=(300, 4)))
    return tmp_path


def recorded(folder: Path, **more: Any) -> dict[str, Any]:
    arms = {
        name: {"kind": "recorded", "path": str(folder / f"{name}.npy")}
        for name in ("flat", "tall", "dot")
    }
    return {"name": "t", "arms": arms, "objective": "vendi", "budget": {"samples": 80}, **more}


def texts(url: str, **more: Any) -> dict[str, Any]:
    """Two arms behind an endpoint, with prices, embedded by it as well."""
    arm = {
        "kind": "openai",
        "model": "m",
        "base_url": url,
        "max_tokens": 12,
        "price": {"input": 0.5, "output": 2.0},
    }
    return {
        "name": "texts",
        "arms": {"a": {**arm, "prompt": "say a"}, "b": {**arm, "prompt": "say b"}},
        "encoder": {"kind": "openai", "model": "e", "base_url": url},
        "objective": "vendi",
        "budget": {"samples": 40},
        "warm_start": 5,
        "retries": {"attempts": 12, "first_wait": 0.001, "longest_wait": 0.01, "timeout": 5.0},
        **more,
    }


def test_a_run_leaves_data_weights_and_what_happened(features: Path) -> None:
    seen = []
    run = gx.run(
        recorded(features), features / "run", callbacks=[lambda live: seen.append(live.told)]
    )
    assert run.status == "finished"
    assert sum(run.counts.values()) == 80 == seen[-1]
    rows = [json.loads(line) for line in (features / "run" / "samples.jsonl").open()]
    assert rows == list(run.samples())
    assert Counter(row["model_name"] for row in rows) == run.counts
    assert [row["round"] for row in rows] == list(range(1, 81))
    weights = json.loads((features / "run" / "weights.json").read_text())
    assert weights["weights"] == run.weights
    assert weights["probabilities"] == [weights["weights"][arm] for arm in weights["arms"]]
    assert run.summary["gap"] < 1e-7
    assert set(run.summary["single_scores"]) == {"flat", "tall", "dot"}


def test_recorded_rows_are_drawn_without_replacement_and_told_as_they_are(features: Path) -> None:
    gx.run(recorded(features), features / "run")
    journal = JournalReader.open(features / "run")
    found: dict[str, list[bytes]] = {}
    for row in journal.told_rows():
        found.setdefault(row["arm"], []).append(row["embedding"])
    for arm, rows in found.items():
        given = {row.tobytes() for row in np.load(features / f"{arm}.npy")}
        assert len(set(rows)) == len(rows)
        assert set(rows) <= given


def test_the_same_seed_gives_the_same_run_and_another_does_not(features: Path) -> None:
    one, same, other = (
        [
            row["sample_id"]
            for row in sorted(run.samples(), key=lambda r: (r["model_name"], r["round"]))
        ]
        for run in (
            gx.run(recorded(features, seed=seed), features / name)
            for name, seed in (("one", 1), ("same", 1), ("other", 2))
        )
    )
    assert one == same != other


def test_a_finished_run_resumes_to_itself(features: Path) -> None:
    before = gx.run(recorded(features), features / "run").summary
    after = gx.resume(features / "run").summary
    for key in ("status", "samples", "weights", "pooled_score", "counts"):
        assert before[key] == after[key]


def test_a_folder_that_holds_a_run_is_not_overwritten(features: Path) -> None:
    gx.run(recorded(features), features / "run")
    with pytest.raises(
        gx.InputError, match="already contains a run; continue it with `genmix resume"
    ):
        gx.run(recorded(features), features / "run")
    with FolderLock(features / "run"), pytest.raises(gx.InputError, match="in use by process"):
        gx.resume(features / "run")


def test_stopping_early(features: Path) -> None:
    rule = {"weights_within": 0.5, "score_within": 0.9, "over": 20}
    run = gx.run(recorded(features, stop_when=rule), features / "run")
    assert run.summary["reason"] == "weights and score have settled over the last 20 samples"
    assert 50 <= run.summary["samples"] < 80


def test_an_objective_with_a_reference_and_a_policy(features: Path) -> None:
    study = recorded(
        features,
        objective=[{"frechet-distance": {}}, {"precision": {"k": 3, "weight": 0.1}}],
        reference=str(features / "real.npz"),
        policy={"mixture-ucb": {"delta": 0.1}},
    )
    run = gx.run(study, features / "run")
    assert set(run.summary["score"]) == {"frechet_distance", "precision"}


def test_exports(features: Path) -> None:
    run = gx.run(recorded(features), features / "run")
    rows = list(run.samples())
    path = gx.export(features / "run", "parquet")
    assert pyarrow.parquet.read_table(path).to_pylist() == rows
    assert gx.export(features / "run", "jsonl", features / "x.jsonl").read_text().count("\n") == 80
    with pytest.raises(gx.StorageError, match="could not write"):
        gx.export(features / "run", "parquet", features / "no" / "x.parquet")


def test_images_go_into_the_folder_and_into_a_data_set(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    rng = np.random.default_rng(0)
    for arm in ("dark", "light"):
        (tmp_path / arm).mkdir()
        for i in range(20):
            pixels = rng.integers(0, 100, (8, 8, 3)) + (0 if arm == "dark" else 150)
            (tmp_path / arm / f"{i}.png").write_bytes(as_png(pixels.astype(np.uint8)))
    arms = {
        arm: {"kind": "recorded", "path": str(tmp_path / arm), "exhausted": "retire"}
        for arm in ("dark", "light")
    }
    study = {
        "name": "images",
        "arms": arms,
        "encoder": {"kind": "pixels", "size": 4},
        "objective": "vendi",
        "budget": {"samples": 24},
        "warm_start": 4,
    }
    run = gx.run(study, tmp_path / "run")
    for row in run.samples():
        assert (tmp_path / "run" / row["image_path"]).read_bytes().startswith(b"\x89PNG")
    out = gx.export(tmp_path / "run", "hf")
    loaded = datasets.load_dataset(str(out), split="train", cache_dir=str(tmp_path / "hf-cache"))
    assert len(loaded) == 24
    assert loaded[0]["image"].size == (8, 8)
    with pytest.raises(gx.InputError, match="already exists"):
        gx.export(tmp_path / "run", "hf")


def test_a_secret_is_nowhere_in_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setenv("MY_KEY", SECRET)
    with Endpoint() as endpoint:
        endpoint.behave(
            lambda call: (
                Answer(500, call.headers.get("authorization", "").encode())
                if call.number % 4 == 1
                else None
            )
        )
        study = texts(endpoint.url)
        for arm in study["arms"].values():
            arm["api_key_env"] = "MY_KEY"
        gx.run(study, tmp_path / "run")
        assert any(SECRET in call.headers["authorization"] for call in endpoint.requests)
    assert SECRET not in caplog.text
    for path in (tmp_path / "run").rglob("*"):
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes(), path


def bad(call: Call) -> Answer | None:
    """A third of the calls go wrong, in seven ways."""
    ways = [
        error(429, retry_after=0),
        error(503),
        HALF,
        NOT_JSON,
        EMPTY,
        Answer(delay=0.02),
        error(500, "x" * 1000),
    ]
    luck = np.random.default_rng([call.number, 5]).random()
    if call.route == "/models" or luck > 0.3:
        return None
    return ways[int(luck / 0.3 * len(ways)) % len(ways)]


@pytest.mark.parametrize("in_flight", [1, 8])
def test_a_bad_endpoint_changes_neither_the_count_nor_the_bill(
    tmp_path: Path, in_flight: int
) -> None:
    with Endpoint() as endpoint:
        endpoint.behave(bad)
        study = texts(endpoint.url, in_flight=in_flight, budget={"samples": 70})
        run = gx.run(study, tmp_path / "run")
    rows = list(run.samples())
    assert len(rows) == 70 == len({row["sample_id"] for row in rows})
    journal = JournalReader.open(tmp_path / "run")
    failures = journal.failures()
    assert len(failures) > 10
    expected = math.fsum(
        (row["input_tokens"] * 0.5 + row["output_tokens"] * 2.0) / 1000 for row in rows
    )
    lost = [f for f in failures if f["message"].endswith("is counted.")]  # half or malformed
    wasted = [f for f in failures if f["cost"] and f not in lost]
    expected += math.fsum(
        (f["input_tokens"] * 0.5 + f["output_tokens"] * 2.0) / 1000 for f in wasted
    )
    expected += math.fsum(f["cost"] for f in lost)
    assert wasted
    assert lost
    assert run.summary["cost"] == pytest.approx(expected, abs=1e-9)


def test_the_cost_budget_holds_with_a_bad_endpoint(tmp_path: Path) -> None:
    with Endpoint() as endpoint:
        endpoint.behave(bad)
        run = gx.run(texts(endpoint.url, in_flight=6, budget={"cost": 0.9}), tmp_path / "run")
    assert 0.5 < run.summary["cost"] <= 0.9 + 1e-9
    assert run.status == "finished"


@pytest.mark.parametrize(
    "budget",
    [
        {"budget": {"samples": 80}, "stop_when": {"weights_within": 0.5, "over": 20}},
        {"budget": {"cost": 45.9}},
        {"budget": {"time": "60s"}},
    ],
    ids=["stop_when", "cost", "used up"],
)
def test_a_finished_run_is_never_continued(features: Path, budget: dict[str, Any]) -> None:
    study = recorded(features, **budget)
    for name, price in (("flat", 1.0), ("tall", 0.13), ("dot", 0.5)):
        study["arms"][name] |= {"exhausted": "retire", "cost": price}
    before = gx.run(study, features / "run")
    rows, weights = list(before.samples()), before.weights
    after = gx.resume(features / "run")
    assert list(after.samples()) == rows
    assert after.weights == weights
    assert after.status == "finished"
    assert set(weights) == {"flat", "tall", "dot"}  # those used up are part of the final mixture


def test_early_stopping_is_the_same_after_an_interruption(features: Path) -> None:
    study = recorded(
        features, stop_when={"weights_within": 0.1, "over": 30}, budget={"samples": 180}
    )
    whole = gx.run(study, features / "whole")

    def stop(live: Any) -> None:
        if live.told == 45:
            live.loop.stop("interrupted")

    gx.run(study, features / "cut", callbacks=[stop])
    cut = gx.resume(features / "cut")
    assert 45 < whole.summary["samples"] < 180
    assert list(cut.samples()) == list(whole.samples())


def test_a_run_killed_after_it_had_settled_stops_there_too(
    features: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = recorded(features, stop_when={"weights_within": 0.5, "over": 20})
    whole = gx.run(study, features / "whole")

    class Killed(BaseException):
        pass

    def killed(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr("genmix.runs.execution.completion", killed)
        with pytest.raises(Killed):
            gx.run(study, features / "cut")
    cut = gx.resume(features / "cut")
    assert list(cut.samples()) == list(whole.samples())
    assert cut.weights == whole.weights
    assert cut.summary["reason"] == whole.summary["reason"]


def test_a_laptop_that_slept_has_its_time_still(
    features: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, slept = time.time, [0.0]
    monkeypatch.setattr("genmix.journal.journal.time.time", lambda: now() + slept[0])

    def sleep(live: Any) -> None:
        slept[0] = 8 * 3600.0 if live.told >= 10 else 0.0
        if live.told == 20:
            live.loop.stop("interrupted")

    study = recorded(features, budget={"samples": 80, "time": "1h"})
    first = gx.run(study, features / "run", callbacks=[sleep])
    assert first.status == "interrupted"
    assert 0 < first.summary["seconds"] < 3600
    assert gx.resume(features / "run").summary["samples"] == 80


def project(folder: Path, word: str = "original") -> Path:
    """A study with code and data of its own, whose run was interrupted."""
    folder.mkdir()
    write_arms(folder, word)
    arm = {"kind": "callable", "function": "project_arms:make"}
    study = {
        "name": "s",
        "arms": {"a": arm, "b": arm},
        "encoder": {"kind": "callable", "function": "project_arms:embed"},
        "objective": "vendi",
        "warm_start": 3,
        "budget": {"samples": 20},
    }
    (folder / "my.yaml").write_text(json.dumps(study))

    def stop(live: Any) -> None:
        if live.told == 8:
            live.loop.stop("interrupted")

    gx.run(folder / "my.yaml", folder / "runs" / "one", callbacks=[stop])
    return folder


def write_arms(folder: Path, word: str) -> None:
    code = (
        "import numpy as np",
        f"def make(seeds): return [f'{word} {{seed % 97}}' for seed in seeds]",
        "def embed(texts): return np.array([[1.0 + len(t), 1.0 + t.count('1')] for t in texts])",
    )
    (folder / "project_arms.py").write_text("\n".join(code))


def newest_word(run: gx.Run) -> str:
    return str(list(run.samples())[-1]["text"]).split()[0]


def test_a_moved_project_continues_where_it_is(tmp_path: Path) -> None:
    project(tmp_path / "old").rename(tmp_path / "new")
    notes: list[str] = []
    run = gx.resume(tmp_path / "new" / "runs" / "one", note=notes.append)
    assert run.status == "finished"
    (said,) = [note for note in notes if "was moved" in note]
    assert said.endswith(f"using the study files in {tmp_path / 'new'}")


def test_a_copied_project_continues_with_its_own_files(tmp_path: Path) -> None:
    shutil.copytree(project(tmp_path / "old"), tmp_path / "copy")
    write_arms(tmp_path / "copy", "copied")
    assert newest_word(gx.resume(tmp_path / "copy" / "runs" / "one")) == "copied"
    notes: list[str] = []
    assert (
        newest_word(gx.resume(tmp_path / "old" / "runs" / "one", note=notes.append)) == "original"
    )
    assert not [note for note in notes if "was moved" in note]


def test_the_command_knows_the_studys_file_too(tmp_path: Path) -> None:
    study, out = project(tmp_path / "old") / "my.yaml", tmp_path / "old" / "two"
    done = CliRunner().invoke(app, ["run", str(study), "--out", str(out), "--quiet"])
    assert done.exit_code == 0, done.output
    journal = JournalReader.open(out)
    assert journal.meta("file") == "my.yaml"
    journal.close()


def test_a_run_moved_alone_continues_with_the_old_files(tmp_path: Path) -> None:
    (project(tmp_path / "old") / "runs" / "one").rename(tmp_path / "one")
    notes: list[str] = []
    assert gx.resume(tmp_path / "one", note=notes.append).status == "finished"
    assert any(note.endswith(f"files in {tmp_path / 'old'}") for note in notes)


def test_a_finished_run_wants_nothing_of_its_study(tmp_path: Path) -> None:
    folder = project(tmp_path / "old") / "runs" / "one"
    before = gx.resume(folder).summary
    (tmp_path / "old" / "project_arms.py").unlink()
    sys.modules.pop("project_arms", None)
    (folder / "summary.json").unlink()
    assert gx.resume(folder).summary == before


def test_money_spent_on_failures_does_not_pass_the_budget(tmp_path: Path) -> None:
    with Endpoint() as endpoint:
        endpoint.behave(lambda call: EMPTY if call.route == "/chat/completions" else None)
        study = texts(endpoint.url, in_flight=4, budget={"cost": 0.4})
        study["retries"] |= {"probe_after": 0.001}
        run = gx.run(study, tmp_path / "run")
    assert run.summary["samples"] == 0
    assert 0.2 < run.summary["cost"] <= 0.4


def test_one_odd_sample_costs_no_other(features: Path) -> None:
    rows = np.load(features / "flat.npy")
    rows[7] = 0.0  # has no direction, which the cosine kernel wants
    np.save(features / "flat.npy", rows)
    study = recorded(features, budget={"samples": 300}, in_flight=64)
    for arm in study["arms"].values():
        arm |= {"batch": 64, "exhausted": "retire"}
    run = gx.run(study, features / "run")
    assert run.summary["samples"] == 300
    assert run.summary["failures"] in ({}, {"flat": 1})


def test_odd_replies_are_failures_and_not_the_end(tmp_path: Path) -> None:
    odd = [
        Answer(500, b'{"error": {"message": "oops \\ud83d \\u001b[31m"}}'),
        says(
            {
                "choices": [{"message": {"content": "hm"}}],
                "usage": {"prompt_tokens": 10**30, "completion_tokens": 1},
            }
        ),
        says({"choices": [{"message": {"content": "\ud800 \x1b]0;x\x07 \x00 end"}}]}),
    ]
    with Endpoint() as endpoint:
        endpoint.behave(
            lambda call: (
                odd[call.number % 3] if call.number % 4 == 0 and "chat" in call.route else None
            )
        )
        run = gx.run(texts(endpoint.url), tmp_path / "run")
    assert run.summary["samples"] == 40
    assert "\x1b" not in json.dumps(run.summary["last_failure"])
    assert run.summary["cost"] < 5


def test_a_callback_that_fails_ends_the_run_with_all_it_has(features: Path) -> None:
    def fail(live: Any) -> None:
        if live.told == 30:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        gx.run(recorded(features), features / "run", callbacks=[fail])
    assert gx.Run(features / "run").summary["samples"] in (30, 31)
    assert gx.resume(features / "run").summary["samples"] == 80


@pytest.mark.parametrize(
    "before, now, is_same",
    [
        ("callable m:f #0123456789ab", "callable m:f #ba9876543210", True),
        ("callable m:f #0123456789ab, unit length", "callable m:f #0123456789ab", False),
        ("inception i.pt #0123456789ab", "inception i.pt #ba9876543210", False),
        ("sentence-transformers x #0123456789ab", "sentence-transformers x #ba9876543210", False),
    ],
)
def test_a_changed_function_may_continue_but_other_weights_may_not(
    features: Path, before: str, now: str, is_same: bool
) -> None:
    gx.run(recorded(features), features / "run")
    journal = Journal.open(features / "run")
    journal.set_meta("encoder", before)
    encoder, notes = SimpleNamespace(name=now), list[str]()
    if is_same:
        _check_encoder(journal, encoder, Options(note=notes.append))  # type: ignore[arg-type]
        assert "source code has changed" in notes[0]
        assert journal.meta("encoder") == now
    else:
        with pytest.raises(gx.InputError, match="use the same encoder"):
            _check_encoder(journal, encoder, Options())  # type: ignore[arg-type]
        assert journal.meta("encoder") == before
    journal.close()


def test_a_run_wants_a_folder_of_its_own(features: Path) -> None:
    with pytest.raises(gx.InputError, match="contains other files"):
        gx.run(recorded(features), features)
    with pytest.raises(gx.InputError, match="is not a folder"):
        gx.run(recorded(features), features / "dot.npy")
    gx.run(recorded(features), features / "run")
    with pytest.raises(gx.InputError, match="belongs to the run"):
        gx.export(features / "run", "jsonl", features / "run" / "journal.sqlite")
    (features / "link.jsonl").symlink_to(features / "dot.npy")
    with pytest.raises(gx.InputError, match="not a regular file"):
        gx.export(features / "run", "jsonl", features / "link.jsonl")


def test_recorded_samples_say_where_they_come_from(features: Path) -> None:
    run = gx.run(recorded(features), features / "run")
    journal = JournalReader.open(features / "run")
    for row, told in zip(run.samples(), journal.told_rows(), strict=True):
        name, place = row["source"].split("#")
        np.testing.assert_array_equal(
            np.load(features / name)[int(place)], np.frombuffer(told["embedding"])
        )


def test_a_run_continues_without_a_snapshot(
    features: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full when it is written: the journal has it all."""

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("genmix.core.state.np.savez", full)
    run = gx.run(recorded(features), features / "run")
    assert run.status == "finished"
    assert not list((features / "run").glob("selector*"))
    assert (features / "run" / "samples.jsonl").exists()


def test_resuming_a_finished_run_says_so(features: Path) -> None:
    gx.run(recorded(features), features / "run")
    result = runner.invoke(app, ["resume", str(features / "run"), "--quiet"])
    assert result.exit_code == 0
    assert "the run is already finished" in result.stderr


def test_a_second_interrupt_says_where_the_samples_are(
    features: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the results are written, say, when what is in flight has been taken in."""

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("genmix.runs.execution.write_results", interrupted)
    (features / "study.yaml").write_text(json.dumps(recorded(features)))
    command = ["run", str(features / "study.yaml"), "--out", str(features / "run"), "--quiet"]
    result = runner.invoke(app, command)
    assert result.exit_code == 130
    assert f"Continue with: genmix resume {features / 'run'}" in result.stderr
    monkeypatch.setattr("genmix.runs.prepare.parse_study_file", interrupted)
    result = runner.invoke(app, [*command[:3], str(features / "other"), "--quiet"])
    assert "interrupted before any sample was generated" in result.stderr


def test_drafts_of_killed_processes_are_removed(features: Path) -> None:
    gx.run(recorded(features), features / "run")
    mine = draft_path(features / "run" / "x.npz")
    dead = mine.with_name(mine.name.replace(f"-{os.getpid()}-", f"-{2**22 - 1}-"))
    for draft in (dead, mine):
        draft.write_text("half")
    gx.resume(features / "run")
    assert not dead.exists()
    assert mine.exists()


async def in_a_running_loop(features: Path) -> None:
    gx.run(recorded(features), features / "run")


def test_a_notebook_may_run_a_study(features: Path) -> None:
    asyncio.run(in_a_running_loop(features))
    assert gx.Run(features / "run").status == "finished"


def test_a_cost_budget_that_nothing_spends_is_refused(tmp_path: Path) -> None:
    study = texts("http://127.0.0.1:9/v1", budget={"cost": 1.0})
    for arm in study["arms"].values():
        del arm["price"]
    assert "no arm costs anything" in refused(tmp_path, study)


# --- what is refused before anything is spent -----------------------------------------------------

runner = CliRunner()


def refused(folder: Path, study: dict[str, Any], code: int = 2) -> str:
    path = folder / "study.yaml"
    path.write_text(json.dumps(study))  # JSON is YAML
    result = runner.invoke(app, ["run", str(path), "--out", str(folder / "run"), "--quiet"])
    assert result.exit_code == code, result.output
    assert not (folder / "run").exists()
    sentence = result.stderr.strip()
    assert "\n" not in sentence
    return sentence


def test_a_typo(features: Path) -> None:
    study = recorded(features, bugdet={"samples": 3})
    assert "did you mean 'budget'" in refused(features, study)


def test_a_missing_file(features: Path) -> None:
    study = recorded(features)
    study["arms"]["flat"]["path"] = "nowhere.npy"
    assert "nowhere.npy" in refused(features, study)


def test_an_unreachable_endpoint(tmp_path: Path) -> None:
    said = refused(tmp_path, texts("http://127.0.0.1:9/v1"))
    assert "127.0.0.1:9" in said
    assert "cannot be reached" in said


def test_a_wrong_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", SECRET)
    with Endpoint() as endpoint:
        endpoint.behave(
            lambda call: error(401, "bad") if SECRET in call.headers["authorization"] else None
        )
        study = texts(endpoint.url)
        study["arms"]["a"]["api_key_env"] = "MY_KEY"
        said = refused(tmp_path, study)
        assert not any("completions" in call.route for call in endpoint.requests)
    assert "rejects the key in MY_KEY" in said
    assert SECRET not in said


def test_a_key_that_is_not_set(tmp_path: Path) -> None:
    study = texts("http://127.0.0.1:9/v1")
    study["arms"]["a"]["api_key_env"] = "GENMIX_NO_SUCH_KEY"
    assert "GENMIX_NO_SUCH_KEY is not set" in refused(tmp_path, study)


def test_an_encoder_of_another_dimension_than_the_reference(tmp_path: Path) -> None:
    np.save(tmp_path / "real.npy", np.random.default_rng(0).normal(size=(50, 3)))
    with Endpoint() as endpoint:
        study = texts(endpoint.url, objective="frechet-distance", reference="real.npy")
        said = refused(tmp_path, study)
        assert not any("completions" in call.route for call in endpoint.requests)
    assert "returns 16 dimensions, but the reference has 3" in said


def test_arms_with_too_few_samples(features: Path) -> None:
    said = refused(features, recorded(features, budget={"samples": 300}))
    assert "has 200 samples, but the budget may need 280" in said
    said = refused(features, recorded(features, budget={"samples": 700}))
    assert "have 600 samples in total, but the budget asks for 700" in said


def test_a_pickled_npz_is_not_opened(features: Path) -> None:
    np.savez(features / "evil.npz", reps=np.array([print], dtype=object))
    study = recorded(features)
    study["arms"]["flat"]["path"] = str(features / "evil.npz")
    assert "evil.npz" in refused(features, study)
