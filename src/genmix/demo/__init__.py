"""The demo: a bundled study that runs like any other and creates a run folder with a report."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from genmix.errors import InputError

if TYPE_CHECKING:
    from genmix.runs.result import Run
    from genmix.runs.run import Options

STUDY = Path(str(resources.files("genmix.demo"))) / "study.yaml"


def demo_study(samples: int, seed: int, objective: str) -> dict[str, Any]:
    """Return the bundled study with these settings; ``objective`` is ``fd`` or ``vendi``."""
    study: dict[str, Any] = yaml.safe_load(STUDY.read_text("utf-8"))
    study |= {"seed": seed, "budget": {"samples": samples}}
    if objective == "fd":
        study["reference"] = str(STUDY.with_name(study["reference"]))
    else:
        study["objective"] = objective
        del study["reference"]
    return study


def run_demo(folder: Path, samples: int, seed: int, objective: str, options: Options) -> Run:
    """Start the demo, or continue it if the folder already contains the same demo."""
    from genmix.journal.reader import JournalReader
    from genmix.journal.schema import JOURNAL
    from genmix.runs.prepare import Plan
    from genmix.runs.run import continue_run, start

    plan = Plan.of(demo_study(samples, seed, objective))
    if not (folder / JOURNAL).exists():
        return start(plan, folder, options)
    with JournalReader.open(folder) as journal:
        is_same = journal.meta("study") == plan.study.plain()
    if not is_same:
        raise InputError(f"{folder} contains another run; pass another folder with --out.")
    return continue_run(folder, options)
