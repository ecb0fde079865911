"""One dashboard for several folders of runs, some of them read-only or on other machines."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from genmix.dashboard import status
from genmix.dashboard.runs_folder import RunsFolder, named_folders
from genmix.errors import InputError
from genmix.journal import file_systems
from genmix.journal.schema import JOURNAL
from tests.support.dashboard_server import serving
from tests.support.report_runs import feature_run


@pytest.fixture(autouse=True)
def _without_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GENMIX_REPORT", "off")


def folders(root: Path, *names: str) -> list[str]:
    for name in names:
        (root / name).mkdir(parents=True)
    return [str(root / name) for name in names]


def test_names_of_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ann, bob, mine = folders(tmp_path, "ann/runs", "bob/runs", "mine")
    assert named_folders([ann]) == {"": Path(ann)}
    assert named_folders([f"team={ann}"]) == {"team": Path(ann)}
    assert list(named_folders([ann, mine])) == ["runs", "mine"]
    assert list(named_folders([ann, bob])) == ["ann/runs", "bob/runs"]
    assert list(named_folders([ann, ann, mine])) == ["runs", "mine"]
    assert named_folders([mine, f"b={bob}"]) == {"mine": Path(mine), "b": Path(bob)}
    [odd] = folders(tmp_path, "odd=name")
    assert named_folders([odd]) == {"": Path(odd)}
    for bad, why in (
        ([str(tmp_path / "no")], "is not a folder"),
        ([f"a={ann}", f"a={bob}"], "two folders are named 'a'"),
        ([f"={ann}"], "has no valid name"),
        ([f"../up={ann}/x"], "is not a folder"),
    ):
        with pytest.raises(InputError, match=why):
            named_folders(bad)


def test_pages_of_runs_in_several_folders(tmp_path: Path) -> None:
    for name in ("ann", "bob"):
        (tmp_path / name).mkdir()
        feature_run(tmp_path / name, 30)
    roots = {"ann": tmp_path / "ann", "bob": tmp_path / "bob" / "run"}
    assert RunsFolder(roots).names() == ["ann/run", "bob"]
    with serving(roots) as url:
        page = json.load(urllib.request.urlopen(f"{url}/runs"))
        assert sorted(run["name"] for run in page["runs"]) == ["ann/run", "bob"]
        for name in ("ann/run", "bob"):
            state = json.load(urllib.request.urlopen(f"{url}/state/{name}"))
            assert state["samples"] == 30
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{url}/state/ann/../bob")
        text = urllib.request.urlopen(f"{url}/").read().decode()
        assert f"ann: {tmp_path / 'ann'}" in text


def test_a_folder_on_a_network_file_system_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = feature_run(tmp_path, 30)
    mounts = tmp_path / "mounts"
    mounts.write_text(f"server:/x {tmp_path.resolve()} nfs4 ro 0 0\n")
    monkeypatch.setattr(file_systems, "MOUNTS", mounts)
    before = {each.name: each.stat().st_mtime_ns for each in run.folder.iterdir()}
    with serving(tmp_path) as url:
        state = json.load(urllib.request.urlopen(f"{url}/state/run"))
    assert state["samples"] == 30
    assert state["status"]["name"] == "finished"
    assert {each.name: each.stat().st_mtime_ns for each in run.folder.iterdir()} == before
    assert f"{JOURNAL}-shm" not in before


def test_a_run_that_cannot_be_written_cannot_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(live: Any) -> None:
        if live.told >= 10:
            live.loop.stop("interrupted")

    run = feature_run(tmp_path, 30, callbacks=[stop])
    with serving(tmp_path) as url:
        found = json.load(urllib.request.urlopen(f"{url}/state/{run.folder.name}"))
        assert found["status"]["can_resume"]
        allowed = os.access
        is_writing = lambda path, mode: mode != os.W_OK and allowed(path, mode)  # noqa: E731
        monkeypatch.setattr(status.os, "access", is_writing)
        found = json.load(urllib.request.urlopen(f"{url}/state/{run.folder.name}"))
        assert not found["status"]["can_resume"]
