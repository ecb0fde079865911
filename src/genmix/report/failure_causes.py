"""Why an arm fails, judging by its messages, and what to change about it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Cause:
    """A kind of failure: the messages it has, what it means, and what to do."""

    pattern: str
    meaning: str
    advice: str

    def advise(self, arm: Settings, retries: Settings) -> str:
        """Return what to do, with the arm's current settings."""
        timeout = min(each.get("timeout", 300.0) for each in (arm, retries))
        key = f"the key in {arm['api_key_env']}" if arm.get("api_key_env") else "its key"
        concurrency = arm.get("concurrency", 1)
        return self.advice.format(
            lower=_lower(concurrency),
            or_lower=", or lower its concurrency" if concurrency > 1 else "",
            key=key,
            timeout=f"{timeout:g}",
        )


CAUSES = (
    Cause(
        r"quota|insufficient.?(funds|credits?|balance)|\b402\b",
        "the quota is used up",
        "Increase the quota at its provider",
    ),
    Cause(
        r"\b429\b|rate.?limit|too many requests",
        "there were too many requests at a time (429)",
        "{lower}",
    ),
    Cause(
        r"\b40[13]\b|unauthori[sz]ed|forbidden|authentication|api.?key|\b(requires|rejects) (a|the) key",
        "the key was rejected or is missing",
        "Check {key}",
    ),
    Cause(
        r"time.?out|timed.out|(answer|finish)(ed)? (in time|within)|deadline exceeded",
        "the answer took too long",
        "Set a longer timeout (it is {timeout} seconds)",
    ),
    Cause(
        r"cannot be reached|connection refused|connecterror|name or service not known|unreachable",
        "the server cannot be reached",
        "Start its server, or correct base_url",
    ),
    Cause(
        r"\b404\b|does not know the model",
        "the model or the address does not exist",
        "Correct its model or base_url",
    ),
    Cause(r"content.filter", "the content filter rejected it", "Change its prompts"),
    Cause(
        r"empty text|max_tokens",
        "texts were empty or cut off",
        "Set a larger max_tokens, or another prompt",
    ),
    Cause(r"out of memory|memoryerror", "the memory was not enough", "Set a smaller batch"),
    Cause(
        r"\b50[0234]\b|\b529\b|cannot answer right now|overloaded|unavailable",
        "the server was overloaded or down",
        "Continue when its server is available again{or_lower}",
    ),
    Cause(
        r"closed the connection|connection reset|malformed reply|exited without a reply",
        "the replies were incomplete",
        "Look for the reason in the log of its server or program",
    ),
)
"""The first pattern that occurs in a message decides."""

ENCODER = Cause("", "its samples could not be embedded", "Fix the encoder, or the samples")
OTHER = Cause("", "", "Fix it")


def main_cause(failures: Sequence[Mapping[str, Any]]) -> Cause | None:
    """Return the most frequent cause of failures, the latest one if several are equally frequent."""
    found = Counter(cause_of(row["message"], row["stage"]) for row in reversed(failures))
    return max(found, key=found.__getitem__) if found else None


def cause_of(message: str, stage: str = "generate") -> Cause:
    if stage == "encode":
        return ENCODER
    matches = (cause for cause in CAUSES if re.search(cause.pattern, message, re.IGNORECASE))
    return next(matches, OTHER)


def _lower(concurrency: int) -> str:
    if concurrency > 1:
        return f"Lower its concurrency from {concurrency} to {concurrency // 2}"
    return "Set longer waits (first_wait and longest_wait in retries)"
