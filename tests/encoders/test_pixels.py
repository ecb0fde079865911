"""Images as they come: formats, colours, damage; and pixels as vectors."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

from genmix.data.samples import Sample
from genmix.encoders.base import EncodingError
from genmix.encoders.pixels import PixelsSettings
from tests.encoders.test_encoders import one_sentence
from tests.support import tiny_encoders as tiny


def pixels(content: bytes, **settings: Any) -> Any:
    encoder = PixelsSettings(kind="pixels", **settings).build(None)  # type: ignore[arg-type]
    (row,) = encoder.encode([Sample(image=content)])
    return row


def plain(colour: Any, mode: str = "RGB", size: tuple[int, int] = (6, 4)) -> Image.Image:
    return Image.new(mode, size, colour)


def test_one_colour_stays_that_colour_row_by_row() -> None:
    row = pixels(tiny.encoded(plain((255, 51, 0))), size=2)
    np.testing.assert_allclose(row.reshape(2, 2, 3), np.broadcast_to([1, 0.2, 0], (2, 2, 3)))


def test_rows_come_before_columns_before_channels() -> None:
    image = plain((0, 0, 0), size=(2, 2))
    image.putpixel((1, 0), (0, 255, 0))  # column 1 of row 0
    row = pixels(tiny.encoded(image), size=2).reshape(2, 2, 3)
    assert row[0, 1].tolist() == [0, 1, 0]
    assert row.sum() == 1


def test_grey_is_brightness() -> None:
    row = pixels(tiny.encoded(plain((255, 0, 0))), size=3, grey=True)
    assert row.shape == (9,)
    np.testing.assert_allclose(row, 0.299, atol=1 / 255)


def test_making_small_averages_and_does_not_pick() -> None:
    """A fine chess board becomes grey; without antialiasing it would be black or white."""
    board = (np.indices((64, 64)).sum(axis=0) % 2 * 255).astype(np.uint8)
    row = pixels(tiny.encoded(Image.fromarray(board)), size=4)
    np.testing.assert_allclose(row, 0.5, atol=0.02)


@pytest.mark.parametrize(
    "image",
    [
        plain((255, 51, 0, 0), "RGBA"),
        plain((255, 51, 0)).quantize(4),
        plain((255, 51, 0)),
    ],
    ids=["transparent", "palette", "plain"],
)
def test_colour_modes_become_rgb(image: Image.Image) -> None:
    row = pixels(tiny.encoded(image), size=1)
    np.testing.assert_allclose(row, [1, 0.2, 0], atol=2 / 255)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_files_of_the_usual_kinds(kind: str) -> None:
    np.testing.assert_allclose(
        pixels(tiny.encoded(plain((200, 100, 50)), kind), size=1), np.array([200, 100, 50]) / 255,
        atol=0.03,
    )  # fmt: skip


def huge() -> bytes:
    """A PNG of a few bytes that claims 40,000 × 40,000 pixels."""
    small = bytearray(tiny.encoded(plain((0, 0, 0))))
    side = (40_000).to_bytes(4, "big")
    small[16:24] = side + side
    import zlib

    small[29:33] = zlib.crc32(bytes(small[12:29])).to_bytes(4, "big")
    return bytes(small)


def deep() -> bytes:
    return tiny.encoded(Image.fromarray(np.full((4, 4), 40_000, np.uint16)))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no image",
        tiny.encoded(plain((1, 2, 3), size=(99, 99)))[:-30],
        tiny.encoded(plain((1, 2, 3)), "GIF"),
        tiny.encoded(plain((1, 2, 3)), "BMP"),
        huge(),
        deep(),
    ],
    ids=["empty", "text", "torn", "gif", "bmp", "bomb", "sixteen bits"],
)
def test_what_cannot_be_read_is_an_encoding_error(content: bytes) -> None:
    with pytest.raises(EncodingError) as caught:
        pixels(content, size=2)
    one_sentence(caught.value)


def test_black_has_no_direction() -> None:
    black = tiny.encoded(plain((0, 0, 0)))
    encoder = PixelsSettings(kind="pixels", size=2, normalise=True).build(None)  # type: ignore[arg-type]
    white = Sample(image=tiny.encoded(plain((255, 255, 255))))
    np.testing.assert_allclose(np.linalg.norm(encoder.encode([white])), 1, atol=1e-6)
    with pytest.raises(EncodingError, match="zero vector for sample 1 of") as caught:
        encoder.encode([white, Sample(image=black)])
    one_sentence(caught.value)


def test_the_probe_for_deep_images_is_one() -> None:
    assert Image.open(io.BytesIO(deep())).mode.startswith("I")
