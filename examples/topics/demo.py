"""A mixture for every topic with real models: two small language models answer 24 prompts.

    make demo-prompts    # or, with the packages of requirements-real.lock: python examples/topics/demo.py

Serves the models on free local ports and runs study.yaml with them. The report shows where each model is
needed. Nothing is downloaded, and nothing leaves the machine.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "city"))

import yaml  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402
from serve import FREE, serving  # noqa: E402

import genmix as gx  # noqa: E402
from demo import stopped, unused, watched  # noqa: E402


def main() -> int:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # the encoder's weights are part of a package
    study = yaml.safe_load((HERE / "study.yaml").read_text("utf-8"))
    study["prompts"]["file"] = str(HERE / study["prompts"]["file"])
    folder = unused(Path("runs"), "topics-demo")
    with serving(FREE) as addresses:
        for arm in study["arms"].values():
            arm["base_url"] = addresses[arm["model"]]
        run = watched(study, folder)
    if run.status != "finished":
        return stopped(run, addresses)
    show(run)
    return 0


def show(run: gx.Run) -> None:
    """Print the weights of the arms for each topic."""
    console, weights = Console(highlight=False), run.summary["weights_by_group"]
    table = Table(box=None, pad_edge=False)
    for column in ("topic", *run.weights):
        table.add_column(column, justify="left" if column == "topic" else "right")
    for topic, shares in weights.items():
        table.add_row(topic, *(f"{shares[arm]:.2f}" for arm in run.weights))
    table.add_row("all", *(f"{run.weights[arm]:.2f}" for arm in run.weights), style="bold")
    console.print("\nThe weights of the arms for each topic:\n")
    console.print(table)
    seconds = run.summary["seconds"]
    console.print(
        f"\n{run.summary['samples']} answers to {run.summary['prompts']} prompts in {seconds:.0f} seconds. "
        f"What to use for each topic, and why: {run.folder / 'report.html'}"
    )


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
    except gx.InputError as error:
        sys.exit(f"genmix: {error}")
