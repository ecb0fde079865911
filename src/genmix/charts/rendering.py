"""Build Altair charts and save them as PDF, PNG or SVG, without a browser or network access."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from genmix.core.atomic import draft_of, make_folder
from genmix.core.optional import require
from genmix.errors import InputError

NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML forbids. They would crash the converter, and with it the process."""

PNG_SCALE = 2


def altair() -> Any:
    return require("altair", extra="paper", what="drawing a chart")


def chart_of(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Make a chart of these rows; pass them as one JSON string because Altair validates values slowly."""
    alt = altair()
    text = json.dumps(without_forbidden(list(rows)), ensure_ascii=False, allow_nan=False)
    return alt.Chart(alt.Data(values=text, format=alt.JsonDataFormat(type="json")))


def without_forbidden(value: Any) -> Any:
    """Replace characters that XML forbids with � in every string and key of a value."""
    if isinstance(value, str):
        return NOT_IN_XML.sub("\ufffd", value)
    if isinstance(value, Mapping):
        return {without_forbidden(key): without_forbidden(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [without_forbidden(each) for each in value]
    return value


def save(
    chart: Any, stem: str | os.PathLike[str], formats: Sequence[str] = ("pdf", "png")
) -> list[Path]:
    """Write ``stem.pdf``, ``stem.png`` (at double size) or ``stem.svg`` atomically."""
    converters = _converters()
    for name in formats:
        if name not in converters:
            raise InputError(
                f"{name!r} is not a chart format; choose from {', '.join(converters)}."
            )
    drawing = _svg(chart)  # the slow step, shared by all formats
    content = {name: converters[name](drawing) for name in formats}
    stem = Path(stem)
    make_folder(stem.parent)
    targets = [stem.with_name(f"{stem.name}.{name}") for name in content]
    for target, data in zip(targets, content.values(), strict=True):
        with draft_of(target) as draft:
            draft.write_bytes(data)
    return targets


def render_chart(chart: Any, name: str) -> bytes:
    """Render the chart as ``pdf``, ``png`` or ``svg``."""
    return _converters()[name](_svg(chart))


def _svg(chart: Any) -> str:
    version = ".".join(altair().SCHEMA_VERSION.lstrip("v").split(".")[:2])
    spec = without_forbidden(chart.to_dict())
    return str(_vl_convert().vegalite_to_svg(spec, vl_version=version))


def _converters() -> dict[str, Callable[[str], bytes]]:
    convert = _vl_convert()
    return {
        "pdf": lambda svg: bytes(convert.svg_to_pdf(svg)),
        "png": lambda svg: bytes(convert.svg_to_png(svg, scale=PNG_SCALE)),
        "svg": lambda svg: svg.encode(),
    }


def _vl_convert() -> Any:
    return require("vl_convert", extra="paper", what="saving a chart")
