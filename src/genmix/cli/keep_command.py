"""The command ``keep``: the best k of the samples that already exist."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from genmix.cli import INTERRUPTED, app, plain_errors, print_note
from genmix.cli.samples.arguments import Inputs, neighbor_reference, read_inputs
from genmix.cli.samples.needed_numbers import check_numbers
from genmix.cli.samples.option_words import in_option_words
from genmix.cli.samples.sample_options import takes
from genmix.cli.samples.shard_options import ShardOptions, shard_processing
from genmix.cli.samples.shards_to_keep import (
    check_shards,
    has_shards,
    readable,
    small_shards_loaded,
    streamed_batch,
)
from genmix.cli.samples.targets import check_output
from genmix.cli.tables import print_json, print_table
from genmix.core.atomic import draft_of, write_json
from genmix.core.text import counted, number, one_line
from genmix.errors import InputError, whole
from genmix.errors import number as checked_number

if TYPE_CHECKING:
    from genmix.data.loaded_arm import LoadedArm
    from genmix.objectives import Batch
    from genmix.offline.keeping import Rules, Selection
    from genmix.offline.predict_keep import KeepPrediction
    from genmix.solvers.subset import SubsetProgress

LINES, RESULT = (".jsonl", ".ndjson"), ".json"
FORMATS = "a name that ends in .jsonl, .parquet, .npz, .npy or .json, or - to print JSONL"
SECONDS_PER_LINE = 5.0
"""Seconds between two progress lines without a terminal."""

PHASES = {"relax": "bounding", "swap": "exchanging samples", "greedy": "choosing one by one"}


@app.command(
    epilog="Example: genmix keep texts.jsonl --count 500 --objective 'vendi + 0.3*quality' "
    "--encoder sentence-transformers --out kept.jsonl"
)
@takes(ShardOptions)
def keep(
    options: ShardOptions,
    out: Annotated[
        str,
        typer.Option(
            "--out",
            "-o",
            metavar="PATH",
            help="Where the kept samples go: .jsonl (texts or image paths, with arm, quality and cost), "
            ".parquet (the same, with embeddings), .npz or .npy (embeddings), .json (row numbers and "
            "scores), or - to print JSONL.",
            show_default=False,
        ),
    ],
    count: Annotated[int | None, typer.Option(help="Number of samples to keep.")] = None,
    share: Annotated[
        float | None, typer.Option(help="Share of the samples to keep, instead of their number.")
    ] = None,
    min_quality: Annotated[
        float | None, typer.Option(help="Keep only samples of at least this quality.")
    ] = None,
    at_least_per_arm: Annotated[
        int | None, typer.Option(help="Smallest number of samples to keep from each arm.")
    ] = None,
    predict: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Also predict what N more samples would be worth, with an interval.",
            min=1,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed for starts and random sets.")] = 0,
) -> None:
    """Keep the samples that score best together, with a bound for every other choice.

    Prints the score of all samples, of random sets of the same size, of the kept samples, and the bound.
    Ctrl-C ends the search and keeps the best samples found so far. Diversity alone prefers outliers: a
    warning says if precision or quality fell by more than the noise.
    """
    with plain_errors(), in_option_words(options.reference):
        from genmix.data.write_features import check_arms

        rules = _rules(count, share, min_quality)
        whole(seed, "--seed", 0)
        _check_target(out, options)
        if predict is not None and at_least_per_arm is not None:
            raise InputError(
                "--predict does not support --at-least-per-arm; remove one of the two options."
            )
        given = small_shards_loaded(read_inputs(options, neighbors=True))
        check_numbers(given, quality_for=None if min_quality is None else "--min-quality")
        check_arms(Path(out), len(given.loaded))
        check_shards(options, given, rules, out, predict)
        labels = [arm.label for arm in given.loaded for _ in range(len(arm))]
        with shard_processing(options, given):
            found = _select(given, rules, labels, at_least_per_arm, seed, options.k)
            rows = _rows_by_arm(given.loaded, found)
            result = found.as_dict() | {"rows": rows}
            _write(out, given, rows, result)
    was_interrupted, expected = found.kept.interrupted, None
    if predict is not None and not was_interrupted:
        was_interrupted, expected = _predict(found, rules, predict, seed)
    if expected is not None:
        result["prediction"] = expected.as_dict()
        if Path(out).suffix.lower() == RESULT:
            with plain_errors():
                write_json(Path(out), result)
    _warn(found)
    with _results(out):
        if options.as_json:
            print_json(result | {"file": out})
        else:
            _print_selection(found, given.counts, rows)
            if expected is not None:
                typer.echo(f"prediction: {expected}")
            if out != "-":
                typer.echo(f"saved in {out}")
    if was_interrupted:
        what = "the best samples so far" if found.kept.interrupted else "the samples"
        if found.kept.directions is None:
            what = "random samples"  # the search had not begun
        print_note(f"interrupted; {what} were kept.")
        raise typer.Exit(INTERRUPTED)


def _rules(count: int | None, share: float | None, min_quality: float | None) -> Rules:
    from genmix.offline.keeping import Rules

    if (count is None) == (share is None):
        raise InputError("pass either --count or --share to say how many samples to keep.")
    if count is not None and count < 1:
        raise InputError(f"--count is {count}; pass a whole number of at least 1.")
    if share is not None and not 0 < share <= 1:
        raise InputError(f"--share is {share:g}; pass a number greater than 0 and at most 1.")
    if min_quality is not None:
        checked_number(min_quality, "--min-quality")
    return Rules(count, share, min_quality)


def _predict(
    found: Selection, rules: Rules, more: int, seed: int
) -> tuple[bool, KeepPrediction | None]:
    """Return whether the prediction was interrupted, and the prediction if there is one."""
    from genmix.offline.predict_keep import predict

    print_note(f"predicting what {counted(more, 'more sample')} would be worth")
    try:
        return False, predict(found.baselines.batch, found.baselines.objective, rules, more, seed)
    except KeyboardInterrupt:
        return True, None
    except InputError as error:
        print_note(f"no prediction is possible: {error}")
        return False, None


def _check_target(out: str, options: ShardOptions) -> None:
    """Before the samples are read, refuse an output file that cannot be written or that is an input."""
    from genmix.data.write_features import WRITERS, check_target

    if out == "-":
        return
    path = Path(out)
    if path.suffix.lower() not in (*LINES, RESULT, *WRITERS):
        raise InputError(f"{out} has no known format; use {FORMATS}.")
    if path.suffix.lower() in WRITERS:
        check_target(path)
    check_output(path, "--out", options)


def _select(
    given: Inputs,
    rules: Rules,
    labels: Sequence[str],
    at_least: int | None,
    seed: int,
    neighbors: int | None,
) -> Selection:
    from genmix.offline.keeping import Baselines

    batch = _batch(given)
    given.objective.check_total(len(batch))
    count, candidates = rules.count(len(batch)), rules.candidates(batch)
    available = Counter(labels[i] for i in candidates)
    _check_counts(rules, count, given, available, at_least)
    real = neighbor_reference(given.reference, neighbors)
    points = None if real is None else real.points
    with readable(given, batch) as samples:
        typer.echo("genmix: scoring all samples and random sets", err=True)
        with _progress() as show:
            found = Baselines.of(
                samples,
                given.objective,
                count,
                reference=points,
                encoder=given.encoder,
                seed=seed,
                progress=lambda done, total: show(f"scored {done} of {total} sets"),
            )
            return found.keep(
                candidates,
                arms=labels,
                at_least=at_least,
                seed=seed,
                progress=lambda now: show(_search_line(now)),
            )


def _batch(given: Inputs) -> Batch:
    """Return the samples of all arms as one set; shards are not read yet."""
    from genmix.core.arrays import as_matrix
    from genmix.data.loaded_arm import LoadedArm
    from genmix.objectives import Batch

    if has_shards(given):
        return streamed_batch(given)
    joined = reduce(LoadedArm.joined, given.loaded)
    batch = Batch(as_matrix(given.rows_of(joined), "the samples"), joined.quality, joined.cost)
    first = 0
    for arm in given.loaded:
        last = first + len(arm)
        columns = (None if v is None else v[first:last] for v in (batch.quality, batch.cost))
        given.objective.check(Batch(batch.embeddings[first:last], *columns), f"arm {arm.label!r}")
        first = last
    return batch


def _check_counts(
    rules: Rules, count: int, given: Inputs, available: Counter[str], at_least: int | None
) -> None:
    """Refuse numbers that contradict each other, and name their options."""
    asked = f"--count is {count}" if rules.share is None else f"--share keeps {count}"
    change = "--count" if rules.share is None else "--share"
    which = "" if rules.min_quality is None else " of this quality"
    least, most = given.objective.least_samples, available.total()
    if count > most:
        raise InputError(
            f"{asked}, but there {'is' if most == 1 else 'are'} only {counted(most, 'sample')}{which}; pass "
            f"a smaller {change}."
        )
    if count < least:
        raise InputError(
            f"{asked}, but the objective needs at least {least} samples; pass a larger {change}."
        )
    if at_least is None:
        return
    if at_least < 0:
        raise InputError(f"--at-least-per-arm is {at_least}; pass a whole number of at least 0.")
    scarce = min(given.counts, key=lambda arm: available[arm])
    if at_least > available[scarce]:
        raise InputError(
            f"--at-least-per-arm is {at_least}, but arm {scarce!r} has "
            f"{counted(available[scarce], 'sample')}{which}; pass at most {available[scarce]}."
        )
    needed = at_least * len(given.counts)
    if needed > count:
        raise InputError(
            f"--at-least-per-arm {at_least} requires {counted(needed, 'sample')} from "
            f"{counted(len(given.counts), 'arm')}, but {asked}; pass a smaller number per arm or a larger "
            f"{change}."
        )


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Show a line on stderr: the current one in a terminal, otherwise one from time to time."""
    from rich.console import Console

    console, shown_at = Console(stderr=True), monotonic()
    with console.status("") if console.is_terminal else _nothing() as status:

        def show(line: str) -> None:
            nonlocal shown_at
            if status is not None:
                status.update(line)
            elif monotonic() - shown_at > SECONDS_PER_LINE:
                shown_at = monotonic()
                print_note(line)

        yield show


def _search_line(now: SubsetProgress) -> str:
    """Return the phase, the step and the gap of the search."""
    gap = f"gap {number(now.loss - now.loss_bound, 2)}"
    return f"{PHASES[now.phase]}, step {now.step}, {gap} (Ctrl-C keeps the best so far)"


@contextmanager
def _nothing() -> Iterator[None]:
    yield None


# -- output ------------------------------------------------------------------------------------------


def _rows_by_arm(arms: Sequence[LoadedArm], found: Selection) -> dict[str, list[int]]:
    """Return the rows of each arm that were kept."""
    rows, first = {}, 0
    for arm in arms:
        mine = found.kept.indices
        mine = mine[(mine >= first) & (mine < first + len(arm))] - first
        rows[arm.label], first = mine.tolist(), first + len(arm)
    return rows


def _write(out: str, given: Inputs, rows: dict[str, list[int]], result: dict[str, Any]) -> None:
    from dataclasses import replace

    from genmix.data.write_features import write_features

    path = Path(out)
    if path.suffix.lower() == RESULT:
        write_json(path, result)
        return
    kept = [
        replace(arm.take(rows[arm.label]), encoder=given.encoder)
        for arm in given.loaded
        if rows[arm.label]
    ]
    if out == "-":
        _write_lines(typer.get_binary_stream("stdout"), kept, Path.cwd())
    elif path.suffix.lower() in LINES:
        with draft_of(path) as draft, draft.open("wb") as file:
            _write_lines(file, kept, path.parent)
    else:
        write_features(path, kept)


def _write_lines(file: BinaryIO, arms: Sequence[LoadedArm], folder: Path) -> None:
    """Write one line per sample; samples without text or image have their embedding.

    As in the other formats, a column that some arms lack, e.g. the quality, is left out.
    """
    from genmix.data.features import EMBEDDING
    from genmix.data.write_features import sample_columns

    tables = [sample_columns(arm, [arm.label] * len(arm), folder) for arm in arms]
    common = {"text", "image_path"}.union(set(tables[0]).intersection(*tables[1:]))
    for arm, table in zip(arms, tables, strict=True):
        columns = {name: values for name, values in table.items() if name in common}
        if arm.content == "features":
            columns[EMBEDDING] = [row.tolist() for row in arm.features]  # type: ignore[union-attr]
        for values in zip(*columns.values(), strict=True):
            file.write(f"{one_line(dict(zip(columns, values, strict=True)))}\n".encode())


@contextmanager
def _results(out: str) -> Iterator[None]:
    """Send the tables to stderr if stdout has the samples."""
    import sys
    from contextlib import redirect_stdout

    if out != "-":
        yield
        return
    with redirect_stdout(sys.stderr):
        yield


def _warn(found: Selection) -> None:
    from genmix.offline.keeping import ADVICE, advice_for

    has_quality = found.baselines.batch.quality is not None
    remedy = "quality' or --min-quality" if has_quality else "0.5*precision' --reference PATH"
    for sentence in found.warnings:
        print_note(f"warning: {sentence}")
    advice = advice_for(found.kept.objective)
    if found.warnings and advice is not None:
        example = f", e.g. --objective 'vendi + {remedy}" if advice == ADVICE else ""
        print_note(f"{advice}{example}.")


def _print_selection(found: Selection, counts: dict[str, int], rows: dict[str, list[int]]) -> None:
    from genmix.core.plain import by_name
    from genmix.offline.keeping import DRAWS, bound_sentence

    kept, random = by_name(found.kept.score), found.random
    total, count = len(found.baselines.batch), len(found.kept.indices)
    every = by_name(found.baselines.all_scores)
    heads = [f"{name} {'↑' if score.maximise else '↓'}" for name, score in kept.items()]
    drawn = [f"{each['mean']:.6g} ± {each['sd']:.2g}" for each in random.values()]
    bound = [] if found.kept.bound is None else [["bound", str(count), f"{found.kept.bound:.6g}"]]
    print_table(
        ["samples", "n", *heads],
        [
            ["all", str(total), *(f"{float(s):.6g}" for s in every.values())],
            [f"random ({DRAWS} sets)", str(count), *drawn],
            ["kept", str(count), *(f"{float(s):.6g}" for s in kept.values())],
            *bound,
        ],
    )
    for score in kept.values():
        typer.echo(f"kept: {score}")
    typer.echo(bound_sentence(found.as_dict()))
    if len(counts) > 1:
        print_table(
            ["arm", "n", "kept"], [[a, str(n), str(len(rows[a]))] for a, n in counts.items()]
        )
    if found.changes:
        print_table(
            ["mean of", "all", "kept", "standard error of random sets"],
            [[c.name, number(c.all), number(c.kept), number(c.noise, 2)] for c in found.changes],
        )
        typer.echo(
            f"precision and density: in {found.baselines.fidelity.compared_with}; distance: to the nearest"
        )
