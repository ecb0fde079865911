"""Convert Pillow images, pixel arrays and image files to PNG."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from genmix.core.arrays import is_torch, to_numpy
from genmix.core.limits import VARIABLE, check_size
from genmix.core.optional import require
from genmix.data.samples import FieldError
from genmix.errors import InputError

SIGNATURE = b"\x89PNG\r\n\x1a\n"
FORMATS = ("PNG", "JPEG", "WEBP")
SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")
PLAIN_MODES = ("L", "RGB")
PIXEL_BYTES = 12
"""Bytes per pixel while an image is converted: the original, the RGB copy and the encoded PNG."""


def as_png(image: Any) -> bytes:
    """Encode a Pillow image or uint8 pixels ``(height, width[, 3])``; return PNG bytes unchanged."""
    if isinstance(image, bytes | bytearray):
        if not image.startswith(SIGNATURE):
            raise FieldError("has image bytes that are not a PNG; encode the image as PNG")
        return bytes(image)
    pillow = require_pillow()
    if isinstance(image, pillow.Image):
        return _encode(image)
    array = to_numpy(image) if is_torch(image) else image
    if not isinstance(array, np.ndarray):
        raise FieldError(
            f"has an image of type {type(image).__name__}; pass PNG bytes, a Pillow image or pixels"
        )
    is_gray, is_rgb = array.ndim == 2, array.ndim == 3 and array.shape[2] == 3
    if array.dtype != np.uint8 or not (is_gray or is_rgb) or not array.size:
        raise FieldError(
            f"has an image of shape {array.shape} and dtype {array.dtype}; "
            "pass uint8 pixels of shape (height, width) or (height, width, 3)"
        )
    return _encode(pillow.fromarray(np.ascontiguousarray(array)))


def read_as_png(path: Path) -> bytes:
    """Convert an image file to PNG; raise FieldError if it is unreadable."""
    with open_image(path) as image:
        return _encode(image)


def open_image(source: Path | bytes) -> Any:
    """Decode a PNG, JPEG or WebP image; raise FieldError if it is damaged or has too many pixels."""
    pillow = require_pillow()
    file = io.BytesIO(source) if isinstance(source, bytes) else source
    try:
        size = len(source) if isinstance(source, bytes) else source.stat().st_size
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the number of pixels is checked here
            image = pillow.open(file, formats=FORMATS)
            _check_pixels(image, size)
            image.load()
        return image
    except FieldError:
        raise
    except Exception as error:  # Pillow raises many types of exceptions
        raise FieldError(
            f"is not a complete PNG, JPEG or WebP image ({type(error).__name__})"
        ) from error


def _check_pixels(image: Any, on_disk: int) -> None:
    needed = PIXEL_BYTES * image.width * image.height
    try:
        check_size(needed, on_disk, "the image")
    except InputError:
        raise FieldError(
            f"has {image.width} × {image.height} pixels, which need {needed} bytes of memory (to read "
            f"it, set {VARIABLE}={needed})"
        ) from None


def _encode(image: Any) -> bytes:
    """Encode as 8-bit gray or RGB; transparency is dropped."""
    plain = image if image.mode in PLAIN_MODES else image.convert("RGB")
    buffer = io.BytesIO()
    plain.save(buffer, "PNG")
    return buffer.getvalue()


def require_pillow() -> Any:
    """Import Pillow, or raise an InputError that says how to install it."""
    return require("PIL.Image", extra="images", what="reading or writing an image")
