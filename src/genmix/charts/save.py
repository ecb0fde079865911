"""Figures on disk, drawn here: nothing is fetched and no browser is started."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from genmix.charts.rendering import altair, fit_for_xml
from genmix.core.atomic import draft_of, make_folder
from genmix.core.optional import require
from genmix.errors import InputError

PNG_SCALE = 2


def save(
    chart: Any, stem: str | os.PathLike[str], formats: Sequence[str] = ("pdf", "png")
) -> list[Path]:
    """Write ``stem.pdf``, ``stem.png`` (twice the size) or ``stem.svg``, whole or not at all."""
    drawers = _drawers()
    for name in formats:
        if name not in drawers:
            raise InputError(f"No chart is saved as {name!r}: give some of {', '.join(drawers)}.")
    content = {name: drawn(chart, name) for name in formats}
    stem = Path(stem)
    make_folder(stem.parent)
    targets = [stem.with_name(f"{stem.name}.{name}") for name in content]
    for target, drawing in zip(targets, content.values(), strict=True):
        with draft_of(target) as draft:
            draft.write_bytes(drawing)
    return targets


def drawn(chart: Any, name: str) -> bytes:
    """The chart as ``pdf``, ``png`` or ``svg``."""
    version = ".".join(altair().SCHEMA_VERSION.lstrip("v").split(".")[:2])
    return _drawers()[name](fit_for_xml(chart.to_dict()), version)


def _drawers() -> dict[str, Callable[[Any, str], bytes]]:
    draw = require("vl_convert", extra="paper", what="saving a chart")
    return {
        "pdf": lambda what, version: bytes(draw.vegalite_to_pdf(what, vl_version=version)),
        "png": lambda what, version: bytes(
            draw.vegalite_to_png(what, vl_version=version, scale=PNG_SCALE)
        ),
        "svg": lambda what, version: str(draw.vegalite_to_svg(what, vl_version=version)).encode(),
    }
