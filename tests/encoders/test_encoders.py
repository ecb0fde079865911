"""Every kind of encoder keeps the same promises. A new kind joins by one entry in WORLDS."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Union

import numpy as np
import pytest
from pydantic import Field, TypeAdapter, ValidationError

from genmix.data.samples import Sample
from genmix.encoders import ENCODER_KINDS, CachedEncoder
from genmix.encoders.base import EncodingError
from tests.support import tiny_encoders as tiny
from tests.support.embeddings_server import serving

RNG = np.random.default_rng(0)
SIZES = [(40, 36), (28, 28), (30, 60), (64, 20), (40, 36)]
IMAGES = [Sample(image=tiny.png(RNG, *size)) for size in SIZES]
TEXTS = [
    Sample(text=text)
    for text in (
        "a cat sits on the mat",
        "rain",
        "the quick brown fox jumps over the lazy dog again and again",
        "two words",
        "x",
    )
]
VECTORS = [Sample(vector=row) for row in RNG.standard_normal((5, 6))]
FUNCTION = """
import zlib
import numpy as np

def embed(contents, dimension=7):
    plain = [c.encode() if isinstance(c, str) else c for c in contents]
    return [np.random.default_rng(zlib.crc32(c)).standard_normal(dimension) for c in plain]
"""


@dataclass(frozen=True)
class World:
    """Settings of a kind that works here, samples for it, and settings that change the vectors."""

    samples: Sequence[Sample]
    wrong: Sample
    settings: Callable[[Path], dict[str, Any]]
    dimension: int
    others: Sequence[dict[str, Any]] = ()


def sentence_transformers(folder: Path) -> dict[str, Any]:
    tiny.sentence_model(folder / "sbert")
    return {"model": "sbert/model"}


def dinov2(folder: Path) -> dict[str, Any]:
    tiny.dinov2_model(folder / "dinov2")
    return {"model": "dinov2"}


def clip(folder: Path) -> dict[str, Any]:
    tiny.clip_model(folder / "clip")
    return {"model": "clip"}


def inception(folder: Path) -> dict[str, Any]:
    tiny.inception_script(folder / "inception.pt")
    return {"path": "inception.pt"}


def function(folder: Path) -> dict[str, Any]:
    (folder / "mine.py").write_text(FUNCTION, encoding="utf-8")
    return {"function": "mine:embed"}


HALF = {"dtype": "bfloat16"}
WORLDS = {
    "sentence-transformers": World(TEXTS, IMAGES[0], sentence_transformers, 16, [HALF]),
    "dinov2": World(IMAGES, TEXTS[0], dinov2, 16, [HALF, {"crop": False}]),
    "clip": World([*TEXTS, *IMAGES], VECTORS[0], clip, 12, [HALF, {"crop": False}]),
    "inception": World(IMAGES, TEXTS[0], inception, 10),
    "pixels": World(IMAGES, TEXTS[0], lambda _: {"size": 4}, 48, [{"size": 5}, {"grey": True}]),
    "precomputed": World(VECTORS, TEXTS[0], lambda _: {}, 6),
    "callable": World(TEXTS, VECTORS[0], function, 7, [{"arguments": {"dimension": 9}}]),
    "openai": World(TEXTS, IMAGES[0], lambda _: {"model": "tiny"}, 8, [{"dimensions": 5}]),
}
NORMALISING = [kind for kind in WORLDS if kind != "precomputed"]
ADAPTER: TypeAdapter[Any] = TypeAdapter(
    Annotated[Union[ENCODER_KINDS], Field(discriminator="kind")]  # noqa: UP007
)
every_kind = pytest.mark.parametrize("kind", WORLDS)


class Room:
    """A folder with the models of all kinds that were asked for, and a server."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self._url = folder, url
        self._settings: dict[str, dict[str, Any]] = {}

    def build(self, kind: str, **changes: Any) -> Any:
        return self.parse(kind, **changes).build(self.folder)

    def parse(self, kind: str, **changes: Any) -> Any:
        if kind not in self._settings:
            made = WORLDS[kind].settings(self.folder)
            self._settings[kind] = {**made, **({"base_url": self._url} if kind == "openai" else {})}
        return ADAPTER.validate_python({"kind": kind, **self._settings[kind], **changes})


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    with serving() as server:
        yield Room(tmp_path_factory.mktemp("encoders"), server.url)


def one_sentence(error: BaseException) -> str:
    text = str(error)
    assert text.endswith("."), text
    assert "\n" not in text, text
    assert not re.search(r"[.!?]\s+[A-Z]", text), f"more than one sentence: {text}"
    assert re.search(r"[:;] ", text), f"no advice: {text}"
    return text


def test_no_kind_is_missing_here() -> None:
    kinds = [c.model_fields["kind"].annotation.__args__[0] for c in ENCODER_KINDS]
    assert sorted(kinds) == sorted(WORLDS)


@every_kind
def test_rows_are_float32_one_a_sample_and_differ(kind: str, room: Room) -> None:
    world = WORLDS[kind]
    encoder = room.build(kind)
    rows = encoder.encode(world.samples)
    assert rows.dtype == np.float32
    assert rows.shape == (len(world.samples), world.dimension)
    assert encoder.dimension == world.dimension
    apart = np.linalg.norm(rows[:, None] - rows[None], axis=2) + 9 * np.eye(len(rows))
    assert apart.min() > 1e-3
    encoder.close()


@every_kind
def test_a_row_does_not_depend_on_the_rest_of_the_batch(kind: str, room: Room) -> None:
    """Only rounding may differ: sums of at most some hundred float32 products, a few 1e-7 each."""
    samples = WORLDS[kind].samples
    rows = room.build(kind).encode(samples)
    tolerance = 1e-5 * np.abs(rows).max()
    changes = {} if kind in ("pixels", "precomputed") else {"batch": 2}
    alone = room.build(kind)
    for others in (
        np.concatenate([alone.encode([sample]) for sample in samples]),
        room.build(kind, **changes).encode(samples),
        alone.encode(samples[::-1])[::-1],
    ):
        np.testing.assert_allclose(others, rows, rtol=0, atol=tolerance)


@every_kind
def test_nothing_in_nothing_out(kind: str, room: Room) -> None:
    assert room.build(kind).encode([]).shape[0] == 0


@every_kind
def test_it_can_be_loaded_early_closed_and_used_again(kind: str, room: Room) -> None:
    samples = WORLDS[kind].samples[:2]
    encoder = room.build(kind)
    encoder.load()
    before = encoder.encode(samples)
    encoder.close()
    encoder.close()
    np.testing.assert_array_equal(encoder.encode(samples), before)


@pytest.mark.parametrize("kind", NORMALISING)
def test_unit_norm_is_in_the_vectors_and_in_the_name(kind: str, room: Room) -> None:
    samples = WORLDS[kind].samples
    plain, unit = room.build(kind, normalise=False), room.build(kind, normalise=True)
    rows = plain.encode(samples).astype(np.float64)
    expected = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    np.testing.assert_allclose(unit.encode(samples), expected, atol=1e-5)
    assert unit.name == f"{plain.name}, unit norm"


@every_kind
def test_another_modality_is_refused_in_a_sentence(kind: str, room: Room) -> None:
    with pytest.raises(EncodingError) as caught:
        room.build(kind).encode([WORLDS[kind].wrong])
    text = one_sentence(caught.value)
    assert "encoder" in text
    assert "use" in text or "name" in text


@pytest.mark.parametrize(
    "kind, change", [(kind, change) for kind, world in WORLDS.items() for change in world.others]
)
def test_what_changes_the_vectors_changes_the_name(
    kind: str, change: dict[str, Any], room: Room
) -> None:
    plain, changed = room.build(kind), room.build(kind, **change)
    assert plain.name != changed.name
    first, second = (encoder.encode(WORLDS[kind].samples) for encoder in (plain, changed))
    assert first.shape != second.shape or np.abs(first - second).max() > 1e-6


@every_kind
def test_the_name_begins_with_the_kind_and_is_stable(kind: str, room: Room) -> None:
    encoder = room.build(kind)
    name = encoder.name
    assert name.startswith(kind)
    encoder.encode(WORLDS[kind].samples)
    assert encoder.name == name == room.build(kind).name


@every_kind
def test_a_second_study_takes_the_rows_from_the_cache(
    kind: str, room: Room, tmp_path: Path
) -> None:
    samples = WORLDS[kind].samples
    first = CachedEncoder(room.build(kind), tmp_path)
    rows = first.encode(samples)
    first.close()
    inner = tiny.Counting(room.build(kind))
    second = CachedEncoder(inner, tmp_path)
    np.testing.assert_array_equal(second.encode(samples), rows)
    carries_vectors = kind == "precomputed"
    assert inner.asked == (len(samples) if carries_vectors else 0)
    assert second.dimension == WORLDS[kind].dimension
    second.close()


@every_kind
def test_settings_are_plain_described_and_strict(kind: str, room: Room) -> None:
    settings = room.parse(kind)
    assert ADAPTER.validate_json(settings.model_dump_json()) == settings
    described = {name: field.description for name, field in type(settings).model_fields.items()}
    assert all(text for name, text in described.items() if name != "kind"), described
    with pytest.raises(ValidationError, match="nonsense"):
        room.parse(kind, nonsense=1)
    assert bool(settings.needs) == bool(settings.extra)


def test_building_loads_no_library(room: Room) -> None:
    """So that a study whose embeddings are all cached starts at once."""
    written = [room.parse(kind).model_dump() for kind in WORLDS]
    code = (
        "import sys; from pathlib import Path; from genmix.encoders import ENCODER_KINDS\n"
        f"for given in {written!r}:\n"
        "    kinds = {c.model_fields['kind'].annotation.__args__[0]: c for c in ENCODER_KINDS}\n"
        f"    print(kinds[given['kind']](**given).build(Path({str(room.folder)!r})).name)\n"
        "print(*{name.split('.')[0] for name in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "genmix" in loaded
    assert not loaded & {"torch", "transformers", "sentence_transformers", "openai", "PIL"}
