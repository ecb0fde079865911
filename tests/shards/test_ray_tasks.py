"""Shards that are summarized on a real local Ray cluster."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

import genmix as gx
from genmix.cluster.connection import connect
from genmix.shards.ray_tasks import run_on_ray
from tests.support.shard_folders import clouds, sharded, write_folder

pytestmark = pytest.mark.ray

ARMS = clouds()


def test_ray_finds_the_same_mixture_and_names_bad_samples(tmp_path: Path) -> None:
    ray = pytest.importorskip("ray")
    files = sharded(tmp_path, ARMS)
    steps: list[tuple[int, int]] = []
    ray.init("local", num_cpus=2, log_to_driver=False, include_dashboard=False)
    try:
        with gx.streaming(
            engine="ray", folder=tmp_path / "p", progress=lambda _, d, t: steps.append((d, t))
        ):
            found = gx.optimal_mixture(files, gx.Vendi())
        port = ray.get_runtime_context().gcs_address.rpartition(":")[2]
        for here in ("127.0.0.1", "localhost"):  # Ray replaces both with the node's address
            assert not connect(f"{here}:{port}")
        with pytest.raises(gx.InputError, match="connected to"):
            connect(f"{'x' * 99}:{port}")
        elsewhere = gx.streaming(engine="ray", address="127.0.0.1:1", folder=tmp_path / "q")
        with elsewhere, pytest.raises(gx.InputError, match=r"connected to .*, not to 127.0.0.1:1"):
            gx.score(files, gx.Vendi())
        with gx.streaming(engine="ray", folder=tmp_path / "p"):
            bad = ARMS["a"].copy()
            bad[5] = 0
            with pytest.raises(gx.InputError, match=r"sample 5: .*zero vector"):
                gx.score({"a": gx.Shards(write_folder(tmp_path / "bad", bad))}, gx.Vendi())
        assert ray.is_initialized(), "a connection that existed before stays open"
    finally:
        ray.shutdown()
    expected = gx.optimal_mixture(ARMS, gx.Vendi())
    assert found.weights == pytest.approx(expected.weights, abs=1e-10)
    assert steps == [(k, 15) for k in range(1, 16)]


def test_a_cluster_is_started_and_stopped(tmp_path: Path) -> None:
    ray = pytest.importorskip("ray")
    with gx.streaming(engine="ray", workers=1, folder=tmp_path / "p"):
        found = gx.score(sharded(tmp_path, ARMS), gx.Vendi())
    assert not ray.is_initialized()
    assert found.pooled["vendi"] == pytest.approx(gx.score(ARMS, gx.Vendi()).pooled["vendi"])


def test_a_cluster_is_stopped_even_if_its_tasks_cannot_be_canceled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ray = pytest.importorskip("ray")

    def fail(*_: Any, **__: Any) -> None:
        raise ConnectionError("gone")

    monkeypatch.setattr(ray, "cancel", fail)
    results = run_on_ray(divmod, 7, [3, 4, 5], 1, None)
    assert next(results) == (2, 1)
    with pytest.raises(ConnectionError, match="gone"):
        results.close()
    assert not ray.is_initialized()


def test_a_cluster_that_cannot_be_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray")
    monkeypatch.setattr(ray, "init", lambda *_, **__: pytest.fail("Ray would try for minutes"))
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    files = sharded(tmp_path, ARMS)
    unknown = gx.streaming(engine="ray", address=address, folder=tmp_path / "p")
    with (
        unknown,
        pytest.raises(gx.InputError, match=f"cannot connect to the Ray cluster at {address} "),
    ):
        gx.score(files, gx.Vendi())


def test_relative_paths_are_found_from_other_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = pytest.importorskip("ray")
    ray.init("local", num_cpus=1, log_to_driver=False, include_dashboard=False)
    try:
        write_folder(tmp_path / "a", ARMS["a"])
        monkeypatch.chdir(tmp_path)  # the workers of the cluster stay where it was started
        with gx.streaming(engine="ray", folder=tmp_path / "p"):
            found = gx.score({"a": gx.Shards("a")}, gx.Vendi())
    finally:
        ray.shutdown()
    expected = gx.score({"a": ARMS["a"]}, gx.Vendi()).pooled["vendi"]
    assert found.pooled["vendi"] == pytest.approx(expected)
