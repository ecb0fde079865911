"""The city experiment with real models: two small language models, six prompts, one mixture.

    make demo-llm       # or, with the packages of requirements-real.lock: python examples/city/demo.py

Serves the models on free local ports, runs study.yaml with them, and then draws fresh sentences to
evaluate the mixture. Nothing is downloaded, and nothing leaves the machine.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from compare import CHOICES, Comparison, Pools, compare
from rich.console import Console
from rich.table import Table
from serve import FREE, serving

import genmix as gx
from genmix.cli.live.terminal import make_view
from genmix.journal.reader import JournalReader, embedding_of

STUDY = Path(__file__).with_name("study.yaml")
FRESH = 60
"""Fresh sentences per arm, and the size of the data sets that are compared."""

CAPTION = f"""\
Vendi is the effective number of different sentences in a data set. It grows with the size of the
set, so all sets here have {FRESH} sentences. They come from {FRESH} fresh sentences per arm, on which the
mixture was not learned. An arm: its {FRESH} sentences. Evenly, and the mixture: {FRESH} chosen from all
arms without replacement, in equal shares or by the weights; mean ± standard deviation of {CHOICES}
choices."""


def main() -> int:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # the encoder's weights are part of a package
    folder = unused(Path("runs"), "city-demo")
    with serving(FREE) as addresses:
        study = study_at(addresses)
        learned = watched(study, folder / "mixture")
        if learned.status == "finished":
            print(
                f"\n{FRESH} fresh sentences per arm, to evaluate the mixture:",
                file=sys.stderr,
            )
            fresh = watched(evenly(study), folder / "fresh")
            if fresh.status == "finished":
                show(learned, compare(embeddings(fresh), learned.weights))
                return 0
            learned = fresh
    return stopped(learned, addresses)


def unused(parent: Path, name: str) -> Path:
    """The first of NAME, NAME-2, NAME-3, … that does not exist yet."""
    folder, number = parent / name, 1
    while folder.exists():
        number += 1
        folder = parent / f"{name}-{number}"
    return folder


def study_at(addresses: dict[str, str]) -> dict[str, Any]:
    """study.yaml, with the current addresses of the models."""
    study: dict[str, Any] = yaml.safe_load(STUDY.read_text("utf-8"))
    for arm in study["arms"].values():
        arm["base_url"] = addresses[arm["model"]]
    return study


def evenly(study: dict[str, Any]) -> dict[str, Any]:
    """The same arms with another seed and FRESH sentences each, on both servers at once."""
    arms = sum(len(arm["variants"]) for arm in study["arms"].values())
    plan = {"seed": study["seed"] + 1, "warm_start": FRESH, "in_flight": arms}
    return {**study, **plan, "budget": {"samples": FRESH * arms}}


def watched(study: dict[str, Any], folder: Path) -> gx.Run:
    with make_view(Console(stderr=True)) as view:
        return gx.run(study, folder, callbacks=[view], note=view.note)


def embeddings(run: gx.Run) -> Pools:
    """The embeddings of each arm's sentences, from the journal of the run."""
    found: dict[str, list[Any]] = defaultdict(list)
    journal = JournalReader.open(run.folder)
    for row in journal.told_rows():
        found[row["arm"]].append(embedding_of(row))
    journal.close()
    return {arm: np.array(found[arm], dtype=float) for arm in run.counts}


def show(run: gx.Run, scores: Comparison) -> None:
    console, summary = Console(highlight=False, soft_wrap=True), run.summary
    console.print("\nOne sentence per arm:")
    for arm, text in first_texts(run).items():
        console.print(f"  {arm:10}  {text}", markup=False)
    console.print()
    console.print(table(run, scores), soft_wrap=False)
    console.print(f"\n{CAPTION}\n", style="dim")
    console.print(verdict(scores), style="bold")
    console.print(
        f"The mixture was learned on {summary['samples']} sentences in {summary['seconds']:.0f} "
        f"seconds. The run is saved in {run.folder}."
    )


def first_texts(run: gx.Run) -> dict[str, str]:
    found: dict[str, str] = {}
    for sample in run.samples():
        found.setdefault(sample["model_name"], sample["text"])
    return found


def table(run: gx.Run, scores: Comparison) -> Table:
    made = Table(box=None, pad_edge=False)
    for column in ("arm", "weight", "drawn", f"Vendi of {scores.size}"):
        made.add_column(column, justify="left" if column == "arm" else "right")
    made.add_column("")
    for arm, alone in scores.alone.items():
        made.add_row(arm, f"{run.weights[arm]:.2f}", f"{run.counts[arm]}", f"{alone:.1f}")
    made.add_row("evenly", "", "", *scores.evenly.cells)
    drawn = f"{sum(run.counts.values())}"
    made.add_row("the mixture", "1.00", drawn, *scores.mixture.cells, style="bold")
    return made


def verdict(scores: Comparison) -> str:
    best, mixture = scores.alone[scores.best], scores.mixture.mean
    return (
        f"The mixture scores {mixture:.1f}: {mixture / best - 1:+.0%} against the best single arm "
        f"({scores.best}, {best:.1f}), {mixture / scores.evenly.mean - 1:+.0%} against drawing evenly."
    )


def stopped(run: gx.Run, addresses: dict[str, str]) -> int:
    ports = " ".join(address.split(":")[2].removesuffix("/v1") for address in addresses.values())
    print(f"{run.summary['reason']}; to continue, serve the models again and resume:")
    print(f"  python examples/city/serve.py {ports} &")
    print(f"  genmix resume {run.folder}")
    return 130 if run.status == "interrupted" else 3


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
    except gx.InputError as error:
        sys.exit(f"genmix: {error}")
