"""The JSON schema for editors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from genmix.encoders import ENCODER_KINDS
from genmix.generators import ARM_KINDS
from genmix.study.parsing import parse_study_file
from genmix.study.study import (
    json_schema,
)
from genmix.study.template import EXAMPLE
from tests.study.test_components import TERMS
from tests.support.studies import (
    FULL,
    SMALL,
    plain_study,
    read,
)


def schema_accepts(data: Any) -> bool:
    return jsonschema.Draft7Validator(json_schema()).is_valid(data)


def test_the_schema_accepts_what_people_write(tmp_path: Path) -> None:
    jsonschema.Draft7Validator.check_schema(json_schema())
    for text in (SMALL, FULL, EXAMPLE):
        path = tmp_path / "study.yaml"
        path.write_text(text)
        assert schema_accepts(parse_study_file(path).data)
    for written, _ in TERMS:
        if not re.search(
            "Vendi|_distance|1e-1|Infinity", str(written)
        ):  # editors want the usual spelling
            assert schema_accepts(plain_study(objective=written)), written


@pytest.mark.parametrize("text", [SMALL, FULL, EXAMPLE])
def test_the_schema_accepts_plain_data(tmp_path: Path, text: str) -> None:
    assert schema_accepts(read(tmp_path, text).plain())


@pytest.mark.parametrize(
    "parts",
    [
        {"sed": 1},
        {"objective": "vendy"},
        {"objective": {"vendi": {"ordr": 1}}},
        {"objective": []},
        {"policy": {"fixed": {"weight": 1}}},
        {"arms": {"a": {"kind": "opnai"}}},
        {"arms": {"a": {"kind": "recorded"}}},
        {"arms": {"a": {"kind": "recorded", "path": "x", "pth": "y"}}},
        {"budget": {"samples": 0}},
        {"budget": {"time": "soon"}},
        {"encoder": {"kind": "none"}},
    ],
)
def test_the_schema_refuses_what_a_study_refuses(parts: dict[str, Any]) -> None:
    assert not schema_accepts(plain_study(**parts))


def test_every_key_has_a_description_in_the_schema() -> None:
    schema = json_schema()
    assert not [key for key, part in schema["properties"].items() if not part.get("description")]
    for kind in (*ARM_KINDS, *ENCODER_KINDS):
        lacking = [key for key, field in kind.model_fields.items() if not field.description]
        assert lacking == ["kind"], kind
