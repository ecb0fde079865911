"""Worlds: pools that are the population, controlled and recorded."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import genmix as gx
from genmix.comparison.worlds import (
    World,
    find_worlds,
    gaussians,
    load_world,
    modes,
    overlapping,
)
from genmix.offline.mixture import apportion


@pytest.mark.parametrize(("arms", "d"), [(2, 8), (7, 40), (30, 64)])
def test_modes_have_the_arms_and_the_dimension_asked_for(arms: int, d: int) -> None:
    world = modes(1, arms, d=d)
    assert len(world.arms) == arms
    assert world.dimension == d
    for pool in world.arms.values():
        assert len(pool) == 400
        assert np.array_equal(np.unique(pool), [0.0, 1.0])


def test_modes_give_every_arm_its_share_to_itself() -> None:
    world = modes(4, own=0.5)
    masses = np.array([pool.mean(axis=0) for pool in world.arms.values()])
    for i, own in enumerate(masses):
        others = np.delete(masses, i, axis=0).sum(axis=0)
        assert own[others == 0].sum() == pytest.approx(0.5, abs=0.02)


def test_too_few_modes_are_refused() -> None:
    with pytest.raises(gx.InputError, match="at least 9"):
        modes(arms=5, d=8)


def test_clouds_have_the_moments_of_their_gaussians() -> None:
    """So the Fréchet distance of an arm is that of two Gaussians with diagonal covariances."""
    world = gaussians(2, arms=3, d=6)
    reference = world.need_reference()
    assert reference.mean(axis=0) == pytest.approx(np.zeros(6), abs=1e-12)
    assert np.cov(reference.T, ddof=0) == pytest.approx(np.eye(6), abs=1e-12)
    for name, pool in world.arms.items():
        spread = pool.std(axis=0)
        closed = np.sum(pool.mean(axis=0) ** 2) + np.sum((spread - 1) ** 2)
        alone = gx.optimal_mixture({name: pool}, gx.FrechetDistance(reference)).loss
        assert alone == pytest.approx(closed, rel=1e-9)


def test_worlds_repeat() -> None:
    for make in (modes, overlapping, gaussians):
        one, same, other = make(5), make(5), make(6)
        assert all(np.array_equal(one.arms[a], same.arms[a]) for a in one.arms)
        assert any(not np.array_equal(one.arms[a], other.arms[a]) for a in one.arms)


def test_largest_remainders() -> None:
    assert apportion(np.array([0.5, 0.3, 0.2]), 7).tolist() == [4, 2, 1]
    assert apportion(np.full(3, 1 / 3), 10).sum() == 10


# -- recorded ----------------------------------------------------------------------------------------


def record(folder: Path, name: str = "tiny", reference: bool = True) -> Path:
    """A recorded world of two arms and two encoders."""
    place = folder / name
    place.mkdir(parents=True)
    rng = np.random.default_rng(0)
    encoders = {}
    for encoder, d in (("first", 3), ("second", 5)):
        arrays = {f"arm_{i}": rng.normal(size=(20, d)).astype(np.float16) for i in range(2)}
        if reference:
            arrays["reference"] = rng.normal(size=(30, d)).astype(np.float16)
        np.savez_compressed(place / f"{encoder}.npz", **arrays)
        encoders[encoder] = {"file": f"{encoder}.npz", "name": f"the {encoder}", "dimension": d}
    card = {"name": name, "note": "a test", "arms": ["a/x", "b"], "costs": {"a/x": 1.0, "b": 2.0}}
    (place / "world.json").write_text(json.dumps(card | {"encoders": encoders}), "utf-8")
    return folder


def test_a_recorded_world_is_read(tmp_path: Path) -> None:
    world = load_world("tiny", record(tmp_path))
    assert list(world.arms) == ["a/x", "b"]
    assert world.arms["b"].dtype == np.float64
    assert world.dimension == 3
    assert world.encoder == "the first"
    assert world.costs == {"a/x": 1.0, "b": 2.0}
    assert world.need_reference().shape == (30, 3)
    assert load_world("tiny", tmp_path, "second").dimension == 5


def test_worlds_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(tmp_path / "worlds")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GENMIX_WORLDS", raising=False)
    assert load_world("tiny").name == "tiny"
    monkeypatch.chdir("/")
    monkeypatch.setenv("GENMIX_WORLDS", str(tmp_path / "worlds"))
    assert load_world("tiny").name == "tiny"
    assert find_worlds(Path("given")) == Path("given")


def test_a_world_that_is_not_there_is_named(tmp_path: Path) -> None:
    record(tmp_path)
    with pytest.raises(gx.InputError, match="is not a recorded world"):
        load_world("other", tmp_path)
    with pytest.raises(gx.InputError, match="use one of first, second"):
        load_world("tiny", tmp_path, "third")


def test_a_damaged_world_is_named(tmp_path: Path) -> None:
    record(tmp_path)
    (tmp_path / "tiny" / "first.npz").write_bytes(b"no zip")
    with pytest.raises(gx.InputError, match=r"could not read .*first\.npz"):
        load_world("tiny", tmp_path)


def test_a_world_without_reference_says_so(tmp_path: Path) -> None:
    world = load_world("tiny", record(tmp_path, reference=False))
    with pytest.raises(gx.InputError, match="has no reference"):
        world.need_reference()
    assert isinstance(world, World)
