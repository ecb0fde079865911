"""Options of the commands for samples that already exist, declared once."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

T = TypeVar("T")


class KernelName(StrEnum):
    cosine = "cosine"
    gaussian = "gaussian"
    polynomial = "polynomial"
    joint = "joint"


@dataclass(frozen=True, kw_only=True)
class InputOptions:
    """Where the samples come from, and what embeds them."""

    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME=]PATH…",
            help="Feature files, folders of images, tables of texts or embeddings (.jsonl, .csv, .parquet, "
            ".txt) or run folders. Each is an arm, named after the file or by NAME; a run, or a table "
            "with a model_name column, has several.",
            show_default=False,
        ),
    ]
    encoder: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Embeds images and texts: pixels, dinov2, clip, sentence-transformers, KIND:MODEL, "
            "FILE.py:FUNCTION, or the encoder of a study file or run folder. For embeddings that exist, it "
            "is only a label, printed with every score.",
        ),
    ] = None
    key: Annotated[
        str | None, typer.Option(help="Array, column or field to read from the files.")
    ] = None
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False


@dataclass(frozen=True, kw_only=True)
class ScoreOptions(InputOptions):
    """The objective, its parameters and its reference."""

    objective: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="The score to compute or optimize: vendi, rke, fd (or frechet-distance), kd (or "
            "kernel-distance), precision, density, or any other that a study accepts; or a sum of them, e.g. "
            "'vendi + 0.3*quality'.",
        ),
    ] = "vendi"
    reference: Annotated[
        Path | None,
        typer.Option(
            help="Reference samples: any of the inputs; for fd, also a file of statistics."
        ),
    ] = None
    reference_key: Annotated[
        str | None, typer.Option(help="Array, column or field to read from the reference.")
    ] = None
    k: Annotated[
        int | None,
        typer.Option("--k", help="Number of neighbors for precision and density. Default: 5."),
    ] = None
    order: Annotated[
        float | None,
        typer.Option(help="Order of the Vendi score: a number above 0, or inf. Default: 1."),
    ] = None
    kernel: Annotated[
        KernelName | None,
        typer.Option(
            help="Kernel. Default: cosine for vendi, gaussian for rke and kd. joint compares pairs of prompt "
            "and answer, for runs that embedded their prompts."
        ),
    ] = None
    bandwidth: Annotated[
        str | None,
        typer.Option(help="σ of a Gaussian kernel: a number or median. Default: median."),
    ] = None
    features: Annotated[
        int | None,
        typer.Option(help="Approximate a Gaussian kernel with this many random frequencies."),
    ] = None
    ddof: Annotated[
        int | None,
        typer.Option(help="For fd: 0 divides covariances by n, and 1 divides by n-1. Default: 0."),
    ] = None
    unbiased: Annotated[
        bool | None, typer.Option("--unbiased", help="Omit self-pairs in rke and kd.")
    ] = None

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of the objective that were given."""
        names = ("k", "order", "kernel", "bandwidth", "features", "ddof", "unbiased")
        found = {name: getattr(self, name) for name in names}
        return {name: value for name, value in found.items() if value is not None}


def takes(options: type[T]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Let a command accept the fields of a dataclass, in addition to its own parameters.

    The command receives the dataclass as its first argument.
    """
    hints = get_type_hints(options, include_extras=True)
    shared = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(options)  # type: ignore[arg-type]
    ]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
        own = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own]

        @wraps(command)
        def call(**given: Any) -> None:
            values = {each.name: given.pop(each.name) for each in shared}
            command(options(**values), **given)

        parameters = [*own, *shared]
        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        call.__annotations__ = {each.name: each.annotation for each in parameters}
        return call

    return decorate
