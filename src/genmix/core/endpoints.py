"""Helpers for OpenAI-compatible endpoints, used by generators and encoders."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

OPENAI_URL = "https://api.openai.com/v1"

NO_KEY = "none"
"""Sent to servers that need no key, because the ``openai`` package requires one."""


def checked_url(value: str) -> str:
    """Return the URL of an endpoint, or raise ValueError if it might contain a secret."""
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("base_url is not a URL; use one like http://127.0.0.1:8080/v1")
    if parts.username or parts.password or parts.query:
        raise ValueError("base_url contains a password or a query; pass the key in api_key_env")
    return value


def retry_after(header: str | None) -> float | None:
    """Return the number of seconds to wait according to a Retry-After header (seconds or a date)."""
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
