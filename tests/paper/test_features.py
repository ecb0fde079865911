"""Feature files as dgm-eval and Mixture-UCB write them, read as the paper's datasets."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from genmix import InputError
from genmix.data.features import write_statistics
from genmix.paper.feature_files import (
    check_folder,
    has_dataset,
    load_datasets,
    read_dataset,
)
from genmix.paper.items import Settings
from tests.support.helpers import Matrix
from tests.support.paper_worlds import write_world

RNG = np.random.default_rng(0)
FFHQ = ("LDM", "StyleGAN-XL", "Efficient-VDVAE", "InsGen", "StyleNAT")


def rows(value: float, n: int = 6, d: int = 3) -> Matrix:
    return np.full((n, d), value) + np.arange(n)[:, None]


def write_reps(path: Path, values: Matrix, dtype: Any = np.float32) -> None:
    """As dgm-eval does, with its pickled settings beside the features."""
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, model="dinov2", reps=values.astype(dtype), hparams={"seed": 1})


def write_dino(path: Path, values: Matrix) -> None:
    """As Mixture-UCB does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, dino_features=values.astype(np.float32))


def refused(call: Callable[[], Any]) -> str:
    with pytest.raises(InputError) as caught:
        call()
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert re.fullmatch(r".*[^.]\.", sentence)
    return sentence


# -- layouts -----------------------------------------------------------------------------------------


def test_dgm_evals_names_are_read(tmp_path: Path) -> None:
    for i, model in enumerate(("ldm", "StyleGAN_XL", "efficient-vdvae", "insgen", "stylenat")):
        name = f"reps_{model}_dinov2_nimage-6_test.npz"
        write_reps(tmp_path / "ffhq" / name, rows(i))
    write_reps(tmp_path / "ffhq" / "reps_ffhq256_dinov2_ckpt-vit_nimage-6_train.npz", rows(9))
    world = read_dataset(tmp_path, "ffhq")
    assert (world.name, world.encoder, world.note) == ("ffhq", "dinov2", "")
    assert tuple(world.arms) == FFHQ
    values = {"LDM": 0, "StyleGAN-XL": 1, "Efficient-VDVAE": 2, "InsGen": 3, "StyleNAT": 4}
    for model, value in values.items():
        assert world.arms[model].dtype == np.float64
        assert np.array_equal(world.arms[model], rows(value))
    assert world.reference is not None
    assert np.array_equal(world.reference, rows(9))


def test_folders_may_name_the_model(tmp_path: Path) -> None:
    place = tmp_path / ".cache" / "LSUN_Bedroom" / "runs"
    write_reps(place / "iDDPM" / "reps_dinov2.npz", rows(1))
    write_reps(place / "projected GAN" / "reps.npz", rows(2))
    write_reps(place / "real" / "reps_dinov2_nimage-6_test.npz", rows(3))
    world = read_dataset(tmp_path / ".cache", "lsun-bedroom")
    assert list(world.arms) == ["Projected-GAN", "iDDPM"]
    assert np.array_equal(world.arms["Projected-GAN"], rows(2))
    assert world.reference is not None
    assert np.array_equal(world.reference, rows(3))
    assert "missing: StyleGAN, Unleashing Transformers" in world.note


def test_mixture_ucbs_layout_is_read(tmp_path: Path) -> None:
    place = tmp_path / "imagenet" / "DGM" / "dino"
    for i, model in enumerate(("DiT-XL-2", "ldm", "RQ-Transformer", "StyleGAN-XL")):
        write_dino(place / f"{model}.npz", rows(i))
    write_dino(place / "imagenet.npz", rows(7))
    world = read_dataset(tmp_path, "imagenet")
    assert world.encoder == "dinov2"
    assert set(world.arms) == {"DiT-XL-2-guided", "LDM", "RQ-Transformer", "StyleGAN-XL"}
    assert np.array_equal(world.arms["DiT-XL-2-guided"], rows(0))
    assert world.reference is not None
    assert np.array_equal(world.reference, rows(7))


def test_texts_need_no_reference(tmp_path: Path) -> None:
    place = tmp_path / "city"
    place.mkdir()
    for i, model in enumerate(("Qwen2-7B-Instruct", "gemma-3-4b-it", "Llama-3.2-3B")):
        np.savez(place / f"{model}_features.npz", roberta_features=rows(i))
    world = read_dataset(tmp_path, "city")
    assert list(world.arms) == ["Qwen", "Gemma", "Llama"]
    assert world.reference is None
    assert world.encoder is None


def test_every_format_of_features_is_read(tmp_path: Path) -> None:
    place = tmp_path / "birds"
    place.mkdir()
    np.save(place / "kandinsky-2.2.npy", rows(1))
    (place / "PixArt-α.jsonl").write_text('{"embedding": [1, 2, 3]}\n{"embedding": [4, 5, 6]}\n')
    np.savez(place / "sdxl.npz", feats=rows(3))
    (place / ".hidden.npz").write_bytes(b"no")
    (place / "notes.txt").write_text("no")
    world = read_dataset(tmp_path, "birds")
    assert list(world.arms) == ["Kandinsky", "PixArt", "sdxl"]
    assert "models that are not in the paper: sdxl" in world.note
    assert "missing: SD3" in world.note


# -- encoders ----------------------------------------------------------------------------------------


def test_an_encoder_is_a_folder_or_the_end_of_a_name(tmp_path: Path) -> None:
    for encoder, d in (("inception", 4), ("clip", 5), ("dinov2", 6)):
        for model in ("LDM", "InsGen", "real"):
            write_reps(tmp_path / "ffhq" / encoder / f"reps_{model}.npz", rows(1, d=d))
    for encoder, d in (("Inception", 4), ("clip", 5), ("dino", 6), (None, 6)):
        world = read_dataset(tmp_path, "ffhq", encoder)
        assert world.dimension == d
        assert world.reference is not None
        assert world.reference.shape[1] == d
    sentence = refused(lambda: read_dataset(tmp_path, "ffhq", "swav"))
    assert "clip, dinov2, inception but none of swav" in sentence
    assert str(tmp_path / "ffhq" / "swav") in sentence


def test_files_that_name_no_encoder_are_the_papers(tmp_path: Path) -> None:
    for model in ("LDM", "InsGen"):
        write_reps(tmp_path / "ffhq" / f"{model}.npz", rows(1))
        write_reps(tmp_path / "ffhq" / "clip" / f"{model}.npz", rows(2, d=5))
    assert read_dataset(tmp_path, "ffhq").dimension == 3
    assert read_dataset(tmp_path, "ffhq", "dinov2").dimension == 3
    assert read_dataset(tmp_path, "ffhq", "clip").dimension == 5
    assert "none of inception" in refused(lambda: read_dataset(tmp_path, "ffhq", "inception"))


def test_the_only_encoder_is_taken(tmp_path: Path) -> None:
    for model in ("LDM", "InsGen"):
        write_reps(tmp_path / "ffhq" / "inception" / f"{model}.npz", rows(1))
    assert read_dataset(tmp_path, "ffhq").encoder == "inception"


def test_several_encoders_without_the_papers_are_refused(tmp_path: Path) -> None:
    for encoder in ("swav", "mae"):
        for model in ("LDM", "InsGen"):
            write_reps(tmp_path / "ffhq" / f"reps_{model}_{encoder}_nimage-6_test.npz", rows(1))
    assert "mae, swav but none of dinov2" in refused(lambda: read_dataset(tmp_path, "ffhq"))
    assert read_dataset(tmp_path, "ffhq", "mae").encoder == "mae"


# -- the reference -----------------------------------------------------------------------------------

REFERENCES = ("train", "real", "reference", "ffhq", "FFHQ256", "ffhq256_train", "ffhq-real", "test")


@pytest.mark.parametrize("name", REFERENCES)
def test_the_reference_is_found_by_its_name(name: str, tmp_path: Path) -> None:
    for model in FFHQ:
        write_dino(tmp_path / "ffhq" / f"{model}.npz", rows(0))
    write_dino(tmp_path / "ffhq" / f"{name}.npz", rows(5))
    world = read_dataset(tmp_path, "ffhq")
    assert set(world.arms) == set(FFHQ)
    assert world.reference is not None
    assert np.array_equal(world.reference, rows(5))


def test_training_data_come_before_held_out_ones(tmp_path: Path) -> None:
    for model in FFHQ:
        write_dino(tmp_path / "ffhq" / f"{model}.npz", rows(0))
    write_dino(tmp_path / "ffhq" / "test.npz", rows(5))
    write_dino(tmp_path / "ffhq" / "train.npz", rows(6))
    reference = read_dataset(tmp_path, "ffhq").reference
    assert reference is not None
    assert np.array_equal(reference, rows(6))
    write_dino(tmp_path / "ffhq" / "real.npz", rows(7))
    sentence = refused(lambda: read_dataset(tmp_path, "ffhq"))
    assert "real.npz" in sentence
    assert "train.npz" in sentence


def test_a_missing_reference_is_none_and_said(tmp_path: Path) -> None:
    for model in FFHQ:
        write_dino(tmp_path / "ffhq" / f"{model}.npz", rows(0))
    world = read_dataset(tmp_path, "ffhq")
    assert world.reference is None
    assert "no file of real data" in world.note
    with pytest.raises(InputError, match="reference"):
        world.need_reference()


# -- what is refused ---------------------------------------------------------------------------------


def test_dimensions_must_agree(tmp_path: Path) -> None:
    write_dino(tmp_path / "ffhq" / "LDM.npz", rows(0, d=3))
    write_dino(tmp_path / "ffhq" / "InsGen.npz", rows(0, d=4))
    sentence = refused(lambda: read_dataset(tmp_path, "ffhq"))
    assert "InsGen.npz has dimension 4" in sentence
    assert "LDM.npz has 3" in sentence
    write_dino(tmp_path / "ffhq" / "InsGen.npz", rows(0, d=3))
    write_dino(tmp_path / "ffhq" / "real.npz", rows(0, d=2))
    assert "real.npz has dimension 2" in refused(lambda: read_dataset(tmp_path, "ffhq"))


def test_folders_without_the_paper_in_them_are_refused(tmp_path: Path) -> None:
    (tmp_path / "cifar10").mkdir()
    sentence = refused(lambda: check_folder(tmp_path))
    assert str(tmp_path) in sentence
    assert "cifar10" in sentence
    assert "lsun-bedroom" in sentence
    assert "absent" in refused(lambda: check_folder(tmp_path / "absent"))
    assert "cifar10" in refused(lambda: read_dataset(tmp_path, "dogs"))
    (tmp_path / "dogs").mkdir()
    check_folder(tmp_path)
    assert has_dataset(tmp_path, "dogs")
    assert not has_dataset(tmp_path, "city")
    sentence = refused(lambda: read_dataset(tmp_path, "dogs"))
    assert "no feature files" in sentence
    assert "German Shepherd" in sentence
    write_dino(tmp_path / "dogs" / "Poodle.npz", rows(0))
    assert "at least two" in refused(lambda: read_dataset(tmp_path, "dogs"))


def test_two_files_of_one_model_are_refused(tmp_path: Path) -> None:
    for name in ("Qwen2-7B", "Qwen2-0.5B", "gemma"):
        write_dino(tmp_path / "city" / f"{name}.npz", rows(0))
    sentence = refused(lambda: read_dataset(tmp_path, "city"))
    assert "both belong to the model Qwen" in sentence


def test_statistics_are_no_samples(tmp_path: Path) -> None:
    write_dino(tmp_path / "ffhq" / "LDM.npz", rows(0))
    write_dino(tmp_path / "ffhq" / "InsGen.npz", rows(0))
    write_statistics(tmp_path / "ffhq" / "real.npz", np.zeros(3), np.eye(3), 10)
    assert "mu and sigma" in refused(lambda: read_dataset(tmp_path, "ffhq"))


# -- sources -----------------------------------------------------------------------------------------


def test_stand_ins_are_taken_for_what_is_not_there(tmp_path: Path) -> None:
    for model in ("iDDPM", "StyleGAN", "real"):
        write_dino(tmp_path / "features" / "lsun" / f"{model}.npz", rows(0))
    write_world(tmp_path / "worlds", "fashion", {"a": rows(1), "b": rows(2)}, rows(0))
    settings = Settings(features=tmp_path / "features", worlds=tmp_path / "worlds")
    real, other = load_datasets(settings, ("ffhq", "lsun-bedroom", "imagenet"))
    assert (real.world.name, real.is_paper, real.title) == ("lsun-bedroom", True, "LSUN-Bedroom")
    assert other.world.name == "fashion"
    assert not other.is_paper
    assert other.title == "fashion (in place of FFHQ, ImageNet)"
    assert list(other.world.arms) == ["a", "b"]
    (alone,) = load_datasets(
        Settings(worlds=tmp_path / "worlds"), ("ffhq", "lsun-bedroom", "imagenet")
    )
    assert alone.datasets == ("ffhq", "lsun-bedroom", "imagenet")
