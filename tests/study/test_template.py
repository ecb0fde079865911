"""The example that ``genmix init`` writes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from genmix.errors import InputError
from genmix.study.study import (
    json_schema,
    read_study,
)
from genmix.study.template import EXAMPLE, write_example
from tests.support.studies import (
    read,
)


def test_the_example_is_written_and_valid(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "study"
    names = [path.name for path in write_example(folder)]
    assert names == ["study.yaml", "arms.py", "study.schema.json"]
    study = read_study(folder / "study.yaml")
    assert (study.name, list(study.arms)) == ("study", ["coast", "inland", "slogan"])
    assert json.loads((folder / "study.schema.json").read_text()) == json_schema()


def test_the_example_does_not_overwrite_unless_told_to(tmp_path: Path) -> None:
    (tmp_path / "arms.py").write_text("mine")
    with pytest.raises(InputError) as caught:
        write_example(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}/arms.py already exists; choose another folder, or overwrite it with --force."
    )
    assert [path.name for path in tmp_path.iterdir()] == ["arms.py"]
    write_example(tmp_path, force=True)
    assert "postcard" in (tmp_path / "arms.py").read_text()


def test_a_folder_that_cannot_be_made_gets_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot write the example to .*; choose another"):
        write_example(tmp_path / "file" / "folder")


def test_what_the_example_comments_out_is_valid_too(tmp_path: Path) -> None:
    text = re.sub(r"(?m)^# (weights|draw|resolve|in_flight|retries|stop_when)", r"\1", EXAMPLE)
    text = re.sub(r"(?m)^#((?:  )+)(?=\S)", r"\1", text)
    assert text.count("#") < EXAMPLE.count("#") - 15
    study = read(tmp_path, text)
    assert "smol/cold" in study.arms
    assert (study.budget.cost, study.budget.time, study.in_flight) == (1.5, 1800, 8)
