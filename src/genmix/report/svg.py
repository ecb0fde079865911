"""Render charts as inline SVG with only known elements and attributes, fluid width and unique ids."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from typing import Any

from genmix.charts.rendering import render_chart
from genmix.core.text import visible

SVG = "{http://www.w3.org/2000/svg}"
TAGS = {"svg", "g", "path", "line", "rect", "text", "tspan", "circle", "defs", "clipPath"}
ATTRIBUTES = {
    "class", "clip-path", "d", "display", "fill", "fill-opacity", "font-family", "font-size",
    "font-weight", "height", "id", "opacity", "r", "stroke", "stroke-dasharray", "stroke-linejoin",
    "stroke-miterlimit", "stroke-opacity", "stroke-width", "text-anchor", "transform", "viewBox",
    "width", "x", "x1", "x2", "y", "y1", "y2", "cx", "cy",
}  # fmt: skip
LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}(e-?\d+)?")
MAX_SCALE = 1.9
"""Maximum number of pixels per point."""


def inline_svg(chart: Any, name: str, label: str) -> str:
    """Render an ``svg`` element whose ids start with ``name``; ``label`` is for screen readers."""
    return sanitized_svg(render_chart(chart, "svg").decode(), name, label)


def sanitized_svg(text: str, name: str, label: str) -> str:
    root = ElementTree.fromstring(text)
    ids = [element.get("id", "") for element in root.iter() if element.get("id")]
    # The renderer numbers clip paths across charts; number them from 0 in each chart.
    _keep_known(root, {found: f"{name}-{i}" for i, found in enumerate(ids)})
    width = float(root.attrib.pop("width"))
    del root.attrib["height"]
    # The chart fills its column, up to a readable text size.
    root.attrib |= {
        "width": f"{MAX_SCALE * width:.0f}",
        "role": "img",
        "aria-label": visible(label),
    }
    background = root.find(f"{SVG}rect")
    if background is not None and background.get("fill") == "white":
        root.remove(background)
    ElementTree.register_namespace("", SVG[1:-1])
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=True)


def _keep_known(element: ElementTree.Element, names: Mapping[str, str]) -> None:
    for child in list(element):
        if child.tag.removeprefix(SVG) not in TAGS:
            element.remove(child)
        else:
            _keep_known(child, names)
    if element.text is not None:
        element.text = visible(element.text)
    element.attrib = {
        key: _value(key, value, names) for key, value in element.attrib.items() if key in ATTRIBUTES
    }


def _value(key: str, value: str, names: Mapping[str, str]) -> str:
    if key == "id":
        return names[value]
    if key == "clip-path":
        return f"url(#{names.get(value.removeprefix('url(#').removesuffix(')'), 'none')})"
    if key in ("d", "transform"):
        return LONG_NUMBER.sub(lambda found: f"{float(found.group()):.2f}", value)
    return value
