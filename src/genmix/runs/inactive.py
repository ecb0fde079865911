"""Which arms are out of use, and why, according to the events of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from genmix.runs.loop import EXHAUSTED, UNAVAILABLE

SUSPENDED, OUT_OF_SAMPLES, RETIRED = "suspended", "out of samples", "retired"


def inactive_arms(events: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the state of each arm that was retired or suspended, and not revived."""
    found: dict[str, str] = {}
    for event in events:
        arm, kind, why = event["arm"], event["kind"], event["detail"].get("why")
        if arm is None:
            continue
        if is_suspension(event):
            if found.get(arm) != OUT_OF_SAMPLES:  # else there is nothing left to try
                found[arm] = SUSPENDED
        elif kind in ("retire", "suspend"):
            if why != UNAVAILABLE or arm not in found:  # else an earlier event gives the reason
                found[arm] = OUT_OF_SAMPLES if why == EXHAUSTED else RETIRED
        elif kind == "revive":
            found.pop(arm, None)
    return found


def is_suspension(event: Mapping[str, Any]) -> bool:
    """Return whether an event pauses an arm because its requests or samples failed."""
    return event["kind"] in ("retire", "suspend") and "pause" in event["detail"]
