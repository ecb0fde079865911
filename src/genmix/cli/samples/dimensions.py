"""Refuse samples and references of different dimensions, and name their files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from genmix.errors import InputError

if TYPE_CHECKING:
    from genmix.cli.samples.arguments import Reference
    from genmix.data.loaded_arm import LoadedArm


def check_dimensions(
    arms: Sequence[LoadedArm], reference: Reference | None, has_pairs: bool = False
) -> None:
    """Raise InputError unless all embeddings have the same dimension."""
    first, *others = arms
    width = _width(first, has_pairs)
    for arm in others:
        if _width(arm, has_pairs) != width:
            raise InputError(
                f"{_where(first, arm)} has {width} dimensions, but {_where(arm, first)} has "
                f"{_width(arm, has_pairs)}; embed all arms with the same encoder."
            )
    if reference is not None and reference.content.dimension != width:
        raise InputError(
            f"{first.source} has {width} dimensions, but the reference {reference.path} has "
            f"{reference.content.dimension}; embed both with the same encoder."
        )


def _width(arm: LoadedArm, has_pairs: bool) -> int:
    parts = (arm.prompt_features, arm.features) if has_pairs else (arm.features,)
    return sum(part.shape[1] for part in parts if part is not None)


def _where(arm: LoadedArm, other: LoadedArm) -> str:
    return arm.source if arm.source != other.source else f"arm {arm.label!r} of {arm.source}"
