"""One piece of advice per arm, with the cause of its failures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from genmix.report.advice import advise
from genmix.report.facts import Facts
from genmix.report.failure_causes import ENCODER, OTHER, cause_of, main_cause
from tests.support.report_runs import altered, feature_run

API = "https://api.example.com (some-model)"


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Facts:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GENMIX_REPORT", "off")
        return Facts(feature_run(tmp_path_factory.mktemp("run"), samples=120).folder)


@pytest.mark.parametrize(
    "message, words",
    [
        (f"{API} cannot answer right now (429: slow down).", "Lower its concurrency from 8 to 4"),
        ("RateLimitError: rate limit reached", "Lower its concurrency from 8 to 4"),
        (f"the quota at {API} is exhausted (429: pay).", "Increase the quota at its provider"),
        (f"{API} did not answer within 60 seconds.", "Set a longer timeout (it is 60 seconds)"),
        ("no answer within 300 seconds.", "Set a longer timeout (it is 60 seconds)"),
        ("TimeoutError", "Set a longer timeout (it is 60 seconds)"),
        (f"{API} rejects the key in MY_KEY (401: bad); correct it.", "Check the key in MY_KEY"),
        (f"{API} requires a key (403); set api_key_env.", "Check the key in MY_KEY"),
        (f"{API} cannot be reached; start the server or correct base_url.", "Start its server"),
        (f"{API} does not know the model 'x', or the URL is wrong (404).", "Correct its model"),
        (f"the content filter of {API} rejected the text.", "Change its prompts"),
        (f"{API} returned an empty text; increase max_tokens.", "Set a larger max_tokens"),
        ("OutOfMemoryError: CUDA out of memory.", "Set a smaller batch"),
        (
            f"{API} cannot answer right now (503).",
            "Continue when its server is available again, or",
        ),
        (f"{API} sent a malformed reply (status 200).", "Look for the reason in the log"),
        ("ValueError: row 512 is odd", "Fix it"),
    ],
)
def test_each_cause_has_its_own_advice(message: str, words: str) -> None:
    arm = {"concurrency": 8, "timeout": 60.0, "api_key_env": "MY_KEY"}
    found = cause_of(message).advise(arm, {"timeout": 300.0})
    assert found.startswith(words)


def test_one_request_at_a_time_cannot_be_lowered() -> None:
    assert cause_of("429").advise({"concurrency": 1}, {}).startswith("Set longer waits")
    assert cause_of("401").advise({}, {}) == "Check its key"
    assert cause_of("503").advise({}, {}) == "Continue when its server is available again"


def test_the_most_frequent_cause_counts() -> None:
    def failure(message: str, stage: str = "generate") -> dict[str, Any]:
        return {"message": message, "stage": stage}

    assert main_cause([]) is None
    found = main_cause(
        [failure("429"), failure("429 again"), failure("no answer within 5 seconds.")]
    )
    assert found == cause_of("429")
    assert main_cause([failure("429"), failure("timed out")]) == cause_of("timed out")  # the latest
    assert main_cause([failure("odd", "encode")]) is ENCODER
    assert main_cause([failure("odd")]) is OTHER


def failing(facts: Facts, label: str, **values: Any) -> Facts:
    broken = {"failures": 900, "suspensions": 1, "last_failure": "429", "cause": cause_of("429")}
    arms = [replace(a, **(broken | values)) if a.label == label else a for a in facts.arms]
    return altered(facts, arms=tuple(arms))


def test_the_cause_is_in_the_advice(facts: Facts) -> None:
    first = advise(failing(facts, "flat", count=100))[0]
    assert first.text == (
        "flat failed in 900 of 1,000 attempts and was suspended 1×, mostly because there were too many "
        "requests at a time (429). Set longer waits (first_wait and longest_wait in retries). "
        "Last failure: 429"
    )


def test_an_arm_that_fails_and_is_not_needed_has_one_advice(facts: Facts) -> None:
    assert [step.kind for step in advise(facts)] == ["drop", "use"]
    steps = advise(failing(facts, "dot"))
    assert [step.kind for step in steps] == ["failed", "use"]
    assert "Drop it: the mixture loses nothing without it." in steps[0].text


@pytest.mark.parametrize("label", ["flat", "tall", "dot"])
def test_each_arm_is_named_at_most_once(facts: Facts, label: str) -> None:
    for changed in (facts, failing(facts, label), failing(facts, label, count=0)):
        steps = [step.text for step in advise(changed)]
        for arm in ("flat", "tall", "dot"):
            assert sum(step.startswith((f"{arm} ", f"Drop {arm}")) for step in steps) <= 1


def test_the_journal_tells_the_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import genmix as gx

    monkeypatch.setenv("GENMIX_REPORT", "off")

    def good(seeds: list[int]) -> list[Any]:
        return [{"vector": [1.0, seed % 3]} for seed in seeds]

    def bad(seeds: list[int]) -> list[Any]:
        raise RuntimeError("429 Too Many Requests")

    arms = {"good": good, "bad": {"kind": "callable", "function": bad, "concurrency": 6}}
    retries = {"attempts": 1, "first_wait": 0.001, "longest_wait": 0.001}
    study = {"arms": arms, "objective": "vendi", "budget": {"samples": 30}, "retries": retries}
    found = Facts(gx.run(study, tmp_path / "run").folder)
    assert "Lower its concurrency from 6 to 3; otherwise, drop the arm." in advise(found)[0].text
