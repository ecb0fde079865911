"""What the terminal says: names of options, singular and plural, and numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import genmix as gx
from genmix.cli import COMMANDS, app
from genmix.cli.summary import closing_line, kept_lines
from genmix.core.text import rounded


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GENMIX_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("GENMIX_REPORT", "off")
    rng = np.random.default_rng(0)
    for i, name in enumerate("ab"):
        np.save(f"{name}.npy", rng.normal(size=(20, 3)) + 4 * np.eye(3)[i])
    return tmp_path


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def refused(*arguments: str) -> str:
    result = invoke(*arguments)
    assert result.exit_code == 2, result.output
    return result.stderr


def study(*names: str, **more: Any) -> dict[str, Any]:
    arms = {name: {"kind": "recorded", "path": f"{name}.npy"} for name in names or "ab"}
    base = {"arms": arms, "objective": "vendi", "budget": {"samples": 12}, "warm_start": 2}
    return base | more


def write(content: dict[str, Any], name: str = "study.yaml") -> str:
    Path(name).write_text(json.dumps(content))
    return name


# -- keep --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            ("--count", "10", "--at-least-per-arm", "6"),
            "--at-least-per-arm 6 requires 12 samples from 2 arms, but --count is 10; pass a smaller number "
            "per arm or a larger --count.",
        ),
        (
            ("--count", "40", "--at-least-per-arm", "21"),
            "--at-least-per-arm is 21, but arm 'a' has 20 samples; pass at most 20.",
        ),
        (
            ("--count", "4", "--at-least-per-arm", "-1"),
            "--at-least-per-arm is -1; pass a whole number of at least 0.",
        ),
        (
            ("--share", "0.25", "--at-least-per-arm", "6"),
            "requires 12 samples from 2 arms, but --share keeps 10; pass a smaller number per arm or a "
            "larger --share.",
        ),
        (
            ("--count", "41"),
            "--count is 41, but there are only 40 samples; pass a smaller --count.",
        ),
    ],
)
def test_keep_names_its_own_options(options: tuple[str, ...], expected: str) -> None:
    assert expected in refused("keep", "a.npy", "b.npy", "--out", "k.json", *options)


def test_keep_says_where_the_samples_are_and_does_not_call_a_reached_bound_loose() -> None:
    result = invoke("keep", "a.npy", "b.npy", "--count", "1", "--out", "k.jsonl")
    assert result.stdout.endswith("saved in k.jsonl\n")
    assert "The kept samples reach this bound." in result.stdout
    assert "loose" not in str(gx.keep(np.load("a.npy"), 1, gx.Vendi()))
    printed = invoke("keep", "a.npy", "b.npy", "--count", "1", "--out", "-")
    assert "saved in" not in printed.output


def test_one_sample_is_singular() -> None:
    scores = {"vendi": {"value": 1.0}}
    kept = {"problem": None, "count": 1, "samples": 1, "scores": scores, "all_scores": scores}
    kept |= {"random_scores": {"vendi": {"mean": 1.0}}, "bound": 9.0, "loss": 1.0, "gap": 1.0}
    kept |= {"is_bound_tight": False, "directions": 3, "warnings": []}
    first, bound = kept_lines(kept)
    assert first == "Kept 1 of 1 sample: vendi 1 (all samples: 1; 1 random sample: 1)"
    assert "1 sample is few for the 3 directions" in bound
    summary = {"samples": 300, "status": "finished", "kept": kept}
    assert closing_line(summary, Path("run")) == (
        "300 samples are saved in run. The 1 kept sample is in run/samples.jsonl."
    )


def test_check_run_and_status_mention_the_kept_samples() -> None:
    write(study(keep={"samples": 5}))
    assert (
        "When it ends, the run keeps the best 5 of the samples.\n"
        in invoke("check", "study.yaml").stdout
    )
    finished = invoke("run", "study.yaml", "--out", "run", "--quiet")
    assert finished.exit_code == 0, finished.stderr
    assert "The 5 kept samples are in run/samples.jsonl." in finished.stdout
    assert "keep:     5 of 12 samples are kept: vendi " in invoke("status", "run").stdout
    Path("run/kept.json").unlink()
    shown = invoke("status", "run").stdout
    assert "keep:     the best 5 of the samples, chosen at the end" in shown
    Path("share.yaml").write_text(json.dumps(study(keep={"share": 0.5})))
    assert json.loads(invoke("check", "share.yaml", "--json").stdout)["keep"] == (
        "the best 50% of the samples"
    )


# -- studies -----------------------------------------------------------------------------------------


def test_resume_says_what_changes() -> None:
    write(study())
    assert invoke("run", "study.yaml", "--out", "run", "--quiet").exit_code == 0
    write(study("a", budget={"samples": 14}, keep={"samples": 3}))
    resumed = invoke("resume", "run", "--study", "study.yaml")
    assert resumed.exit_code == 0, resumed.stderr
    assert "arm b: removed from the study\n" in resumed.stderr
    assert "budget.samples is now 14; it was 12\n" in resumed.stderr
    assert "keep is now {" in resumed.stderr


def test_every_mistake_in_a_study_has_the_prefix() -> None:
    write(study(wrong=1, seed="x"))
    lines = refused("run", "study.yaml").splitlines()
    assert len(lines) > 1
    assert all(line.startswith("genmix: ") for line in lines)


# -- names -------------------------------------------------------------------------------------------


def test_unknown_encoders_are_corrected() -> None:
    Path("t.jsonl").write_text('{"text": "a"}\n')
    assert "--encoder is 'pixel'; did you mean 'pixels'?" in refused(
        "score", "t.jsonl", "--encoder", "pixel"
    )
    assert "pass --reference PATH" in refused("score", "a.npy", "--objective", "fd")


def test_equal_names_of_different_generators_are_explained() -> None:
    for name in ("one", "two"):
        plain = study("a", "b")
        plain["arms"]["a"] |= {} if name == "one" else {"path": "b.npy"}
        gx.run(plain, name)
    assert (
        "one and two would both be named 'a', but they are different generators (their path differs); "
        "name them" in refused("mixture", "one", "two")
    )


def test_embeddings_from_the_cache_are_not_announced(folder: Path) -> None:
    from PIL import Image

    (folder / "pics").mkdir()
    for i in range(4):
        Image.fromarray(np.full((4, 4), 60 * i + 20, np.uint8)).save(folder / "pics" / f"{i}.png")
    command = ("score", "pics", "--encoder", "pixels")
    assert "embedding pics 0/4\nembedding pics 4/4\n" in invoke(*command).stderr
    again = invoke(*command)
    assert again.exit_code == 0
    assert "embedding" not in again.stderr


# -- numbers and spelling ----------------------------------------------------------------------------


def test_details_are_rounded_and_spelled_for_people() -> None:
    rng = np.random.default_rng(1)
    kernel = gx.score({"a": rng.normal(size=(9, 3))}, gx.RKE())
    shown = str(kernel)
    assert shown.splitlines()[-1].startswith("pooled: rke ")
    (score,) = kernel.pooled.values()
    exact = score.details["kernel"].bandwidth
    assert repr(exact) not in shown
    assert f"bandwidth={exact:.4g}," in shown
    real = rng.normal(size=(9, 3))
    distance = gx.score({"a": real + 1}, gx.FrechetDistance(real)).pooled["frechet_distance"]
    assert "normalization 1/n" in str(distance)
    assert distance.details["normalisation"] == "1/n"


def test_rounded_leaves_names_alone() -> None:
    assert rounded("bandwidth=20.76349599618063, x=12345.6789") == "bandwidth=20.76, x=12346"
    assert rounded("model-v1.23456 1.5 1.2.34567") == "model-v1.23456 1.5 1.2.34567"


def test_a_gap_of_zero_is_zero() -> None:
    np.save("one.npy", np.eye(3)[:1])
    shown = invoke("mixture", "one.npy", "--no-intervals").stdout
    assert "at most 0 above the minimum" in shown
    assert "at most 0 above the minimum" in str(gx.optimal_mixture({"a": np.eye(3)}, gx.Vendi()))


def test_a_selector_names_the_terms_of_a_sum() -> None:
    assert repr(gx.Selector(["a"], gx.Vendi() + 0.3 * gx.Quality())).endswith(
        " for vendi + quality, 1 arm, 0 samples>"
    )


def test_ls_shows_every_term_of_a_sum() -> None:
    np.savez("q.npz", features=np.eye(8), quality=np.ones(8))
    plain = study(objective=["vendi", "quality"], budget={"samples": 6})
    plain["arms"] = {"q": {"kind": "recorded", "path": "q.npz"}}
    gx.run(plain, "runs/q")
    line = invoke("ls").stdout.splitlines()[1]
    assert "vendi " in line
    assert ", quality 1 ↑" in line


def test_the_only_arm_is_named() -> None:
    write(study("a", weights={"at_least": {"zebra": 0.1}}))
    assert "at_least names an unknown arm 'zebra'; the only arm is 'a'." in refused(
        "run", "study.yaml"
    )


def test_llms_txt_lists_the_commands_and_the_default_policy() -> None:
    text = (Path(__file__).parents[2] / "llms.txt").read_text("utf-8")
    listed = text.split("`genmix ")[1].split("`")[0].split(" | ")
    assert listed == list(COMMANDS)
    default = gx.Selector(["a"], gx.Vendi())
    named = gx.Selector(["a"], gx.Vendi(), gx.MixtureUCBV())
    assert repr(default) == repr(named)
    assert "policy=gx.MixtureUCBV()" in text
    assert "gx.keep(" in text


def test_kept_json_has_the_ids_below_the_scores_and_sorted() -> None:
    gx.run(study(keep={"samples": 5}), "run")
    content = json.loads(Path("run/kept.json").read_text())
    assert list(content).index("ids") > list(content).index("scores")
    assert content["ids"] == sorted(content["ids"])
