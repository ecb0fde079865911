"""The resources that a worker on a cluster needs, for arms and encoders alike."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, field_validator

SMALLEST_SHARE = 0.0001
"""The smallest part of a CPU or GPU that Ray can reserve."""


class Resources(BaseModel):
    """What the workers of one arm or encoder need on Ray. The local engine ignores it."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    num_cpus: float = Field(
        0.0, ge=0, description="CPUs per worker; with 0, workers share CPUs without reserving any."
    )
    num_gpus: float = Field(0.0, ge=0, description="GPUs per worker; fractions share one.")
    replicas: int = Field(1, ge=1, description="Number of workers.")
    max_restarts: int = Field(
        -1,
        ge=-1,
        description="Maximum number of times that a dead worker is replaced; -1 means no limit.",
    )

    @field_validator("num_cpus", "num_gpus")
    @classmethod
    def _is_measurable(cls, value: float) -> float:
        if 0 < value < SMALLEST_SHARE:
            raise ValueError(f"use 0, or a number of at least {SMALLEST_SHARE:g}")
        return value

    @field_validator("num_gpus")
    @classmethod
    def _is_whole_above_one(cls, value: float) -> float:
        if value > 1 and value != int(value):
            raise ValueError("use a whole number, or a fraction below 1")
        return value


def variables_of(settings: BaseModel) -> list[str]:
    """Return the names of the environment variables that settings refer to."""
    found: list[str] = []
    for key, value in settings:
        if value and (key == "env" or key.endswith("_env")):
            found += [value] if isinstance(value, str) else value
    default = getattr(settings, "key_variable", None)
    return list(dict.fromkeys([*found, default] if default else found))
