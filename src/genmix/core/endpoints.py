"""What OpenAI-compatible endpoints have in common, whether they generate or embed."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

OPENAI_URL = "https://api.openai.com/v1"

NO_KEY = "none"
"""Sent where the server wants no key; the package does not go without."""


def plain_url(value: str) -> str:
    """The address of an endpoint, refused if it could hold a secret."""
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("base_url is no address: write one like http://127.0.0.1:8080/v1")
    if parts.username or parts.password or parts.query:
        raise ValueError("base_url holds a password or a query: give the key in api_key_env")
    return value


def retry_after(header: str | None) -> float | None:
    """Seconds that a Retry-After header asks to wait: a number, or a date."""
    if header is None:
        return None
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]+)?", header.strip()):
        return float(header)
    try:
        when = parsedate_to_datetime(header)
    except (TypeError, ValueError):
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return max((when - datetime.now(UTC)).total_seconds(), 0.0)
