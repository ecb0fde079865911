"""Errors of the library name Python arguments; the command line names its options instead."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from genmix.errors import InputError

NAMES = (
    "at_least",
    "at_most",
    "bandwidth",
    "budget",
    "confidence",
    "ddof",
    "features",
    "gamma",
    "horizon",
    "k",
    "mean_cost",
    "order",
    "repeats",
    "seed",
    "subsample",
    "workers",
)
"""Arguments with an option of the same name."""
PHRASES = {
    "Gaussian(bandwidth=1.0)": "--bandwidth 1.0",
    "Gaussian(features=512)": "--kernel gaussian --features 512",
    "Gaussian()": "--kernel gaussian",
    "Cosine()": "--kernel cosine",
    "Polynomial()": "--kernel polynomial",
    "read_features(path, key=...) or ": "",
    "subsample needs repeats;": "subsample needs --repeats;",
    "a smaller k.": "a smaller --k.",
    "raise the budget or lower warm_start.": "raise --budget, or lower warm_start in the study.",
    "so lower the minimum.": "so lower --min-quality.",
    "pass a map from label to policy.": "pass each --policy once.",
    "pass objective=.": "compare it in Python with gx.compare(…, objective=…).",
}
_EITHER = "|".join(NAMES)
_SUBJECT = re.compile(rf"^({_EITHER})(?= (?:is|of|names|adds|needs)\b)")
_VALUE = re.compile(rf"(?<![\w-])({_EITHER})=([\d.]*\d|(?=,))")
_REFERENCE = re.compile(r"^the reference(?: of \w+)?(?= (?:has|contains)\b)")


@contextmanager
def in_option_words(reference: Path | None = None) -> Iterator[None]:
    """Replace Python in the messages of errors by options, and ``the reference`` by its file."""
    try:
        yield
    except InputError as error:
        error.args = (option_words(str(error), reference),)
        raise


def option_words(text: str, reference: Path | None = None) -> str:
    for python, option in PHRASES.items():
        text = text.replace(python, option)
    text = _SUBJECT.sub(lambda found: _option(found[1]), text)
    text = _VALUE.sub(lambda found: f"{_option(found[1])} {found[2]}".rstrip(), text)
    if reference is not None:
        text = _REFERENCE.sub(lambda _: f"the reference {reference}", text)
    return text


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
