"""``genmix keep --predict``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

from genmix.cli import app


def test_keep_predicts_on_request(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.random.default_rng(0).standard_normal((60, 4)))
    command = ["keep", str(tmp_path / "a.npy"), "--count", "10", "--out", str(tmp_path / "k.npy")]
    shown = CliRunner().invoke(app, [*command, "--predict", "30"])
    assert shown.exit_code == 0, shown.output
    assert "prediction: another 30 samples are worth about +" in shown.stdout
    plain = json.loads(CliRunner().invoke(app, [*command, "--predict", "30", "--json"]).stdout)
    assert plain["prediction"]["low"] <= plain["prediction"]["gain"] <= plain["prediction"]["high"]
    assert "prediction" not in json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
