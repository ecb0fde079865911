"""Commands for samples that already exist: score, mixture, diagnose, embed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from genmix.cli import app, plain_errors
from genmix.cli.notes import note_many_pairs
from genmix.cli.samples.arguments import (
    embed_samples,
    load_arms,
    neighbor_reference,
    read_inputs,
    refuse_shards,
    shares,
)
from genmix.cli.samples.needed_numbers import check_numbers
from genmix.cli.samples.option_words import in_option_words
from genmix.cli.samples.sample_options import InputOptions, takes
from genmix.cli.samples.shard_options import ShardOptions, shard_processing
from genmix.cli.samples.targets import check_output
from genmix.cli.tables import (
    find_intervals,
    plain_mixture,
    plain_table,
    print_json,
    print_mixture,
    print_scores,
    progress,
)
from genmix.core.atomic import write_json
from genmix.core.plain import plain_weights
from genmix.core.text import counted

NO_THEORY = (
    "The paper's theorem is about Vendi of order 1 with the cosine kernel, with or without precision, so it "
    "says nothing about this objective."
)


@app.command(epilog="Example: genmix score sdxl.npz pixart.npz --objective fd --reference real.npz")
@takes(ShardOptions)
def score(options: ShardOptions) -> None:
    """Score every arm, and all samples pooled.

    If there are reference samples, this also prints precision, density, recall and coverage.
    """
    with plain_errors(), in_option_words(options.reference):
        import genmix as gx

        given = read_inputs(options, neighbors=True)
        check_numbers(given)
        note_many_pairs(given, options.kernel)
        with shard_processing(options, given):
            table = gx.score(
                given.arms,
                given.objective,
                reference=neighbor_reference(given.reference, options.k),
                k=5 if options.k is None else options.k,
                encoder=given.encoder,
                **given.numbers,
            )
    if options.as_json:
        print_json({"objective": str(given.objective), **plain_table(table)})
    else:
        print_scores(table, given.counts)


@app.command(
    epilog="Example: genmix mixture sdxl.npz pixart.npz --objective fd --reference real.npz "
    "--weights weights.json"
)
@takes(ShardOptions)
def mixture(
    options: ShardOptions,
    weights: Annotated[
        Path | None, typer.Option(help="Write the weights to this JSON file.")
    ] = None,
    leave_one_out: Annotated[
        bool,
        typer.Option("--leave-one-out", help="Show how much the loss increases without each arm."),
    ] = False,
    intervals: Annotated[
        bool | None,
        typer.Option(
            "--intervals/--no-intervals",
            help="Show how much the weights and scores could change with other samples of the arms. "
            "Default: yes, unless there are more than 50 arms or a matrix has more than 1,000 columns.",
        ),
    ] = None,
    at_least: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=SHARE", help="Smallest weight of an arm; can be repeated."),
    ] = None,
    at_most: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=SHARE", help="Largest weight of an arm; can be repeated."),
    ] = None,
    mean_cost: Annotated[
        float | None,
        typer.Option(help="Largest mean cost per sample, if the samples have costs."),
    ] = None,
) -> None:
    """Find the best mixture of the arms, with a certificate.

    The gap bounds how far the mixture's loss can be above the minimum over all mixtures of these samples.
    The intervals show what these samples cannot tell about the arms.
    """
    with plain_errors(), in_option_words(options.reference):
        import genmix as gx

        if weights is not None:
            check_output(weights, "--weights", options)
        least, most = shares(at_least, "--at-least"), shares(at_most, "--at-most")
        given = read_inputs(options)
        check_numbers(given, cost_for=None if mean_cost is None else "--mean-cost")
        note_many_pairs(given, options.kernel)
        with shard_processing(options, given):
            found = gx.optimal_mixture(
                given.arms,
                given.objective,
                encoder=given.encoder,
                at_least=least,
                at_most=most,
                mean_cost=mean_cost,
                **given.numbers,
            )
        if weights is not None:
            write_json(weights, plain_weights(found.weights))
        unsure = find_intervals(found, intervals)
    if options.as_json:
        print_json(plain_mixture(found, leave_one_out, unsure))
    else:
        print_mixture(found, given.counts, leave_one_out, unsure)


@app.command(epilog="Example: genmix diagnose sdxl.npz pixart.npz --repeats 50 --subsample 500")
@takes(ShardOptions)
def diagnose(
    options: ShardOptions,
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
    theory: Annotated[
        bool, typer.Option("--theory", help="Also print the constants of the paper's theorem.")
    ] = False,
    horizon: Annotated[int, typer.Option(help="The horizon T in the paper's theorem.")] = 2000,
    confidence: Annotated[
        float, typer.Option(help="The confidence parameter δ in the paper's theorem.")
    ] = 0.05,
) -> None:
    """Show which arms the best mixture needs and which add nothing.

    Prints innovation gaps, the best mixture, the loss without each arm, and whether the paper's
    assumptions hold for these arms.
    """
    with plain_errors(), in_option_words(options.reference):
        import genmix as gx
        from genmix.diagnosis.evidence import SPLITS

        given = read_inputs(options)
        check_numbers(given)
        note_many_pairs(given, options.kernel, 1 + SPLITS + repeats)
        with shard_processing(options, given), progress("subsamples", repeats) as report:
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
                **given.numbers,
            )
    if options.as_json:
        print_json(found.as_dict())
        return
    typer.echo(str(found))
    if theory:
        typer.echo(f"\n{found.theory or NO_THEORY}")


@app.command(epilog="Example: genmix embed sdxl/ pixart/ --encoder dinov2 --out features.npz")
@takes(InputOptions)
def embed(
    options: InputOptions,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", help="An .npz, .npy or .parquet file.", show_default=False),
    ],
) -> None:
    """Embed images and texts, and write all arms to one feature file.

    The other commands read the file like its inputs, and show the encoder with every score. Samples that
    were embedded before, here or in a run, come from the cache.
    """
    with plain_errors(), in_option_words():
        from genmix.data.write_features import check_arms, check_target, write_features

        check_target(out)
        check_output(out, "--out", options)
        loaded = load_arms(options)
        refuse_shards(loaded, "genmix embed")
        check_arms(out, len(loaded))
        arms, _, encoder = embed_samples(loaded, None, options.encoder)
        write_features(out, [replace(arm, encoder=encoder) for arm in arms])
    counts = {arm.label: len(arm) for arm in arms}
    if options.as_json:
        print_json({"file": str(out), "encoder": encoder, "samples": counts})
    else:
        for label, count in counts.items():
            typer.echo(f"{label}: {counted(count, 'sample')}")
        typer.echo(out)
