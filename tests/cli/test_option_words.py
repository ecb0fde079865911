"""Errors of commands name what the user passed: files, columns and options, not Python arguments."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import genmix as gx
from genmix.cli import app
from genmix.cli.samples.option_words import PHRASES, option_words

KEEP = ("keep", "--count", "5", "--out", "k.json")
COMMANDS = {name: (name,) for name in ("score", "mixture", "diagnose")} | {"keep": KEEP}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((20, 4))
    np.save("a.npy", rows)
    np.save("b.npy", rng.standard_normal((20, 4)))
    np.save("short.npy", rows[:, :3])
    np.save("equal.npy", np.ones((20, 4)))
    np.save("zero.npy", np.where(np.arange(20)[:, None] == 2, 0.0, rows))
    np.savez("q.npz", features=rows, quality=rng.random(20), cost=rng.random(20) + 1)
    np.savez("moments.npz", mu=np.zeros(4), sigma=np.eye(4))
    lines = [{"embedding": row.tolist(), "quality": 1.0} for row in rows]
    del lines[3]["quality"]
    Path("gap.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def refused(*given: str) -> str:
    result = CliRunner().invoke(app, list(given))
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    return result.stderr.splitlines()[-1].removeprefix("genmix: ")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_missing_column_is_named_with_its_file(command: str) -> None:
    start = (*COMMANDS[command], "q.npz")
    for name in ("quality", "cost"):
        assert refused(*start, "a.npy", "--objective", f"vendi + {name}") == (
            f"a.npy has no {name}, which the objective needs; add a number for every sample, as the column "
            f"or array {name!r}."
        )
    assert refused(*start, "gap.jsonl", "--objective", "quality-vendi") == (
        "gap.jsonl, line 4 has no quality, which the objective needs; add a number for every sample."
    )


def test_an_option_that_needs_a_column_is_named() -> None:
    assert refused("mixture", "q.npz", "a.npy", "--mean-cost", "1").startswith(
        "a.npy has no cost, which --mean-cost needs;"
    )


def test_an_arm_of_a_run_is_named_with_its_run() -> None:
    arms = {name: {"kind": "recorded", "path": f"{name}.npy"} for name in ("a", "b")}
    gx.run({"arms": arms, "objective": "vendi", "budget": {"samples": 24}}, "run")
    assert refused("score", "run", "--objective", "quality") == (
        "arm 'a' of run has no quality, which the objective needs; its generator must return one for every "
        "sample."
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_files_of_different_dimensions_are_named(command: str) -> None:
    start = COMMANDS[command]
    assert refused(*start, "a.npy", "short.npy") == (
        "a.npy has 4 dimensions, but short.npy has 3; embed all arms with the same encoder."
    )
    assert refused(*start, "a.npy", "--objective", "fd", "--reference", "short.npy") == (
        "a.npy has 4 dimensions, but the reference short.npy has 3; embed both with the same encoder."
    )
    if command in ("score", "keep"):
        assert "but the reference short.npy has 3" in refused(
            *start, "a.npy", "--reference", "short.npy"
        )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("mixture a.npy b.npy --at-least x=0.1", "--at-least names an unknown arm 'x'"),
        ("mixture a.npy b.npy --at-most a=2", "--at-most of 'a' is 2.0; pass a number between"),
        ("mixture q.npz --mean-cost 0.001", "--mean-cost is 0.001, but the cheapest weights"),
        ("diagnose a.npy b.npy --repeats 1", "pass --repeats 0 or at least 2."),
        ("diagnose a.npy b.npy --subsample 5", "e.g. --repeats 50, --subsample 500."),
        ("diagnose a.npy b.npy --gamma 3", "--gamma is 3.0; pass a number between"),
        ("score equal.npy --objective rke", "identical; pass a number, e.g. --bandwidth 1.0."),
        ("score zero.npy", "leave that sample out or use --kernel gaussian."),
        ("score a.npy --objective rke --kernel polynomial", "use --kernel cosine."),
        ("score a.npy --reference b.npy --k 30", "the reference b.npy has 20 points, but 30"),
        ("score a.npy --reference b.npy --k 30", "pass more points or a smaller --k."),
        (
            "score a.npy --objective kd --reference moments.npz",
            "the reference moments.npz contains only moments",
        ),
        ("score q.npz --key x", "only features, quality, cost; name the array with --key."),
        (
            "score a.npy --reference q.npz --reference-key x",
            "name the array with --reference-key.",
        ),
        ("keep zero.npy a.npy --count 5 --out k.json", "arm 'zero', sample 2: the embedding is"),
        ("keep a.npy zero.npy --count 5 --out k.json", "arm 'zero', sample 2: the embedding is"),
        ("keep a.npy --count 5 --seed -1 --out k.json", "--seed is -1; pass a whole number"),
        ("keep q.npz --count 5 --min-quality nan --out k.json", "--min-quality is nan; pass"),
        ("keep q.npz --count 5 --min-quality 7 --out k.json", "so lower --min-quality."),
    ],
)
def test_options_are_named(given: str, words: str) -> None:
    assert words in refused(*given.split())


def test_a_comparison_names_its_options(tmp_path: Path) -> None:
    arms = "arms: {a: {kind: recorded, path: a.npy}, b: {kind: recorded, path: b.npy}}\n"
    Path("s.yaml").write_text(f"{arms}objective: vendi\nbudget: {{time: 3s}}\n")
    assert refused("compare", "s.yaml") == (
        "the budget is missing; pass --budget, the number of samples per trial."
    )
    given = ("compare", "s.yaml", "--budget", "30")
    assert refused(*given, "--repeats", "0").startswith("--repeats is 0; pass a whole number")
    few = refused("compare", "s.yaml", "--budget", "5")
    assert few.endswith("raise --budget, or lower warm_start in the study.")
    twice = ("--policy", "uniform", "--policy", "uniform")
    assert refused(*given, *twice).endswith("is listed twice; pass each --policy once.")


def test_other_texts_stay_as_they_are() -> None:
    for text in ("k.npy is empty", "arm 'seed' is empty", "seeds are few", "x-k=3", "features"):
        assert option_words(text) == text


def test_every_replaced_phrase_is_part_of_a_message() -> None:
    """Else a message has changed, and the command line shows it unchanged."""
    texts = [text for file in Path(gx.__file__).parent.rglob("*.py") for text in texts_in(file)]
    assert [phrase for phrase in PHRASES if not any(phrase in t for t in texts)] == []


def texts_in(file: Path) -> Iterator[str]:
    if file.name == "option_words.py":
        return
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
