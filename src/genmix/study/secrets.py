"""Secrets that somebody put into a study: found, refused, and never repeated."""

from __future__ import annotations

import re
from typing import Any

from genmix.study.messages import Faults, Path, subject

ADVICE = "put it in an environment variable and give its name as api_key_env"
SECRET_KEY = re.compile(
    r"(.*_)?(api_?key|apikey|secret|secret_key|password|passwd|passphrase|credentials?|authorization)"
    r"|((access|auth|api|hf|bearer|secret)_)?token"
)
PREFIXES = r"(sk-|sk_|hf_|gh[pousr]_|github_pat_|xox[abprs]-|AKIA|AIza|glpat-|r8_|gsk_)"
"""With which well-known services begin their keys."""
SECRET_ANYWHERE = re.compile(rf"(?<![\w-]){PREFIXES}(?=[\w-]*[0-9])[\w-]{{16,}}")
SECRET_VALUE = re.compile(
    rf"(Bearer )?{PREFIXES}[\w-]{{12,}}"
    r"|Bearer \S{12,}"
    r"|(\w+://)?[^/\s:@]*:[^/\s@]+@\S*"
    r"|\w+://\S*[?&](api[-_]?key|key|token|access_token)=\S+"
)
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
    elif data not in (None, "") and not isinstance(data, bool):
        _look_at_value(str(data), faults, path)


def lines_with_secrets(text: str) -> list[int]:
    """Numbers of the lines, comments included, that hold what can only be a secret."""
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
