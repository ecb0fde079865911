"""The prompts of tickets: validate those that ``ask`` is given, and save those of tickets in flight."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from genmix.core.arrays import as_matrix, as_row, to_numpy
from genmix.core.description import Description
from genmix.errors import InputError
from genmix.kernels.joint import Joint
from genmix.policies import Pair, Policy, Prompt, PromptMemory, PromptPolicy
from genmix.selector.pending import PendingSample


def prompts_of(n: int, prompt: Any, reference: Any, policy: Policy) -> list[Prompt | None]:
    """Return the prompts of n tickets, or None for each if the policy does not choose by the prompt.

    A user passes one embedding for all tickets, or one row for each.
    """
    if not isinstance(policy, PromptPolicy):
        return [None] * n
    name = type(policy).__name__
    if prompt is None:
        raise InputError(f"{name} chooses an arm for every prompt; pass its embedding as prompt=.")
    if policy.needs_references and reference is None:
        raise InputError(
            f'{name}(diversity="kd") compares with a reference answer to every prompt; pass its embedding '
            'as reference=, or use diversity="rke".'
        )
    embeddings = _rows(n, prompt, "prompt")
    if not policy.needs_references:
        return [Prompt(row) for row in embeddings]
    references = _rows(n, reference, "reference")
    return [Prompt(*pair) for pair in zip(embeddings, references, strict=True)]


def _rows(n: int, given: Any, what: str) -> list[Any]:
    """Return n rows of shape ``(1, d)``."""
    try:
        is_one = np.ndim(given) == 1
    except ValueError:
        is_one = False  # rows of different lengths, which the next check rejects
    if is_one:
        return [np.array(to_numpy(as_row(given, what)))] * n
    rows = np.array(to_numpy(as_matrix(given, what)))
    if len(rows) != n:
        raise InputError(f"{what} has {len(rows)} rows for {n} tickets; pass one per ticket.")
    return [row[None, :] for row in rows]


def check_dimensions(
    new: Collection[Prompt | None],
    others: Collection[Prompt],
    memory: PromptMemory | None,
    objective: Any,
) -> None:
    """Reject prompts whose dimension differs from earlier ones, or from what the objective expects."""
    if all(each is None for each in new):
        return
    known = {each.embedding.shape[1] for each in others}
    if memory is not None and memory.dimensions is not None:
        known.add(memory.dimensions[0])
    known |= {columns for columns in [prompt_columns(objective)] if columns}
    for each in new:
        if each is not None and known and each.embedding.shape[1] not in known:
            raise InputError(
                f"prompt has dimension {each.embedding.shape[1]} instead of {min(known)}; use the same "
                "encoder for all prompts."
            )


def prompt_columns(value: object) -> int:
    """Return the number of columns of the prompt in the embeddings of an objective; 0 without pairs."""
    if isinstance(value, Joint):
        return value.prompts
    if isinstance(value, tuple):
        return max(map(prompt_columns, value), default=0)
    if isinstance(value, Description):
        return max(map(prompt_columns, vars(value).values()), default=0)
    return 0


def pair_of(
    sample: PendingSample, prompt: Prompt | None, policy: Policy, objective: Any, where: str
) -> Pair | None:
    """Return the pair that a told sample makes with its prompt; None for policies without prompts."""
    if prompt is None or not isinstance(policy, PromptPolicy):
        return None
    if policy.needs_quality and sample.quality is None:
        raise InputError(
            f"{where}: {type(policy).__name__} learns from the quality of every sample; pass quality=."
        )
    output = np.array(to_numpy(sample.row))[:, prompt_columns(objective) :]
    if prompt.reference is not None and prompt.reference.shape != output.shape:
        raise InputError(
            f"{where}: the output has dimension {output.shape[1]} but the reference answer to its prompt has "
            f"{prompt.reference.shape[1]}; use the same encoder for both."
        )
    return Pair(prompt, output, 0.0 if sample.quality is None else sample.quality)


def saved_prompts(prompts: Mapping[int, Prompt]) -> dict[str, Any]:
    """Return the prompts of the tickets in flight; empty if there are none."""
    if not prompts:
        return {}
    plain = [
        {"ticket": ticket, "embedding": each.embedding, "reference": each.reference}
        for ticket, each in prompts.items()
    ]
    return {"prompts": plain}


def loaded_prompts(saved: Mapping[str, Any], policy: Policy) -> dict[int, Prompt]:
    """Restore what :func:`saved_prompts` returned; if prompts are needed, every ticket in flight has one."""
    found = {
        int(each["ticket"]): Prompt(_loaded(each["embedding"]), _loaded(each["reference"]))
        for each in saved.get("prompts", [])
    }
    tickets = {ticket["id"] for ticket in saved["in_flight"]} if policy.needs_prompts else set()
    if set(found) != tickets:
        raise ValueError("the prompts do not match the tickets in flight")
    return found


def _loaded(row: Any) -> Any:
    if row is None:
        return None
    if np.ndim(row) != 2 or len(row) != 1 or not np.isfinite(row).all():
        raise ValueError("a prompt is not valid")
    return np.array(row, dtype=np.float64)
