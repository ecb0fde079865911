"""genmix paper: what it lists, makes, keeps and refuses."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from genmix import InputError
from genmix.cli import app
from genmix.paper import ITEMS, ORDER, Item, ItemOutput, Settings
from genmix.paper.feature_files import RULE
from genmix.paper.innovation_table import make_innovation
from genmix.paper.items import fingerprint, is_made, write_item
from tests.support.paper_worlds import write_worlds

runner = CliRunner()
TABLE = "table-innovation"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with tiny worlds in it, where the command runs."""
    write_worlds(tmp_path / "worlds")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GENMIX_WORLDS", raising=False)
    return tmp_path


ONE = ("--workers", "1")
"""Without other processes, which take a second each to start."""


def invoke(*arguments: str) -> Result:
    return runner.invoke(app, ["paper", *arguments])


def refused(*arguments: str) -> str:
    """The one sentence that the command with exit code 2 leaves on stderr."""
    result = invoke(*arguments)
    assert result.exit_code == 2, result.stdout
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert re.fullmatch(r"genmix: [^\n]+[^.][.?]", lines[0])
    return lines[0]


# -- the list ----------------------------------------------------------------------------------------


def test_every_item_of_the_paper_is_there_in_its_order() -> None:
    assert tuple(ITEMS)[: len(ORDER)] == ORDER
    for name, item in ITEMS.items():
        assert name == item.name
        assert item.title
        assert item.needs
        assert item.stands_in


def test_the_list_has_one_line_per_item() -> None:
    lines = invoke("--list").stdout.splitlines()
    for item, line in zip(ITEMS.values(), lines, strict=False):
        assert re.fullmatch(rf"{item.name} +{re.escape(item.title)}", line)
    assert lines[len(ITEMS) :] == ["", "What an item needs: genmix paper --list NAME"]


def test_the_list_with_names_says_what_they_need() -> None:
    result = invoke("--list", *ITEMS)
    assert result.exit_code == 0
    said = " ".join(result.stdout.split())
    for item in ITEMS.values():
        for words in (item.name, item.title, item.needs, item.stands_in, item.choice):
            assert " ".join(words.split()) in said
    assert RULE in said
    assert "did you mean table-innovation?" in refused("--list", "table-inovation")
    assert [
        row["name"] for row in json.loads(invoke("--list", TABLE, "--json").stdout)["items"]
    ] == [TABLE]


def test_the_list_as_json() -> None:
    told = json.loads(invoke("--list", "--json").stdout)
    assert [row["name"] for row in told["items"]] == list(ITEMS)
    assert told["items"][0]["choice"] == next(iter(ITEMS.values())).choice


# -- making ------------------------------------------------------------------------------------------


def test_a_table_is_made_as_a_process(folder: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "genmix",
            "paper",
            TABLE,
            "--quick",
            "--out",
            "out",
            "--workers",
            "2",
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert "table-innovation, fashion: 10/10" in done.stderr.splitlines()
    place = folder / "out" / TABLE
    names = {path.name for path in place.iterdir()}
    assert names == {"innovation.parquet", "published.parquet", "README.md", "settings.json"}
    rows = pq.read_table(place / "innovation.parquet").to_pylist()
    expected = make_innovation(Settings(quick=True, worlds=folder / "worlds"))
    assert rows == expected.tables["innovation"]
    page = (place / "README.md").read_text("utf-8")
    assert page.startswith(f"# {TABLE}: {ITEMS[TABLE].title}\n")
    assert expected.text in page
    assert ITEMS[TABLE].choice in page
    assert "quick run" in page
    assert page.rstrip() in done.stdout


def test_what_is_made_is_kept(folder: Path) -> None:
    first = invoke(TABLE, "--quick", *ONE)
    assert first.exit_code == 0, first.stderr
    parquet = folder / "paper" / TABLE / "innovation.parquet"
    before = parquet.stat().st_mtime_ns
    again = invoke(TABLE, "--quick", "--workers", "2")
    assert "already exists" in again.stderr
    assert again.stdout == first.stdout
    assert parquet.stat().st_mtime_ns == before


def test_other_settings_and_other_data_make_it_anew(folder: Path) -> None:
    settings = Settings(quick=True, out=folder / "out", worlds=folder / "worlds")
    item = ITEMS[TABLE]
    made_with = fingerprint(item, settings)
    place = write_item(item, item.make(settings), settings, made_with)
    assert is_made(place, made_with)
    full = Settings(out=folder / "out", worlds=folder / "worlds")
    assert not is_made(place, fingerprint(item, full))
    assert fingerprint(ITEMS["fig-fd"], settings) != made_with
    os.utime(folder / "worlds" / "city" / "tiny.npz", (1, 1))
    assert not is_made(place, fingerprint(item, settings))
    assert is_made(place, made_with)
    (place / "published.parquet").unlink()
    assert not is_made(place, made_with)


def test_a_half_made_item_is_made_again(folder: Path) -> None:
    """An interruption leaves no settings behind, so that what is there is not taken for whole."""
    settings = Settings(quick=True, out=folder / "out", worlds=folder / "worlds")
    item = ITEMS[TABLE]
    made_with = fingerprint(item, settings)
    place = write_item(item, ItemOutput({"a": [{"x": 1}]}, {}, "text"), settings, made_with)
    (place / "mine.txt").write_text("mine")

    class Trouble:
        def to_dict(self) -> Any:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_item(
            item, ItemOutput({"a": [{"x": 2}]}, {"chart": Trouble()}, "text"), settings, made_with
        )
    assert not is_made(place, made_with)
    assert (place / "mine.txt").read_text() == "mine"
    assert not list(place.glob("*.part"))
    (place / "settings.json").write_text("{")
    assert not is_made(place, made_with)


def test_rows_may_lack_columns(folder: Path) -> None:
    settings = Settings(out=folder / "out", worlds=folder / "worlds")
    rows = [{"a": 1}, {"a": 2.5, "b": "x"}, {"b": None}]
    place = write_item(ITEMS[TABLE], ItemOutput({"t": rows}, {}, ""), settings, {})
    found = pq.read_table(place / "t.parquet").to_pylist()
    assert found == [{"a": 1.0, "b": None}, {"a": 2.5, "b": "x"}, {"a": None, "b": None}]


def test_json_tells_of_every_item(folder: Path) -> None:
    result = invoke(TABLE, TABLE, "--quick", "--json", *ONE)
    (told,) = json.loads(result.stdout)
    assert told["name"] == TABLE
    assert told["kept"] is False
    assert told["files"] == ["innovation.parquet", "published.parquet", "README.md"]
    assert "in place of FFHQ" in told["text"]
    (told,) = json.loads(invoke(TABLE, "--quick", "--json").stdout)
    assert told["kept"] is True


def test_a_figure_is_drawn(folder: Path) -> None:
    result = invoke("fig-fd-bars", "--quick", "--json")
    assert result.exit_code == 0, result.stderr
    (told,) = json.loads(result.stdout)
    assert told["files"][2:] == ["fd-bars.pdf", "fd-bars.png", "README.md"]
    place = folder / "paper" / "fig-fd-bars"
    assert (place / "fd-bars.pdf").read_bytes().startswith(b"%PDF")
    assert (place / "fd-bars.png").read_bytes().startswith(b"\x89PNG")
    rows = pq.read_table(place / "bars.parquet").to_pylist()
    assert [row["kind"] for row in rows] == ["arm"] * 4 + ["even", "mixture"]


def test_features_are_taken_where_they_are(folder: Path) -> None:
    for i, breed in enumerate(("poodle", "bulldog")):
        place = folder / "features" / "dogs" / f"reps_{breed}_dinov2_nimage-8_test.npz"
        place.parent.mkdir(parents=True, exist_ok=True)
        np.savez(place, reps=np.repeat(np.eye(2)[[i]], 8, 0), hparams={"a": 1})
    result = invoke(TABLE, "--quick", "--features", "features", *ONE)
    assert result.exit_code == 0, result.stderr
    assert "The data are the same as above for Dogs" in result.stdout
    rows = pq.read_table(folder / "paper" / TABLE / "innovation.parquet").to_pylist()
    dogs = {row["arm"]: row["published"] for row in rows if row["data"] == "dogs"}
    assert dogs == {"Poodle": 0.26, "Bulldog": 0.35}


def test_worlds_come_from_the_option_or_the_variable(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert "nowhere" in refused(TABLE, "--quick", "--worlds", "nowhere")
    monkeypatch.setenv("GENMIX_WORLDS", str(folder / "worlds"))
    assert invoke(TABLE, "--quick", *ONE).exit_code == 0
    monkeypatch.delenv("GENMIX_WORLDS")
    done = invoke(TABLE, "--quick", "--worlds", str(folder / "worlds"), "--out", "o", *ONE)
    assert done.exit_code == 0


# -- what is refused ---------------------------------------------------------------------------------


def test_bad_names_and_folders_are_one_sentence(folder: Path) -> None:
    assert "did you mean table-innovation?" in refused("table-inovation")
    assert "--list" in refused("qqqqqq")
    assert "--all" in refused()
    assert "--all" in refused(TABLE, "--all")
    assert "absent" in refused(TABLE, "--features", "absent")
    (folder / "empty").mkdir()
    assert "empty contains no dataset of the paper (found: nothing)" in refused(
        TABLE, "--features", "empty"
    )
    (folder / "file").write_text("")
    assert "file (File exists); choose another folder with --out" in refused(
        TABLE, "--quick", "--out", "file"
    )


def test_one_item_that_cannot_be_made_does_not_stop_the_others(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Settings) -> ItemOutput:
        raise InputError("there is no such thing: look elsewhere.")

    broken = Item("broken", "t", "n", "s", "", fail)
    monkeypatch.setitem(ITEMS, "broken", broken)
    result = invoke("broken", TABLE, "--quick", *ONE)
    assert result.exit_code == 2
    assert "genmix: broken: there is no such thing: look elsewhere." in result.stderr
    assert (folder / "paper" / TABLE / "settings.json").is_file()
    assert not (folder / "paper" / "broken").exists()


def test_an_interruption_says_how_to_go_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(_: Settings) -> ItemOutput:
        raise KeyboardInterrupt

    monkeypatch.setitem(ITEMS, "long", Item("long", "t", "n", "s", "", stop))
    result = invoke(TABLE, "long", "--quick", *ONE)
    assert result.exit_code == 130
    assert "continue with long" in result.stderr
    assert (folder / "paper" / TABLE / "settings.json").is_file()


def test_help_has_examples() -> None:
    page = " ".join(invoke("--help").stdout.split())
    assert "genmix paper table-innovation fig-fd-bars --quick" in page
    assert "--features" in page


def test_listing_imports_nothing_heavy() -> None:
    code = (
        "import sys; from genmix.cli import app\n"
        "try: app(['paper', '--list'])\n"
        "except SystemExit: pass\n"
        "print({'torch', 'scipy', 'sklearn', 'pyarrow', 'altair'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()"
