"""Output paths are checked before any work: they must be writable, and no input or run is overwritten."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import genmix as gx
from genmix.cli import app
from genmix.cli.samples import arguments
from genmix.core import atomic
from genmix.journal.targets import check_target, owner_of

RUN_FILES = (
    "journal.sqlite",
    "journal.sqlite-wal",
    "lock",
    "study.yaml",
    "samples.jsonl",
    "kept.json",
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        np.save(f"{name}.npy", rng.standard_normal((20, 3)))
    return tmp_path


@pytest.fixture
def run(folder: Path) -> Path:
    arms = {name: {"kind": "recorded", "path": f"{name}.npy"} for name in ("a", "b")}
    study = {"arms": arms, "objective": "vendi", "budget": {"samples": 24}}
    return gx.run(study, folder / "run").folder


def refused(*given: str) -> str:
    result = CliRunner().invoke(app, list(given))
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    return result.stderr.splitlines()[-1]


def content(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


WRITING = {
    "keep": ("keep", "--count", "5", "--out"),
    "mixture": ("mixture", "--weights"),
    "embed": ("embed", "--out"),
}


@pytest.mark.parametrize("command", WRITING)
def test_no_input_is_replaced(command: str, folder: Path) -> None:
    Path("link.npy").symlink_to("a.npy")
    os.link("a.npy", "hard.npy")
    before, (name, *options) = content(folder), WRITING[command]
    for out in ("a.npy", "./b.npy", str(folder / "a.npy"), "link.npy", "hard.npy"):
        message = refused(name, "first=a.npy", "b.npy", *options, out)
        assert message == (
            f"genmix: {options[-1]} would replace the input {Path(out)}; write to another file."
        )
    if command != "embed":
        more = ("--objective", "kd", "--reference", "b.npy")
        assert "would replace the input b.npy" in refused(name, "a.npy", *more, *options, "b.npy")
    assert content(folder) == before


def test_the_encoder_is_not_replaced(folder: Path) -> None:
    Path("own.py").write_text("def embed(texts):\n    return [[len(t), 1.0] for t in texts]\n")
    Path("t.txt").write_text("one\ntwo\n")
    given = ("t.txt", "--encoder", "own.py:embed", "--weights", "own.py")
    assert "would replace the input own.py" in refused("mixture", *given)


def test_the_samples_in_a_folder_are_not_replaced_or_added_to(folder: Path) -> None:
    Path("shards").mkdir()
    Path("images").mkdir()
    np.save("shards/0.npy", np.eye(3))
    Image.new("L", (4, 4)).save("images/0.png")
    before = content(folder)
    assert "would replace the input shards/0.npy" in refused(
        "keep", "shards", "--count", "2", "--out", "shards/0.npy"
    )
    assert "would add shards/1.npy to the samples in shards;" in refused(
        "keep", "shards", "--count", "2", "--out", "shards/1.npy"
    )
    assert "would replace the input images/0.png" in refused(
        "mixture", "images", "--encoder", "pixels", "--weights", "images/0.png"
    )
    assert content(folder) == before
    beside = ("embed", "images", "--encoder", "pixels", "--out", "images/features.npz")
    for _ in range(2):  # no image, so it can also be replaced
        assert CliRunner().invoke(app, list(beside)).exit_code == 0


@pytest.mark.parametrize("name", RUN_FILES)
def test_no_file_of_a_run_is_replaced(name: str, run: Path, folder: Path) -> None:
    before, out = content(folder), f"run/{name}"
    commands = [
        ("export", "run", "--to", "parquet", "--out", out),
        ("report", "run", "--out", out),
        ("mixture", "run", "--weights", out),
        ("mixture", "a.npy", "--weights", out),
    ]
    for command in commands:
        assert "belongs to the run in" in refused(*command)
    assert content(folder) == before


def test_images_other_names_and_other_runs_are_protected_too(run: Path, folder: Path) -> None:
    (run / "images").mkdir()
    Path("alias").symlink_to("run")
    os.link("run/journal.sqlite", "copy.jsonl")
    chart = ("plot", "run", "weights", "--out")
    assert "belongs to the run in" in refused(*chart, "run/images/1.png")
    export = ("export", "run", "--to", "jsonl", "--out")
    for out in ("alias/journal.sqlite", "copy.jsonl"):
        assert "belongs to the run in" in refused(*export, out)
    assert "belongs to the run in" in refused("mixture", "run", "--weights", "copy.jsonl")
    report = ("report", "alias", "--out", "run/selector.npz")
    assert "belongs to the run in" in refused(*report)
    assert "belongs to the run in" in refused("init", "run", "--force")


def test_the_inputs_of_a_run_are_not_replaced(folder: Path) -> None:
    Path("arms.py").write_text(
        "def make(seeds):\n    return [[1.0, seed % 5, 2.0] for seed in seeds]\n"
    )
    Path("more").mkdir()
    Path("a.npy").rename("more/a.npy")
    Path("study.yaml").write_text(
        "arms: {a: {kind: recorded, path: more/a.npy}, f: {kind: callable, function: 'arms:make'}}\n"
        "objective: [{precision: {reference: b.npy}}, vendi]\nbudget: {samples: 24}\n"
    )
    gx.run("study.yaml", "run")
    before = content(folder)
    for out in ("more/a.npy", "arms.py", "b.npy", "study.yaml"):
        for command in (("export", "run", "--to", "jsonl", "--out"), ("report", "run", "--out")):
            message = refused(*command, out)
            assert message == f"genmix: {out} is an input of the run in run; choose another file."
        assert f"would replace {out}, an input of the run in run" in refused(
            "mixture", "run", "--weights", out
        )
    assert content(folder) == before
    for out in ("new.jsonl", "new.jsonl"):  # one's own file can be replaced
        assert CliRunner().invoke(app, ["export", "run", "--to", "jsonl", "-o", out]).exit_code == 0


def test_what_belongs_in_a_run_folder_is_still_written(run: Path) -> None:
    for command in (
        ("report", "run"),
        ("report", "run", "--out", "run/report.html"),
        ("export", "run", "--to", "jsonl"),
        ("export", "run", "--to", "jsonl", "--out", "run/samples.jsonl"),
        ("export", "run", "--to", "npz"),
        ("export", "run", "--to", "npz"),
        ("plot", "run", "weights", "--out", "run/weights.pdf"),
        ("keep", "run", "--count", "5", "--out", "run/best.jsonl"),
    ):
        assert CliRunner().invoke(app, list(command)).exit_code == 0, command
    check_target(run / "new.jsonl", run)
    assert owner_of(run / "features.npz", run) is None


def test_a_comparison_does_not_write_into_a_run(run: Path) -> None:
    before = content(run)
    message = refused("compare", "run", "--out", "run")
    assert message.startswith("genmix: --out is run, which contains a run; choose another folder")
    assert content(run) == before
    message = refused("compare", "run", "--out", "a.npy")
    assert message.endswith("a.npy is not a folder; choose another one.")


BAD_PATHS = [
    ("gone/k{}", "there is no folder gone for k{}; create it."),
    ("full{}", "full{} is a folder; add the name of a file."),
    ("/proc/k{}", "could not write /proc/k{} ("),
]


@pytest.mark.parametrize("command", WRITING)
@pytest.mark.parametrize(("out", "words"), BAD_PATHS)
def test_a_wrong_output_is_found_before_the_work(
    command: str, out: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arguments, "load_arms", None)  # nothing is read
    ending = ".json" if command == "mixture" else ".npz"
    Path(f"full{ending}").mkdir()
    name, *options = WRITING[command]
    message = refused(name, "a.npy", *options, out.format(ending))
    assert message.startswith(f"genmix: {words.format(ending)}")


@pytest.mark.parametrize("command", ["keep", "embed"])
def test_several_arms_in_an_npy_file_are_refused_before_the_work(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gx, "keep", None)
    name, *options = WRITING[command]
    message = refused(name, "a.npy", "b.npy", *options, "k.npy")
    assert message == (
        "genmix: k.npy can contain only one arm, but there are 2; write an .npz or .parquet file."
    )


def test_checking_leaves_nothing_behind(folder: Path) -> None:
    before = content(folder)
    atomic.check_writable(folder / "k.npz")
    atomic.check_writable(folder / "a.npy")
    atomic.check_folder(folder / "new" / "folder")
    assert content(folder) == before
    assert not (folder / "new").exists()
    with pytest.raises(gx.InputError, match="not a regular file"):
        atomic.check_writable(Path(os.devnull))


def test_a_chart_is_drawn_only_if_it_can_be_saved(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("genmix.report.run_chart", None)
    (run / "x.pdf").mkdir()
    assert "not a regular file" in refused("plot", "run", "weights", "--out", "run/x.pdf")


def test_a_report_is_computed_only_if_it_can_be_written(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("genmix.report.page.render_page", None)
    assert "a.npy is not a folder; choose another one." in refused(
        "report", "run", "-o", "a.npy/r.html"
    )


def test_images_that_a_run_reads_are_not_replaced(folder: Path) -> None:
    rng = np.random.default_rng(0)
    for arm in ("dark", "light"):
        Path(arm).mkdir()
        for k in range(20):
            pixels = rng.integers(0, 255, (4, 4), dtype=np.uint8)
            Image.fromarray(pixels).save(f"{arm}/{k}.png")
    Path("study.yaml").write_text(
        "arms: {dark: {kind: recorded, path: dark}, light: {kind: recorded, path: light}}\n"
        "encoder: {kind: pixels}\nobjective: vendi\nbudget: {samples: 20}\n"
    )
    gx.run("study.yaml", "run")
    before = content(folder)
    assert "dark/0.png is an input of the run" in refused(
        "plot", "run", "weights", "-o", "dark/0.png"
    )
    assert content(folder) == before
    check_target(Path("dark/new.png"), Path("run"))
