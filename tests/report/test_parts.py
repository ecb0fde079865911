"""The parts of a report, each against what is known: the map, the gallery, the frontier, the numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.core.text import visible
from genmix.objectives.pool import Pool
from genmix.offline.mixture import best_mixture
from genmix.report import facts as report_facts
from genmix.report import sampling, scoring
from genmix.report.advice import advise
from genmix.report.convergence import convergence_sentence
from genmix.report.facts import Facts
from genmix.report.figures import FIGURES, thinned
from genmix.report.frontier import cost_frontier
from genmix.report.gallery import gallery, source_name, thumbnail
from genmix.report.page import render_page
from genmix.report.run_pool import is_heavy
from genmix.report.sampling import SampleSubset, project, stratified
from genmix.report.sentences import score_sentences
from genmix.report.svg import sanitized_svg
from genmix.report.templating import environment
from genmix.study.secrets import without_secrets
from tests.support.report_runs import feature_run

# -- choosing ----------------------------------------------------------------------------------------


def test_an_even_part_has_all_arms_in_proportion() -> None:
    arms = ["a"] * 8000 + ["b"] * 1900 + ["c"] * 100
    places = stratified(arms, 1000)
    assert len(set(places.tolist())) == len(places)
    assert 990 <= len(places) <= 1000
    counts = {arm: sum(arms[i] == arm for i in places) for arm in "abc"}
    assert counts["a"] == pytest.approx(785, abs=15)
    assert counts["c"] >= 20
    assert (np.diff(places) > 0).all()
    assert (stratified(arms, 1000) == places).all()


def test_a_part_of_more_arms_than_places() -> None:
    arms = [str(i % 50) for i in range(500)]
    places = stratified(arms, 40)
    assert 0 < len(places) <= 50


def test_few_samples_are_all_there() -> None:
    assert stratified(["a", "b"], 10).tolist() == [0, 1]


# -- the map -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(200, 5), (20, 50)])
def test_the_map_is_that_of_the_singular_vectors(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=shape) * np.linspace(5, 1, shape[1])
    found = project(rows)
    centered = rows - rows.mean(axis=0)
    left, values, _ = np.linalg.svd(centered, full_matrices=False)
    expected = left[:, :2] * values[:2]
    assert np.abs(found.points) == pytest.approx(np.abs(expected), abs=1e-9)
    shares = values**2 / np.sum(values**2)
    assert found.shares == pytest.approx(tuple(shares[:2]))
    # Neither the order of the rows nor a shift turns it over.
    turned = project(rows[::-1] + 3.0)
    assert turned.points[::-1] == pytest.approx(found.points, abs=1e-9)


@pytest.mark.parametrize(
    "rows", [np.ones((5, 3)), np.ones((1, 3)), np.empty((0, 0)), np.ones((4, 1))]
)
def test_the_map_of_next_to_nothing(rows: Any) -> None:
    found = project(rows)
    assert found.points.shape == (len(rows), 2)
    assert (found.points == 0).all()


# -- the gallery -------------------------------------------------------------------------------------


def chosen(texts: list[str | None], arms: list[str], rows: Any) -> SampleSubset:
    filled = [
        {"ticket": i, "text": text, "image": None, "source": f"/home/me/f.npy#{i}", "prompt": None}
        for i, text in enumerate(texts)
    ]
    return SampleSubset(filled, np.array(arms), np.asarray(rows, dtype=float), len(texts))


def test_typical_is_near_the_mean_and_unusual_far() -> None:
    rows = [[0.0], [0.1], [-0.1], [0.2], [-0.2], [9.0], [-8.0], [7.0], [-6.0], [5.0]]
    texts = [f"t{i}" for i in range(10)]
    (shelf,) = gallery(chosen(texts, ["a"] * 10, rows), ["a"], Path(), unit=False)
    center = np.mean(rows)
    ranked = sorted(range(10), key=lambda i: abs(rows[i][0] - center))
    assert [s.ticket for s in shelf.typical] == ranked[:4]
    assert [s.ticket for s in shelf.unusual] == ranked[::-1][:4]


def test_a_text_is_shown_once_with_its_number() -> None:
    texts: list[str | None] = ["same"] * 8 + ["other"]
    (shelf,) = gallery(chosen(texts, ["a"] * 9, [[1.0]] * 8 + [[5.0]]), ["a"], Path(), unit=False)
    assert [(s.text, s.times) for s in shelf.typical] == [("same", 8), ("other", 1)]
    assert shelf.unusual == []


def test_directions_alone_count_for_a_cosine() -> None:
    rows = [[1.0, 0.0], [100.0, 0.0], [1.0, 0.01], [0.0, 1.0]]
    found = chosen(["a", "b", "c", "d"], ["x"] * 4, rows)
    (shelf,) = gallery(found, ["x"], Path(), unit=True)
    assert shelf.typical[-1].text == "d"
    assert {s.text for s in shelf.typical[:3]} == {"a", "b", "c"}


def test_recorded_vectors_say_where_they_come_from() -> None:
    (shelf,) = gallery(chosen([None, None], ["a", "a"], [[0.0], [1.0]]), ["a"], Path(), unit=False)
    assert {s.source for s in shelf.typical} == {"f.npy#0", "f.npy#1"}
    assert source_name("C:\\x\\f.npy#3") == "f.npy#3"
    assert source_name(None) is None


def test_many_arms_get_fewer_samples_each() -> None:
    arms = [f"{i % 30}" for i in range(300)]
    found = chosen([f"{i}" for i in range(300)], arms, np.arange(300.0)[:, None])
    shelves = gallery(found, [f"{i}" for i in range(30)], Path(), unit=False)
    assert {len(shelf.typical) for shelf in shelves} == {2}


def test_a_thumbnail_is_made_anew() -> None:
    from genmix.data.png import as_png

    noise = np.random.default_rng(0).integers(0, 255, (400, 300, 3)).astype(np.uint8)
    content = as_png(noise)
    assert thumbnail(content + b"<script>").startswith("data:image/jpeg;base64,")
    assert len(thumbnail(content)) < len(content) / 5
    assert thumbnail(as_png(noise[:20, :20])).startswith("data:image/png;base64,")
    with pytest.raises(Exception, match="cannot identify"):
        thumbnail(b"<svg onload=alert(1)>")


# -- cost against score ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pool() -> Pool:
    rng = np.random.default_rng(1)
    scales = {"cheap": [1, 0.1, 0.1, 0.1], "costly": [1, 1, 1, 1], "silly": [0.05] * 4}
    arms = {arm: rng.normal([1, 0, 0, 0], scale, size=(300, 4)) for arm, scale in scales.items()}
    return Pool.of(arms, gx.Vendi())


def test_the_frontier_is_one(pool: Pool) -> None:
    found = cost_frontier(
        pool, pool.arms, [1.0, 5.0, 9.0], {"cheap": 0.0, "costly": 1.0, "silly": 0.0}
    )
    assert found is not None
    costs = [point.cost for point in found.points]
    scores = [point.score for point in found.points]
    assert costs == sorted(costs, reverse=True)
    assert scores == sorted(scores, reverse=True)
    best = best_mixture(pool)
    assert scores[0] == pytest.approx(float(best.score), rel=1e-4)  # type: ignore[arg-type]
    assert found.points[-1].weights == {"cheap": 1.0, "costly": 0.0, "silly": 0.0}
    # No arm, and no mixture of a fine grid, is cheaper and better than a point of it.
    grid = [(a / 20, b / 20, 1 - (a + b) / 20) for a in range(21) for b in range(21 - a)]
    for weights in grid:
        alpha = np.maximum(np.array(weights), 0.0)
        cost = float(alpha @ [1.0, 5.0, 9.0])
        score = float(pool.score(alpha))  # type: ignore[arg-type]
        for point in found.points:
            assert not (cost < point.cost - 1e-9 and score > point.score * (1 + 1e-4))
    assert found.mixture is not None
    assert found.mixture.cost == 5.0


def test_equal_costs_leave_nothing_to_weigh(pool: Pool) -> None:
    assert cost_frontier(pool, pool.arms, [2.0, 2.0, 2.0], None) is None


def test_the_cost_term_of_an_objective_is_the_axis_and_not_the_score() -> None:
    rng = np.random.default_rng(0)
    arms = {"a": rng.normal(size=(40, 3)), "b": rng.normal(size=(40, 3)) * [2, 1, 0.1]}
    both = Pool.of(arms, gx.Vendi() + 0.5 * gx.Cost(), cost={"a": 1.0, "b": 3.0})
    alone = Pool.of(arms, gx.Vendi())
    found, plain = (cost_frontier(p, ["a", "b"], [1.0, 3.0], None) for p in (both, alone))
    assert found is not None
    assert plain is not None
    assert (found.name, found.maximise) == ("vendi", True)
    assert found.points[0].score == pytest.approx(plain.points[0].score, rel=1e-6)


def test_what_is_heavy() -> None:
    rows = np.random.default_rng(0).normal(size=(30, 1200))
    assert is_heavy(Pool.of({"a": np.tile(rows, (40, 1))}, gx.Vendi()))
    assert not is_heavy(Pool.of({"a": rows}, gx.Vendi()))  # 30 samples span 30 dimensions
    assert not is_heavy(Pool.of({"a": rows}, gx.RKE()))
    assert not is_heavy(Pool.of({"a": rows[:, :10]}, gx.Vendi() + gx.Cost(), cost={"a": 1.0}))
    assert not is_heavy(Pool.of({"a": rows[:, :10]}, gx.Vendi(kernel=gx.Gaussian())))


# -- the numbers -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> gx.Run:
    return feature_run(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def facts(run: gx.Run) -> Facts:
    return Facts(run.folder)


def test_the_numbers_are_those_of_the_library(run: gx.Run, facts: Facts) -> None:
    from genmix.journal.reader import JournalReader
    from genmix.journal.schema import embedding_of

    journal = JournalReader.open(run.folder)
    rows: dict[str, list[Any]] = {}
    for row in journal.told_rows():
        rows.setdefault(row["arm"], []).append(embedding_of(row))
    journal.close()
    arms = {arm: np.stack(rows[arm]) for arm in run.weights}
    known = gx.diagnose(arms, gx.Vendi())
    assert facts.mixture is not None
    assert facts.mixture.loss == pytest.approx(known.mixture.loss, abs=1e-4)
    for arm in facts.arms:
        alone = known.mixture.single_scores[arm.label]
        assert arm.single_scores["vendi"] == pytest.approx(float(alone))  # type: ignore[arg-type]
        assert arm.leave_one_out == pytest.approx(known.mixture.leave_one_out[arm.label], abs=1e-6)
        assert arm.innovation == pytest.approx(known.arms[arm.label].innovation.gap)
        assert arm.count == len(arms[arm.label])
    assert facts.uniform is not None
    pool = Pool.of(arms, gx.Vendi())
    assert facts.uniform.scores["vendi"] == pytest.approx(float(pool.score(np.full(3, 1 / 3))))  # type: ignore[arg-type]
    assert facts.pooled_scores["vendi"] == pytest.approx(
        run.summary["pooled_score"]["vendi"]["value"]
    )
    assert facts.gap is not None
    assert facts.gap < 1e-3


ARMS_OF_WHICH_ONE_DIES = """
import numpy as np

made = [0]

def good(seeds):
    made[0] += 1
    if made[0] > 40:
        raise RuntimeError("dead")
    return [np.random.default_rng(s).normal(size=6) for s in seeds]

def flat(seeds):
    return [np.r_[1.0, np.random.default_rng(s).normal(size=5) * 0.05] for s in seeds]

def tall(seeds):
    return [np.r_[0.0, 1.0, np.random.default_rng(s).normal(size=4) * 0.05] for s in seeds]
"""


def test_an_arm_that_left_is_still_scored(tmp_path: Path) -> None:
    (tmp_path / "dying_arms.py").write_text(ARMS_OF_WHICH_ONE_DIES)
    arms = ("good", "flat", "tall")
    study = {
        "name": "dying",
        "arms": {arm: {"kind": "callable", "function": f"dying_arms:{arm}"} for arm in arms},
        "objective": "vendi",
        "budget": {"samples": 150},
        "retries": {"attempts": 2, "first_wait": 0.001, "longest_wait": 0.01},
    }
    (tmp_path / "study.json").write_text(json.dumps(study))
    run = gx.run(tmp_path / "study.json", tmp_path / "run")
    facts = Facts(run.folder)
    assert facts.weights is not None
    assert "good" not in facts.weights
    left = next(arm for arm in facts.arms if arm.label == "good")
    assert left.single_scores["vendi"] is not None
    assert left.single_scores["vendi"] > 4
    assert facts.best_arm == left
    assert left.leave_one_out is None
    [score] = score_sentences(facts)
    assert "worse than the best single arm, good" in score
    assert "equal shares of the remaining arms" in score
    assert (
        "minimum over all mixtures of the samples of the remaining arms."
        in convergence_sentence(facts)
    )
    assert "give the remaining arms the same weight" in render_page(facts)
    assert not [step for step in advise(facts) if step.kind == "single"]


def test_costs_add_up(run: gx.Run, facts: Facts) -> None:
    assert facts.cost == pytest.approx(run.summary["cost"])
    assert sum(arm.cost or 0.0 for arm in facts.arms) == pytest.approx(facts.cost)
    assert [arm.cost_per_sample for arm in facts.arms] == pytest.approx([0.5, 1.0, 1.5])


REFUSED = """
import numpy as np

def make(seeds):
    return [f"text {seed % 10}" for seed in seeds]

def embed(texts):
    return np.array([[np.nan if t.endswith("7") else 1.0, float(t[-1])] for t in texts])
"""


def test_what_the_encoder_refused_was_paid_for(tmp_path: Path) -> None:
    (tmp_path / "refused.py").write_text(REFUSED)
    arm = {"kind": "callable", "function": "refused:make", "price": 0.01}
    study = {
        "arms": {"a": arm, "b": arm},
        "encoder": {"kind": "callable", "function": "refused:embed"},
        "objective": "vendi",
        "budget": {"samples": 60},
        "warm_start": 5,
        "retries": {"attempts": 50, "first_wait": 0.001, "longest_wait": 0.001},
    }
    (tmp_path / "study.json").write_text(json.dumps(study))
    found = Facts(gx.run(tmp_path / "study.json", tmp_path / "run").folder)
    costs = [arm.cost for arm in found.arms]
    assert found.failures > 0
    assert found.cost == pytest.approx(sum(c for c in costs if c is not None))
    assert found.cost > 0.01 * found.samples


def test_samples_since_the_snapshot_count(run: gx.Run, facts: Facts, tmp_path: Path) -> None:
    """A run that was killed: its snapshot is older than its journal."""
    from genmix.runs.snapshot import SNAPSHOT

    def keep(live: Any) -> None:
        if live.told == 150:
            live.loop.session.save_snapshot(at_once=True)
            kept.append((live.folder / SNAPSHOT).read_bytes())

    kept: list[bytes] = []
    again = feature_run(tmp_path, callbacks=[keep])
    (again.folder / SNAPSHOT).write_bytes(kept[0])
    found = Facts(again.folder)
    assert found.mixture is not None
    assert facts.mixture is not None
    assert found.mixture.scores["vendi"] == pytest.approx(facts.mixture.scores["vendi"], rel=1e-9)
    assert found.pooled_scores["vendi"] == pytest.approx(facts.pooled_scores["vendi"], rel=1e-9)


def test_a_large_run_is_read_in_part(run: gx.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        report_facts, "draw_subset", lambda journal: sampling.draw_subset(journal, 50)
    )
    found = Facts(run.folder)
    assert len(found.subset.rows) <= 50
    assert any("of the 300 samples" in note for note in found.notes)
    assert found.samples == 300


def test_fewer_samples_of_many_dimensions_are_read(
    run: gx.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "MIN_SAMPLES", 20)
    monkeypatch.setattr(sampling, "MAX_BYTES", 100 * 8 * 4)  # a hundred samples of 4 dimensions
    found = Facts(run.folder).subset
    assert 90 < len(found.rows) <= 100
    assert found.embeddings.shape == (len(found.rows), 4)
    assert not any("embedding" in row for row in found.rows)
    assert found.total == 300


def test_innovation_in_many_dimensions_looks_at_their_span(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = feature_run(tmp_path, 60)
    before = {arm.label: arm.innovation for arm in Facts(found.folder).arms}
    monkeypatch.setattr(sampling, "MAX_INNOVATION_DIMENSION", 3)
    monkeypatch.setattr(
        SampleSubset, "stratified", lambda self, size, seed=0: np.arange(len(self.rows))
    )
    after = {arm.label: arm.innovation for arm in Facts(found.folder).arms}
    assert after == pytest.approx(before)


def test_looks_are_thinned_with_both_ends() -> None:
    looks = [{"samples": i} for i in range(1000)]
    kept = thinned(looks, 10)
    assert len(kept) == 10
    assert (kept[0], kept[-1]) == (looks[0], looks[-1])


# -- text of others ----------------------------------------------------------------------------------


def test_what_a_page_may_hold() -> None:
    shown = environment().from_string("{{ x }}").render(x="<a b=\"c\" d='e'>&\x1b")
    assert shown == "&lt;a b=&#34;c&#34; d=&#39;e&#39;&gt;&amp;\ufffd"
    assert visible("a\x00b\u202ec\nd\te") == "a\ufffdb\ufffdc\nd\te"
    family = "👩\u200d👩\u200d👧"
    assert visible(family) == family


def test_lines_with_secrets_are_hidden() -> None:
    shown = without_secrets("a: 1\napi_key: sk-" + "1a2b3c4d" * 4 + "\nb: 2")
    assert shown.splitlines() == ["a: 1", "(hidden: this line looks like a secret)", "b: 2"]


def test_only_shapes_and_words_of_a_drawing_stay() -> None:
    drawing = (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="10" '
        'height="10" viewBox="0 0 10 10" onload="x()"><rect width="10" height="10" fill="white"/>'
        "<script>x()</script><style>*{}</style><foreignObject/>"
        '<image xlink:href="http://example.com/x.png"/><a xlink:href="javascript:x()"><text>t</text></a>'
        '<defs><clipPath id="clip7"><rect width="1.23456789" height="1"/></clipPath></defs>'
        '<g clip-path="url(#clip7)" style="x" onclick="x()"><path d="M1.23456,2L-0.00001,3"/></g></svg>'
    )
    found = sanitized_svg(drawing, "map", 'label "<b>"')
    for bad in ("script", "style", "foreign", "image", "href", "onload", "onclick", "<a", "white"):
        assert bad not in found
    assert 'id="map-0"' in found
    assert "url(#map-0)" in found
    assert "M1.23,2L-0.00,3" in found
    assert 'aria-label="label &quot;&lt;b&gt;&quot;"' in found


# -- what a chart computes ---------------------------------------------------------------------------

EXPENSIVE = {
    "load_pool": report_facts,
    "draw_subset": report_facts,
    "compare_with_baseline": report_facts,
    "innovation_gaps": sampling,
    "cost_frontier": report_facts,
    "best_mixture": scoring,
}
NEEDED = {
    "weights": set(),
    "map": {"draw_subset"},
    "cost": {"load_pool", "cost_frontier"},
    "frontier": {"load_pool", "cost_frontier"},
    "scores": {"load_pool", "best_mixture"},
    "pooled": {"load_pool", "best_mixture"},
}


@pytest.mark.parametrize("name", FIGURES)
def test_a_chart_computes_only_what_it_needs(
    run: gx.Run, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[str] = []

    def spy(function: str, module: Any) -> None:
        original = getattr(module, function)

        def record(*arguments: Any, **more: Any) -> Any:
            called.append(function)
            return original(*arguments, **more)

        monkeypatch.setattr(module, function, record)

    for function, module in EXPENSIVE.items():
        spy(function, module)
    monkeypatch.setattr(gx.Mixture, "without", lambda *_: pytest.fail("an arm was left out"))
    assert run.chart(name) is not None
    assert sorted(called) == sorted(NEEDED[name])
