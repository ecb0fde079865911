"""Commands about feature files: score, mixture, diagnose."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from genmix.cli import app, plain_errors
from genmix.cli.inputs import Goal, KernelName, Sources, neighbours_of, read_inputs
from genmix.cli.show import (
    plain_mixture,
    plain_table,
    print_json,
    print_mixture,
    print_scores,
    progress,
)
from genmix.core.atomic import write_json
from genmix.core.plain import plain_weights

Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILES",
        help="A features file for each arm: PATH, which names it by the file's stem, or NAME=PATH.",
        show_default=False,
    ),
]
GoalOption = Annotated[Goal, typer.Option("--objective", help="What to measure.")]
Reference = Annotated[
    Path | None,
    typer.Option(help="Features file (or statistics, for fd) to compare with."),
]
Neighbours = Annotated[
    int | None, typer.Option("--k", help="Neighbours of precision and density; 5 by default.")
]
Order = Annotated[float | None, typer.Option(help="Order of Vendi: above 0, or inf; 1 by default.")]
KernelOption = Annotated[
    KernelName | None,
    typer.Option(help="cosine by default for vendi, gaussian for rke and kd."),
]
Bandwidth = Annotated[
    str | None, typer.Option(help="σ of the gaussian kernel: a number, or median (the default).")
]
Features = Annotated[
    int | None,
    typer.Option(help="Random frequencies for the gaussian kernel instead of the exact one."),
]
Ddof = Annotated[
    int | None, typer.Option(help="fd with covariances by 1/n (0, the default) or 1/(n-1) (1).")
]
Unbiased = Annotated[
    bool | None,
    typer.Option("--unbiased", help="Leave a sample's pair with itself out of rke and kd."),
]
Key = Annotated[str | None, typer.Option(help="Array, column or field to read in the arms' files.")]
ReferenceKey = Annotated[str | None, typer.Option(help="The same in the reference.")]
EncoderName = Annotated[str | None, typer.Option("--encoder", help="Printed with every score.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


@app.command(epilog="Example: genmix score sdxl.npz pixart.npz --objective fd --reference real.npz")
def score(
    files: Files,
    objective: GoalOption = Goal.vendi,
    reference: Reference = None,
    k: Neighbours = None,
    order: Order = None,
    kernel: KernelOption = None,
    bandwidth: Bandwidth = None,
    features: Features = None,
    ddof: Ddof = None,
    unbiased: Unbiased = None,
    key: Key = None,
    reference_key: ReferenceKey = None,
    encoder: EncoderName = None,
    as_json: Json = False,
) -> None:
    """Score every file, and all of them pooled.

    With reference samples, precision, density, recall and coverage stand beside the objective.
    """
    with plain_errors():
        import genmix as gx

        options = {"k": k, "order": order, "kernel": kernel, "bandwidth": bandwidth}
        options |= {"features": features, "ddof": ddof, "unbiased": unbiased}
        sources = Sources(files, key, reference, reference_key)
        given = read_inputs(sources, objective, options, encoder, neighbours=True)
        points, k = neighbours_of(given.reference, k), 5 if k is None else k
        table = gx.score(given.arms, given.objective, reference=points, k=k, encoder=given.encoder)
    if as_json:
        print_json({"objective": str(given.objective), **plain_table(table)})
    else:
        print_scores(table, given.counts)


@app.command(
    epilog="Example: genmix mixture sdxl.npz pixart.npz --objective fd --reference real.npz "
    "--weights weights.json"
)
def mixture(
    files: Files,
    objective: GoalOption = Goal.vendi,
    reference: Reference = None,
    weights: Annotated[
        Path | None, typer.Option(help="Write the weights to this JSON file.")
    ] = None,
    leave_one_out: Annotated[
        bool,
        typer.Option("--leave-one-out", help="Show how much the loss rises without each arm."),
    ] = False,
    k: Neighbours = None,
    order: Order = None,
    kernel: KernelOption = None,
    bandwidth: Bandwidth = None,
    features: Features = None,
    ddof: Ddof = None,
    unbiased: Unbiased = None,
    key: Key = None,
    reference_key: ReferenceKey = None,
    encoder: EncoderName = None,
    as_json: Json = False,
) -> None:
    """Find the best mixture of the files, with its certificate.

    The weights are certified: the gap bounds how far the mixture's loss is above the least of any mixture.
    """
    with plain_errors():
        import genmix as gx

        options = {"k": k, "order": order, "kernel": kernel, "bandwidth": bandwidth}
        options |= {"features": features, "ddof": ddof, "unbiased": unbiased}
        sources = Sources(files, key, reference, reference_key)
        given = read_inputs(sources, objective, options, encoder)
        found = gx.optimal_mixture(given.arms, given.objective, encoder=given.encoder)
        if weights is not None:
            write_json(weights, plain_weights(found.weights))
    if as_json:
        print_json(plain_mixture(found, leave_one_out))
    else:
        print_mixture(found, given.counts, leave_one_out)


@app.command(epilog="Example: genmix diagnose sdxl.npz pixart.npz --repeats 50 --subsample 500")
def diagnose(
    files: Files,
    objective: GoalOption = Goal.vendi,
    reference: Reference = None,
    repeats: Annotated[
        int, typer.Option(help="Random subsamples for means and standard deviations.")
    ] = 0,
    subsample: Annotated[
        int | None, typer.Option(help="Samples of every arm in a subsample; half by default.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the subsamples.")] = 0,
    gamma: Annotated[
        float | None, typer.Option(help="γ_0 of the margins; a tenth of an even share by default.")
    ] = None,
    horizon: Annotated[int, typer.Option(help="T of the paper's theorem.")] = 2000,
    confidence: Annotated[float, typer.Option(help="δ of the paper's theorem.")] = 0.05,
    k: Neighbours = None,
    order: Order = None,
    kernel: KernelOption = None,
    bandwidth: Bandwidth = None,
    features: Features = None,
    ddof: Ddof = None,
    unbiased: Unbiased = None,
    key: Key = None,
    reference_key: ReferenceKey = None,
    encoder: EncoderName = None,
    as_json: Json = False,
) -> None:
    """Say which arms carry the mixture and which add nothing.

    Innovation gaps, the best mixture, what is lost without each arm, and whether the paper's
    assumptions hold for these arms.
    """
    with plain_errors():
        import genmix as gx

        options = {"k": k, "order": order, "kernel": kernel, "bandwidth": bandwidth}
        options |= {"features": features, "ddof": ddof, "unbiased": unbiased}
        sources = Sources(files, key, reference, reference_key)
        given = read_inputs(sources, objective, options, encoder)
        with progress("subsamples", repeats) as tell:
            found = gx.diagnose(
                given.arms,
                given.objective,
                repeats=repeats,
                subsample=subsample,
                seed=seed,
                encoder=given.encoder,
                gamma=gamma,
                horizon=horizon,
                confidence=confidence,
                progress=tell,
            )
    if as_json:
        print_json(found.as_dict())
    else:
        typer.echo(str(found))
