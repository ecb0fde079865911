"""genmix check: one sample of every arm, or one sentence about it, before a run begins."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import genmix as gx
from genmix.cli import app
from genmix.encoders.base import Encoder, EncoderSettings
from genmix.engines.base import Engine
from genmix.generators.base import ArmSettings, Context, Generator
from genmix.runs import check
from genmix.runs.check import ArmCheck, CheckReport, check_study
from genmix.runs.session import seed_of
from genmix.study.study import StudyError
from genmix.study.template import write_example

runner = CliRunner()

ARMS = """\
import time
import numpy as np


def text(seeds, words="hello"):
    return [f"{words} {seed}" for seed in seeds]


def many_lines(seeds):
    return ["a  long\\n\\ttext " * 20 for _ in seeds]


def vector(seeds, size=4, quality=None):
    return [{"vector": np.ones(size), "quality": quality, "cost": 0.25} for _ in seeds]


def image(seeds):
    return [np.zeros((3, 5, 3), np.uint8) for _ in seeds]


def torn(seeds, size=8):
    header = b"\\x89PNG\\r\\n\\x1a\\n" + b"\\0\\0\\0\\rIHDR" + b"\\0\\0\\0\\x05" * 2
    return [header[:size] for _ in seeds]


def broken(seeds):
    raise RuntimeError("no luck")


def escapes(seeds):
    return ["\\x1b]0;PWNED\\x07\\x1b[31mhello\\x1b[2J\\x9b2J\\u202eolleh\\ud83d Köln" for _ in seeds]


def fails_with_escapes(seeds):
    raise RuntimeError("\\x1b]0;PWNED\\x07\\x9b2J\\u202e\\ud83d Köln")


def embed_with_escapes(contents):
    raise RuntimeError("\\x1b[2J\\x07 Köln")


def slow(seeds):
    time.sleep(2)
    return ["late" for _ in seeds]


def embed(contents):
    return np.array([[len(content), 1.0, 2.0] for content in contents])


def embed_badly(contents):
    raise RuntimeError("no idea")
"""


def study(folder: Path, arms: dict[str, str], more: str = "") -> Path:
    """A study of callable arms, by label and function with arguments."""
    (folder / "arms.py").write_text(ARMS)
    lines = [
        f"  {label}: {{kind: callable, function: arms:{rest}}}" for label, rest in arms.items()
    ]
    text = "\n".join(["arms:", *lines, "budget: {samples: 100}", more, ""])
    if "objective:" not in more:
        text += "objective: vendi\n"
    (folder / "study.yaml").write_text(text)
    return folder / "study.yaml"


EMBED = "encoder: {kind: callable, function: 'arms:embed'}"


def by_arm(report: CheckReport) -> dict[str, ArmCheck]:
    return {arm.arm: arm for arm in report.arms}


def test_every_arm_gives_the_sample_that_a_run_would_begin_with(tmp_path: Path) -> None:
    path = study(
        tmp_path,
        {"a": "text", "b": "many_lines", "c": "image", "d": "vector, arguments: {size: 3}"},
        EMBED,
    )
    report = check_study(path)
    assert report.problems == []
    arms = by_arm(report)
    assert arms["a"].sample == f"hello {seed_of(0, 'a', 0)}"
    assert arms["b"].sample == ("a long text " * 20)[:59] + "…"
    assert arms["c"].sample == "image, 5 × 3"
    assert (arms["d"].sample, arms["d"].cost) == ("vector of 3", 0.25)
    assert [arm.dimension for arm in report.arms] == [3, 3, 3, 3]
    assert all(arm.seconds is not None and arm.kind == "callable" for arm in report.arms)
    assert report.encoder is not None
    assert "arms:embed" in report.encoder


def test_without_drawing_nothing_is_made(tmp_path: Path) -> None:
    report = check_study(study(tmp_path, {"a": "broken"}, EMBED), draw=False)
    assert report.problems == []
    assert by_arm(report)["a"].sample is None


@pytest.mark.parametrize("draw", [True, False])
def test_a_missing_function_of_an_encoder_is_found_without_drawing(
    draw: bool, tmp_path: Path
) -> None:
    wrong = EMBED.replace("arms:embed", "arms:absent")
    path = study(tmp_path, {"a": "text"}, wrong)
    expected = "the module arms has no function named absent; correct 'arms:absent'."
    assert check_study(path, draw).problems == [expected]
    with pytest.raises(gx.InputError, match=re.escape(expected)):
        gx.run(path, tmp_path / "run")


def test_functions_that_only_workers_need_are_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Cluster(Engine):
        def generator(self, settings: ArmSettings, context: Context) -> Generator:
            return settings.build(context)

        def encoder(self, settings: EncoderSettings, folder: Path) -> Encoder:
            return settings.build(folder)

    monkeypatch.setattr(check, "open_engine_of", lambda *_: nullcontext(Cluster()))
    path = study(tmp_path, {"a": "text"}, EMBED.replace("arms:embed", "arms:absent"))
    assert check_study(path, draw=False).problems == []


def test_a_missing_function_that_embeds_prompts_is_found_without_drawing(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("text\n" + "red\n" * 20)
    more = (
        f"{EMBED}\nprompts: {{file: p.csv, groups: 2, "
        "encoder: {kind: callable, function: 'arms:absent'}}"
    )
    report = check_study(study(tmp_path, {"a": "text"}, more), draw=False)
    assert report.others == ["the module arms has no function named absent; correct 'arms:absent'."]


def test_one_arm_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    arms = {"good": "text", "bad": "broken", "none": "missing", "late": "slow"}
    more = f"{EMBED}\nretries: {{timeout: 0.2}}"
    report = check_study(study(tmp_path, arms, more))
    assert report.problems == [
        "arm 'bad': arms:broken failed (RuntimeError: no luck); fix the function.",
        "arm 'none': the module arms has no function named missing; correct 'arms:missing'.",
        "arm 'late': no answer within 0.2 seconds.",
    ]
    assert by_arm(report)["good"].dimension == 3


@pytest.mark.parametrize("size", [8, 12, 16, 23])
def test_a_torn_image_is_a_sentence(size: int, tmp_path: Path) -> None:
    path = study(tmp_path, {"a": f"torn, arguments: {{size: {size}}}", "b": "image"}, EMBED)
    report = check_study(path)
    assert report.problems == [
        f"arm 'a': returned {size} bytes that are not a PNG image; return a complete PNG."
    ]
    assert by_arm(report)["b"].dimension == 3


def test_an_image_torn_behind_its_header_is_a_sentence_of_the_encoder(tmp_path: Path) -> None:
    path = study(tmp_path, {"a": "torn, arguments: {size: 24}"}, "encoder: {kind: pixels}")
    (problem,) = check_study(path).problems
    assert problem.startswith("arm 'a': an image of 24 bytes cannot be read")


def test_an_encoder_that_fails_is_named(tmp_path: Path) -> None:
    more = "encoder: {kind: callable, function: 'arms:embed_badly'}"
    report = check_study(study(tmp_path, {"a": "text"}, more))
    assert report.problems == [
        "arm 'a': the encoder arms:embed_badly failed (RuntimeError: no idea); fix the function."
    ]
    assert by_arm(report)["a"].sample is not None


def test_an_encoder_that_cannot_be_built_is_told_once(tmp_path: Path) -> None:
    more = "encoder: {kind: callable, function: 'nothing_here:embed'}"
    report = check_study(study(tmp_path, {"a": "text", "b": "text"}, more))
    (problem,) = report.problems
    assert "nothing_here" in problem
    assert [arm.sample for arm in report.arms] == [None, None]  # nothing is paid for
    assert [arm.problem for arm in report.arms] == [None, None]


def test_a_text_without_an_encoder_is_told(tmp_path: Path) -> None:
    report = check_study(study(tmp_path, {"a": "text", "b": "vector"}))
    assert report.problems == [
        "arm 'a': returned text or an image, but the study has no encoder; add one."
    ]


@pytest.mark.parametrize("draw", [True, False])
def test_a_reference_of_another_dimension_is_told_once(tmp_path: Path, draw: bool) -> None:
    np.savez(tmp_path / "real.npz", features=np.random.default_rng(0).standard_normal((20, 7)))
    encoder = "encoder: {kind: callable, function: 'arms:embed', dimension: 3}"
    more = f"{encoder}\nobjective: frechet-distance\nreference: real.npz"
    report = check_study(study(tmp_path, {"a": "text", "b": "text"}, more), draw)
    (problem,) = report.problems
    assert problem.startswith("the encoder callable arms:embed")
    assert problem.endswith(
        "returns 3 dimensions, but the reference has 7; embed the reference with the same encoder."
    )


def test_vectors_of_another_dimension_than_the_reference_are_told(tmp_path: Path) -> None:
    np.save(tmp_path / "real.npy", np.random.default_rng(0).standard_normal((20, 7)))
    more = "objective: frechet-distance\nreference: real.npy"
    report = check_study(study(tmp_path, {"a": "vector"}, more))
    assert report.problems == [
        "the samples have 4 dimensions, but the reference has 7; embed both with the same encoder."
    ]


def test_arms_of_different_dimensions_are_told(tmp_path: Path) -> None:
    report = check_study(study(tmp_path, {"a": "vector", "b": "vector, arguments: {size: 6}"}))
    assert report.problems == [
        "arm 'a' has 4 dimensions, but arm 'b' has 6; embed all arms with the same encoder."
    ]


@pytest.mark.parametrize("draw", [True, False])
def test_a_missing_reference_is_told(tmp_path: Path, draw: bool) -> None:
    more = "objective: frechet-distance\nreference: real.npz"
    report = check_study(study(tmp_path, {"a": "vector"}, more), draw)
    (problem,) = report.problems
    assert report.arms[0].sample is None  # nothing is paid for
    assert problem.startswith("the reference real.npz does not exist")


def test_a_reference_to_embed_is_not_embedded(tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("one\ntwo\n")
    more = f"{EMBED}\nobjective: {{precision: {{k: 7}}}}\nreference: real.txt"
    assert check_study(study(tmp_path, {"a": "text"}, more)).problems == []


def test_what_the_objective_asks_of_a_sample_is_asked(tmp_path: Path) -> None:
    more = "objective: quality"
    arms = {"without": "vector", "with": "vector, arguments: {quality: 0.5}"}
    report = check_study(study(tmp_path, arms, more))
    assert report.problems == [
        "arm 'without': its sample: the objective needs a quality; pass quality= with the sample."
    ]


def test_arms_that_hold_too_little_are_told(tmp_path: Path) -> None:
    np.save(tmp_path / "few.npy", np.eye(5))
    (tmp_path / "study.yaml").write_text(
        "arms: {a: {kind: recorded, path: few.npy}}\nobjective: vendi\nbudget: {samples: 100}\n"
    )
    assert check_study(tmp_path / "study.yaml", draw=False).problems == [
        "the arms have 5 samples in total, but the budget asks for 100; lower budget.samples, or add "
        "samples."
    ]


def test_a_bad_study_is_refused(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text("seed: x\n")
    with pytest.raises(StudyError):
        check_study(tmp_path / "study.yaml")


# -- an endpoint -------------------------------------------------------------------------------------


class Endpoint(BaseHTTPRequestHandler):
    """A server that speaks like OpenAI's."""

    def do_GET(self) -> None:
        self._answer({"object": "list", "data": [{"id": "m", "object": "model"}]})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        choice = {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": "A city."},
        }
        usage = {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14}
        self._answer({"id": "1", "object": "chat.completion", "created": 0, "model": "m",
                      "choices": [choice], "usage": usage})  # fmt: skip

    def _answer(self, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def endpoint() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()


def test_tokens_and_cost_of_an_endpoint_are_shown(tmp_path: Path, endpoint: str) -> None:
    (tmp_path / "arms.py").write_text(ARMS)
    (tmp_path / "study.yaml").write_text(f"""\
arms:
  there:
    {{kind: openai, model: m, base_url: {endpoint}, prompt: p, max_tokens: 9, price: {{input: 1, output: 2}}}}
  gone: {{kind: openai, model: m, base_url: "http://127.0.0.1:9/v1", prompt: p}}
{EMBED}
objective: vendi
budget: {{samples: 100}}
""")
    report = check_study(tmp_path / "study.yaml")
    arms = by_arm(report)
    there = arms["there"]
    assert (there.problem, there.sample, there.dimension) == (None, "A city.", 3)
    assert (there.input_tokens, there.output_tokens) == (10, 4)
    assert there.cost == pytest.approx(0.018, rel=1e-12)
    (problem,) = report.problems
    assert problem.startswith("arm 'gone': ")
    assert arms["gone"].sample is None


# -- the command -------------------------------------------------------------------------------------


def test_the_command_shows_a_table_and_succeeds(tmp_path: Path) -> None:
    write_example(tmp_path)
    result = runner.invoke(app, ["check", str(tmp_path / "study.yaml")])
    assert result.exit_code == 0
    for part in ("coast", "inland", "slogan", "ok", "256", "New York", "is ready to run."):
        assert part in result.stdout


def test_the_command_fails_with_2_and_every_sentence(tmp_path: Path) -> None:
    path = study(tmp_path, {"bad": "broken", "good": "text"}, EMBED)
    result = runner.invoke(app, ["check", str(path)])
    assert result.exit_code == 2
    assert (
        "arm 'bad': arms:broken failed (RuntimeError: no luck); fix the function.\n"
        in result.stdout
    )
    assert "failed" in result.stdout
    result = runner.invoke(app, ["check", str(path), "--json"])
    assert result.exit_code == 2
    told = json.loads(result.stdout)
    assert told["problems"] == [
        "arm 'bad': arms:broken failed (RuntimeError: no luck); fix the function."
    ]
    assert [arm["arm"] for arm in told["arms"]] == ["bad", "good"]


def test_the_command_shows_markup_in_texts_as_it_is(tmp_path: Path) -> None:
    path = study(tmp_path, {"a": "text, arguments: {words: '[red]x[/red]'}"}, EMBED)
    result = runner.invoke(app, ["check", str(path)])
    assert "[red]x[/red]" in result.stdout.replace("\n", "")


@pytest.mark.parametrize(
    "function, embed",
    [("escapes", "embed"), ("fails_with_escapes", "embed"), ("text", "embed_with_escapes")],
)
def test_the_command_prints_nothing_that_a_terminal_obeys(
    function: str, embed: str, tmp_path: Path
) -> None:
    encoder = f"encoder: {{kind: callable, function: 'arms:{embed}'}}"
    path = study(tmp_path, {"a": function}, encoder)
    for options in ([], ["--json"]):
        result = runner.invoke(app, ["check", str(path), *options])
        assert isinstance(result.exception, SystemExit | None)
        shown = result.stdout + result.stderr
        assert {c for c in shown if not c.isprintable()} == {"\n"}
        assert "Köln" in shown or "K\\u00f6ln" in shown


def test_the_command_repeats_every_fault_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(
        "seed: x\narms: {}\nobjective: vendi\nbudget: {samples: 1}\n"
    )
    result = runner.invoke(app, ["check", str(tmp_path / "study.yaml")])
    assert result.exit_code == 2
    assert result.stderr == (
        f"genmix: {tmp_path}/study.yaml, line 1: seed is 'x'; use a whole number of at least 0.\n"
        f"genmix: {tmp_path}/study.yaml, line 2: arms is empty; use at least one entry.\n"
    )
