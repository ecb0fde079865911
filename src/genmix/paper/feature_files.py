"""The paper's feature files if they are available, and recorded worlds otherwise.

The folder passed as ``--features DIR`` contains one folder per dataset (``DIR/ffhq``), with one file per
model and one for the real data, at any depth and in one of two layouts:

- dgm-eval: ``reps_LDM_dinov2_nimage-50000_test.npz`` or ``LDM/reps_dinov2.npz``, with a ``reps`` array;
- Mixture-UCB: ``dino/LDM.npz`` or ``LDM_features.npz``, with an array such as ``dino_features``.

The encoder, if specified, is the name of a folder or the end of a file name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from genmix.comparison.worlds import World, load_world
from genmix.core.text import listed
from genmix.data.features import Statistics, read_file
from genmix.errors import InputError
from genmix.paper.items import Settings
from genmix.paper.published import DATASETS, SIGMA, Dataset, plain

RULE = (
    "A dataset is a folder in DIR (ffhq, lsun-bedroom, imagenet, dogs, birds, city) with one feature file "
    "per model, in the layout of dgm-eval (reps_MODEL_ENCODER_nimage-N_test.npz) or of Mixture-UCB "
    "(ENCODER/MODEL.npz). The reference is the file named train, real or reference, or named after the "
    "dataset (ffhq256.npz); if there is none, it is the file named test or val."
)
"""The description of the files that --list prints."""

ENDINGS = (".npz", ".npy", ".pt", ".pth", ".parquet", ".pq", ".jsonl", ".ndjson")

ENCODERS = {
    "dinov2": "dino(v2)?(vit)?[bgls]?(14)?",
    "inception": "s?inception(v3)?",
    "clip": "(open)?clip(vit)?[bglh]?(14|16|32)?",
    "sbert": "sbert|sentencetransformers?|(allminilm|minilm)(l6v2)?|allmpnetbasev2",
    "roberta": "roberta(base|large)?",
    "convnext": "convnext",
    "data2vec": "data2vec",
    "mae": "mae",
    "simclr": "simclr",
    "swav": "swav",
    "pixel": "pixels?",
}
"""Encoders, and the patterns for folder names and file name endings that identify them."""

REAL = "(train|real|reference|ref)(data|set|images)?"
HELD_OUT = "(test|val|validation)(data|set|images)?"
SIZE = "(32|64|128|256|512|1024)?"


@dataclass(frozen=True)
class LoadedDataset:
    """The data for an item: a dataset of the paper, or a recorded world used in its place."""

    world: World
    datasets: tuple[str, ...]
    """The datasets of the paper that these data come from or replace."""
    is_paper: bool
    """Whether these are the paper's models, so that its numbers can be compared with ours."""

    @property
    def title(self) -> str:
        titles = ", ".join(DATASETS[key].title for key in self.datasets)
        return titles if self.is_paper else f"{self.world.name} (in place of {titles})"

    @property
    def bandwidth(self) -> float | Literal["median"]:
        """The published σ for DINOv2 features of the paper's images; the median distance for all others."""
        is_dino = self.is_paper and self.world.encoder in ("dinov2", None)
        is_image = DATASETS[self.datasets[0]].encoder == "dinov2"
        return SIGMA if is_dino and is_image else "median"

    @property
    def stands_for(self) -> str | None:
        return None if self.is_paper else ", ".join(self.datasets)

    def real_data(self) -> Any:
        """Return the reference samples, which the Fréchet distance requires."""
        if self.world.reference is None:
            raise InputError(
                f"{self.title} has no file of real data, which the Fréchet distance needs; add one "
                "named real.npz."
            )
        return self.world.reference


def load_datasets(settings: Settings, datasets: Iterable[str]) -> list[LoadedDataset]:
    """Load these datasets from --features, or recorded worlds in place of missing ones."""
    wanted = tuple(datasets)
    found = [
        LoadedDataset(read_dataset(settings.features, key), (key,), True)
        for key in wanted
        if settings.features is not None and has_dataset(settings.features, key)
    ]
    available = {key for data in found for key in data.datasets}
    stand_ins: dict[str, list[str]] = {}
    for key in wanted:
        if key not in available:
            stand_ins.setdefault(DATASETS[key].stands_in, []).append(key)
    return found + [
        LoadedDataset(load_world(name, settings.worlds), tuple(keys), False)
        for name, keys in stand_ins.items()
    ]


def has_dataset(folder: Path, dataset: str) -> bool:
    return _dataset_folder(folder, DATASETS[dataset]) is not None


def check_folder(folder: Path) -> None:
    """Reject a folder that contains none of the paper's datasets."""
    if not folder.is_dir():
        raise InputError(
            f"the folder {folder} does not exist; set --features to the folder of feature files."
        )
    if not any(has_dataset(folder, key) for key in DATASETS):
        raise InputError(
            f"{folder} contains no dataset of the paper (found: {_names(folder)}); "
            f"add a folder named {listed(DATASETS, 'or')}."
        )


def read_dataset(folder: Path, dataset: str, encoder: str | None = None) -> World:
    """Read the models and real data of a dataset, by default with the paper's encoder or the only one."""
    known = DATASETS[dataset]
    place = _dataset_folder(folder, known)
    if place is None:
        raise InputError(
            f"{folder} does not contain {known.title} (found: {_names(folder)}); "
            f"add a folder named {known.key}."
        )
    files = [_read_name(path, place) for path in _feature_files(place)]
    if not files:
        raise InputError(
            f"{place} contains no feature files (found: {_names(place)}); "
            f"add one for each of {', '.join(known.models)} and one for the real data."
        )
    chosen, files = _of_encoder(files, known, place, encoder)
    real, models = _split(files, known, place)
    models_by_label, notes = _by_label(models, known, place)
    if len(models_by_label) < 2:
        raise InputError(
            f"{place} contains {_some(models_by_label)}; a mixture needs at least two of "
            f"{', '.join(known.models)}."
        )
    arms = {label: _read(file.path) for label, file in models_by_label.items()}
    reference = None if real is None else _read(real.path)
    if real is None:
        notes.append("no file of real data, so no distances")
    _check_dimensions(
        arms, {label: file.path for label, file in models_by_label.items()}, reference, real
    )
    return World(known.key, arms, reference, chosen, note="; ".join(notes))


# -- names -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _File:
    """A feature file, with what its name says about it."""

    path: Path
    name: str
    """The name of the model or of the real data."""
    encoder: str | None

    @property
    def key(self) -> str:
        return plain(self.name)


def _read_name(path: Path, place: Path) -> _File:
    """Parse ``reps_LDM_dinov2_nimage-50000_test``, ``LDM_features``, ``LDM/reps``, ``dino/LDM``."""
    stem = re.sub(r"^reps(_|$)", "", path.stem, flags=re.IGNORECASE)
    stem = re.sub(r"_nimage-\d+_(train|test)$", "", stem)
    stem = re.sub(r"_ckpt-.*$", "", stem)
    stem = re.sub(r"(^|_)(features|feats|reps)$", "", stem, flags=re.IGNORECASE)
    folders = list(path.relative_to(place).parent.parts)
    encoder = None
    words = stem.split("_")
    if _encoder_in(words[-1]) is not None:
        encoder, stem = _encoder_in(words[-1]), "_".join(words[:-1])
    for part in folders:
        encoder = encoder or _encoder_in(part)
    if not stem:
        named = [part for part in folders if _encoder_in(part) is None]
        stem = named[-1] if named else path.stem
    return _File(path, stem, encoder)


def _encoder_in(word: str) -> str | None:
    key = plain(word)
    return next((name for name, form in ENCODERS.items() if re.fullmatch(form, key)), None)


def _feature_files(place: Path) -> list[Path]:
    return [
        path
        for path in sorted(place.rglob("*"))
        if path.suffix.lower() in ENDINGS
        and path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(place).parts)
    ]


def _dataset_folder(folder: Path, dataset: Dataset) -> Path | None:
    keys = (plain(dataset.key), *dataset.aliases)
    if not folder.is_dir():
        return None
    return next((p for p in sorted(folder.iterdir()) if p.is_dir() and plain(p.name) in keys), None)


# -- choosing ----------------------------------------------------------------------------------------


def _of_encoder(
    files: Sequence[_File], dataset: Dataset, place: Path, wanted: str | None
) -> tuple[str | None, list[_File]]:
    """Choose the files of one encoder: the requested one, the paper's, or the only one.

    Files whose names do not mention an encoder are assumed to use the paper's.
    """
    named = sorted({file.encoder for file in files if file.encoder is not None})
    chosen = dataset.encoder if wanted is None else _encoder_in(wanted) or wanted
    if wanted is None and len(named) == 1 and all(file.encoder for file in files):
        (chosen,) = named
    implied = chosen == dataset.encoder
    found = [f for f in files if f.encoder == chosen or (implied and f.encoder is None)]
    if not found:
        raise InputError(
            f"{place} contains features of {', '.join(named) or 'an unnamed encoder'} but none of "
            f"{chosen}; put those into the folder {place / chosen}."
        )
    return (chosen if any(f.encoder for f in found) else None), found


def _split(
    files: Sequence[_File], dataset: Dataset, place: Path
) -> tuple[_File | None, list[_File]]:
    """Separate the real-data file from the model files."""
    own = "|".join((plain(dataset.key), *dataset.aliases))
    forms = (f"({own})?{SIZE}{REAL}", f"({own}){SIZE}", f"({own})?{SIZE}{HELD_OUT}")
    ranked: list[list[_File]] = [[] for _ in forms]
    models: list[_File] = []
    for file in files:
        rank = next((i for i, form in enumerate(forms) if re.fullmatch(form, file.key)), None)
        (models if rank is None else ranked[rank]).append(file)
    best = next((group for group in ranked if group), [])
    if len(best) > 1:
        raise InputError(
            f"{best[0].path} and {best[1].path} both look like the real data; "
            f"keep only one of them in {place}."
        )
    return (best[0] if best else None), models


def _by_label(
    files: Sequence[_File], dataset: Dataset, place: Path
) -> tuple[dict[str, _File], list[str]]:
    """Return the paper's models under the paper's names, then others under their own names."""
    found: dict[str, _File] = {}
    for file in files:
        fits = (name for name, form in dataset.models.items() if re.fullmatch(form, file.key))
        label = next(fits, file.name)
        if label in found:
            raise InputError(
                f"{found[label].path} and {file.path} both belong to the model {label}; "
                f"keep only one of them in {place}."
            )
        found[label] = file
    extra = sorted(set(found) - set(dataset.models))
    missing = [name for name in dataset.models if name not in found]
    notes = [f"models that are not in the paper: {', '.join(extra)}"] if extra else []
    notes += [f"missing: {', '.join(missing)}"] if missing else []
    order = [name for name in dataset.models if name in found] + extra
    return {name: found[name] for name in order}, notes


# -- reading -----------------------------------------------------------------------------------------


def _read(path: Path) -> Any:
    content = read_file(path)
    if isinstance(content, Statistics):
        raise InputError(
            f"{path} contains only mu and sigma; embed the samples again and store one row per sample."
        )
    return content


def _check_dimensions(
    arms: dict[str, Any], paths: dict[str, Path], reference: Any, real: _File | None
) -> None:
    first = next(iter(arms))
    d = arms[first].shape[1]
    all_of_them = [(rows, paths[label]) for label, rows in arms.items()]
    if real is not None:
        all_of_them.append((reference, real.path))
    for rows, path in all_of_them:
        if rows.shape[1] != d:
            raise InputError(
                f"{path} has dimension {rows.shape[1]} and {paths[first]} has {d}; "
                "embed all of them with the same encoder."
            )


def _names(folder: Path) -> str:
    return _some(sorted(path.name for path in folder.iterdir() if path.name[0] != "."))


def _some(names: Iterable[str]) -> str:
    every = list(names)
    more = f" and {len(every) - 6} more" if len(every) > 6 else ""
    return ", ".join(every[:6]) + more or "nothing"
