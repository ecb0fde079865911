"""Altair, imported where something is drawn."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from genmix.extras import need


def altair() -> Any:
    return need("altair", extra="paper", what="drawing a chart")


def chart_of(rows: Sequence[Mapping[str, Any]]) -> Any:
    """A chart of these rows, which travel as one text: Altair would check each value many times."""
    alt = altair()
    text = json.dumps(list(rows), ensure_ascii=False, allow_nan=False)
    return alt.Chart(alt.Data(values=text, format=alt.JsonDataFormat(type="json")))
