"""The paper's own data where somebody has the feature files, and recorded worlds where nobody has.

``--features DIR`` holds a folder for each dataset (``DIR/ffhq``), with a file for each model and one for
the real data, at any depth and in either of two layouts:

- dgm-eval's: ``reps_LDM_dinov2_nimage-50000_test.npz`` or ``LDM/reps_dinov2.npz``, with the array ``reps``;
- Mixture-UCB's: ``dino/LDM.npz`` or ``LDM_features.npz``, with an array such as ``dino_features``.

A folder or the end of a name says the encoder, if anything does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from genmix.comparison.worlds import World, load_world
from genmix.data.features import Statistics, read_file
from genmix.errors import InputError
from genmix.paper.item import Setting
from genmix.paper.published import DATASETS, SIGMA, Dataset, plain

RULE = (
    "A dataset is a folder of DIR (ffhq, lsun-bedroom, imagenet, dogs, birds, city) with one feature file "
    "for each model, in dgm-eval's layout (reps_MODEL_ENCODER_nimage-N_test.npz) or Mixture-UCB's "
    "(ENCODER/MODEL.npz). The reference is the file named train, real or reference, or by the dataset "
    "itself (ffhq256.npz); test and val are taken where there is no other."
)
"""What --list says of the files."""

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
"""Encoders that a folder or the end of a file's name can say."""

REAL = "(train|real|reference|ref)(data|set|images)?"
HELD_OUT = "(test|val|validation)(data|set|images)?"
SIZE = "(32|64|128|256|512|1024)?"


@dataclass(frozen=True)
class Source:
    """Data that an item is made on."""

    world: World
    datasets: tuple[str, ...]
    """Those of the paper that it is, or that it stands for."""
    is_paper: bool
    """Whether these are the paper's models, so that its numbers can stand beside ours."""

    @property
    def title(self) -> str:
        titles = ", ".join(DATASETS[key].title for key in self.datasets)
        return titles if self.is_paper else f"{self.world.name} (stands for {titles})"

    @property
    def bandwidth(self) -> float | Literal["median"]:
        """σ: the published one for the paper's images in DINOv2, the median distance for all others."""
        is_dino = self.is_paper and self.world.encoder in ("dinov2", None)
        is_image = DATASETS[self.datasets[0]].encoder == "dinov2"
        return SIGMA if is_dino and is_image else "median"


def sources(setting: Setting, datasets: Iterable[str]) -> list[Source]:
    """The data for these datasets: from --features what is there, the stand-ins for the others."""
    wanted = tuple(datasets)
    found = [
        Source(read_dataset(setting.features, key), (key,), True)
        for key in wanted
        if setting.features is not None and has_dataset(setting.features, key)
    ]
    there = {key for source in found for key in source.datasets}
    stand_ins: dict[str, list[str]] = {}
    for key in wanted:
        if key not in there:
            stand_ins.setdefault(DATASETS[key].stands_in, []).append(key)
    return found + [
        Source(load_world(name, setting.worlds), tuple(keys), False)
        for name, keys in stand_ins.items()
    ]


def has_dataset(folder: Path, dataset: str) -> bool:
    return _dataset_folder(folder, DATASETS[dataset]) is not None


def check_folder(folder: Path) -> None:
    """Refuse a folder that has nothing of the paper in it."""
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}: name that of the features with --features.")
    if not any(has_dataset(folder, key) for key in DATASETS):
        raise InputError(
            f"{folder} holds {_names(folder)} and no dataset of the paper: "
            f"give it a folder named {', '.join(list(DATASETS)[:-1])} or {list(DATASETS)[-1]}."
        )


def read_dataset(folder: Path, dataset: str, encoder: str | None = None) -> World:
    """A dataset's models and real data; ``encoder`` by default the paper's, or the only one there."""
    known = DATASETS[dataset]
    place = _dataset_folder(folder, known)
    if place is None:
        raise InputError(f"{folder} holds {_names(folder)}: give it a folder named {known.key}.")
    files = [_read_name(path, place) for path in _feature_files(place)]
    if not files:
        raise InputError(
            f"{place} holds no feature files ({_names(place)}): "
            f"it wants one for each of {', '.join(known.models)}, and one of the real data."
        )
    chosen, files = _of_encoder(files, known, place, encoder)
    real, models = _split(files, known, place)
    labelled, notes = _labelled(models, known, place)
    if len(labelled) < 2:
        raise InputError(
            f"{place} holds {_listed(labelled) or 'no model'}: a mixture needs at least two of "
            f"{', '.join(known.models)}."
        )
    arms = {label: _read(file.path) for label, file in labelled.items()}
    reference = None if real is None else _read(real.path)
    if real is None:
        notes.append("no file of the real data, so no distance to it")
    _check_dimensions(arms, {label: file.path for label, file in labelled.items()}, reference, real)
    return World(known.key, arms, reference, chosen, note="; ".join(notes))


# -- names -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _File:
    """A feature file and what its name says."""

    path: Path
    name: str
    """Of the model, or of the real data."""
    encoder: str | None

    @property
    def key(self) -> str:
        return plain(self.name)


def _read_name(path: Path, place: Path) -> _File:
    """``reps_LDM_dinov2_nimage-50000_test``, ``LDM_features``, ``LDM/reps``, ``dino/LDM``."""
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
    """The files of one encoder: the wanted, else the paper's, else the only one.

    Files that name no encoder are taken for the paper's.
    """
    named = sorted({file.encoder for file in files if file.encoder is not None})
    chosen = dataset.encoder if wanted is None else _encoder_in(wanted) or wanted
    if wanted is None and len(named) == 1 and all(file.encoder for file in files):
        (chosen,) = named
    implied = chosen == dataset.encoder
    found = [f for f in files if f.encoder == chosen or (implied and f.encoder is None)]
    if not found:
        raise InputError(
            f"{place} holds features of {', '.join(named) or 'an unnamed encoder'} and none of "
            f"{chosen}: put those into the folder {place / chosen}."
        )
    return (chosen if any(f.encoder for f in found) else None), found


def _split(
    files: Sequence[_File], dataset: Dataset, place: Path
) -> tuple[_File | None, list[_File]]:
    """The file of the real data, and those of the models."""
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
            f"{best[0].path} and {best[1].path} both name the real data: keep one in {place}."
        )
    return (best[0] if best else None), models


def _labelled(
    files: Sequence[_File], dataset: Dataset, place: Path
) -> tuple[dict[str, _File], list[str]]:
    """The models by the paper's names, in its order, then others by their own."""
    found: dict[str, _File] = {}
    for file in files:
        fits = (name for name, form in dataset.models.items() if re.fullmatch(form, file.key))
        label = next(fits, file.name)
        if label in found:
            raise InputError(
                f"{found[label].path} and {file.path} would both be the model {label}: "
                f"keep one in {place}."
            )
        found[label] = file
    extra = sorted(set(found) - set(dataset.models))
    missing = [name for name in dataset.models if name not in found]
    notes = [f"also there, and no model of the paper: {', '.join(extra)}"] if extra else []
    notes += [f"not there: {', '.join(missing)}"] if missing else []
    order = [name for name in dataset.models if name in found] + extra
    return {name: found[name] for name in order}, notes


# -- reading -----------------------------------------------------------------------------------------


def _read(path: Path) -> Any:
    content = read_file(path)
    if isinstance(content, Statistics):
        raise InputError(
            f"{path} holds mu and sigma only, and samples are needed: embed them anew."
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
                f"{path} has dimension {rows.shape[1]} and {paths[first]} has {d}: "
                "embed all with the same encoder."
            )


def _names(folder: Path) -> str:
    return _listed(sorted(path.name for path in folder.iterdir() if path.name[0] != "."))


def _listed(names: Iterable[str]) -> str:
    some = list(names)
    shown = ", ".join(some[:6])
    if len(some) > 6:
        return f"{shown} and {len(some) - 6} more"
    return shown or "nothing"
