"""What scores are called on an axis."""

from __future__ import annotations

NAMES = {
    "frechet_distance": "FD",
    "kernel_distance": "KD",
    "vendi": "Vendi",
    "quality_vendi": "quality Vendi",
    "rke": "RKE",
    "inception_score": "Inception Score",
}


def short_name(score: str) -> str:
    """A score's name as people write it; a second Vendi stays ``Vendi 2``."""
    first, _, rest = score.partition(" ")
    return f"{NAMES.get(first, first.replace('_', ' '))} {rest}".rstrip()


def better(maximise: bool) -> str:
    return "↑ (higher is better)" if maximise else "↓ (lower is better)"
