"""Commands for feature files: score, mixture, diagnose."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from genmix.cli import app, plain_errors
from genmix.cli.arguments import Goal, KernelName, Sources, neighbor_reference, read_inputs
from genmix.cli.tables import (
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
        help="One feature file per arm: PATH or NAME=PATH. Without NAME, the arm is named after the file.",
        show_default=False,
    ),
]
GoalOption = Annotated[Goal, typer.Option("--objective", help="The score to compute or optimize.")]
Reference = Annotated[
    Path | None,
    typer.Option(help="Feature file of reference samples; for fd, also a file of statistics."),
]
Neighbors = Annotated[
    int | None,
    typer.Option("--k", help="Number of neighbors for precision and density. Default: 5."),
]
Order = Annotated[
    float | None,
    typer.Option(help="Order of the Vendi score: a number above 0, or inf. Default: 1."),
]
KernelOption = Annotated[
    KernelName | None,
    typer.Option(help="Kernel. Default: cosine for vendi, gaussian for rke and kd."),
]
Bandwidth = Annotated[
    str | None, typer.Option(help="σ of the Gaussian kernel: a number or median. Default: median.")
]
Features = Annotated[
    int | None,
    typer.Option(help="Approximate the Gaussian kernel with this many random frequencies."),
]
Ddof = Annotated[
    int | None,
    typer.Option(help="For fd: 0 divides covariances by n, and 1 divides by n-1. Default: 0."),
]
Unbiased = Annotated[
    bool | None,
    typer.Option("--unbiased", help="Omit self-pairs in rke and kd."),
]
Key = Annotated[
    str | None, typer.Option(help="Array, column or field to read from the arms' files.")
]
ReferenceKey = Annotated[
    str | None, typer.Option(help="Array, column or field to read from the reference.")
]
EncoderName = Annotated[
    str | None, typer.Option("--encoder", help="Name of the encoder, printed with every score.")
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


@app.command(epilog="Example: genmix score sdxl.npz pixart.npz --objective fd --reference real.npz")
def score(
    files: Files,
    objective: GoalOption = Goal.vendi,
    reference: Reference = None,
    k: Neighbors = None,
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
    """Score every file, and all files pooled.

    If there are reference samples, this also prints precision, density, recall and coverage.
    """
    with plain_errors():
        import genmix as gx

        options = {"k": k, "order": order, "kernel": kernel, "bandwidth": bandwidth}
        options |= {"features": features, "ddof": ddof, "unbiased": unbiased}
        sources = Sources(files, key, reference, reference_key)
        given = read_inputs(sources, objective, options, encoder, neighbors=True)
        points, k = neighbor_reference(given.reference, k), 5 if k is None else k
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
        typer.Option("--leave-one-out", help="Show how much the loss increases without each arm."),
    ] = False,
    k: Neighbors = None,
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
    """Find the best mixture of the arms, with a certificate.

    The gap bounds how far the mixture's loss can be above the minimum over all mixtures.
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
        int, typer.Option(help="Number of random subsamples for means and standard deviations.")
    ] = 0,
    subsample: Annotated[
        int | None, typer.Option(help="Samples per arm in a subsample. Default: half of them.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed for the subsamples.")] = 0,
    gamma: Annotated[
        float | None, typer.Option(help="γ_0 of the margins. Default: a tenth of an equal share.")
    ] = None,
    horizon: Annotated[int, typer.Option(help="The horizon T in the paper's theorem.")] = 2000,
    confidence: Annotated[
        float, typer.Option(help="The confidence parameter δ in the paper's theorem.")
    ] = 0.05,
    k: Neighbors = None,
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
    """Show which arms the best mixture needs and which add nothing.

    Prints innovation gaps, the best mixture, the loss without each arm, and whether the paper's
    assumptions hold for these arms.
    """
    with plain_errors():
        import genmix as gx

        options = {"k": k, "order": order, "kernel": kernel, "bandwidth": bandwidth}
        options |= {"features": features, "ddof": ddof, "unbiased": unbiased}
        sources = Sources(files, key, reference, reference_key)
        given = read_inputs(sources, objective, options, encoder)
        with progress("subsamples", repeats) as report:
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
                progress=report,
            )
    if as_json:
        print_json(found.as_dict())
    else:
        typer.echo(str(found))
