"""Replace known secrets in text from other programs before it is truncated or stored.

A secret becomes known when a study resolves it from an environment variable, and it stays known until the
process ends. Text is masked where it enters: in the replies, errors and output of arms and encoders.
"""

from __future__ import annotations

import base64
import html
import json
import os
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus

MASK = "***"

SHORTEST_SECRET = 6
"""Shorter values, e.g. thread counts, are not masked, because they would match everywhere."""

SHORTEST_FORM = 8
"""Shorter encoded forms of a secret are not masked."""

SECRET_NAME = re.compile(
    r"(.*_)?(API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)(_.*)?",
    re.IGNORECASE,
)
"""Names of environment variables that contain secrets."""

ORDINARY = re.compile(
    r"[^\W\d_]{1,11}([ _.-][^\W\d_]{1,11})*|[\d.,:+-]+|~?/.*|\w+://[^@]*", re.DOTALL
)
"""Values that may occur in text by chance: short words, numbers, paths and addresses without a password."""

_forms: tuple[str, ...] = ()
"""Every known secret in every form, longest first."""


def remember_secret(value: str) -> None:
    """Mask this value from now on, unless it is too short."""
    global _forms
    found = {form for each in (value, value.strip()) for form in forms_of(each)}
    _forms = tuple(sorted({*_forms, *found}, key=len, reverse=True))


def remember_variables(names: Iterable[str]) -> None:
    """Mask the values of these environment variables, unless they look like ordinary text."""
    for name in names:
        value = os.environ.get(name, "")
        if SECRET_NAME.fullmatch(name) or not ORDINARY.fullmatch(value):
            remember_secret(value)


def remember_environment() -> None:
    """Mask the environment variables whose names and values both look like those of secrets."""
    for name, value in os.environ.items():
        if SECRET_NAME.fullmatch(name) and not ORDINARY.fullmatch(value):
            remember_secret(value)


def mask(text: str, secrets: Iterable[str] = ()) -> str:
    """Replace the known secrets, and those passed here, with ``***``."""
    for form in _all_forms(secrets):
        if form in text:
            text = text.replace(form, MASK)
    return text


def mask_end(text: str, most: int, is_cut: bool) -> str:
    """Mask text and return its last ``most`` characters.

    If the beginning of the text was cut off (``is_cut``), it may start with part of a secret, which cannot
    be recognized. As many characters as a secret can have are then dropped.
    """
    for form in _forms:
        if form in text:
            text = text.replace(form, "*" * len(form))  # positions stay the same
    dropped = longest_form() if is_cut else 0
    return re.sub(r"\*{3,}", MASK, text[dropped:])[-most:]


def longest_form() -> int:
    """Return the length of the longest known secret in any form."""
    return len(_forms[0]) if _forms else 0


def masked_error(error: Exception) -> Exception:
    """Return an exception of the same type without secrets; the same object if it contains none."""
    message = str(error)
    masked = mask(message)
    if masked == message:
        return error
    try:
        return type(error)(masked)
    except Exception:  # its constructor needs other arguments
        return RuntimeError(f"{type(error).__name__}: {masked}")


def _all_forms(secrets: Iterable[str]) -> Iterable[str]:
    more = {form for secret in secrets for form in forms_of(secret)}
    return sorted({*_forms, *more}, key=len, reverse=True) if more else _forms


def forms_of(secret: str) -> set[str]:
    """Return the forms in which a secret may be quoted: plain, escaped, percent-encoded, base64, hex."""
    if len(secret) < SHORTEST_SECRET:
        return set()
    data = secret.encode("utf-8", "surrogateescape")
    percent = {quote(data, safe=""), quote(data), quote_plus(data)}
    escaped = {json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    lines = {line for line in secret.splitlines() if len(line) >= 2 * SHORTEST_FORM}
    written = {secret, repr(secret)[1:-1], html.escape(secret), *percent, *escaped, *lines}
    written |= {re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), form) for form in percent}
    encoded = {data.hex(), data.hex().upper(), *_base64_forms(data)}
    return written | {form for form in encoded if len(form) >= SHORTEST_FORM}


def _base64_forms(data: bytes) -> Iterator[str]:
    """Encode at each of the three alignments, without the characters that depend on the bytes around it."""
    for offset in range(3):
        first, rest = (0, 2, 3)[offset], (offset + len(data)) % 3
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            whole = encode(bytes(offset) + data).decode().rstrip("=")
            yield whole[first : len(whole) - bool(rest)]
