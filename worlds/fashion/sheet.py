"""An image of samples: one row per arm, and one row of real images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

TIMES = 2
CELL = 28 * TIMES + 4
MARGIN = 150
COLUMNS = 10


def draw(images: dict[str, np.ndarray], path: Path) -> None:
    """Draw the first ten images of each arm; arms with all classes show one of each."""
    sheet = Image.new("L", (MARGIN + COLUMNS * CELL, len(images) * CELL), 255)
    pen = ImageDraw.Draw(sheet)
    for row, (name, part) in enumerate(images.items()):
        pen.text((6, row * CELL + CELL // 2 - 6), name, fill=0)
        for column, image in enumerate(part[:COLUMNS]):
            large = Image.fromarray(255 - image).resize((28 * TIMES, 28 * TIMES), Image.NEAREST)
            sheet.paste(large, (MARGIN + column * CELL + 2, row * CELL + 2))
    sheet.save(path, optimize=True)
