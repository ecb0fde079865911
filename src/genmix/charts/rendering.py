"""Altair, imported where something is drawn."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from genmix.core.optional import require

NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""The converter does not refuse a text that holds one of these: it ends the process."""


def altair() -> Any:
    return require("altair", extra="paper", what="drawing a chart")


def chart_of(rows: Sequence[Mapping[str, Any]]) -> Any:
    """A chart of these rows, which travel as one text: Altair would check each value many times."""
    alt = altair()
    text = json.dumps(fit_for_xml(list(rows)), ensure_ascii=False, allow_nan=False)
    return alt.Chart(alt.Data(values=text, format=alt.JsonDataFormat(type="json")))


def fit_for_xml(value: Any) -> Any:
    """The same with � for characters that XML cannot hold, in every text and name."""
    if isinstance(value, str):
        return NOT_IN_XML.sub("\ufffd", value)
    if isinstance(value, Mapping):
        return {fit_for_xml(key): fit_for_xml(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [fit_for_xml(each) for each in value]
    return value
