"""Images of many kinds as encoded PNG."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from genmix.core.arrays import is_torch, to_numpy
from genmix.core.optional import need
from genmix.data.conversion import FieldError

SIGNATURE = b"\x89PNG\r\n\x1a\n"
FORMATS = ("PNG", "JPEG", "WEBP")
SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")
PLAIN_MODES = ("L", "RGB")


def as_png(image: Any) -> bytes:
    """PNG of PNG bytes, a Pillow image, or a uint8 array ``(height, width)`` or ``(height, width, 3)``."""
    if isinstance(image, bytes | bytearray):
        if not image.startswith(SIGNATURE):
            raise FieldError("has an image whose bytes are no PNG: encode it as PNG")
        return bytes(image)
    pillow = _pillow()
    if isinstance(image, pillow.Image):
        return _encode(image)
    array = to_numpy(image) if is_torch(image) else image
    if not isinstance(array, np.ndarray):
        raise FieldError(f"has an image that is a {type(image).__name__}: give PNG bytes or pixels")
    grey, colour = array.ndim == 2, array.ndim == 3 and array.shape[2] == 3
    if array.dtype != np.uint8 or not (grey or colour) or not array.size:
        raise FieldError(
            f"has an image of shape {array.shape} and dtype {array.dtype}: "
            "give uint8 (height, width) or (height, width, 3)"
        )
    return _encode(pillow.fromarray(np.ascontiguousarray(array)))


def read_as_png(path: Path) -> bytes:
    """An image file, decoded and encoded anew; whatever cannot be read raises FieldError."""
    pillow = _pillow()
    try:
        with pillow.open(path, formats=FORMATS) as image:
            return _encode(image)
    except Exception as error:  # Pillow raises many kinds: unknown, truncated, too large
        raise FieldError(f"is no whole PNG, JPEG or WebP ({type(error).__name__})") from None


def _encode(image: Any) -> bytes:
    """In grey or RGB of 8 bits; transparency is dropped."""
    plain = image if image.mode in PLAIN_MODES else image.convert("RGB")
    buffer = io.BytesIO()
    plain.save(buffer, "PNG")
    return buffer.getvalue()


def _pillow() -> Any:
    return need("PIL.Image", extra="images", what="an arm that gives images")
