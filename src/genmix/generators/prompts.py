"""Prompts for an arm: a single prompt, a list, or a file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field, StringConstraints, ValidationInfo, model_validator

from genmix.data.samples import Request
from genmix.data.text_files import json_object, numbered_lines
from genmix.errors import InputError
from genmix.generators.base import ArmSettings, Context

PLACEHOLDER = "{prompt}"
HAS_PROMPTS = "has_prompts"
"""Key in the validation context that says whether the study has prompts for all arms."""
Prompt = Annotated[str, StringConstraints(min_length=1)]


class PromptSettings(ArmSettings):
    """Settings for an arm with prompts. Sample i uses prompt i modulo the number of prompts.

    In a study with prompts of its own, ``{prompt}`` is replaced with the prompt to answer.
    """

    prompt_required: ClassVar[bool] = False

    prompt: Prompt | None = Field(None, description="The prompt for every sample.")
    prompts: tuple[Prompt, ...] | None = Field(
        None, min_length=1, description="A list of prompts to cycle through."
    )
    prompts_file: str | None = Field(
        None,
        min_length=1,
        description="A file of prompts to cycle through: one per line, or .jsonl with the key prompt.",
    )

    @model_validator(mode="after")
    def _check_prompts(self, info: ValidationInfo) -> PromptSettings:
        given = [self.prompt, self.prompts, self.prompts_file]
        count = sum(source is not None for source in given)
        if count > 1:
            raise ValueError("use only one of prompt, prompts and prompts_file")
        if self.prompt_required and not count and not (info.context or {}).get(HAS_PROMPTS):
            raise ValueError("there is no prompt; set one of prompt, prompts and prompts_file")
        return self

    def read_prompts(self, context: Context) -> tuple[str, ...]:
        """Return all of the arm's prompts."""
        if self.prompts_file is not None:
            return _read_file(context.path(self.prompts_file))
        return (self.prompt,) if self.prompt is not None else self.prompts or ()


def prompt_for(request: Request, prompts: Sequence[str]) -> str | None:
    """Return the prompt for a request, given the arm's own prompts."""
    own = prompts[request.index % len(prompts)] if prompts else None
    if request.prompt is None:
        return own
    return request.prompt if own is None else filled(own, request.prompt)


def filled(template: str, prompt: str | None) -> str:
    """Insert the prompt to answer into an arm's own text, if there is one."""
    return template if prompt is None else template.replace(PLACEHOLDER, prompt)


def _read_file(path: Path) -> tuple[str, ...]:
    if not os.path.exists(path):  # Path.exists raises an error if the name is too long
        raise InputError(f"no prompts file found at {path}; correct prompts_file.")
    lines = [(number, line.strip()) for number, line in numbered_lines(path)]
    if path.suffix == ".jsonl":
        found = tuple(_read_json(line, f"{path}, line {n}") for n, line in lines)
    else:
        found = tuple(line for _, line in lines)
    if not found:
        raise InputError(f"{path} contains no prompts; write one per line.")
    return found


def _read_json(line: str, where: str) -> str:
    found = (json_object(line) or {}).get("prompt")
    if not isinstance(found, str) or not found:
        raise InputError(f'{where} is not a prompt; write {{"prompt": "…"}}.')
    return found
