"""The recorded image worlds: the files that are kept, and the maker on images made up here."""

from __future__ import annotations

import gzip
import importlib
import json
import re
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("PIL")

from worlds.fashion import data, plan  # noqa: E402
from worlds.fashion.make import main  # noqa: E402

WORLDS = Path(__file__).parents[2] / "worlds"
NAMES = ["fashion", "breeds", "boots"]
SHAPES = {"efficientnet-lite0": 128, "pixels": 64, "classifier": 64}
FILES = ["README.md", "samples.png", "world.json", *(f"{name}.npz" for name in SHAPES)]
REAL = {"fashion": 4000, "breeds": 2000, "boots": 1000}


def described(folder: Path) -> dict:
    return json.loads((folder / "world.json").read_text("utf-8"))


def arrays(path: Path) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}


# What is kept in the repository.


@pytest.mark.parametrize("name", NAMES)
def test_a_world_names_its_arms_their_costs_and_its_encoders(name: str) -> None:
    world = described(WORLDS / name)
    assert world["name"] == name
    assert world["note"] == plan.PLANS[name].note
    assert world["arms"] == list(plan.PLANS[name].arms)
    assert list(world["costs"]) == world["arms"]
    assert all(cost > 0 for cost in world["costs"].values())
    assert world["cost_unit"] == "multiply-adds, VAE = 1"
    assert {key: value["dimension"] for key, value in world["encoders"].items()} == SHAPES
    assert next(iter(world["encoders"])) == "efficientnet-lite0"


@pytest.mark.parametrize("encoder", SHAPES)
@pytest.mark.parametrize("name", NAMES)
def test_features_are_finite_halves_of_the_promised_shapes(name: str, encoder: str) -> None:
    world = described(WORLDS / name)
    rows = arrays(WORLDS / name / world["encoders"][encoder]["file"])
    samples, dimension = plan.PLANS[name].samples, SHAPES[encoder]
    expected = {f"arm_{i}": (samples, dimension) for i in range(len(world["arms"]))}
    assert {key: part.shape for key, part in rows.items()} == expected | {
        "reference": (REAL[name], dimension)
    }
    for part in rows.values():
        assert part.dtype == np.float16
        assert np.isfinite(part).all()
        assert len(np.unique(part, axis=0)) > 0.98 * len(part), "an arm repeats itself"


@pytest.mark.parametrize("name", NAMES)
def test_arms_differ_from_each_other_and_from_the_reference(name: str) -> None:
    """By more than two halves of the same arm do: a mixed-up file would not."""
    rows = arrays(WORLDS / name / "efficientnet-lite0.npz")
    means = {key: part.astype(float).mean(0) for key, part in rows.items()}
    for key, part in rows.items():
        exact = np.random.default_rng(0).permutation(part.astype(float))  # classes come in turn
        within = np.linalg.norm(exact[::2].mean(0) - exact[1::2].mean(0))
        for other in set(rows) - {key}:
            assert np.linalg.norm(means[key] - means[other]) > 1.5 * within


@pytest.mark.parametrize("name", NAMES)
def test_the_card_is_whole(name: str) -> None:
    text = (WORLDS / name / "README.md").read_text("utf-8")
    assert not re.search(r"\$\{?[a-z]", text), "a placeholder was left"
    for word in ["MIT", "Apache-2.0", "seed 0", "multiply-adds", *plan.PLANS[name].arms]:
        assert word in text
    assert all(name in text for name in SHAPES)


def test_the_worlds_are_small() -> None:
    assert sum((WORLDS / name / file).stat().st_size for name in NAMES for file in FILES) < 12e6
    assert all((WORLDS / name / "samples.png").stat().st_size < 150e3 for name in NAMES)


# The maker.


@pytest.mark.parametrize("name", NAMES)
def test_every_world_has_a_maker(name: str) -> None:
    assert callable(importlib.import_module(f"worlds.{name}.make").main)


def write_idx(path: Path, values: np.ndarray) -> None:
    head = bytes([0, 0, 8, values.ndim]) + np.array(values.shape, ">u4").tobytes()
    path.write_bytes(gzip.compress(head + values.tobytes(), 1))


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Noise around a bright square, whose place tells the class."""
    folder, random = tmp_path_factory.mktemp("idx"), np.random.default_rng(0)
    for part, count in (("train", 400), ("t10k", 100)):
        labels = (np.arange(count) % 10).astype(np.uint8)
        images = random.integers(0, 60, (count, 28, 28), np.uint8)
        for image, label in zip(images, labels, strict=True):
            image[4 + label : 14 + label, 6:20] += 150
        write_idx(folder / f"{part}-images-idx3-ubyte.gz", images)
        write_idx(folder / f"{part}-labels-idx1-ubyte.gz", labels)
    return folder


@pytest.fixture(scope="module")
def images(real: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("images")
    main(f"generate --quick --device cpu --data {real} --images {folder}".split())
    return folder


@pytest.mark.drill
def test_generate_keeps_bytes_of_every_arm(images: Path) -> None:
    found = arrays(images / "images.npz")
    assert set(found) == {f"{name}/{arm}" for name in NAMES for arm in plan.PLANS[name].arms}
    assert all(part.shape == (6, 28, 28) for part in found.values())
    assert all(part.dtype == np.uint8 and part.std() > 0 for part in found.values())


@pytest.mark.drill
def test_work_is_counted_by_passes(images: Path) -> None:
    """The convolutions of the VAE's decoder, and a diffusion model in proportion to its steps."""
    from worlds.fashion.diffusion import Diffusion
    from worlds.fashion.generate import multiply_adds

    made = json.loads((images / "made.json").read_text("utf-8"))
    work = made["multiply_adds"]
    convolutions = 128 * 64 * 16 * 7**2 + 64 * 32 * 16 * 14**2 + 32 * 9 * 28**2
    assert work["vae"] == 26 * 128 * 49 + convolutions
    assert work["pca-gaussian"] == 100 * 784
    cpu = torch.device("cpu")
    once, thrice = (multiply_adds({"x": Diffusion(cpu, n)}, cpu)["x"] for n in (1, 3))
    assert 3 * once == thrice
    assert work["diffusion"] == once * plan.QUICK.denoising_steps


def check_worlds(images: Path, real: Path, out: Path, encoders: list[str]) -> None:
    words = f"embed --images {images} --data {real} --out {out} --encoders".split()
    main([*words, *encoders])
    for name in NAMES:
        world = described(out / name)
        assert list(world["encoders"]) == encoders
        each = 4 * len(plan.PLANS[name].real_classes)
        for encoder in encoders:
            rows = arrays(out / name / f"{encoder}.npz")
            assert rows["reference"].shape == (each, SHAPES[encoder])
            assert rows["arm_0"].shape == (6, SHAPES[encoder])
            assert all(np.isfinite(part).all() for part in rows.values())
        assert "$" not in (out / name / "README.md").read_text("utf-8")
        assert (out / name / "samples.png").stat().st_size < 150e3


@pytest.mark.drill
def test_embed_writes_the_three_worlds(images: Path, real: Path, tmp_path: Path) -> None:
    check_worlds(images, real, tmp_path, ["pixels", "classifier"])


@pytest.mark.drill
def test_embedding_once_more_gives_the_same(images: Path, real: Path, tmp_path: Path) -> None:
    """And one world alone is what it is among the others."""
    out = tmp_path
    check_worlds(images, real, out, ["pixels"])
    before = (out / "boots" / "pixels.npz").read_bytes()
    where = f"--images {images} --data {real} --out {out}"
    main(f"embed --only boots --encoders pixels {where}".split())
    assert arrays(out / "boots" / "pixels.npz").keys() == {"arm_0", "arm_1", "arm_2", "reference"}
    assert before == (out / "boots" / "pixels.npz").read_bytes()


@pytest.mark.real
def test_embed_with_the_real_network(images: Path, real: Path, tmp_path: Path) -> None:
    check_worlds(images, real, tmp_path, list(SHAPES))


@pytest.mark.drill
def test_the_same_seed_gives_the_same_images(images: Path, real: Path, tmp_path: Path) -> None:
    main(f"generate --quick --device cpu --data {real} --images {tmp_path}".split())
    again = arrays(tmp_path / "images.npz")
    for name, part in arrays(images / "images.npz").items():
        assert np.array_equal(part, again[name]), name


def test_missing_data_names_the_package(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="dataset-fashion-mnist"):
        data.read(tmp_path, "train")


def test_embedding_before_generating_says_what_to_run(real: Path, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="run the step generate first"):
        main(["embed", "--images", str(tmp_path), "--data", str(real), "--out", str(tmp_path)])


def test_the_reference_holds_equal_numbers_of_each_class() -> None:
    labels = np.random.default_rng(1).integers(0, 10, 500)
    rows = data.some_of_each(labels, (7, 2), 9, np.random.default_rng(0))
    assert len(set(rows)) == 18
    assert list(labels[rows]) == [7] * 9 + [2] * 9


def test_a_feature_beyond_float16_is_refused() -> None:
    from worlds.fashion.embed import halved

    with pytest.raises(SystemExit, match="beyond float16"):
        halved({"reference": np.array([[1.0, 70000.0]])})


def test_diffusion_walks_back_to_the_image_that_a_perfect_network_knows() -> None:
    """And no such network has a loss: what is trained and what is sampled agree."""
    from worlds.fashion.diffusion import Diffusion, shares

    model = Diffusion(torch.device("cpu"), steps=5)
    random = torch.Generator().manual_seed(0)
    image = torch.rand(1, 1, 28, 28, generator=random)

    def perfect(x: torch.Tensor, time: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        kept, added = (part[:, None, None, None] for part in shares(time))
        noise = (x - kept * (2 * image - 1)) / added
        return kept * noise - added * (2 * image - 1)

    model.average = model.network = perfect
    labels = torch.zeros(3, dtype=torch.long)
    assert torch.allclose(model.sample(labels, random), image.expand(3, -1, -1, -1), atol=1e-4)
    assert float(model.loss((2 * image - 1).expand(3, -1, -1, -1), labels, random)) < 1e-6


def test_the_gaussian_has_the_moments_of_the_images() -> None:
    """Where nothing is clipped and every direction is kept."""
    from worlds.fashion.gaussian import PcaGaussian

    random = torch.Generator().manual_seed(0)
    factors = 0.02 * torch.randn(500, 5, generator=random)
    images = (0.5 + factors @ torch.randn(5, 784, generator=random)).view(-1, 1, 28, 28)
    model = PcaGaussian()
    model.fit(images)
    drawn = model.sample(torch.zeros(20000, dtype=torch.long), random).flatten(1)
    real = images.flatten(1).double()
    assert torch.allclose(drawn.mean(0), real.mean(0), atol=2e-3)
    spread = torch.cov(real.T, correction=0)
    assert (torch.cov(drawn.T) - spread).norm() < 0.05 * spread.norm()
