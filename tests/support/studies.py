"""Example studies, and helpers that read studies and their error messages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from genmix.encoders import ENCODER_KINDS
from genmix.errors import InputError
from genmix.generators import ARM_KINDS
from genmix.study.messages import kinds_of
from genmix.study.study import (
    Study,
    StudyError,
    read_study,
)

SMALL = """\
arms:
  one: {kind: callable, function: "arms:make"}
  two: {kind: callable, function: "arms:make"}
objective: vendi
budget: {samples: 200}
"""

FULL = """\
name: city
seed: 3
arms:
  smol: &smol
    kind: openai
    model: smollm2
    base_url: http://127.0.0.1:8081/v1
    prompt: "Write a short sentence."
    concurrency: 2
    batch: 3
    variants:
      plain:
      cold: {temperature: 0.5, max_tokens: 1e2}
  big:
    <<: *smol
    model: other
    batch: 2
    variants: {hot: {temperature: 1.5}}
  mine: {kind: callable, function: "arms:make", arguments: {cities: [a, b]}}
encoder: {kind: callable, function: "arms:embed", normalise: true}
objective:
  - vendi: {order: 2, kernel: {gaussian: {bandwidth: 20, features: 512}}}
  - precision: {k: 4, weight: 0.3}
  - kernel-distance: {kernel: polynomial, unbiased: true, reference: other.npz}
  - cost: {weight: 0.1}
reference: real.npz
policy: {fixed: {weights: {smol/plain: 0.5, mine: 0.5}}}
budget: {samples: 200, cost: 1.50, time: 30m}
warm_start: 12
draw: tracking
resolve_growth: 0.02
in_flight: 8
retries: {attempts: 4, first_wait: 2, longest_wait: 1m, suspend_after: 2, probe_after: 1h 30m, timeout: 90s}
stop_when: {weights_within: 0.01, score_within: 0.02, over: 100}
"""

KINDS = [kind for settings in ARM_KINDS for kind in kinds_of(settings)]
ENCODERS = [kind for settings in ENCODER_KINDS for kind in kinds_of(settings)]


def read(folder: Path, text: str | bytes) -> Study:
    path = folder / "study.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    return read_study(path)


def problems_in(folder: Path, text: str | bytes) -> list[str]:
    """The problems of a study, each one a short sentence, without the folder."""
    with pytest.raises(StudyError) as caught:
        read(folder, text)
    problems = list(caught.value.problems)
    assert str(caught.value) == "\n".join(problems)
    for problem in problems:
        assert re.search(r"[.?]$", problem), problem
        assert "\n" not in problem, problem
        assert len(problem) < 500, problem
    return [problem.replace(f"{folder}/", "") for problem in problems]


def with_line(line: str, text: str = SMALL) -> str:
    """The study with one key added or replaced, as its last line."""
    key = line.split(":")[0]
    kept = re.sub(rf"(?m)^{key}:.*\n(?:  .*\n)*", "", text)
    return f"{kept}{line}\n"


ARM = "arms: {smol: {kind: openai, model: m, base_url: 'http://x/v1', prompt: p, %s}}"
KEYS = {
    kind: [*settings.model_fields, "variants"]
    for settings in ARM_KINDS
    for kind in kinds_of(settings)
}
SECRET = "sk-abcdefghijklmnopqrstuvwxyz0123456789"
ADVICE = "put it in an environment variable and set api_key_env to the variable's name."
NO_NAME = (
    "is not the name of an environment variable; write the NAME of the variable that contains the "
    "secret, e.g. OPENAI_API_KEY."
)
NO_SECRETS = f"a secret does not belong in a study; {ADVICE}"
CONTAINS_SECRET = f"seems to contain a secret, which does not belong in a study; {ADVICE}"
LOOKS_LIKE_SECRET = f"looks like a secret, which does not belong in a study; {ADVICE}"


def purpose(kinds: Any, kind: str, key: str) -> str:
    """What a key is for, as error messages say it."""
    settings = next(each for each in kinds if kind in kinds_of(each))
    words = settings.model_fields[key].description
    return str(words[0].lower() + words[1:]).rstrip(".")


def said_by(function: Any, *args: Any, **kwargs: Any) -> str:
    """The message of the error that a call raises."""
    with pytest.raises(InputError) as caught:
        function(*args, **kwargs)
    return str(caught.value)


def plain_study(**parts: Any) -> dict[str, Any]:
    arm = {"kind": "callable", "function": "arms:make"}
    return {
        "arms": {"one": arm, "two": arm},
        "objective": "vendi",
        "budget": {"samples": 100},
        **parts,
    }
