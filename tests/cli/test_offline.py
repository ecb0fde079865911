"""genmix score, mixture and diagnose: as typer's runner, and each as a real process."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from typer.testing import CliRunner, Result

import genmix as gx
from genmix.cli import app
from genmix.data.features import write_statistics
from tests.support.helpers import Matrix, gaussian_arms

runner = CliRunner()
RNG = np.random.default_rng(0)
SDXL, PIXART = gaussian_arms(RNG, (40, 30), 5, spread=2.0)
REAL = np.concatenate([SDXL[:20], PIXART[:20]]) + 0.1
ARMS: dict[str, Matrix] = {"sdxl": SDXL, "pixart": PIXART}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where sdxl.npz, pixart.npy, real.npz and statistics of real lie, and the commands run."""
    np.savez(tmp_path / "sdxl.npz", reps=SDXL)
    np.save(tmp_path / "pixart.npy", PIXART)
    np.savez(tmp_path / "real.npz", feats=REAL)
    write_statistics(
        tmp_path / "stats.npz", REAL.mean(0), np.cov(REAL.T), len(REAL), encoder="clip"
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


FILES = ("sdxl.npz", "pixart.npy")
WITH_REAL = ("--reference", "real.npz")


def invoke(command: str, *arguments: str) -> Result:
    return runner.invoke(app, [command, *arguments])


def told(command: str, *arguments: str) -> Any:
    result = invoke(command, *FILES, *arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout, parse_constant=lambda word: pytest.fail(f"JSON has {word}"))


def refused(command: str, *arguments: str) -> str:
    """The one sentence that a command with exit code 2 leaves on stderr."""
    result = invoke(command, *arguments)
    assert result.exit_code == 2, result.stdout
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert re.fullmatch(r"genmix: [^\n]+[^.]\.", lines[0])
    return lines[0]


def values(scores: dict[str, Any]) -> dict[str, float]:
    return {name: score["value"] for name, score in scores.items()}


def plain(scores: Any) -> dict[str, float]:
    return {name: float(score) for name, score in scores.items()}


# -- real processes ----------------------------------------------------------------------------------


def run_process(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "genmix", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "80", "OMP_NUM_THREADS": "1"},
    )


def test_score_as_a_process(folder: Path) -> None:
    done = run_process(folder, "score", *FILES, *WITH_REAL)
    assert (done.returncode, done.stderr) == (0, "")
    expected = gx.score(ARMS, gx.Vendi(), reference=REAL)
    heading, *rows = done.stdout.splitlines()[:4]
    assert re.split(r"\s{2,}", heading.strip())[2:] == [f"{name} ↑" for name in expected.pooled]
    for row, (label, scores) in zip(
        rows, {**expected.arms, "pooled": expected.pooled}.items(), strict=True
    ):
        name, _, *numbers = row.split()
        assert name == label
        assert [float(n) for n in numbers] == pytest.approx(list(plain(scores).values()), rel=1e-5)
    assert "kernel Cosine()" in done.stdout
    assert "encoder unstated" in done.stdout


def test_mixture_as_a_process(folder: Path) -> None:
    done = run_process(
        folder, "mixture", *FILES, "--objective", "fd", *WITH_REAL, "--weights", "w.json"
    )
    assert (done.returncode, done.stderr) == (0, "")
    expected = gx.optimal_mixture(ARMS, gx.FrechetDistance(REAL))
    for line, (name, weight) in zip(
        done.stdout.splitlines()[1:], expected.weights.items(), strict=False
    ):
        label, n, shown, _, _, _, alone, _ = line.split()
        assert (label, int(n)) == (name, len(ARMS[name]))
        assert float(shown) == pytest.approx(weight, abs=1e-4)
        assert float(alone) == pytest.approx(float(expected.single_scores[name]), rel=1e-5)
    assert f"frechet_distance {float(expected.score):.6g} ↓" in done.stdout
    assert "above the minimum" in done.stdout
    written = json.loads((folder / "w.json").read_text("utf-8"))
    assert written["arms"] == ["sdxl", "pixart"]
    assert written["weights"] == pytest.approx(expected.weights)
    assert written["probabilities"] == list(written["weights"].values())


def test_diagnose_as_a_process(folder: Path) -> None:
    done = run_process(folder, "diagnose", *FILES, "--repeats", "20", "--subsample", "15")
    assert done.returncode == 0
    expected = gx.diagnose(ARMS, gx.Vendi(), repeats=20, subsample=15)
    assert done.stdout == f"{expected}\n"
    assert done.stderr.splitlines()[-1] == "subsamples 20/20"
    assert len(done.stderr.splitlines()) <= 12
    assert "Theory" not in done.stdout


def test_diagnose_prints_the_theory_only_if_asked(folder: Path) -> None:
    expected = gx.diagnose(ARMS, gx.Vendi())
    invoked = CliRunner().invoke(app, ["diagnose", *FILES, "--theory"])
    assert invoked.stdout == f"{expected}\n\n{expected.theory}\n"
    other = CliRunner().invoke(app, ["diagnose", *FILES, "--theory", "--order", "2"])
    assert other.stdout.splitlines()[-1].startswith("The paper's theorem is about Vendi of order 1")


def test_bad_input_as_a_process(folder: Path) -> None:
    done = run_process(folder, "mixture", "sdxl.npz", "absent.npz")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "genmix: no file or folder found at absent.npz; check the path.\n"


# -- score -------------------------------------------------------------------------------------------

GOALS: dict[str, tuple[tuple[str, ...], gx.Objective]] = {
    "vendi": ((), gx.Vendi()),
    "vendi of order 2": (("--order", "2"), gx.Vendi(2)),
    "vendi of order inf": (("--order", "inf"), gx.Vendi(np.inf)),
    "vendi gaussian": (("--kernel", "gaussian"), gx.Vendi(kernel=gx.Gaussian())),
    "vendi features": (
        ("--kernel", "gaussian", "--bandwidth", "3", "--features", "16"),
        gx.Vendi(kernel=gx.Gaussian(3.0, 16)),
    ),
    "vendi median": (
        ("--kernel", "gaussian", "--bandwidth", "median"),
        gx.Vendi(kernel=gx.Gaussian()),
    ),
    "rke": (("--objective", "rke"), gx.RKE()),
    "rke cosine": (("--objective", "rke", "--kernel", "cosine"), gx.RKE(gx.Cosine())),
    "rke bandwidth": (("--objective", "rke", "--bandwidth", "2.5"), gx.RKE(gx.Gaussian(2.5))),
    "rke unbiased": (("--objective", "rke", "--unbiased"), gx.RKE(unbiased=True)),
    "fd": (("--objective", "fd", *WITH_REAL), gx.FrechetDistance(REAL)),
    "frechet-distance": (
        ("--objective", "frechet-distance", "--ddof", "1", *WITH_REAL),
        gx.FrechetDistance(REAL, ddof=1),
    ),
    "kd": (("--objective", "kd", *WITH_REAL), gx.KernelDistance(REAL)),
    "kernel-distance": (
        ("--objective", "kernel-distance", "--kernel", "polynomial", "--unbiased", *WITH_REAL),
        gx.KernelDistance(REAL, gx.Polynomial(), unbiased=True),
    ),
    "precision": (("--objective", "precision", *WITH_REAL), gx.Precision(REAL)),
    "density": (("--objective", "density", "--k", "3", *WITH_REAL), gx.Density(REAL, k=3)),
}


@pytest.mark.parametrize("case", GOALS)
def test_every_objective_scores_as_in_python(case: str, folder: Path) -> None:
    options, objective = GOALS[case]
    found = told("score", *options)
    reference = REAL if "--reference" in options else None
    k = 3 if "--k" in options else 5
    expected = gx.score(ARMS, objective, reference=reference, k=k)
    for name, row in expected.arms.items():
        assert values(found["arms"][name]) == pytest.approx(plain(row), rel=1e-9)
    assert values(found["pooled"]) == pytest.approx(plain(expected.pooled), rel=1e-9)
    name = objective.name
    assert found["pooled"][name]["maximise"] is objective.maximise
    assert found["pooled"][name]["details"]["n"] == "70"


@pytest.mark.parametrize("case", GOALS)
def test_every_objective_has_a_best_mixture(case: str, folder: Path) -> None:
    options, objective = GOALS[case]
    found = told("mixture", *options, "--leave-one-out", "--encoder", "dinov2")
    expected = gx.optimal_mixture(ARMS, objective)
    assert found["weights"] == pytest.approx(expected.weights, abs=1e-9)
    assert found["loss"] == pytest.approx(expected.loss)
    assert found["gap"] == pytest.approx(expected.gap, abs=1e-9)
    assert found["single_losses"] == pytest.approx(expected.single_losses)
    assert found["leave_one_out"] == pytest.approx(expected.leave_one_out, abs=1e-9)
    assert found["active"] == list(expected.active)
    for name, score in expected.single_scores.items():
        assert values(found["single_scores"][name])[objective.name] == pytest.approx(float(score))
    (score,) = found["scores"].values()
    assert score["value"] == pytest.approx(float(expected.score))
    assert score["details"]["encoder"] == "dinov2"


@pytest.mark.parametrize("case", ["vendi", "rke cosine", "fd", "kd"])
def test_every_kind_of_objective_is_diagnosed(case: str, folder: Path) -> None:
    options, objective = GOALS[case]
    extra = ("--repeats", "2", "--gamma", "0.02", "--horizon", "50", "--confidence", "0.2")
    found = told("diagnose", *options, *extra, "--seed", "4")
    expected = gx.diagnose(
        ARMS, objective, repeats=2, gamma=0.02, horizon=50, confidence=0.2, seed=4
    )
    assert found == json.loads(json.dumps(expected.as_dict()))


def test_the_table_shows_what_is_lost_without_an_arm(folder: Path) -> None:
    options = ("--objective", "fd", *WITH_REAL)
    table = invoke("mixture", *FILES, *options, "--leave-one-out").stdout.splitlines()
    expected = gx.optimal_mixture(ARMS, gx.FrechetDistance(REAL))
    assert table[0].endswith("loss increase without it  active")
    for line, (name, rise) in zip(table[1:3], expected.leave_one_out.items(), strict=True):
        *_, shown, active = line.split()
        assert float(shown) == pytest.approx(max(rise, 0), rel=1e-3)
        assert active == ("yes" if name in expected.active else "no")
    assert "without" not in invoke("mixture", *FILES, *options).stdout


def test_a_reference_brings_its_neighbors_along(folder: Path) -> None:
    for options in (("--objective", "vendi"), ("--objective", "fd")):
        found = told("score", *options, *WITH_REAL, "--k", "2")
        expected = gx.score(ARMS, gx.Vendi(), reference=REAL, k=2).pooled
        for name in ("precision", "density", "recall", "coverage"):
            assert found["pooled"][name]["value"] == pytest.approx(float(expected[name]))
            assert found["pooled"][name]["details"]["k"] == "2"


def test_a_small_reference_does_not_spoil_a_distance(folder: Path) -> None:
    np.save("few.npy", REAL[:4])
    found = told("score", "--objective", "fd", "--reference", "few.npy")
    assert list(found["pooled"]) == ["frechet_distance"]
    sentence = refused("score", *FILES, "--objective", "fd", "--reference", "few.npy", "--k", "5")
    assert "neighbor" in sentence or "k" in sentence


def test_statistics_are_a_reference_for_fd(folder: Path) -> None:
    found = told("score", "--objective", "fd", "--reference", "stats.npz")
    expected = gx.score(ARMS, gx.FrechetDistance(REAL))
    assert values(found["pooled"]) == pytest.approx(plain(expected.pooled), rel=1e-9)
    assert found["pooled"]["frechet_distance"]["details"]["encoder"] == "clip"
    told("mixture", "--objective", "fd", "--reference", "stats.npz", "--encoder", "clip")


def test_every_format_is_an_arm(folder: Path) -> None:
    rows = SDXL.tolist()
    pq.write_table(pa.table({"embedding": rows}), "a.parquet")
    torch.save(torch.from_numpy(SDXL), "b.pt")
    Path("c.jsonl").write_text("\n".join(json.dumps({"embedding": row}) for row in rows))
    result = invoke("score", "a.parquet", "b.pt", "c.jsonl", "d=sdxl.npz", "--json")
    found = json.loads(result.stdout)["arms"]
    assert list(found) == ["a", "b", "c", "d"]
    assert len({scores["vendi"]["value"] for scores in found.values()}) == 1


def test_a_key_names_the_array(folder: Path) -> None:
    np.savez("two.npz", mine=SDXL, other=PIXART)
    np.savez("both.npz", a=REAL, b=REAL + 1)
    assert "--key" in refused("score", "two.npz")
    assert invoke("score", "two.npz", "--key", "mine").exit_code == 0
    options = ("--objective", "fd", "--reference", "both.npz")
    assert "both.npz" in refused("score", *FILES, *options)
    found = told("score", *options, "--reference-key", "b")
    expected = gx.score(ARMS, gx.FrechetDistance(REAL + 1), reference=REAL + 1)
    assert values(found["pooled"]) == pytest.approx(plain(expected.pooled), rel=1e-9)


# -- names -------------------------------------------------------------------------------------------


def test_names_come_from_stems_or_are_given(folder: Path) -> None:
    Path("other").mkdir()
    np.save("other/sdxl.npy", PIXART)
    sentence = refused("mixture", "sdxl.npz", "other/sdxl.npy")
    assert "first=sdxl.npz second=other/sdxl.npy" in sentence
    result = invoke("mixture", "one=sdxl.npz", "[b]two[/b]=other/sdxl.npy", "--json")
    assert list(json.loads(result.stdout)["weights"]) == ["one", "[b]two[/b]"]
    table = invoke("mixture", "one=sdxl.npz", "[b]two[/b]=other/sdxl.npy").stdout
    assert "[b]two[/b]" in table
    assert "'x'" in refused("score", "x=sdxl.npz", "x=pixart.npy")


def test_a_file_whose_name_has_a_sign_in_it_is_a_file(folder: Path) -> None:
    np.save("t=0.5.npy", SDXL)
    result = invoke("score", "t=0.5.npy", "--json")
    assert list(json.loads(result.stdout)["arms"]) == ["t=0.5"]
    for bad in ("=sdxl.npz", "name="):
        assert "NAME=PATH" in refused("score", bad)


@pytest.mark.parametrize("command", ["score", "mixture", "diagnose"])
def test_long_names_are_not_cut_in_a_pipe(
    command: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    name = "a-model-with-a-name-" + "that-goes-on-" * 6 + "and-ends"
    arguments = (f"{name}=sdxl.npz", "pixart.npy")
    shown = [invoke(command, *arguments).stdout]
    if command == "mixture":  # a real pipe as well
        shown.append(run_process(folder, command, *arguments).stdout)
    for output in shown:
        table = [line for line in output.splitlines() if line.startswith((name, "pixart"))]
        assert [line.split()[0] for line in table[:2]] == [name, "pixart"], output
        assert len({len(line) for line in table[:2]}) == 1


# -- what is refused ---------------------------------------------------------------------------------

MISFITS = [
    (("--ddof", "1"), "vendi does not accept --ddof, which is for fd"),
    (("--unbiased",), "vendi does not accept --unbiased"),
    (("--objective", "rke", "--order", "2"), "rke does not accept --order, which is for vendi"),
    (("--objective", "fd", *WITH_REAL, "--kernel", "cosine"), "fd does not accept --kernel"),
    (
        ("--objective", "frechet-distance", *WITH_REAL, "--order", "2"),
        "frechet-distance does not accept",
    ),
    (("--objective", "precision", *WITH_REAL, "--bandwidth", "2"), "precision does not accept"),
    (("--objective", "fd"), "fd needs a reference"),
    (("--objective", "kd"), "kd needs a reference"),
    (("--objective", "density"), "density needs a reference"),
    (("--bandwidth", "2"), "use --kernel gaussian"),
    (("--objective", "kd", *WITH_REAL, "--kernel", "cosine", "--features", "9"), "--features is"),
    (("--kernel", "polynomial"), "KernelDistance"),
    (("--kernel", "gaussian", "--bandwidth", "wide"), "'wide'"),
    (("--kernel", "gaussian", "--bandwidth", "-1"), "bandwidth is -1.0"),
    (("--kernel", "gaussian", "--features", "0"), "features is 0"),
    (("--order", "0"), "order is 0.0"),
    (("--order", "nan"), "order is nan"),
    (("--objective", "fd", *WITH_REAL, "--ddof", "2"), "ddof is 2"),
    (("--reference-key", "a"), "--reference"),
    (("--objective", "kd", "--reference", "stats.npz"), "only moments"),
    (("--objective", "kd", "--reference", "absent.npz"), "no file or folder"),
    (("--objective", "fd", "--reference", "stats.npz", "--encoder", "dino"), "'clip'"),
    (("--objective", "precision", *WITH_REAL, "--k", "0"), "k is 0"),
]


@pytest.mark.parametrize("command", ["score", "mixture", "diagnose"])
@pytest.mark.parametrize("options, part", MISFITS, ids=lambda v: "_".join(v) if v else "")
def test_what_does_not_fit_is_one_sentence(
    command: str, options: tuple[str, ...], part: str, folder: Path
) -> None:
    assert part in refused(command, *FILES, *options)


@pytest.mark.parametrize("command", ["mixture", "diagnose"])
def test_a_reference_that_nothing_uses_is_refused(command: str, folder: Path) -> None:
    assert "does not accept --reference" in refused(command, *FILES, *WITH_REAL)
    assert "does not accept --k" in refused(command, *FILES, "--k", "3")


def test_neighbors_need_reference_samples(folder: Path) -> None:
    assert "pass --reference" in refused("score", *FILES, "--k", "3")
    fd = ("--objective", "fd", "--reference", "stats.npz", "--k", "3")
    assert "no samples" in refused("score", *FILES, *fd)


def test_options_are_looked_at_before_files_are_read(folder: Path) -> None:
    assert "does not accept --ddof" in refused("score", "absent.npz", "--ddof", "1")


@pytest.mark.parametrize("command", ["score", "mixture", "diagnose"])
def test_arms_that_cannot_be_used_are_one_sentence(command: str, folder: Path) -> None:
    np.save("narrow.npy", SDXL[:, :3])
    np.savez("pickled.npz", reps=np.array([{"a": 1}], dtype=object))
    Path("texts.jsonl").write_text('{"text": "a city"}\n')
    assert "embed all arms with the same encoder" in refused(command, "sdxl.npz", "narrow.npy")
    assert "has only mu and sigma" in refused(command, "sdxl.npz", "stats.npz")
    assert "pickled objects" in refused(command, "pickled.npz")
    assert "pass --encoder sentence-transformers" in refused(command, "texts.jsonl")


def test_repeats_that_make_no_sense_are_refused(folder: Path) -> None:
    assert "pass --repeats 0 or" in refused("diagnose", *FILES, "--repeats", "1")
    assert "repeats is -3" in refused("diagnose", *FILES, "--repeats", "-3")
    assert "30 samples" in refused("diagnose", *FILES, "--repeats", "2", "--subsample", "35")
    assert "seed is -1" in refused("diagnose", *FILES, "--repeats", "2", "--seed", "-1")


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("no/such/folder.json", "there is no folder no/such for folder.json; create it."),
        ("sdxl.npz/w.json", "there is no folder sdxl.npz for w.json; create it."),
        (".", ". is a folder; add the name of a file."),
    ],
)
def test_weights_that_cannot_be_written_are_one_sentence(
    target: str, words: str, folder: Path
) -> None:
    before = sorted(path.name for path in folder.iterdir())
    assert words in refused("mixture", *FILES, "--weights", target)
    assert sorted(path.name for path in folder.iterdir()) == before


def test_usage_errors_exit_with_2(folder: Path) -> None:
    for arguments in (("--objective", "fid"), ("--order", "two"), ("--kernel", "laplace")):
        result = invoke("score", *FILES, *arguments)
        assert result.exit_code == 2
        assert arguments[0] in result.stderr
    assert invoke("score").exit_code == 2


# -- help --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["score", "mixture", "diagnose"])
def test_every_help_page_has_an_example_that_runs(command: str, folder: Path) -> None:
    page = invoke(command, "--help").stdout
    example = re.search(rf"Example: genmix ({command}.*)", " ".join(page.split()))
    assert example is not None
    words = example.group(1).split()
    for name in ("sdxl.npz", "pixart.npz"):
        assert name in words
        np.savez(name, reps=ARMS[name.removesuffix(".npz")])
    if "--repeats" in words:
        words[words.index("--repeats") + 1 :: 2] = ["2", "20"]
    assert runner.invoke(app, words).exit_code == 0


def test_the_commands_are_listed() -> None:
    page = runner.invoke(app, ["--help"]).stdout
    assert all(f" {command} " in page for command in ("score", "mixture", "diagnose"))


def test_the_commands_import_nothing_heavy_for_numpy_files(folder: Path) -> None:
    code = (
        "import sys; from genmix.cli import app\n"
        "try: app(['diagnose', 'sdxl.npz', 'pixart.npy'])\n"
        "except SystemExit: pass\n"
        "print({'torch', 'scipy', 'sklearn', 'pyarrow'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=folder
    )
    assert done.stdout.splitlines()[-1] == "set()"


def test_no_progress_where_nothing_is_repeated(folder: Path) -> None:
    result = invoke("diagnose", *FILES)
    assert result.stderr == ""
    assert "the mixture" in result.stdout
