"""Continuing a run with a changed study: what applies, what is refused, and what is recorded."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import genmix as gx
from genmix.cli import app
from genmix.journal.integrity import check_run
from genmix.journal.reader import JournalReader
from genmix.study.edited_text import text_with_budget
from genmix.study.parsing import parse_study_text
from tests.runs.test_extend import assert_same, contents, features, no_report, stop_at, study

__all__ = ["features", "no_report"]

YAML = """\
# The daily run.
seed: 3
arms:
  flat: {kind: recorded, path: flat.npy, exhausted: retire, cost: 0.5}  # wide
  tall: {kind: recorded, path: tall.npy, exhausted: retire, cost: 0.5}
objective: vendi
warm_start: 5
resolve_growth: 0.1
in_flight: 1
budget:
  samples: 30  # at first
"""


def events(folder: Path) -> list[tuple[str, str | None]]:
    with JournalReader.open(folder) as journal:
        return [(e["kind"], e["arm"]) for e in journal.events()]


def words(folder: Path) -> list[str]:
    with JournalReader.open(folder) as journal:
        return [e["detail"]["why"] for e in journal.events() if e["kind"] == "changed"]


def written(folder: Path, text: str = YAML, name: str = "study.yaml") -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def test_new_arms_join_and_removed_arms_retire(features: Path) -> None:
    plain = study(features, 40)
    run = gx.run(plain, features / "run")
    arms = dict(plain["arms"])
    dot = arms.pop("dot")
    np.save(features / "new.npy", 1 + np.random.default_rng(9).normal(size=(400, 4)))
    arms["new"] = {**dot, "path": str(features / "new.npy")}
    later = plain | {"arms": arms, "budget": {"samples": 90}}
    dots = run.counts["dot"]
    run = gx.resume(run, study=later)
    assert run.summary["samples"] == 90
    assert run.counts["dot"] == dots
    assert run.counts["new"] >= 5
    assert run.summary["retired"] == ["dot"]
    assert set(run.weights) == {"flat", "tall", "new"}
    assert [event for event in events(run.folder) if event[0] in ("join", "retire")] == [
        ("join", "new"),
        ("retire", "dot"),
    ]
    assert "removed from the study" in words(run.folder)
    assert check_run(run.folder).journal == "verified"
    rows = list(run.samples())
    (run.folder / "selector.npz").unlink()  # the journal alone reproduces it
    again = gx.resume(run)
    assert again.weights == run.weights
    back = gx.resume(run, study=later | {"arms": arms | {"dot": dot}, "budget": {"samples": 100}})
    assert list(back.samples())[:90] == rows
    assert events(run.folder)[-4:-1][0] == ("start", None) or ("revive", "dot") in events(
        run.folder
    )
    assert "dot" in back.weights
    assert "Changes during the run" in back.report().read_text("utf-8")


def test_an_interrupted_change_continues_like_an_uninterrupted_one(features: Path) -> None:
    plain = study(features, 30)
    two = {label: plain["arms"][label] for label in ("flat", "tall")}
    later = plain | {"budget": {"samples": 70}}
    for name in ("whole", "cut"):
        gx.run(plain | {"arms": two}, features / name)
    whole = gx.resume(features / "whole", study=later)
    gx.resume(features / "cut", study=later, callbacks=[stop_at(37)])
    cut = gx.resume(features / "cut")
    assert_same(contents(cut.folder), contents(whole.folder))


def test_prices_retries_and_limits_apply(features: Path) -> None:
    plain = study(features, 30)
    run = gx.run(plain, features / "run")
    later = json.loads(json.dumps(plain | {"budget": {"samples": 50, "cost": 100}}))
    later |= {"retries": {"attempts": 2}, "in_flight": 3, "stop_when": {"weights_within": 1e-9}}
    later["stop_when"]["over"] = 40
    for arm in later["arms"].values():
        arm |= {"cost": 0.25, "concurrency": 2, "batch": 2}
    seen: list[Any] = []
    run = gx.resume(run, study=later, callbacks=[seen.append])
    assert run.summary["cost"] == pytest.approx(20 * 0.25)
    live = seen[-1]
    assert live.study.retries.attempts == 2
    assert (live.loop.limits.in_flight, live.loop.arms["flat"].batch) == (3, 2)
    assert "retries.attempts is now 2; it was 5" in words(run.folder)
    assert "arms.flat.cost is now 0.25; it was none" in words(run.folder)
    assert "in_flight is now 3; it was 1" in words(run.folder)
    before = len(events(run.folder))
    gx.resume(run, study=later)  # the same study again changes nothing
    assert len(events(run.folder)) == before


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"seed": 4}, "seed cannot change during a run: the run has 3, but the new study has 4;"),
    ({"policy": "uniform"}, 'policy cannot change during a run: the run has {"mixture-ucbv":'),
    ({"warm_start": 6}, "warm_start cannot change during a run: the run has 5,"),
    ({"objective": "rke"}, 'objective cannot change during a run: the run has [{"vendi":'),
    ({"encoder": {"kind": "pixels"}}, "encoder cannot change during a run: the run has none,"),
    ({"draw": "iid"}, "draw cannot change during a run: the run has none, but"),
    ({"path": "tall.npy"}, "arms.flat.path cannot change during a run: the run has "),
    ({"kind": "callable"}, "arms.flat.kind cannot change during a run: the run has recorded, "),
]


def test_what_must_not_change_is_refused(features: Path) -> None:
    plain = study(features, 20)
    run = gx.run(plain, features / "run")
    before = contents(run.folder)
    for change, sentence in REFUSED:
        later = plain | {"budget": {"samples": 30}}
        flat = plain["arms"]["flat"]
        if "path" in change:
            flat = {**flat, "path": str(features / "tall.npy")}
        elif "kind" in change:
            flat = {"kind": "callable", "function": "arms:make"}
        else:
            later |= change
        with pytest.raises(gx.InputError) as refused:
            gx.resume(run, study=later | {"arms": plain["arms"] | {"flat": flat}})
        assert str(refused.value).startswith(sentence)
        assert "\n" not in str(refused.value)
    assert_same(contents(run.folder), before)
    assert run.status == "finished"


def test_a_removed_arm_comes_back_only_as_it_was(features: Path) -> None:
    plain = study(features, 20)
    run = gx.run(plain, features / "run")
    two = {label: plain["arms"][label] for label in ("flat", "tall")}
    gx.resume(run, study=plain | {"arms": two, "budget": {"samples": 25}})
    other = {**plain["arms"]["dot"], "path": str(features / "tall.npy")}
    later = plain | {"arms": {**two, "dot": other}, "budget": {"samples": 40}}
    with pytest.raises(gx.InputError, match=r"arms.dot.path cannot change"):
        gx.resume(run, study=later)


def test_the_new_study_becomes_that_of_the_run(features: Path) -> None:
    path = written(features)
    run = gx.run(path, features / "run")
    text = YAML.replace("samples: 30", "samples: 50").replace("cost: 0.5}  #", "cost: 0.75}  #")
    other = written(features, text, "changed.yaml")
    gx.resume(run, study=other, callbacks=[stop_at(35)])
    assert (run.folder / "study.yaml").read_text("utf-8") == text
    assert gx.resume(run).summary["samples"] == 50
    with JournalReader.open(run.folder) as journal:
        assert journal.meta("source") == text
        assert journal.meta("file") == "changed.yaml"
    assert run.summary["name"] == "study"
    assert "arms.flat.cost is now 0.75; it was 0.5" in words(run.folder)


def test_an_edited_copy_is_noticed_and_can_be_applied(features: Path) -> None:
    run = gx.run(written(features), features / "run")
    copy = run.folder / "study.yaml"
    edited = copy.read_text("utf-8").replace("samples: 30", "samples: 45")
    copy.write_text(edited, "utf-8")
    notes: list[str] = []
    assert gx.resume(run, note=notes.append).summary["samples"] == 30
    assert notes == [
        f"{copy} was edited, which has no effect; apply it with "
        f"`genmix resume {run.folder} --study {copy}`"
    ]
    gx.resume(run, samples=35)
    assert copy.read_text("utf-8") == edited  # never overwritten
    notes.clear()
    assert gx.resume(run, study=copy, note=notes.append).summary["samples"] == 45
    assert notes == ["budget.samples is now 45; it was 35"]
    notes.clear()
    gx.resume(run, note=notes.append)
    assert notes == []


def test_the_copy_has_the_new_budget_and_its_comments(features: Path) -> None:
    run = gx.run(written(features), features / "run")
    gx.resume(run, samples=40, time=600)
    text = (run.folder / "study.yaml").read_text("utf-8")
    assert "  time: 600.0\n  samples: 40  # at first\n" in text
    assert text.startswith("# The daily run.")


@pytest.mark.parametrize(
    "text",
    [
        "budget: {samples: 300}",
        "budget: {samples: 300, time: 1h} # now",
        "budget:\n    # all\n    samples:   300\n",
        "budget:\n  time: 30m  # half\n  cost: 1.5\n",
        'budget: {"samples": 300}',
        "base: &b {samples: 300}\nbudget: *b",
        "budget:\n  samples:\n    300\n",
    ],
)
def test_texts_with_a_new_budget(text: str) -> None:
    before = parse_study_text("it", text).data
    found = text_with_budget(text, {"samples": 500, "cost": 2.5})
    expected = before["budget"] | {"samples": 500, "cost": 2.5}
    assert parse_study_text("it", found).data == before | {"budget": expected}
    assert ("#" in found) == ("#" in text)


def test_the_command_line_extends_and_changes(features: Path) -> None:
    run = gx.run(written(features), features / "run")
    command = ["resume", str(run.folder), "--json", "--quiet"]

    def invoke(*more: str) -> Any:
        return CliRunner().invoke(app, [*command, *more])

    found = invoke("--samples", "40", "--time", "1h")
    assert found.exit_code == 0, found.stderr
    assert json.loads(found.stdout)["samples"] == 40
    found = invoke("--samples", "39")
    assert found.exit_code == 2
    assert "budget.samples is 39, but the run already has 40 samples" in found.stderr
    other = written(features, YAML.replace("seed: 3", "seed: 5"), "other.yaml")
    found = invoke("--study", str(other), "--samples", "50")
    assert found.exit_code == 2
    assert "seed cannot change during a run: the run has 3, but the new study has 5" in found.stderr
    assert "extend it with --samples" in invoke().stderr


def test_an_old_run_is_extended(tmp_path: Path) -> None:
    """It ended with steps that newer versions do not write, and has no checksum."""
    import shutil

    old = Path(shutil.copytree(Path(__file__).parent / "data" / "v0.1", tmp_path / "v0.1"))
    before = gx.Run(old / "finished").summary["samples"]
    run = gx.resume(old / "finished", samples=before + 10)
    assert run.summary["samples"] == before + 10
    assert run.status == "finished"


def test_an_extension_survives_a_kill(features: Path) -> None:
    whole = gx.run(study(features, 80), features / "whole")
    run = gx.run(study(features, 30), features / "run")
    script = (
        "import sys, os, signal, genmix as gx\n"
        "def kill(live):\n"
        "    if live.told == 47: os.kill(os.getpid(), signal.SIGKILL)\n"
        "gx.resume(sys.argv[1], samples=80, callbacks=[kill])\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(run.folder)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert run.status == "unfinished"
    assert gx.resume(run).summary["samples"] == 80
    assert_same(contents(run.folder), contents(whole.folder))
