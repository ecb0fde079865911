"""Recorded samples: formats, order, and files that are not what they seem."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from genmix.errors import InputError
from genmix.generators import Context, GenerationError, RecordedArm, Request, Sample, collect


def arm_of(folder: Path, path: str, seed: int = 0, arm: str = "arm", **settings: Any) -> Any:
    settings = {"kind": "recorded", "path": path, **settings}
    return RecordedArm.model_validate(settings).build(Context(folder, seed, arm))


def ask(generator: Any, *indices: int) -> list[Any]:
    return asyncio.run(collect(generator, [Request(index, 0) for index in indices]))


def all_of(generator: Any) -> list[Any]:
    return ask(generator, *range(generator.available()))


def refused(folder: Path, path: str, *said: str, **settings: Any) -> None:
    with pytest.raises(InputError) as caught:
        arm_of(folder, path, **settings)
    for part in said:
        assert part in str(caught.value)


# -- order ------------------------------------------------------------------------------------------


def test_every_row_comes_once_in_an_order_of_the_seed_and_the_arm(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.arange(50.0)[:, None])

    def order(**world: Any) -> list[float]:
        return [float(s.vector[0]) for s in all_of(arm_of(tmp_path, "rows.npy", **world))]

    assert sorted(order()) == list(range(50))
    assert order() == order()
    orders = [order(), order(seed=1), order(arm="other"), order(shuffle=False)]
    assert len({tuple(found) for found in orders}) == 4
    assert orders[3] == list(range(50))


def test_beyond_the_last_there_is_nothing(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.ones((2, 3)))
    first, beyond = ask(arm_of(tmp_path, "rows.npy"), 1, 2)
    assert isinstance(first, Sample)
    assert isinstance(beyond, GenerationError)
    assert not beyond.retryable


# -- features ---------------------------------------------------------------------------------------


def test_rows_of_an_npy_file_stay_on_disk(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).standard_normal((30, 4)).astype(np.float32)
    np.save(tmp_path / "rows.npy", rows)
    generator = arm_of(tmp_path, "rows.npy", shuffle=False)
    assert isinstance(generator._samples._rows, np.memmap)
    found = [sample.vector for sample in all_of(generator)]
    assert np.array_equal(found, rows)
    assert all(type(row) is np.ndarray and row.dtype == np.float32 for row in found)


def test_quality_and_cost_may_stand_beside_the_features(tmp_path: Path) -> None:
    rows, quality, cost = np.eye(3), np.array([0.1, 0.2, 0.3]), np.array([1, 2, 5])
    np.savez(tmp_path / "a.npz", reps=rows, quality=quality, cost=cost)
    generator = arm_of(tmp_path, "a.npz", shuffle=False, cost=9)
    assert [(s.quality, s.cost) for s in all_of(generator)] == [(0.1, 1), (0.2, 2), (0.3, 5)]
    assert generator.most_cost() == 5
    np.savez(tmp_path / "b.npz", first=rows, second=2 * rows)
    found = all_of(arm_of(tmp_path, "b.npz", key="second", shuffle=False, cost=9))
    assert np.array_equal([s.vector for s in found], 2 * rows)
    assert [s.cost for s in found] == [9] * 3


@pytest.mark.parametrize(
    "extra, said",
    [
        ({"quality": np.ones(2)}, "quality has shape (2,)"),
        ({"quality": np.array(["a"] * 3)}, "quality has shape (3,) and dtype <U1"),
        ({"cost": np.array([1, np.nan, 1])}, "cost contains NaN"),
        ({"cost": np.array([1, -1, 1])}, "negative cost"),
    ],
)
def test_notes_that_do_not_fit(extra: Any, said: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", features=np.eye(3), **extra)
    refused(tmp_path, "a.npz", said)


def test_features_files_that_are_none(tmp_path: Path) -> None:
    refused(tmp_path, "none.npy", "no file or folder found", "none.npy")
    np.save(tmp_path / "pickled.npy", np.array([{"a": 1}, None], object))
    refused(tmp_path, "pickled.npy", "contains pickled objects")
    np.savez(tmp_path / "pickled.npz", features=np.array([{"a": 1}], object))
    refused(tmp_path, "pickled.npz", "contains pickled objects")
    (tmp_path / "torn.npy").write_bytes(b"\x93NUMPY\x01")
    refused(tmp_path, "torn.npy", "not an .npy or .npz file of numbers")
    np.save(tmp_path / "flat.npy", np.ones(3))
    refused(tmp_path, "flat.npy", "(samples, dimensions)")
    np.save(tmp_path / "empty.npy", np.ones((0, 3)))
    refused(tmp_path, "empty.npy", "empty")
    np.save(tmp_path / "words.npy", np.array([["a"]]))
    refused(tmp_path, "words.npy", "real numbers")
    np.savez(tmp_path / "moments.npz", mu=np.zeros(2), sigma=np.eye(2))
    refused(tmp_path, "moments.npz", "an arm needs samples")


def test_a_bad_row_is_found_before_the_study_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("genmix.generators.recorded.BLOCK_SIZE", 6)  # blocks of two rows
    rows = np.ones((7, 3))
    rows[5, 1] = np.nan
    np.save(tmp_path / "rows.npy", rows)
    refused(tmp_path, "rows.npy", "counting from sample 4, sample 1", "NaN")


# -- texts ------------------------------------------------------------------------------------------


def test_texts_with_what_is_known_of_them(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [
        {"text": "one", "quality": 0.5, "prompt": "p", "cost": 0.25, "sample_id": 9},
        {"text": " two\u2028x ", "quality": None, "output_tokens": 4},
    ]
    text = "\n\n".join(json.dumps(line, ensure_ascii=False) for line in lines)
    (tmp_path / "a.jsonl").write_text(text + "\n", encoding="utf-8")
    generator = arm_of(tmp_path, "a.jsonl", shuffle=False, cost=0.125)
    assert all_of(generator) == [
        Sample(text="one", quality=0.5, prompt="p", cost=0.25, source="a.jsonl#0"),
        Sample(text=" two\u2028x ", cost=0.125, output_tokens=4, source="a.jsonl#1"),
    ]
    assert generator.most_cost() == 0.25
    (tmp_path / "b.jsonl").write_text('{"story": "once"}')
    (found,) = all_of(arm_of(tmp_path, "b.jsonl", field="story"))
    assert found == Sample(text="once", cost=0.0, source="b.jsonl#0")


@pytest.mark.parametrize(
    "content, said",
    [
        ('{"text": "a"}\n{"text": 3}', "line 2 has no text under 'text'"),
        ('{"text": "a"}\n{"txt": "b"}', "line 2 has no text under 'text'"),
        ('{"text": " "}', "line 1 has no text"),
        ('{"text": "a"}\n\n{"text": "b"', "line 3 is not a JSON object"),
        ('["a"]', "line 1 is not a JSON object"),
        ("[" * 100_000, "line 1 is not a JSON object"),
        ('{"text": "a", "cost": -1}', "line 1 has cost -1"),
        ('{"text": "a", "quality": NaN}', "line 1 has quality nan"),
        ("\n", "contains no texts"),
    ],
)
def test_texts_that_cannot_be_read(content: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(content)
    refused(tmp_path, "a.jsonl", said)


def test_a_text_file_of_other_bytes(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "\xff"}')
    refused(tmp_path, "a.jsonl", "UTF-8")


# -- images -----------------------------------------------------------------------------------------


def pixels_of(png: bytes) -> Any:
    with Image.open(io.BytesIO(png), formats=["PNG"]) as image:
        return np.asarray(image)


def test_images_of_every_format_come_as_png_in_the_order_of_their_names(tmp_path: Path) -> None:
    folder = tmp_path / "images"
    (folder / "more").mkdir(parents=True)
    colours = {"a.png": (1, 2, 3), "b.jpg": (9, 9, 9), "c.WEBP": (5, 6, 7), "more/d.png": (0, 0, 8)}
    for name, colour in colours.items():
        options = {"lossless": True} if name.endswith("WEBP") else {}
        Image.new("RGB", (8, 8), colour).save(folder / name, **options)
    (folder / "notes.txt").write_text("no image")
    found = all_of(arm_of(tmp_path, "images", shuffle=False, cost=3))
    assert [tuple(pixels_of(s.image)[0, 0].tolist()) for s in found] == list(colours.values())
    assert [s.cost for s in found] == [3] * 4


def test_odd_pixels_become_plain_ones(tmp_path: Path) -> None:
    Image.new("RGBA", (2, 2), (1, 2, 3, 0)).save(tmp_path / "a.png")
    Image.new("L", (2, 2), 7).save(tmp_path / "b.png")
    Image.new("P", (2, 2)).save(tmp_path / "c.png")
    shapes = [pixels_of(s.image).shape for s in all_of(arm_of(tmp_path, ".", shuffle=False))]
    assert shapes == [(2, 2, 3), (2, 2), (2, 2, 3)]


def test_a_broken_image_is_one_failure(tmp_path: Path) -> None:
    whole = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)
    Image.fromarray(noise).save(whole, "PNG")
    (tmp_path / "a.png").write_bytes(whole.getvalue()[:2000])
    (tmp_path / "b.png").write_bytes(whole.getvalue())
    (tmp_path / "c.png").write_text("<svg/>")
    torn, good, text = all_of(arm_of(tmp_path, ".", shuffle=False))
    assert isinstance(good, Sample)
    for outcome, name in ((torn, "a.png"), (text, "c.png")):
        assert isinstance(outcome, GenerationError)
        assert outcome.retryable
        assert name in str(outcome)


@pytest.mark.parametrize("kind", ["file", "folder", "dangling"])
def test_a_link_that_leads_out_of_the_folder_is_refused(kind: str, tmp_path: Path) -> None:
    folder, outside = tmp_path / "images", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    Image.new("RGB", (2, 2)).save(folder / "a.png")
    Image.new("RGB", (2, 2)).save(outside / "secret.png")
    target = {"file": outside / "secret.png", "folder": outside, "dangling": tmp_path / "no.png"}
    (folder / "b.png").symlink_to(target[kind])
    refused(tmp_path, "images", "b.png is a link to a place outside")


def test_a_file_that_turns_into_a_link_is_not_read(tmp_path: Path) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    Image.new("RGB", (2, 2)).save(folder / "a.png")
    Image.new("RGB", (2, 2)).save(tmp_path / "secret.png")
    generator = arm_of(tmp_path, "images")
    (folder / "a.png").unlink()
    (folder / "a.png").symlink_to(tmp_path / "secret.png")
    (outcome,) = all_of(generator)
    assert isinstance(outcome, GenerationError)
    assert "is a link to a place outside the folder" in str(outcome)


def test_the_folder_itself_may_be_a_link_and_so_may_what_stays_inside(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    Image.new("RGB", (2, 2)).save(tmp_path / "real" / "a.png")
    (tmp_path / "real" / "b.png").symlink_to("a.png")
    (tmp_path / "images").symlink_to("real")
    assert arm_of(tmp_path, "images").available() == 2


def test_a_folder_without_images(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    refused(tmp_path, "images", "contains no images")
