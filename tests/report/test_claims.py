"""What the report claims about a run: each claim with its reason, and none without."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.core.text import number
from genmix.data.png import as_png
from genmix.report import run_chart
from genmix.report.advice import advise
from genmix.report.baselines import BaselineComparison
from genmix.report.convergence import MIN_SAMPLES, assess_convergence, convergence_sentence
from genmix.report.facts import EarlierMixture, Facts
from genmix.report.gallery import real_samples
from genmix.report.page import render_page
from genmix.report.scoring import MixtureScore
from genmix.report.sentences import mixture_sentence, score_sentences, status_sentence
from tests.support.report_runs import altered, feature_run


@pytest.fixture(autouse=True)
def _no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GENMIX_REPORT", "off")


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Facts:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GENMIX_REPORT", "off")
        return Facts(feature_run(tmp_path_factory.mktemp("run"), samples=150).folder)


def settled(facts: Facts, **values: Any) -> Facts:
    """The same facts, with weights that did not change."""
    still = EarlierMixture(facts.samples // 2, 0.0, {"vendi": 2.0})
    mixture = MixtureScore({"vendi": 2.0}, 0.0)
    return altered(facts, earlier=still, mixture=mixture, best_scores={"vendi": 2.0}, **values)


# -- converged ---------------------------------------------------------------------------------------


def test_converged_takes_a_minimum_of_samples(facts: Facts) -> None:
    study = facts.study | {"budget": {"time": 60.0}}
    assert assess_convergence(settled(facts, study=study, samples=MIN_SAMPLES)).verdict == "yes"
    few = assess_convergence(settled(facts, study=study, samples=MIN_SAMPLES - 1))
    assert few.verdict == "unknown"
    assert few.reason == "99 samples are too few to tell; it takes at least 100"


@pytest.mark.parametrize("status", ["interrupted", "trouble", "unfinished"])
def test_a_run_that_did_not_finish_has_not_converged(facts: Facts, status: str) -> None:
    found = settled(facts, status=status)
    assert assess_convergence(found).verdict == "unknown"
    assert "It has converged" not in convergence_sentence(found)


def test_a_run_that_ended_short_has_not_converged(facts: Facts) -> None:
    study = facts.study | {"budget": {"samples": 400}}
    found = settled(facts, study=study, reason="the cost budget of 6 is spent")
    assert assess_convergence(found).verdict == "unknown"
    assert assess_convergence(found).reason == (
        "the run delivered only 150 of 400 samples, because the cost budget of 6 is spent"
    )
    early = settled(facts, study=study, reason="weights and score have settled over the last 50")
    assert assess_convergence(early).verdict == "yes"  # the study's own rule


def test_recorded_arms_that_ran_out_are_the_cause(tmp_path: Path) -> None:
    arms = {}
    for k, arm in enumerate("ab"):
        np.save(tmp_path / f"{arm}.npy", np.eye(4)[np.arange(60) % 2 + 2 * k])
        path = str(tmp_path / f"{arm}.npy")
        arms[arm] = {"kind": "recorded", "path": path, "exhausted": "retire"}
    study = {"arms": arms, "objective": "vendi", "budget": {"time": "1h"}, "warm_start": 5}
    found = Facts(gx.run(study, tmp_path / "run").folder)
    assert status_sentence(found) == "The run finished: every arm has run out of samples."
    assert assess_convergence(settled(found)).reason == (
        "the run ended before its budget was spent, because every arm ran out of samples"
    )
    asked = altered(found, study=found.study | {"budget": {"samples": 500}})
    assert status_sentence(asked) == (
        "The run fell short: the study asked for 500 samples, and the run delivered 120, because every "
        "arm has run out of samples."
    )
    steps = {step.kind: step.text for step in advise(found)}
    assert steps["budget"].startswith("a and b have no samples left. Record more and run the study")
    assert "use" not in steps
    gone = altered(found, weights={"b": 1.0})
    assert "It no longer includes a, which ran out of samples." in mixture_sentence(gone)


def test_a_run_is_extended_with_one_command(facts: Facts) -> None:
    moved = EarlierMixture(100, 0.4, {"vendi": 1.0})
    budget = {"samples": 150, "cost": 200.0, "time": 60.0}
    found = altered(facts, earlier=moved, study=facts.study | {"budget": budget}, cost=190.0)
    (step,) = [step.text for step in advise(found) if step.kind == "budget"]
    assert step.startswith("Extend the run, e.g. to 300 samples, because ")
    assert step.endswith(f"genmix resume {facts.folder} --samples 300 --cost 400 --time 126s")


# -- numbers -----------------------------------------------------------------------------------------


def test_small_sets_have_a_reason(facts: Facts) -> None:
    found = facts.vs_best_arm
    assert found is not None
    assert found.limit is not None
    arm, count = found.limit
    assert count == facts.counts[arm]
    words = " ".join(score_sentences(facts))
    why = f"a set takes at most half of the {count:,} samples from {arm}"
    assert f"In sets of {found.size:,} samples ({why}), it " in words
    page = render_page(facts)
    assert (
        f"in sets of {found.size:,} samples with at most half of the {count:,} from {arm}" in page
    )
    free = altered(facts, vs_best_arm=replace(found, size=1500, limit=None))
    assert "In sets of 1,500 samples, it " in " ".join(score_sentences(free))


def test_a_difference_within_large_noise_is_unclear(facts: Facts) -> None:
    def against(std: float) -> str:
        found = BaselineComparison(82, {"vendi": 4.2}, {"vendi": 4.21}, {"vendi": std})
        return render_page(altered(facts, vs_uniform=found))

    assert ">unclear<" in against(0.5)
    assert ">no difference<" not in against(0.5)
    assert ">no difference<" in against(0.01)


def test_the_gap_holds_for_samples_after_the_last_solve(tmp_path: Path) -> None:
    run = feature_run(tmp_path, samples=140, resolve_growth=0.5)
    found = Facts(run.folder)
    assert found.scoring is not None
    assert found.mixture is not None
    excess = found.mixture.loss - found.scoring.best.loss
    assert 1e-6 < excess <= run.summary["gap"]
    assert found.gap == run.summary["gap"]
    assert run.summary["score"]["vendi"]["value"] == pytest.approx(found.mixture.scores["vendi"])


def test_the_terminal_and_the_report_show_the_same_gap(tmp_path: Path) -> None:
    run = feature_run(tmp_path, samples=140, policy="mixture-ucb")
    found = convergence_sentence(Facts(run.folder))
    assert f"at most {number(run.summary['gap'], 2)} above the minimum" in found
    assert "shown at the end" not in found


def test_a_gap_that_does_not_hold_for_all_samples_is_explained(facts: Facts) -> None:
    poor = dict.fromkeys(facts.weights or {}, 1 / 3)
    found = Facts(facts.folder)
    found.weights = poor
    found._summary = found._summary | {"gap": 1e-9}
    assert found.gap is not None
    assert found.gap > 1e-3
    assert "(The 1e−09 shown at the end of the run is from when the weights were last " in (
        convergence_sentence(found)
    )


def test_titles_have_no_python(facts: Facts) -> None:
    page = render_page(facts)
    assert "Vendi (order 1, cosine kernel)" in page
    assert not re.search(r"\w\(\)|Vendi\(|kernel=", page.split("<main>")[0].split("</style>")[1])


# -- charts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["weights", "pooled"])
def test_samples_have_a_linear_axis(facts: Facts, name: str) -> None:
    chart = run_chart(facts.folder, name).to_json()
    assert '"log"' not in chart
    assert '"samples drawn"' in chart


def test_no_card_is_empty(tmp_path: Path) -> None:
    """Arms without costs have no chart of costs, and vectors without a source have no gallery."""

    def make(seeds: list[int]) -> list[Any]:
        return [{"vector": [1.0, seed % 5]} for seed in seeds]

    study = {"arms": {"x": make, "y": make}, "objective": "vendi", "budget": {"samples": 40}}
    page = render_page(Facts(gx.run(study, tmp_path / "run").folder))
    figures = re.findall(r"<figure.*?</figure>", page, re.DOTALL)
    assert len(figures) == 4
    assert all("<svg" in figure for figure in figures)
    assert "Not drawn: “Score against cost” and “Best mixture for each cost”. The costs" in page
    assert "<h2>Samples</h2>" not in page
    assert "(empty)" not in page


# -- real samples ------------------------------------------------------------------------------------


def pictures(folder: Path, count: int, light: int) -> str:
    folder.mkdir()
    rng = np.random.default_rng(light)
    for i in range(count):
        pixels = (rng.integers(0, 60, (8, 8, 3)) + light).astype(np.uint8)
        (folder / f"{i:02}.png").write_bytes(as_png(pixels))
    return str(folder)


def test_real_images_are_beside_generated_ones(tmp_path: Path) -> None:
    real = pictures(tmp_path / "real", 30, 90)
    arms = {
        arm: {"kind": "recorded", "path": pictures(tmp_path / arm, 20, light)}
        for arm, light in (("dark", 0), ("light", 180))
    }
    study = {
        "arms": arms,
        "encoder": {"kind": "pixels", "size": 2},
        "objective": {"kernel-distance": {"reference": real}},
        "budget": {"samples": 16},
        "warm_start": 4,
    }
    found = Facts(gx.run(study, tmp_path / "run").folder)
    page = render_page(found)
    (aside,) = re.findall(r"<aside.*?</aside>", page, re.DOTALL)
    assert "<h3>Real images</h3>" in aside
    assert "8 of the 30 images in the reference" in aside
    assert aside.count('<img src="data:image/png;base64,') == 8
    assert 'alt="real sample of the reference, 00.png"' in aside
    assert str(tmp_path) not in aside
    (tmp_path / "real").rename(tmp_path / "gone")
    assert real_samples(found.study, found.study_folder) == []
    assert "<aside" not in render_page(Facts(found.folder))


def test_references_without_anything_to_see(tmp_path: Path) -> None:
    np.save(tmp_path / "features.npy", np.eye(3))
    (tmp_path / "real.txt").write_text("one\ntwo\n")
    for path in ("features.npy", "none", "<array (3, 3) #0123456789ab>", None):
        assert real_samples({"objective": [{"vendi": {}}], "reference": path}, tmp_path) == []
    study = {"objective": [{"coverage": {"reference": "real.txt"}}], "reference": "real.txt"}
    (texts,) = real_samples(study, tmp_path)
    assert [sample.text for sample in texts.shown] == ["one", "two"]
    assert (texts.kind, texts.total) == ("texts", 2)
