"""The page about encoders: every example is one, and every kind has one."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from tests.encoders.test_encoders import ADAPTER, WORLDS

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "encoders.md"


def test_every_example_is_valid_and_every_kind_has_one() -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    kinds = [ADAPTER.validate_python(yaml.safe_load(block)["encoder"]).kind for block in blocks]
    assert set(kinds) == set(WORLDS)


def test_every_setting_is_on_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL):
        settings = ADAPTER.validate_python(yaml.safe_load(block)["encoder"])
        for name in set(type(settings).model_fields) - {"kind"}:
            assert name in text, f"{settings.kind} has {name}"
