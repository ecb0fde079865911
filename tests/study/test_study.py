"""The study: defaults, bad settings, and the documentation page."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from genmix.core.text import listed
from genmix.encoders import ENCODER_KINDS
from genmix.generators import ARM_KINDS
from genmix.generators.base import ArmSettings
from genmix.study.components import (
    KERNELS,
    OBJECTIVES,
    POLICIES,
)
from genmix.study.sections import Budget, Retries, StopWhen
from genmix.study.study import (
    Study,
    StudyError,
    read_study,
    study_from,
    with_budget,
)
from genmix.study.template import EXAMPLE
from tests.support.studies import (
    ARM,
    ENCODERS,
    FULL,
    KEYS,
    KINDS,
    LOOKS_LIKE_SECRET,
    NO_NAME,
    NO_SECRETS,
    SECRET,
    SMALL,
    plain_study,
    problems_in,
    purpose,
    read,
    with_line,
)


def test_a_full_study_is_read(tmp_path: Path) -> None:
    study = read(tmp_path, FULL)
    assert (study.name, study.seed, study.reference) == ("city", 3, "real.npz")
    assert list(study.arms) == ["smol/plain", "smol/cold", "big/hot", "mine"]
    cold, hot = study.arms["smol/cold"].model_dump(), study.arms["big/hot"].model_dump()
    assert (cold["model"], cold["temperature"], cold["max_tokens"]) == ("smollm2", 0.5, 100)
    assert (hot["model"], hot["temperature"], hot["batch"]) == ("other", 1.5, 2)
    assert hot["prompt"] == "Write a short sentence."
    assert [(term.kind, term.weight) for term in study.objective] == [
        ("vendi", 1.0),
        ("precision", 0.3),
        ("kernel-distance", 1.0),
        ("cost", 0.1),
    ]
    assert study.policy.kind == "fixed"
    assert (study.budget.samples, study.budget.cost, study.budget.time) == (200, 1.5, 1800)
    assert (study.warm_start, study.draw, study.resolve_growth) == (12, "tracking", 0.02)
    assert study.in_flight == 8
    assert study.retries.model_dump() == {
        "attempts": 4,
        "first_wait": 2,
        "longest_wait": 60,
        "suspend_after": 2,
        "probe_after": 5400,
        "timeout": 90,
        "give_up": 600,
    }
    assert study.stop_when is not None
    assert study.stop_when.model_dump() == {
        "weights_within": 0.01,
        "score_within": 0.02,
        "keep_gain_below": None,
        "over": 100,
    }


def test_a_small_study_has_defaults(tmp_path: Path) -> None:
    study = read(tmp_path, SMALL)
    assert (study.name, study.seed, study.encoder, study.reference) == ("study", 0, None, None)
    assert (study.policy.kind, study.warm_start, study.draw) == ("mixture-ucbv", 10, None)
    assert (study.resolve_growth, study.in_flight, study.stop_when) == (0.01, 1, None)
    retries = study.retries
    assert (retries.attempts, retries.first_wait, retries.longest_wait) == (5, 1.0, 60.0)
    assert (retries.suspend_after, retries.probe_after) == (3, 60.0)
    assert (retries.timeout, retries.give_up) == (300.0, 600.0)


def test_the_name_comes_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "my study (2).yaml"
    path.write_text(SMALL)
    assert read_study(path).name == "my-study-2"


def test_in_flight_is_two_batches_per_call_or_the_largest_concurrency_unless_given(
    tmp_path: Path,
) -> None:
    arm = "concurrency: 3, batch: 4"
    text = SMALL.replace('function: "arms:make"', f'function: "arms:make", {arm}', 1)
    text = text.replace("samples: 200", "samples: 2000")
    assert read(tmp_path, text).in_flight == 24
    assert read(tmp_path, text.replace("batch: 4", "batch: 1")).in_flight == 3
    assert read(tmp_path, SMALL).in_flight == 1
    replicas = text.replace("batch: 4", "batch: 4, resources: {replicas: 2}")
    assert read(tmp_path, replicas).in_flight == 24
    assert read(tmp_path, f"{replicas}engine: ray\n").in_flight == 48


def test_the_default_of_in_flight_follows_the_engine_and_the_budget(tmp_path: Path) -> None:
    arm = "batch: 4, resources: {replicas: 8}"
    text = SMALL.replace('function: "arms:make"', f'function: "arms:make", {arm}')
    free, fixed = read(tmp_path, text), read(tmp_path, f"{text}in_flight: 4\n")
    assert [free.in_flight, free.with_engine("ray").in_flight] == [16, 32]
    assert with_budget(free, {"samples": 40}).in_flight == 4
    assert study_from(free.plain()).with_engine("ray").in_flight == 32
    for study in (fixed, study_from(fixed.plain())):
        assert study.with_engine("ray").in_flight == 4
        assert with_budget(study, {"samples": 2000}).in_flight == 4


@pytest.mark.parametrize(
    ("more", "policy", "draw"),
    [
        ("", "mixture-ucbv", None),
        ("prompts: {file: p.txt}\n", "mixture-ucbv", None),
        ("prompts: {file: p.txt, groups: 2}\n", "mixture-greedy", "tracking"),
        ("prompts: {file: p.txt, groups: 2}\ndraw: iid\n", "mixture-greedy", "iid"),
        ("prompts: {file: p.txt, groups: 2}\npolicy: mixture-ucbv\n", "mixture-ucbv", None),
    ],
)
def test_groups_of_prompts_have_a_default_policy_of_their_own(
    tmp_path: Path, more: str, policy: str, draw: str | None
) -> None:
    (tmp_path / "p.txt").write_text("one\ntwo\n")
    encoder = 'encoder: {kind: callable, function: "arms:embed"}\n'
    study = read(tmp_path, SMALL + encoder + more)
    assert (study.policy.kind, study.draw) == (policy, draw)
    assert study_from(study.plain()) == study


@pytest.mark.parametrize(
    ("budget", "in_flight"),
    [("{samples: 200}", 20), ("{samples: 40}", 12), ("{time: 1h}", 24)],
)
def test_batches_in_flight_are_a_small_part_of_the_budget(
    tmp_path: Path, budget: str, in_flight: int
) -> None:
    arm = "concurrency: 3, batch: 4"
    text = SMALL.replace('function: "arms:make"', f'function: "arms:make", {arm}', 1)
    assert read(tmp_path, text.replace("{samples: 200}", budget)).in_flight == in_flight


@pytest.mark.parametrize("text", [SMALL, FULL, EXAMPLE])
def test_a_study_round_trips_through_json(tmp_path: Path, text: str) -> None:
    study = read(tmp_path, text)
    again = study_from(json.loads(json.dumps(study.plain(), allow_nan=False)))
    assert again == study
    assert again.plain() == study.plain()


def test_a_study_cannot_be_changed(tmp_path: Path) -> None:
    study = read(tmp_path, SMALL)
    with pytest.raises(ValueError, match="frozen"):
        study.seed = 5  # type: ignore[misc]


def test_python_values_become_plain_data(tmp_path: Path) -> None:
    study = study_from(
        {
            "arms": {"a": {"kind": "recorded", "path": Path("x.npz"), "cost": np.float64(0.5)}},
            "objective": ("frechet-distance",),
            "reference": Path("real.npz"),
            "budget": {"samples": np.int64(50)},
        }
    )
    assert study.plain()["arms"]["a"]["path"] == "x.npz"
    assert (study.budget.samples, study.reference, study.name) == (50, "real.npz", "study")


BAD_SETTINGS: list[tuple[str, str]] = [
    # keys
    (
        ARM % "temprature: 1",
        "unknown key 'temprature' in arm 'smol'; did you mean 'temperature'?",
    ),
    (
        "arms: {a: {kind: recorded, path: x, zzz: 1}}",
        f"unknown key 'zzz' in arm 'a'; the keys are {listed(KEYS['recorded'])}.",
    ),
    ("budjet: {samples: 3}", "unknown key 'budjet' in the study; did you mean 'budget'?"),
    ("budget: {sample: 3}", "unknown key 'sample' in budget; did you mean 'samples'?"),
    (
        "retries: {atempts: 3}",
        "unknown key 'atempts' in retries; did you mean 'attempts'?",
    ),
    (
        "arms: {a: {kind: recorded, path: x, varriants: {}}}",
        "unknown key 'varriants' in arm 'a'; did you mean 'variants'?",
    ),
    # missing keys
    (
        "arms: {a: {kind: recorded}}",
        f"arm 'a' has no 'path'; add it ({purpose(ARM_KINDS, 'recorded', 'path')}).",
    ),
    (
        "encoder: {kind: sentence-transformers}",
        "the encoder has no 'model'; add it "
        f"({purpose(ENCODER_KINDS, 'sentence-transformers', 'model')}).",
    ),
    # kinds
    ("arms: {a: {path: x}}", f"arm 'a' has no 'kind'; use one of {listed(KINDS, 'or')}."),
    (
        "arms: {a: {kind: opnai}}",
        "unknown kind 'opnai' in arm 'a'; did you mean 'openai' "
        f"(or {listed([kind for kind in KINDS if kind != 'openai'], 'or')})?",
    ),
    (
        "arms: {a: {kind: [1]}}",
        f"unknown kind a list in arm 'a'; use one of {listed(KINDS, 'or')}.",
    ),
    (
        "encoder: {kind: qqqqqq}",
        f"unknown kind 'qqqqqq' in the encoder; use one of {listed(ENCODERS, 'or')}.",
    ),
    # arms
    ("arms: {}", "arms is empty; use at least one entry."),
    ("arms:", "arms is empty; use a mapping of keys and values."),
    ("arms: [a, b]", "arms is a list; use a mapping of keys and values."),
    ("arms: {a: 5}", "arm 'a' is 5; use a mapping of keys and values."),
    ("arms: {a: }", "arm 'a' is empty; use a mapping of keys and values."),
    (
        "arms: {' ': {kind: recorded, path: x}}",
        "arm ' ': the label is empty; write a name.",
    ),
    (
        'arms: {"a\\nb": {kind: recorded, path: x}}',
        "arm 'a\\nb': the label contains a control character; remove it.",
    ),
    (
        'arms: {"a\\uFFFE": {kind: recorded, path: x}}',
        "arm 'a\\ufffe': the label contains U+FFFE or U+FFFF, which are not characters; remove it.",
    ),
    (
        f"arms: {{{'x' * 101}: {{kind: recorded, path: x}}}}",
        f"arm '{'x' * 101}': the label has 101 characters; use at most 100.",
    ),
    # values
    ("seed: -1", "seed is -1; use a whole number of at least 0."),
    (
        ARM % "resources: {num_gpus: 1.5}",
        "resources.num_gpus of arm 'smol' is 1.5; use a whole number, or a fraction below 1.",
    ),
    (
        ARM % "resources: {num_cpus: 1e-5}",
        "resources.num_cpus of arm 'smol' is 1e-05; use 0, or a number of at least 0.0001.",
    ),
    ("seed: 1.5", "seed is 1.5; use a whole number of at least 0."),
    ("seed: true", "seed is true; use a whole number."),
    ("seed: '1e400'", "seed is '1e400'; use a whole number."),
    ("seed: '99999999999999999999'", "seed is '99999999999999999999'; use a whole number."),
    ("seed: 1e300", "seed is 1e+300; use a whole number of at least 0."),
    ("seed:", "seed is empty; use a whole number of at least 0."),
    ("name: 7", "name is 7; use text in quotes."),
    ("name: ../x", "name is '../x'; use at most 100 letters, digits, '-', '_' and '.'."),
    ("budget: {samples: many}", "budget.samples is 'many'; use a whole number of at least 1."),
    ("budget: {samples: 0}", "budget.samples is 0; use a whole number of at least 1."),
    ("budget: {cost: -1}", "budget.cost is -1; use a number of at least 0."),
    ("budget: {cost: inf}", "budget.cost is 'inf'; use a number."),
    (
        "budget: {time: soon}",
        "budget.time is 'soon'; use seconds, or a number with s, m or h, e.g. 30m.",
    ),
    ("budget: {time: 0}", "budget.time is 0; use a number above 0."),
    ("budget: {time: {}}", "budget.time is empty; use a number."),
    ("budget: {}", "budget: no limit is set; set samples, cost or time."),
    (
        "budget: 200",
        "budget is 200; use a mapping with the keys samples, cost and time, e.g. {samples: 200}.",
    ),
    (
        "budget: 0.5",
        "budget is 0.5; use a mapping with the keys samples, cost and time, e.g. {cost: 0.5}.",
    ),
    (
        "budget: 30m",
        "budget is '30m'; use a mapping with the keys samples, cost and time.",
    ),
    (
        "arms: {a: {kind: openai, model: m, base_url: 'http://x/v1', prompt: p, price: 0.01}}",
        "price of arm 'a' is 0.01; use a mapping with the keys input (price of 1000 prompt tokens) and "
        "output (price of 1000 generated tokens), e.g. {input: 0.01, output: 0.01}.",
    ),
    ("warm_start: 0", "warm_start is 0; use a whole number of at least 1."),
    ("draw: best", "draw is 'best'; use 'iid' or 'tracking'."),
    ("resolve_growth: -1", "resolve_growth is -1; use a number of at least 0."),
    ("in_flight: 0", "in_flight is 0; use a whole number of at least 1."),
    ("reference: ''", "reference is empty; use text."),
    ("encoder: sbert", "the encoder is 'sbert'; use a mapping of keys and values."),
    (
        "stop_when: {}",
        "stop_when: no condition is set; set weights_within, score_within or keep_gain_below.",
    ),
    (
        "stop_when: {weights_within: 2}",
        "stop_when.weights_within is 2; use a number above 0 and of at most 1.",
    ),
    ("retries: {attempts: 0}", "retries.attempts is 0; use a whole number of at least 1."),
    ("retries: {timeout: 0}", "retries.timeout is 0; use a number above 0."),
    ("retries: {give_up: -5}", "retries.give_up is -5; use a number above 0."),
    (
        "retries: {first_wait: 2m}",
        "retries: longest_wait (60) is below first_wait (120); increase it.",
    ),
    (ARM % "temperature: hot", "temperature of arm 'smol' is 'hot'; use a number of at least 0."),
    (ARM % "temperature: -1", "temperature of arm 'smol' is -1; use a number of at least 0."),
    (
        ARM % "top_p: 3",
        "top_p of arm 'smol' is 3; use a number above 0 and of at most 1.",
    ),
    (ARM % "concurrency: true", "concurrency of arm 'smol' is true; use a whole number."),
    (ARM % "stop: 7", "stop of arm 'smol' is 7; use text in quotes or a list."),
    (ARM % "mode: talk", "mode of arm 'smol' is 'talk'; use 'chat' or 'completion'."),
    (
        ARM % "examples: [{user: a}]",
        "examples[0] of arm 'smol' has no 'assistant'; add it (the model's ideal answer).",
    ),
    (
        "arms: {a: {kind: callable, function: make}}",
        "function of arm 'a' is 'make'; use another format "
        f"({purpose(ARM_KINDS, 'callable', 'function')}).",
    ),
    ("arms: {a: {kind: recorded, path: 5}}", "path of arm 'a' is 5; use text in quotes."),
    (
        "arms: {a: {kind: command, command: ls -l}}",
        "arm 'a': command is a string; write a list, e.g. [python, generate.py].",
    ),
    (
        "arms: {a: {kind: command, command: [], price: x}}",
        "command of arm 'a' is empty; use at least one entry.",
    ),
    # secrets
    (ARM % f"api_key: {SECRET}", NO_SECRETS),
    (ARM % "api-key: abc", NO_SECRETS),
    (ARM % "token: abc", NO_SECRETS),
    (ARM % "password: 1234567", NO_SECRETS),
    (ARM % "extra_body: {auth: {password: abc}}", NO_SECRETS),
    (ARM % f"api_key_env: {SECRET}", f"api_key_env of arm 'smol' {NO_NAME}"),
    (ARM % "api_key_env: hf_abcdefghijklmnopqrstu", f"api_key_env of arm 'smol' {NO_NAME}"),
    (ARM % "api_key_env: a1b2c3d4e5f6a1b2c3d4e5f6", f"api_key_env of arm 'smol' {NO_NAME}"),
    (ARM % "api_key_env: $OPENAI_API_KEY", f"api_key_env of arm 'smol' {NO_NAME}"),
    (ARM % f"system: {SECRET}", f"system of arm 'smol' {LOOKS_LIKE_SECRET}"),
    (
        ARM % f"extra_body: {{x: [Bearer {SECRET}]}}",
        f"extra_body.x[0] of arm 'smol' {LOOKS_LIKE_SECRET}",
    ),
    (
        "arms: {a: {kind: openai, model: m, prompt: p, base_url: 'https://me:pass@x.org/v1'}}",
        f"base_url of arm 'a' {LOOKS_LIKE_SECRET}",
    ),
    (
        "encoder: {kind: openai, model: m, base_url: 'me:pass@x.org/v1'}",
        f"encoder.base_url {LOOKS_LIKE_SECRET}",
    ),
    (
        "arms: {a: {kind: command, command: [x], env: [MY_KEY=abc]}}",
        f"env[0] of arm 'a' {NO_NAME}",
    ),
]


@pytest.mark.parametrize("line, sentence", BAD_SETTINGS)
def test_a_bad_setting_gets_a_sentence(tmp_path: Path, line: str, sentence: str) -> None:
    text = with_line(line)
    number = text.count("\n")
    found = problems_in(tmp_path, text)
    assert f"study.yaml, line {number}: {sentence}" in found
    assert len(found) == 1 or "price: x" in line
    assert not any(
        secret in told for told in found for secret in (SECRET, "me:pass", "abc", "a1b2")
    )


def test_every_missing_section_is_reported(tmp_path: Path) -> None:
    assert problems_in(tmp_path, "seed: 1\n") == [
        "study.yaml, line 1: the study has no 'arms'; add it (the generators: a mapping from labels to "
        "settings).",
        "study.yaml, line 1: the study has no 'budget'; add it (limits on the run: samples, cost or "
        "time).",
        "study.yaml, line 1: the study has no 'objective'; add it (what to optimize).",
    ]


def test_all_problems_are_reported_in_line_order(tmp_path: Path) -> None:
    text = """\
seed: -1
arms:
  a:
    kind: recorded
    pth: x.npz
  b: {kind: callable, function: "m:f", batch: 0}
objective:
  - vendy
  - precision: {kk: 3}
budget: {samples: no}
extra: 1
"""
    assert problems_in(tmp_path, text) == [
        "study.yaml, line 1: seed is -1; use a whole number of at least 0.",
        "study.yaml, line 3: arm 'a' has no 'path'; add it "
        f"({purpose(ARM_KINDS, 'recorded', 'path')}).",
        "study.yaml, line 5: unknown key 'pth' in arm 'a'; did you mean 'path'?",
        "study.yaml, line 6: batch of arm 'b' is 0; use a whole number of at least 1.",
        "study.yaml, line 8: unknown objective 'vendy'; did you mean 'vendi'?",
        "study.yaml, line 9: unknown key 'kk' in precision; did you mean 'k'?",
        "study.yaml, line 10: budget.samples is 'no'; use a whole number of at least 1.",
        "study.yaml, line 11: unknown key 'extra' in the study; the keys are "
        f"{listed(Study.model_fields)}.",
    ]


def test_plain_data_gets_the_same_sentences_by_path() -> None:
    arm = {"kind": "openai", "model": "m", "base_url": "http://x/v1", "prompt": "p"}
    data: dict[str, Any] = {
        "arms": {"smol": {**arm, "temprature": 1}, "b": {**arm, "api_key_env": SECRET}},
        "objective": ["vendi", {"precision": {"k": "x"}}],
        "reference": "real.npz",
        "budget": {"samples": 0, 3: 1},
        "seed": object,
        "warm_start": float("nan"),
    }
    with pytest.raises(StudyError) as caught:
        study_from(data)
    assert sorted(caught.value.problems) == [
        f"arms.b.api_key_env: api_key_env of arm 'b' {NO_NAME}",
        "arms.smol.temprature: unknown key 'temprature' in arm 'smol'; did you mean 'temperature'?",
        "budget.3: the key 3 of budget is not text; use a string.",
        "budget.samples: budget.samples is 0; use a whole number of at least 1.",
        "objective[1].precision.k: k of precision is 'x'; use a whole number of at most 100000.",
        "seed: seed is of type type; use text or a number.",
        "warm_start: warm_start is nan; use a finite number below 9.2e18 (or the word inf for an infinite "
        "order).",
    ]
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "policy", [{"one-arm-oracle": {"arm": float("nan")}}, {"fixed": {"weights": float("inf")}}]
)
def test_a_value_with_two_problems_is_reported_once(policy: dict[str, Any]) -> None:
    with pytest.raises(StudyError) as caught:
        study_from(plain_study(policy=policy))
    assert len(caught.value.problems) == 1


@pytest.mark.parametrize("data", [None, [], "vendi", 5])
def test_data_must_be_a_mapping(data: Any) -> None:
    with pytest.raises(StudyError, match="pass a mapping of keys and values"):
        study_from(data)


def test_data_that_contains_itself_is_rejected() -> None:
    data: dict[str, Any] = {}
    data["arms"] = data
    with pytest.raises(StudyError, match="too large or contains itself; use plain nested dicts"):
        study_from(data)


def test_reading_a_study_imports_nothing_heavy(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(FULL)
    code = (
        "import sys; from genmix.study.study import read_study; read_study('study.yaml');"
        "print({'torch', 'openai', 'transformers', 'PIL', 'diffusers', 'pyarrow'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"


PAGE = (Path(__file__).parents[2] / "docs" / "guide" / "studies.md").read_text("utf-8")


def test_the_page_names_every_key_and_every_name() -> None:
    keys = [
        key for part in (Study, Budget, Retries, StopWhen, ArmSettings) for key in part.model_fields
    ]
    names = [*OBJECTIVES, *KERNELS, *POLICIES, *KINDS, *ENCODERS, "variants", "weight"]
    assert [name for name in (*keys, *names) if f"`{name}`" not in PAGE] == []


def test_the_examples_of_the_page_are_valid(tmp_path: Path) -> None:
    whole, *parts = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    study = read(tmp_path, whole)
    assert list(study.arms) == ["smol/plain", "smol/cold", "mine"]
    for part in parts:
        read(
            tmp_path, with_line(part, whole) + ("reference: x.npz\n" if "precision" in part else "")
        )
