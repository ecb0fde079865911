"""The city experiment for real: two small language models, six ways to ask them, one mixture.

    make demo-llm       # or, with the packages of requirements-real.lock: python examples/city/demo.py

Serves the models on free ports of this machine, runs study.yaml against them, and shows what mixing them
was worth. Nothing is downloaded and nothing leaves the machine.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from compare import CHOICES, Pools, Row, compare
from rich.console import Console
from rich.table import Table
from serve import FREE, serving

import genmix as gx
from genmix.study.journal import Journal, embedding_of
from genmix.study.view import make_view

STUDY = Path(__file__).with_name("study.yaml")

CAPTION = f"""\
Each row compares equal numbers of sentences, all of them from this run. "alone": those of the arm.
"mixture", "evenly": as many, chosen from all arms without replacement, in the shares of the learnt
weights or in equal shares; mean ± standard deviation over {CHOICES} choices. Vendi grows with the number of
sentences: compare along the rows, not down the columns. The weights were learnt on the same sentences."""


def main() -> int:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # the encoder's weights come with a package
    folder = unused(Path("runs"), "city")
    with serving(FREE) as addresses, make_view(Console(stderr=True)) as view:
        run = gx.run(study_at(addresses), folder, callbacks=[view], note=view.note)
    if run.status != "finished":
        ports = " ".join(
            address.split(":")[2].removesuffix("/v1") for address in addresses.values()
        )
        print(f"{run.status}; to go on: python examples/city/serve.py {ports} &")
        print(f"                genmix resume {run.folder}")
        return 130 if run.status == "interrupted" else 3
    show(run)
    return 0


def unused(parent: Path, name: str) -> Path:
    """The first of NAME, NAME-2, NAME-3 … that is not there yet."""
    folder, number = parent / name, 1
    while folder.exists():
        number += 1
        folder = parent / f"{name}-{number}"
    return folder


def study_at(addresses: dict[str, str]) -> dict[str, Any]:
    """study.yaml, with the models where they are served now."""
    study: dict[str, Any] = yaml.safe_load(STUDY.read_text("utf-8"))
    for arm in study["arms"].values():
        arm["base_url"] = addresses[arm["model"]]
    return study


def show(run: gx.Run) -> None:
    console, summary = Console(), run.summary
    rows = compare(embeddings(run), run.weights)
    console.print("\nOne sentence of each arm:")
    for arm, text in first_texts(run).items():
        console.print(f"  {arm:12} {text}", highlight=False, markup=False)
    console.print()
    console.print(table(rows))
    console.print(CAPTION, style="dim", highlight=False, soft_wrap=True)
    console.print(f"\n{verdict(rows)}", highlight=False, soft_wrap=True)
    console.print(
        f"{summary['samples']} sentences, {summary['output_tokens']} tokens, "
        f"{summary['seconds']:.0f} seconds; everything is in {run.folder}",
        highlight=False,
        soft_wrap=True,
    )


def embeddings(run: gx.Run) -> Pools:
    """The embeddings of each arm's sentences, as the run's journal has them."""
    found: dict[str, list[Any]] = defaultdict(list)
    journal = Journal.open(run.folder, readonly=True)
    for row in journal.told_rows():
        found[row["arm"]].append(embedding_of(row))
    journal.close()
    return {arm: np.array(found[arm], dtype=float) for arm in run.counts}


def first_texts(run: gx.Run) -> dict[str, str]:
    found: dict[str, str] = {}
    for sample in run.samples():
        found.setdefault(sample["model_name"], sample["text"])
    return found


def table(rows: list[Row]) -> Table:
    made = Table(title="Vendi: how many different sentences there are, in effect", box=None)
    for column in ("arm", "weight", "sentences", "alone", "mixture", "evenly"):
        made.add_column(column, justify="left" if column == "arm" else "right")
    for row in rows:
        taken = [str(spread or "–") for spread in (row.mixture, row.evenly)]
        made.add_row(row.arm, f"{row.weight:.2f}", f"{row.samples}", f"{row.alone:.1f}", *taken)
    return made


def verdict(rows: list[Row]) -> str:
    """The mixture against the arm that comes nearest to it, and against all arms evenly."""
    best = min((row for row in rows if row.mixture and row.evenly), key=lambda row: row.gain)
    evenly = best.mixture.mean / best.evenly.mean - 1
    return (
        f"{best.samples} sentences of the learnt mixture: Vendi {best.mixture.mean:.1f}, "
        f"{best.gain:+.0%} against the best single arm ({best.arm}, {best.alone:.1f}) "
        f"and {evenly:+.0%} against drawing evenly ({best.evenly.mean:.1f})."
    )


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
    except gx.InputError as error:
        sys.exit(f"genmix: {error}")
