"""Secrets that somebody put into a study: found, refused, and never repeated."""

from __future__ import annotations

import re
from typing import Any

from genmix.study.messages import Faults, Path, subject

SECRET_KEY = re.compile(
    r"(.*_)?(api_?key|apikey|secret|secret_key|password|passwd|passphrase|credentials?|authorization)"
    r"|((access|auth|api|hf|bearer|secret)_)?token"
)
SECRET_VALUE = re.compile(
    r"(Bearer )?(sk-|sk_|hf_|gh[pousr]_|github_pat_|xox[abprs]-|AKIA|AIza|glpat-|r8_|gsk_)[\w-]{12,}"
    r"|Bearer \S{12,}"
    r"|\w+://[^/\s:@]*:[^/\s@]+@.*"
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
    elif isinstance(data, str) and data:
        _look_at_text(data, faults, path)


def _look_at_text(text: str, faults: Faults, path: Path) -> None:
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
            "secrets do not belong in a study: put it in an environment variable and give its name as "
            "api_key_env.",
        )
    elif SECRET_VALUE.fullmatch(text):
        faults.add(
            path,
            f"{subject(path)} looks like a secret, which does not belong in a study: put it in an "
            "environment variable and give its name as api_key_env.",
        )
