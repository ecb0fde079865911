"""Secrets in a study are found and never repeated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from genmix.study.study import (
    StudyError,
    study_from,
)
from tests.support.studies import (
    ADVICE,
    ARM,
    CONTAINS_SECRET,
    SECRET,
    SMALL,
    problems_in,
    read,
    with_line,
)


def test_a_secret_in_a_comment_or_within_a_text_is_found(tmp_path: Path) -> None:
    comment = f"# api_key: {SECRET}\n"
    within = ARM % f"system: 'the key is {SECRET}, keep it'"
    words = f"this line contains a secret; {ADVICE}"
    text = comment + with_line(within) + "encoder: {kind: callable, function: 'm:f'}\n"
    assert problems_in(tmp_path, text) == [
        f"study.yaml, line 1: {words}",
        f"study.yaml, line 4: system of arm 'smol' {CONTAINS_SECRET}",
    ]
    harmless = "# sk-toolkit-of-many-words, hf_" + "transformers_and_friends\n"
    assert read(tmp_path, harmless + SMALL)


KEY = "0123456789abcdef0123456789abcdef"
WITH_SECRETS = (
    f"the key is {SECRET}, keep it",
    f"two lines\nwith {SECRET}",
    f"Authorization: Bearer {KEY}",
    f"authorization:bearer {KEY}",
    "Authorization: Bearer abcdefghijkl",
    "Authorization: Basic dXNlcjpwYXNzd29yZA==",
    f"Authorization: {KEY}",
    f"X-Api-Key: {KEY}",
    f"--api-key={KEY}",
    "--api-key=abcdefghijkl",
    f"--api-key {KEY}",
    f"--openai-api-key={KEY}",
    f"OPENAI_API_KEY={KEY} ./run",
    f"MY_TOKEN={KEY} ./run",
    f"export HF_TOKEN={KEY}",
    f'{{"api_key": "{KEY}"}}',
    f"client_secret: {KEY}",
    f"key={KEY}",
    f"--token={KEY}",
    f"say Bearer {KEY} first",
    f"curl http://x.org/?a=b&key={KEY}",
    "http://x.org/?token=abcdefghijkl",
    "--proxy=http://me:passw0rd@x.org:80",
)
WITHOUT_SECRETS = (
    "Write about the bearer representatives of a city.",
    "Bearer of extraordinarily good news",
    "Authorization: Bearer $OPENAI_API_KEY",
    "Authorization: Bearer short",
    "--api-key=$OPENAI_API_KEY",
    "--api-key=${OPENAI_API_KEY}",
    "--api-key=short",
    "api_key=os.environ['OPENAI_API_KEY']",
    "sorted(words, key=operator.itemgetter(1))",
    "the primary key=customer_identifier",
    "key=value&token=short1",
    "http://127.0.0.1:8080/v1",
    "http://x.org/?key=short&max_tokens=100000000000",
    "keyboard=12345678901234, monkey=12345678901234",
    "The secret: understanding people, 1234567890123 of them",
    "Password: must-contain-uppercase",
    "--eos-token=<|endoftext|>",
    "--max-new-tokens=1234567890123",
    "risk-2024-assessment-of-cities",
    "東京都 key=東京都東京都東京都東京都1",
)


def with_command(*words: str) -> dict[str, Any]:
    arm = {"kind": "command", "command": ["run", *words]}
    return {"arms": {"a": arm}, "objective": "vendi", "budget": {"samples": 99}}


@pytest.mark.parametrize("words", WITH_SECRETS)
def test_a_secret_inside_a_value_is_found_in_files_and_dicts(tmp_path: Path, words: str) -> None:
    sentence = f"command[1] of arm 'a' {CONTAINS_SECRET}"
    plan = with_command(words)
    with pytest.raises(StudyError) as caught:
        study_from(plan)
    assert caught.value.problems == (f"arms.a.command[1]: {sentence}",)
    (told,) = problems_in(tmp_path, json.dumps(plan))
    assert told.endswith(sentence)
    (told,) = problems_in(tmp_path, f"# {' '.join(words.split())}\n{SMALL}")
    assert told.startswith("study.yaml, line 1: this line contains a secret")


@pytest.mark.parametrize("words", WITHOUT_SECRETS)
def test_text_that_only_resembles_a_secret_is_accepted(tmp_path: Path, words: str) -> None:
    plan = with_command(words)
    assert study_from(plan)
    assert read(tmp_path, f"# {words}\n{json.dumps(plan)}")


def test_a_secret_after_an_option_of_a_command_is_found() -> None:
    for words in (("--api-key", KEY), ("--token", KEY), ("-H", f"X-Api-Key: {KEY}")):
        with pytest.raises(StudyError) as caught:
            study_from(with_command(*words))
        (told,) = caught.value.problems
        assert told.endswith(f"command[2] of arm 'a' {CONTAINS_SECRET}")
    assert study_from(with_command("--api-key", "$MY_API_KEY_2", "--key", "weights", "--sha", KEY))
