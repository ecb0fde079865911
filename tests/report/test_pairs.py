"""The report of a study that compares pairs of prompt and answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.report.facts import Facts
from genmix.report.page import render_page
from genmix.report.sentences import pair_sentences
from tests.runs.test_prompt_embeddings import JOINT, study


@pytest.fixture(autouse=True)
def _no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GENMIX_REPORT", "off")


@pytest.mark.parametrize("group", [{}, {"group": "topic"}])
def test_the_report_says_how_many_answers_each_prompt_has(
    tmp_path: Path, group: dict[str, Any]
) -> None:
    run = gx.run(study(tmp_path, objective=JOINT, prompts=group), tmp_path / "run")
    facts = Facts(run.folder)
    found = run.summary["score"]["vendi"]
    prompts, answers = (float(found["details"][key]) for key in ("prompts", "conditional"))
    assert prompts * answers == pytest.approx(found["value"])
    [sentence] = pair_sentences(facts)
    assert f"have {prompts:.4g} (entropy {np.log(prompts):.4g})" in sentence
    assert f"each prompt has effectively {answers:.4g} different answers" in sentence
    assert facts.subset.outputs.shape == (36, 6)  # what the map shows
    if group:
        assert sentence in render_page(facts)
    else:
        assert facts.vs_uniform is not None  # computed from the pairs
        assert facts.mixture is not None
        assert facts.mixture.scores["vendi"] == pytest.approx(found["value"], rel=1e-6)


def test_other_objectives_have_no_such_sentence(tmp_path: Path) -> None:
    assert pair_sentences(Facts(gx.run(study(tmp_path), tmp_path / "run").folder)) == []
