"""Whatever a file or a dict holds: the result is a study or a StudyError."""

from __future__ import annotations

import copy
import json
import re
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from genmix.study.parsing import parse_study_file
from genmix.study.study import (
    Study,
    StudyError,
    study_from,
)
from genmix.study.template import EXAMPLE
from tests.support.studies import (
    FULL,
    SECRET,
    read,
)

JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(
        ["inf", "1e3", "30m", "vendi", "gaussian", "command", "no", "a\nb", "\0", SECRET]
    ),
    st.sampled_from(
        [{}, [], [[]], {"vendi": {}}, {"kind": "command"}, {"kind": []}, {"weights": {"a": 1}}]
    ),
)
STRAY_KEYS = st.sampled_from(
    [
        "kind",
        "arms",
        "objective",
        "command",
        "openai",
        "variants",
        "weight",
        "kernel",
        "reference",
        "name",
        "x",
        "order",
        "k",
        "weights",
        "arm",
        "[key]",
        "str",
        "policy",
        "env",
        "in_flight",
        "api_key",
    ]
)


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = (
        data.items()
        if isinstance(data, dict)
        else enumerate(data)
        if isinstance(data, list)
        else ()
    )
    return [(*path, key) for key, _ in items] + [
        place for key, value in items for place in places(value, (*path, key))
    ]


def inside(data: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        data = data[key]
    return data


@st.composite
def corrupted(draw: st.DrawFn, good: dict[str, Any]) -> dict[str, Any]:
    """A valid study with some values removed, replaced, renamed or moved."""
    data = copy.deepcopy(good)
    for _ in range(draw(st.integers(1, 4))):
        known = places(data)
        if not known:
            break
        *where, key = draw(st.sampled_from(known))
        holder = inside(data, tuple(where))
        change = draw(st.sampled_from(["drop", "replace", "rename", "add", "move"]))
        value = holder[key]
        if change == "drop":
            del holder[key]
        elif change == "replace":
            holder[key] = copy.deepcopy(draw(JUNK))
        elif change == "move":
            holder[key] = copy.deepcopy(inside(data, draw(st.sampled_from(known))))
        elif isinstance(holder, dict):
            holder[draw(STRAY_KEYS)] = value if change == "rename" else copy.deepcopy(draw(JUNK))
    return data


def outcome(read: Any) -> Study | None:
    """The study, or None if it was rejected with sentences; anything else is a bug."""
    try:
        study: Study = read()
    except StudyError as error:
        for problem in error.problems:
            assert re.search(r"[.?]$", problem), problem
            assert "\n" not in problem, problem
            assert SECRET not in problem
        return None
    return study


with tempfile.TemporaryDirectory() as _folder:
    (Path(_folder) / "study.yaml").write_text(FULL)
    FULL_DATA = parse_study_file(Path(_folder) / "study.yaml").data


@settings(max_examples=300, deadline=None)
@given(data=corrupted(FULL_DATA))
def test_corrupted_data_gives_a_study_or_a_study_error(data: dict[str, Any]) -> None:
    study = outcome(lambda: study_from(data))
    if study is not None:
        assert study_from(json.loads(json.dumps(study.plain(), allow_nan=False))) == study


CHARACTERS = "\t\n :-{}[]'\"#&*!|>%@`?,<~\\\0\x07é\ud800\ufeff1.eExX/"


@st.composite
def corrupted_text(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from([FULL, EXAMPLE]))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        length = draw(st.integers(0, 20))
        text = text[:start] + draw(st.text(CHARACTERS, max_size=4)) + text[start + length :]
    return text


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(text=corrupted_text())
def test_a_corrupted_file_gives_a_study_or_a_study_error(tmp_path: Path, text: str) -> None:
    outcome(lambda: read(tmp_path, text))


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(content=st.one_of(st.binary(max_size=60), st.text(CHARACTERS, max_size=40)))
def test_any_file_gives_a_study_error(tmp_path: Path, content: str | bytes) -> None:
    assert outcome(lambda: read(tmp_path, content)) is None
