"""Arms with variants."""

from __future__ import annotations

from pathlib import Path

import pytest

from genmix.core.text import listed
from genmix.generators import ARM_KINDS
from tests.support.studies import (
    KEYS,
    KINDS,
    SMALL,
    problems_in,
    purpose,
    read,
)

VARIED = """arms:
  smol:
    kind: openai
    base_url: http://x/v1
    {base}
    variants:
      plain: {{{plain}}}
      cold: {{{cold}}}
encoder: {{kind: callable, function: "m:f"}}
objective: vendi
budget: {{samples: 100}}
"""


def varied(base: str = "model: m", plain: str = "prompt: p", cold: str = "prompt: p") -> str:
    return VARIED.format(base=base, plain=plain, cold=cold)


def test_variants_make_arms_that_differ(tmp_path: Path) -> None:
    study = read(tmp_path, varied(cold="prompt: q, model: n, temperature: 0.5"))
    arms = {label: arm.model_dump() for label, arm in study.arms.items()}
    assert [(label, arm["model"], arm["prompt"]) for label, arm in arms.items()] == [
        ("smol/plain", "m", "p"),
        ("smol/cold", "n", "q"),
    ]
    assert "variants" not in study.plain()["arms"]["smol/cold"]


@pytest.mark.parametrize(
    "text, expected",
    [
        # a mistake of the arm is reported once, on the arm's line
        (
            varied(base="modell: m"),
            [
                "study.yaml, line 2: arm 'smol' has no 'model'; add it "
                f"({purpose(ARM_KINDS, 'openai', 'model')}).",
                "study.yaml, line 5: unknown key 'modell' in arm 'smol'; did you mean 'model'?",
            ],
        ),
        (
            varied(plain="prompt: p, temperature: -1", cold="prompt: p, top: 1"),
            [
                "study.yaml, line 7: temperature of arm 'smol/plain' is -1; use a number of at least 0.",
                "study.yaml, line 8: unknown key 'top' in arm 'smol/cold'; did you mean 'stop'?",
            ],
        ),
        # a key that only another variant has
        (
            varied(base="system: s", cold="prompt: p, model: m"),
            [
                "study.yaml, line 7: arm 'smol/plain' has no 'model'; add it "
                f"({purpose(ARM_KINDS, 'openai', 'model')}).",
            ],
        ),
        (
            varied(plain=""),
            [
                "study.yaml, line 7: arm 'smol/plain': there is no prompt; set one of prompt, prompts and "
                "prompts_file.",
            ],
        ),
        (
            varied(cold="kind: opnai, prompt: p"),
            [
                "study.yaml, line 8: unknown kind 'opnai' in arm 'smol/cold'; did you mean 'openai' "
                f"(or {listed([kind for kind in KINDS if kind != 'openai'], 'or')})?",
            ],
        ),
        (
            varied(cold="prompt: p, variants: {x: {}}"),
            [
                "study.yaml, line 8: unknown key 'variants' in arm 'smol/cold'; the keys are "
                f"{listed(KEYS['openai'][:-1])}.",
            ],
        ),
        (
            SMALL.replace('"arms:make"}', '"arms:make", variants: 5}', 1),
            [
                "study.yaml, line 2: variants of arm 'one' is 5; use a mapping such as {cold: {temperature: "
                "0.5}}, or remove it.",
            ],
        ),
        (
            SMALL.replace('"arms:make"}', '"arms:make", variants: {a: 5}}', 1),
            [
                "study.yaml, line 2: arm 'one/a' is 5; use a mapping of the settings that differ, or {}.",
            ],
        ),
        (
            SMALL.replace('"arms:make"}', '"arms:make", variants: {a: {}}}', 1).replace(
                "two", "one/a"
            ),
            ["study.yaml, line 2: there are two arms named 'one/a'; rename this variant."],
        ),
    ],
)
def test_problems_in_variants_are_reported_where_they_were_written(
    tmp_path: Path, text: str, expected: list[str]
) -> None:
    assert problems_in(tmp_path, text) == expected
