"""Recorded arms on damaged files: one sentence when the arm is built, in ``check`` and in ``run``."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import genmix as gx
from genmix.core.limits import VARIABLE
from genmix.runs.check import check_study
from tests.generators.test_recorded import all_of, arm_of, refused

ROWS = np.random.default_rng(0).standard_normal((6, 3))


def saved(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


NPY = io.BytesIO()
np.save(NPY, ROWS)
NPZ = saved(reps=ROWS, quality=ROWS[:, 0], cost=abs(ROWS[:, 1]))
LINE = json.dumps({"text": "a", "cost": 1}).encode()


def changed(content: bytes, old: bytes, new: bytes) -> bytes:
    assert old in content
    return content.replace(old, new, 1)


DAMAGE: dict[str, tuple[str, bytes, str]] = {
    "an unclosed bracket": ("x.npy", changed(NPY.getvalue(), b"(6, 3)", b"(6, 3 "), "x.npy"),
    "an unclosed quote": ("x.npy", changed(NPY.getvalue(), b"'shape'", b"'shape "), "x.npy"),
    "another shape": ("x.npy", changed(NPY.getvalue(), b"(6, 3)", b"(6, 4)"), "bytes follow"),
    "fewer rows": ("x.npy", changed(NPY.getvalue(), b"(6, 3)", b"(5, 3)"), "bytes follow"),
    "a zip file": ("x.npy", NPZ, "is an .npz file"),
    "an array": ("x.npz", changed(NPY.getvalue(), b"(6, 3)", b"(9, 3)"), "bytes follow"),
    "a damaged cost": ("x.npz", changed(NPZ, abs(ROWS[:, 1]).tobytes()[:9], bytes(9)), "x.npz"),
    "a truncated file": ("x.npz", NPZ[:-40], "x.npz"),
    "a huge cost": ("x.npz", saved(reps=ROWS, cost=np.full(6, 1e300)), "a cost above"),
    "a cost beyond float64": (
        "x.npz",
        saved(reps=ROWS, cost=np.full(6, np.longdouble("1e4000"))),
        "NaN or infinity",
    ),
    "a cost of objects": ("x.npz", saved(reps=ROWS, cost=np.array([None] * 6)), "pickled objects"),
    "huge tokens": (
        "x.jsonl",
        LINE + b'\n{"text": "b", "input_tokens": 1' + b"0" * 30 + b"}",
        "line 2",
    ),
    "a surrogate in bytes": ("x.jsonl", LINE + b"\n\xed\xa0\x80", "UTF-8"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_one_sentence_in_check_and_in_run(name: str, tmp_path: Path) -> None:
    file, content, words = DAMAGE[name]
    (tmp_path / file).write_bytes(content)
    refused(tmp_path, file, words)
    encoder = "encoder: {kind: callable, function: 'x:y'}\n" if file.endswith("jsonl") else ""
    (tmp_path / "x.py").write_text("def y(samples): raise ValueError")
    (tmp_path / "study.yaml").write_text(
        f"arms: {{a: {{kind: recorded, path: {file}}}}}\nobjective: vendi\n{encoder}"
        "budget: {samples: 3}\nwarm_start: 1\n"
    )
    problem, *_ = check_study(tmp_path / "study.yaml").problems
    with pytest.raises(gx.GenmixError) as caught:
        gx.run(tmp_path / "study.yaml", tmp_path / "run")
    assert str(caught.value) == problem
    assert words in problem
    assert len(problem.splitlines()) == 1


def test_a_lone_surrogate_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_bytes(b'{"text": "a\\ud800"}')
    assert [sample.text for sample in all_of(arm_of(tmp_path, "x.jsonl"))] == ["a\ufffd"]


def test_an_image_that_is_too_large_is_one_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "images").mkdir()
    Image.new("L", (1000, 1000)).save(tmp_path / "images" / "a.png")
    monkeypatch.setenv(VARIABLE, "1000000")
    [outcome] = all_of(arm_of(tmp_path, "images"))
    assert "(a.png) has 1000 × 1000 pixels, which need 12000000 bytes of memory" in str(outcome)


@pytest.mark.parametrize(
    "name, content, words",
    [
        ("real.jsonl", '{"embedding": [1, 2, 3]}\n{"embedding": [1, 2]}', "line 2 has 2 numbers"),
        ("real.jsonl", '{"text": "a"}\n{"text": 3}', "line 2 has no text"),
        ("real.txt", "\n", "contains no texts"),
        ("real.npy", "nothing", "real.npy"),
        ("~nobody-of-this-name/x.npy", "", "does not exist"),
    ],
)
def test_check_reads_the_reference_as_run_does(
    name: str, content: str, words: str, tmp_path: Path
) -> None:
    np.save(tmp_path / "x.npy", ROWS)
    if content:
        (tmp_path / name).write_text(content)
    (tmp_path / "study.yaml").write_text(
        f"arms: {{a: {{kind: recorded, path: x.npy}}}}\nobjective: {{precision: {{k: 1}}}}\n"
        f"reference: {name}\nbudget: {{samples: 3}}\nwarm_start: 1\n"
    )
    [problem] = check_study(tmp_path / "study.yaml").problems
    with pytest.raises(gx.GenmixError) as caught:
        gx.run(tmp_path / "study.yaml", tmp_path / "run")
    assert str(caught.value) == problem
    assert words in problem
