"""Studies with prompts: every prompt gets its answers, whatever fails and whenever the run is killed."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.encoders.prompt_groups import cluster
from genmix.generators.base import GenerationError
from genmix.journal.integrity import check_run
from genmix.runs.check import check_study
from genmix.runs.timeline import Live
from tests.support.endpoint import Endpoint, error

TOPICS = {"travel": 0, "food": 1, "code": 2}


@pytest.fixture(autouse=True)
def _no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GENMIX_REPORT", "off")


def write_prompts(folder: Path, count: int = 12) -> Path:
    names = list(TOPICS)
    rows = [{"text": f"{names[i % 3]} question {i}", "topic": names[i % 3]} for i in range(count)]
    path = folder / "prompts.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    return path


def specialist(topic: str, refuses: str | None = None) -> Any:
    """An arm that varies only on its own topic."""

    def answer(seeds: list[int], prompts: list[str]) -> list[Any]:
        found: list[Any] = []
        for seed, prompt in zip(seeds, prompts, strict=True):
            asked = prompt.split()[0]
            row = np.zeros(24)
            mode = np.random.default_rng(seed).integers(8) if asked == topic else 0
            row[8 * TOPICS[asked] + mode] = 1.0
            if refuses is not None and refuses in prompt:
                found.append(GenerationError("refused.", retryable=True))
            else:
                found.append({"vector": row.tolist(), "prompt": prompt})
        return found

    return answer


def study(folder: Path, repeat: int = 3, count: int = 12, **more: Any) -> dict[str, Any]:
    path = write_prompts(folder, count)
    arms = {t: {"kind": "callable", "function": specialist(t)} for t in TOPICS}
    return {
        "arms": arms,
        "prompts": {"file": str(path), "group": "topic", "repeat": repeat},
        "objective": "vendi",
        "warm_start": 3,
        "resolve_growth": 0.2,
        "retries": {"attempts": 2, "first_wait": 0, "suspend_after": 1000},
        **more,
    }


def answers(run: gx.Run) -> Counter[int]:
    return Counter(row["prompt_id"] for row in run.samples())


def stop_at(count: int) -> Any:
    def stop(live: Live) -> None:
        if live.told >= count:
            live.loop.stop("interrupted")

    return stop


def test_every_prompt_gets_its_answers(tmp_path: Path) -> None:
    run = gx.run(study(tmp_path), tmp_path / "run")
    assert run.status == "finished"
    assert answers(run) == dict.fromkeys(range(12), 3)
    for row in run.samples():
        assert row["prompt"] == f"{row['group']} question {row['prompt_id']}"
    assert run.summary["unanswered"] == []
    assert check_run(run.folder).journal == "verified"


def test_each_group_learns_its_specialist(tmp_path: Path) -> None:
    run = gx.run(study(tmp_path, repeat=20), tmp_path / "run")
    for topic, weights in run.summary["weights_by_group"].items():
        assert max(weights, key=lambda arm: weights[arm]) == topic
        assert weights[topic] > 0.8


def test_the_order_is_that_of_the_file_or_random(tmp_path: Path) -> None:
    plain = study(tmp_path, repeat=2)
    ordered = plain | {"prompts": plain["prompts"] | {"order": "file"}}
    ids = [row["prompt_id"] for row in gx.run(ordered, tmp_path / "file").samples()]
    assert ids == [*range(12), *range(12)]
    mixed = [row["prompt_id"] for row in gx.run(plain, tmp_path / "random").samples()]
    assert sorted(mixed[:12]) == sorted(mixed[12:]) == list(range(12))
    assert mixed[:12] != list(range(12))
    assert mixed[:12] != mixed[12:]


@pytest.mark.parametrize("cut", [1, 10, 20, 35])
def test_an_interrupted_run_continues_like_an_uninterrupted_one(tmp_path: Path, cut: int) -> None:
    plain = study(tmp_path)
    whole = gx.run(plain, tmp_path / "whole")
    gx.run(plain, tmp_path / "cut", callbacks=[stop_at(cut)])
    later = gx.resume(tmp_path / "cut", study=plain)
    assert list(later.samples()) == list(whole.samples())
    assert later.weights == whole.weights
    (later.folder / "selector.npz").unlink()  # the journal alone reproduces it
    assert gx.resume(later, study=plain).weights == whole.weights


def test_a_budget_stops_earlier_and_more_answers_can_follow(tmp_path: Path) -> None:
    plain = study(tmp_path, budget={"samples": 20})
    run = gx.run(plain, tmp_path / "run")
    assert sum(answers(run).values()) == 20
    assert set(answers(run).values()) <= {1, 2}
    del plain["budget"]
    plain["prompts"]["repeat"] = 4
    assert answers(gx.resume(run, study=plain)) == dict.fromkeys(range(12), 4)


@pytest.mark.parametrize("refused", [None, "question 4"])
def test_an_early_end_leaves_only_failed_prompts_unanswered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str | None
) -> None:
    monkeypatch.delenv("GENMIX_REPORT")
    plain = study(tmp_path, repeat=10, count=6, budget={"samples": 30})
    for topic, arm in plain["arms"].items():
        arm["function"] = specialist(topic, refuses=refused)
    run = gx.run(plain, tmp_path / "run")
    assert sum(answers(run).values()) == 30
    assert [each["id"] for each in run.summary["unanswered"]] == ([4] if refused else [])
    assert (run.folder / "report.html").exists()


@pytest.mark.filterwarnings("ignore:arm 'food' never delivered")
def test_a_prompt_that_only_some_arms_failed_is_not_unanswered(tmp_path: Path) -> None:
    plain = study(tmp_path, repeat=10, count=6, budget={"samples": 30})
    plain["arms"]["food"]["function"] = specialist("food", refuses="question")
    assert gx.run(plain, tmp_path / "run").summary["unanswered"] == []


def test_a_total_above_all_answers_is_noted(tmp_path: Path) -> None:
    plain, notes = study(tmp_path, count=6, budget={"samples": 80}), list[str]()
    run = gx.run(plain, tmp_path / "run", note=notes.append)
    line = (
        "6 prompts × 3 answers are 18 samples, so the run ends there; raise prompts.repeat for more"
    )
    assert notes.count(line) == 1
    del plain["budget"]
    notes.clear()
    assert sum(gx.resume(run, study=plain, note=notes.append).counts.values()) == 18
    assert line not in notes
    gx.resume(run, study=plain, samples=50, note=notes.append)
    assert notes.count(line) == 1


def test_a_prompt_that_one_arm_refuses_goes_to_another(tmp_path: Path) -> None:
    plain = study(tmp_path)
    plain["arms"]["food"]["function"] = specialist("food", refuses="food question")
    run = gx.run(plain, tmp_path / "run")
    assert answers(run) == dict.fromkeys(range(12), 3)
    assert not any(r["group"] == "food" and r["model_name"] == "food" for r in run.samples())


def test_a_prompt_that_every_arm_refuses_is_set_aside_and_listed(tmp_path: Path) -> None:
    plain = study(tmp_path)
    for topic, arm in plain["arms"].items():
        arm["function"] = specialist(topic, refuses="question 7")
    run = gx.run(plain, tmp_path / "run")
    assert answers(run) == {prompt: 3 for prompt in range(12) if prompt != 7}
    [lacking] = run.summary["unanswered"]
    assert lacking == {"id": 7, "prompt": "food question 7", "failed": ["code", "food", "travel"]}
    assert run.summary["reason"] == (
        "1 prompt could not be answered by any arm; all other prompts are answered"
    )
    later = study(tmp_path)
    later["arms"] = plain["arms"] | {"new": {"kind": "callable", "function": specialist("code")}}
    more = gx.resume(run, study=later)
    assert answers(more)[7] == 3
    assert more.summary["unanswered"] == []


def test_groups_by_similarity(tmp_path: Path) -> None:
    def embed(texts: list[str]) -> Any:
        noise = [np.random.default_rng(len(t)).normal(size=3) / 50 for t in texts]
        return np.eye(3)[[TOPICS[t.split()[0]] for t in texts]] + noise

    def write(seeds: list[int], prompts: list[str]) -> list[str]:
        return [f"{prompt} {seed}" for seed, prompt in zip(seeds, prompts, strict=True)]

    plain = study(tmp_path, encoder={"kind": "callable", "function": embed})
    plain["prompts"] = {"file": plain["prompts"]["file"], "groups": 3}
    plain["arms"] = {name: {"kind": "callable", "function": write} for name in "ab"}
    run = gx.run(plain, tmp_path / "run")
    topics = {(row["group"], row["prompt"].split()[0]) for row in run.samples()}
    assert len(topics) == 3
    assert set(run.summary["weights_by_group"]) == {"group 1", "group 2", "group 3"}


def test_check_draws_with_the_first_prompt(tmp_path: Path) -> None:
    found = check_study(study(tmp_path))
    assert found.problems == []
    lacking = study(tmp_path)
    lacking["arms"]["food"]["function"] = lambda seeds: ["x" for _ in seeds]
    [problem] = check_study(lacking).problems
    assert "cannot be called with a list of seeds, prompts=" in problem


def test_changed_prompts_are_refused(tmp_path: Path) -> None:
    run = gx.run(study(tmp_path, budget={"samples": 15}), tmp_path / "run")
    other = study(tmp_path)
    other["prompts"]["group"] = None
    with pytest.raises(gx.InputError, match=r"prompts\.group cannot change during a run"):
        gx.resume(run, study=other)


def test_a_planned_budget_and_prompts(tmp_path: Path) -> None:
    plain = study(tmp_path, budget={"cost": 20.0}, policy="mixture-greedy")
    for label, price in zip(plain["arms"], (1.0, 0.3, 0.3), strict=True):
        plain["arms"][label]["price"] = price
    run = gx.run(plain, tmp_path / "run")
    assert answers(run) == dict.fromkeys(range(12), 3)
    assert run.summary["cost"] <= 20.0 + 1e-9


def test_a_prompt_that_an_endpoint_rejects_does_not_suspend_the_arm(tmp_path: Path) -> None:
    def embed(texts: list[str]) -> Any:
        return np.array([[1.0 + text.count(c) for c in "abcdefgh"] for text in texts])

    def behave(call: Any) -> Any:
        asked = json.dumps(call.payload)
        return error(400, "too long") if "strict" in asked and "food" in asked else None

    plain = study(tmp_path, encoder={"kind": "callable", "function": embed})
    plain["retries"] = {"first_wait": 0, "suspend_after": 3}
    with Endpoint() as endpoint:
        endpoint.behave(behave)
        shared = {"kind": "openai", "base_url": endpoint.url}
        plain["arms"] = {name: {**shared, "model": name} for name in ("strict", "kind")}
        run = gx.run(plain, tmp_path / "run")
        sent = [call.payload for call in endpoint.requests if "strict" in json.dumps(call.payload)]
    assert answers(run) == dict.fromkeys(range(12), 3)
    assert not any(r["group"] == "food" and r["model_name"] == "strict" for r in run.samples())
    assert run.counts["strict"] > 3
    assert run.summary["suspensions"] == {}
    rejected = [payload for payload in sent if "food" in json.dumps(payload)]
    assert 1 <= len(rejected) <= 4  # one attempt per prompt


def test_without_prompts_such_a_failure_counts_like_any_other(tmp_path: Path) -> None:
    def refuse(seeds: list[int]) -> list[Any]:
        return [GenerationError("no.", prompt_at_fault=True) for _ in seeds]

    def work(seeds: list[int]) -> list[Any]:
        return [[1.0, float(seed % 7)] for seed in seeds]

    plain = study(tmp_path, budget={"samples": 12}, retries={"attempts": 1, "suspend_after": 3})
    del plain["prompts"]
    plain["arms"] = {
        name: {"kind": "callable", "function": f} for name, f in (("bad", refuse), ("good", work))
    }
    with pytest.warns(UserWarning, match="'bad' never delivered a sample"):
        run = gx.run(plain, tmp_path / "run")
    assert run.counts["good"] == 12
    assert run.summary["suspensions"] == {"bad": 1}


def test_clusters_of_copies_and_of_rows_that_differ_by_rounding() -> None:
    copies = cluster(np.repeat(np.eye(3), 4, axis=0), 3, seed=0).reshape(3, 4)
    assert (copies == copies[:, :1]).all()
    assert sorted(copies[:, 0]) == [0, 1, 2]
    rows = np.ones((6, 3))
    rows[:3, 0] += 1e-15
    assert len(cluster(rows, 2, seed=0)) == 6
