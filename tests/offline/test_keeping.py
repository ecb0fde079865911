"""What keeping did: fidelity against random sets, rules, and the sentence about the bound."""

from __future__ import annotations

import numpy as np
import pytest

import genmix as gx
from genmix.errors import InputError
from genmix.objectives import Batch
from genmix.offline.fidelity import measure_fidelity, reference_points
from genmix.offline.keeping import Baselines, Rules, bound_sentence
from tests.support.helpers import Matrix


def cloud(count: int = 200, outliers: int = 0, seed: int = 0) -> Matrix:
    """A tight cloud; the last samples are far from it and from each other."""
    rng = np.random.default_rng(seed)
    rows = np.concatenate([[5.0, 0, 0, 0, 0, 0]] * count).reshape(count, 6)
    rows = rows + 0.3 * rng.normal(size=rows.shape)
    if outliers:
        rows[-outliers:] = 20 * rng.normal(size=(outliers, 6))
    return rows


def test_diversity_alone_keeps_the_outliers_and_warns() -> None:
    batch = Batch(cloud(outliers=15))
    found = Baselines.of(batch, gx.Vendi(), 20).keep(np.arange(200))
    assert len(set(range(185, 200)) & set(found.kept.indices.tolist())) >= 13
    [warning] = found.warnings
    assert "within the neighborhoods of other samples (precision)" in warning
    assert "random sets of 20" in warning


def test_random_samples_and_all_samples_do_not_warn() -> None:
    batch = Batch(cloud(outliers=15), quality=np.arange(200.0))
    fidelity = measure_fidelity(batch)
    for seed in range(5):
        indices = np.random.default_rng(seed).permutation(200)[:20]
        assert not any(change.is_fall for change in fidelity.changes(indices))
    for change in fidelity.changes(np.arange(200)):
        assert (change.noise, change.dropped, change.is_fall) == (0.0, None, False)
        assert change.kept == pytest.approx(change.all)


def test_the_noise_is_that_of_random_sets() -> None:
    batch = Batch(cloud(60), quality=np.random.default_rng(1).normal(size=60))
    [quality] = [c for c in measure_fidelity(batch).changes(np.arange(12)) if c.name == "quality"]
    rng = np.random.default_rng(2)
    means = [np.mean(batch.quality[rng.permutation(60)[:12]]) for _ in range(4000)]
    assert quality.noise == pytest.approx(np.std(means), rel=0.05)


def test_low_quality_warns_and_high_quality_does_not() -> None:
    batch = Batch(cloud(), quality=np.arange(200.0))
    fidelity = measure_fidelity(batch)
    low, high = (fidelity.changes(np.arange(a, a + 20))[-1] for a in (0, 180))
    assert low.is_fall
    assert low.warning(20, "").startswith("the mean quality is 9.5")
    assert not high.is_fall


def test_a_reference_is_what_precision_and_density_compare_with() -> None:
    rng = np.random.default_rng(3)
    real, rows = rng.normal(size=(80, 4)), 1.3 * rng.normal(size=(50, 4))
    fidelity = measure_fidelity(Batch(rows), real)
    table = gx.score({"all": rows}, gx.Vendi(), reference=real, k=5).arms["all"]
    for name in ("precision", "density"):
        assert np.mean(fidelity.measures[name]) == pytest.approx(float(table[name]))
    nearest = np.linalg.norm(rows[:, None] - real[None], axis=2).min(axis=1)
    assert fidelity.measures["distance"] == pytest.approx(nearest)
    assert fidelity.compared_with == "the neighborhoods of the reference"
    points = reference_points(gx.Vendi() + 0.5 * gx.Precision(real))
    assert points is not None
    assert points.shape == real.shape
    assert reference_points(gx.Vendi()) is None


def test_against_other_samples_a_sample_never_counts_itself() -> None:
    rows = cloud(40)
    fidelity = measure_fidelity(Batch(rows))
    away = np.linalg.norm(rows[:, None] - rows[None], axis=2)
    np.fill_diagonal(away, np.inf)
    assert fidelity.measures["distance"] == pytest.approx(away.min(axis=1))
    radius = np.sort(away, axis=1)[:, 4]
    radius = np.minimum(radius, 1.5 * np.median(radius))
    inside = (away < radius[None, :]).sum(axis=1)
    assert fidelity.measures["density"] == pytest.approx(inside / 5)
    assert fidelity.measures["precision"] == pytest.approx((inside > 0).astype(float))


@pytest.mark.parametrize("rows", [np.ones((30, 3)), np.eye(3), np.ones((1, 2))])
def test_too_few_distinct_samples_have_no_precision(rows: Matrix) -> None:
    assert measure_fidelity(Batch(rows)).measures == {}


def test_many_samples_are_compared_with_some(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = cloud(300, outliers=10)
    monkeypatch.setattr("genmix.offline.fidelity.MAX_CENTERS", 100)
    precision = measure_fidelity(Batch(rows)).measures["precision"]
    assert precision[:290].mean() > 0.6
    assert precision[290:].mean() < 0.2


def test_rules_count_and_filter() -> None:
    batch = Batch(cloud(10), quality=np.arange(10.0))
    assert Rules(samples=4).count(10) == 4
    assert [Rules(share=share).count(10) for share in (0.01, 0.33, 1.0)] == [1, 3, 10]
    assert Rules(4, min_quality=7.0).candidates(batch).tolist() == [7, 8, 9]
    with pytest.raises(InputError, match=r"the best one has 9, so lower the minimum\."):
        Rules(4, min_quality=70.0).candidates(batch)
    with pytest.raises(InputError, match="not every sample has a quality"):
        Rules(4, min_quality=7.0).candidates(Batch(cloud(10)))


def test_candidates_keep_their_numbers() -> None:
    batch = Batch(np.eye(4)[[0, 0, 1, 1, 2, 3]], quality=np.arange(6.0))
    found = Baselines.of(batch, gx.Vendi(), 4).keep(Rules(4, min_quality=1.0).candidates(batch))
    assert found.kept.indices.tolist() in ([1, 2, 4, 5], [1, 3, 4, 5])
    assert sorted([*found.kept.indices, *found.kept.dropped]) == list(range(6))
    plain = found.as_dict()
    assert plain["all_scores"]["vendi"]["value"] == pytest.approx(
        float(gx.score({"a": batch.embeddings}, gx.Vendi()).pooled["vendi"])
    )
    assert "reach this bound" in bound_sentence(plain)


def test_the_bound_is_tight_or_loose_and_sums_state_the_loss() -> None:
    rng = np.random.default_rng(5)
    batch = Batch(rng.normal(size=(120, 30)), quality=rng.random(120))
    few = Baselines.of(batch, gx.Vendi(), 10).keep(np.arange(120)).as_dict()
    assert "loose, because 10 samples are few for the" in bound_sentence(few)
    small = Batch(batch.embeddings[:, :3], batch.quality)
    many = Baselines.of(small, gx.Vendi() + gx.Quality(), 40).keep(np.arange(120)).as_dict()
    assert many["bound"] is None
    assert "has a loss below" in bound_sentence(many)
    assert "tight" in bound_sentence(many)


def test_random_scores_are_seeded() -> None:
    batch = Batch(cloud())
    first, again, other = (
        Baselines.of(batch, gx.Vendi(), 9, seed=s).random_scores for s in (1, 1, 2)
    )
    assert first == again != other
