"""Prompts of an arm: one, a list, or a file of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field, StringConstraints, model_validator

from genmix.data.lines import json_object, numbered_lines
from genmix.errors import InputError
from genmix.generators.settings import ArmSettings, Context

Prompt = Annotated[str, StringConstraints(min_length=1)]


class PromptSettings(ArmSettings):
    """An arm with prompts; sample number i is made with prompt number i modulo their count."""

    prompt_required: ClassVar[bool] = False

    prompt: Prompt | None = Field(None, description="The prompt of every sample.")
    prompts: tuple[Prompt, ...] | None = Field(
        None, min_length=1, description="Several prompts, used in turn."
    )
    prompts_file: str | None = Field(
        None,
        min_length=1,
        description="A file of prompts, used in turn: one a line, or .jsonl with the key 'prompt'.",
    )

    @model_validator(mode="after")
    def _one_source(self) -> PromptSettings:
        given = [self.prompt, self.prompts, self.prompts_file]
        count = sum(source is not None for source in given)
        if count > 1:
            raise ValueError("give only one of prompt, prompts and prompts_file")
        if self.prompt_required and not count:
            raise ValueError("there is no prompt: give one of prompt, prompts and prompts_file")
        return self

    def read_prompts(self, context: Context) -> tuple[str, ...]:
        """All prompts; empty if the arm has none."""
        if self.prompts_file is not None:
            return _from_file(context.path(self.prompts_file))
        return (self.prompt,) if self.prompt is not None else self.prompts or ()


def prompt_for(index: int, prompts: Sequence[str]) -> str | None:
    return prompts[index % len(prompts)] if prompts else None


def _from_file(path: Path) -> tuple[str, ...]:
    if not os.path.exists(path):  # unlike Path, also for a name that no file can have
        raise InputError(f"there is no file of prompts {path}: check prompts_file.")
    lines = [(number, line.strip()) for number, line in numbered_lines(path)]
    if path.suffix == ".jsonl":
        found = tuple(_from_json(line, f"{path}, line {n}") for n, line in lines)
    else:
        found = tuple(line for _, line in lines)
    if not found:
        raise InputError(f"{path} holds no prompt: write one a line.")
    return found


def _from_json(line: str, where: str) -> str:
    found = (json_object(line) or {}).get("prompt")
    if not isinstance(found, str) or not found:
        raise InputError(f'{where} is no {{"prompt": "…"}}: write it so.')
    return found
