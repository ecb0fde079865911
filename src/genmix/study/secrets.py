"""Secrets that somebody put into a study: found, refused, and never repeated."""

from __future__ import annotations

import re
from typing import Any

from genmix.study.problems import Faults, Path, subject

ADVICE = "put it in an environment variable and give its name as api_key_env"
SECRET_KEY = re.compile(
    r"(.*_)?(api_?key|apikey|secret|secret_key|password|passwd|passphrase|credentials?|authorization)"
    r"|((access|auth|api|hf|bearer|secret)_)?token"
)
PREFIXES = r"(sk-|sk_|hf_|gh[pousr]_|github_pat_|xox[abprs]-|AKIA|AIza|glpat-|r8_|gsk_)"
"""With which well-known services begin their keys."""
PLAIN = r"[\w+/~][\w+/~-]{11,}"
"""At least 12 characters of a key; a variable such as $KEY is none."""
MIXED = rf"(?=[\w+/~-]*[0-9]){PLAIN}"
"""The same with a digit, which words lack."""
NAMES = (
    r"(api[-_]?key|(access|private|secret|account)[-_]?key|password|passwd|passphrase|secret"
    r"|(access|auth|api|hf|bearer|secret|github|gitlab)[-_]?token|authorization)"
)
"""What is called so is a secret, whatever the name begins with."""
SCHEMES = r"(bearer|basic|token)\s+"
SECRET_ANYWHERE = re.compile(
    rf"(?<![\w-])(?-i:{PREFIXES})(?=[\w-]*[0-9])[\w-]{{16,}}"
    rf"|{NAMES}(=|\s*[:=]\s*{SCHEMES}){PLAIN}"
    rf"|{NAMES}[\"']?\s*[:=]\s*[\"']?({SCHEMES})?{MIXED}"
    rf"|-{NAMES}\s+{MIXED}"
    rf"|(?<![\w-])(-{{0,2}}(key|token)|(?-i:[A-Z0-9_]+_(KEY|TOKEN)))={MIXED}"
    rf"|[?&](key|token)={PLAIN}"
    rf"|(?<![\w-])bearer\s+{MIXED}"
    r"|://[^/\s:@]*:(?=[^/\s@]*[0-9])[^/\s@]{8,}@",
    re.ASCII | re.IGNORECASE,
)
SECRET_VALUE = re.compile(
    rf"(Bearer )?{PREFIXES}[\w-]{{12,}}"
    rf"|Bearer {PLAIN}\S*"
    r"|(\w+://)?[^/\s:@]*:[^/\s@]+@\S*"
)
OPTION = re.compile(r"--?[\w-]+")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
KEY_LIKE = re.compile(r"(?=.*[a-z])(?=.*[0-9])[A-Za-z0-9]{20,}")


def find_secrets(data: Any, faults: Faults, path: Path = ()) -> None:
    """Refuse what looks like a secret, without ever repeating it."""
    if isinstance(data, dict):
        for key, value in data.items():
            find_secrets(value, faults, (*path, key))
    elif isinstance(data, list):
        for position, value in enumerate(data):
            find_secrets(value, faults, (*path, position))
            _look_at_option(data[max(position - 1, 0)], value, faults, (*path, position))
    elif data not in (None, "") and not isinstance(data, bool):
        _look_at_value(str(data), faults, path)


def lines_with_secrets(text: str) -> list[int]:
    """Numbers of the lines, comments included, that hold what looks like a secret."""
    return [n for n, line in enumerate(text.split("\n"), 1) if SECRET_ANYWHERE.search(line)]


def _look_at_value(text: str, faults: Faults, path: Path) -> None:
    names = [part for part in path if isinstance(part, str)]
    key = names[-1].lower().replace("-", "_") if names else ""
    if key == "env" or key.endswith("_env"):
        if not VARIABLE.fullmatch(text) or SECRET_VALUE.fullmatch(text) or KEY_LIKE.fullmatch(text):
            faults.add(
                path,
                f"{subject(path)} is not the name of an environment variable: give the NAME of the "
                "variable that holds the secret, such as OPENAI_API_KEY.",
            )
    elif SECRET_KEY.fullmatch(key):
        faults.add(
            path,
            f"secrets do not belong in a study: {ADVICE}.",
        )
    elif SECRET_VALUE.fullmatch(text):
        faults.add(
            path,
            f"{subject(path)} looks like a secret, which does not belong in a study: {ADVICE}.",
        )
    elif SECRET_ANYWHERE.search(text):
        faults.add(
            path,
            f"{subject(path)} holds what looks like a secret, which does not belong in a study: "
            f"{ADVICE}.",
        )


def _look_at_option(option: Any, value: Any, faults: Faults, path: Path) -> None:
    """An option of a command and what stands behind it, such as ``--api-key`` and the key."""
    if isinstance(option, str) and isinstance(value, str) and OPTION.fullmatch(option):
        _look_at_value(f"{option}={value}", faults, path)
