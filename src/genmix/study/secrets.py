"""Find secrets in a study and report them without revealing them."""

from __future__ import annotations

import re
from typing import Any

from genmix.core.masking import mask
from genmix.core.python_objects import PythonObject
from genmix.study.problems import KeyPath, Problems, subject

HIDDEN = "(hidden: this line looks like a secret)"
ADVICE = "put it in an environment variable and set api_key_env to the variable's name"
SECRET_KEY = re.compile(
    r"(.*_)?(api_?key|apikey|secret|secret_key|password|passwd|passphrase|credentials?|authorization)"
    r"|((access|auth|api|hf|bearer|secret)_)?token"
)
PREFIXES = r"(sk-|sk_|hf_|gh[pousr]_|github_pat_|xox[abprs]-|AKIA|AIza|glpat-|r8_|gsk_)"
"""Key prefixes used by well-known services."""
PLAIN = r"[\w+/~][\w+/~-]{11,}"
"""At least 12 characters that can occur in a key; a variable such as $KEY does not match."""
MIXED = rf"(?=[\w+/~-]*[0-9]){PLAIN}"
"""PLAIN with at least one digit, which distinguishes keys from words."""
NAMES = (
    r"(api[-_]?key|(access|private|secret|account)[-_]?key|password|passwd|passphrase|secret"
    r"|(access|auth|api|hf|bearer|secret|github|gitlab)[-_]?token|authorization)"
)
"""Common names for secrets, with any prefix."""
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


def find_secrets(data: Any, problems: Problems, path: KeyPath = ()) -> None:
    """Add a problem for every value that looks like a secret."""
    if isinstance(data, dict):
        for key, value in data.items():
            find_secrets(value, problems, (*path, key))
    elif isinstance(data, list):
        for position, value in enumerate(data):
            find_secrets(value, problems, (*path, position))
            _check_option(data[max(position - 1, 0)], value, problems, (*path, position))
    elif data not in (None, "") and not isinstance(data, bool | PythonObject):
        _check_value(str(data), problems, path)


def lines_with_secrets(text: str) -> list[int]:
    """Return the numbers of lines, including comments, that seem to contain a secret."""
    return [n for n, line in enumerate(text.split("\n"), 1) if SECRET_ANYWHERE.search(line)]


def _check_value(text: str, problems: Problems, path: KeyPath) -> None:
    names = [part for part in path if isinstance(part, str)]
    key = names[-1].lower().replace("-", "_") if names else ""
    if key == "env" or key.endswith("_env"):
        if not VARIABLE.fullmatch(text) or SECRET_VALUE.fullmatch(text) or KEY_LIKE.fullmatch(text):
            problems.add(
                path,
                f"{subject(path)} is not the name of an environment variable; write the NAME of the "
                "variable that contains the secret, e.g. OPENAI_API_KEY.",
            )
    elif SECRET_KEY.fullmatch(key):
        problems.add(path, f"a secret does not belong in a study; {ADVICE}.")
    elif SECRET_VALUE.fullmatch(text):
        problems.add(
            path,
            f"{subject(path)} looks like a secret, which does not belong in a study; {ADVICE}.",
        )
    elif SECRET_ANYWHERE.search(text):
        problems.add(
            path,
            f"{subject(path)} seems to contain a secret, which does not belong in a study; "
            f"{ADVICE}.",
        )


def _check_option(option: Any, value: Any, problems: Problems, path: KeyPath) -> None:
    """Check a command-line option and the argument after it, e.g. ``--api-key`` and a key."""
    if isinstance(option, str) and isinstance(value, str) and OPTION.fullmatch(option):
        _check_value(f"{option}={value}", problems, path)


def exportable(text: str) -> str:
    """Mask the known secrets, and hide every line that looks like another one, before text leaves genmix."""
    return without_secrets(mask(text))


def without_secrets(text: str) -> str:
    """Hide every line that looks like a secret."""
    bad = set(lines_with_secrets(text))
    return "\n".join(
        HIDDEN if number in bad else line for number, line in enumerate(text.split("\n"), 1)
    )
