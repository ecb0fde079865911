"""Arms that call a Python function written by the user."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, JsonValue

from genmix.core.arrays import is_torch
from genmix.core.python_objects import OR_OBJECT
from genmix.core.text import counted, describe_error
from genmix.core.threads import in_thread
from genmix.core.user_functions import FUNCTION_NAME, load_function, shown_name
from genmix.data.samples import FIELDS, FieldError, Request, Sample, sample_from
from genmix.errors import InputError
from genmix.generators.base import (
    ArmSettings,
    Context,
    GenerationError,
    Generator,
    Outcome,
    Outcomes,
)


class CallableArm(ArmSettings):
    """Settings for an arm whose ``function(seeds, **arguments)`` returns one sample per seed.

    The function can be ``async``. In a study with prompts, it is also passed ``prompts``, one per seed.
    """

    kind: Literal["callable"]
    function: Annotated[str, Field(pattern=FUNCTION_NAME), OR_OBJECT] = Field(
        description="module:function; the module is next to the study file or installed.",
    )
    arguments: dict[str, JsonValue] = Field(
        default_factory=dict, description="Keyword arguments for every call."
    )
    price: float | None = Field(
        None,
        ge=0,
        allow_inf_nan=False,
        description="Cost of a sample that reports no cost, and the maximum cost of a sample that does.",
    )

    def build(self, context: Context) -> CallableGenerator:
        function = load_function(self.function, context.folder)
        prompts = {"prompts": list(context.prompts[:1])} if context.prompts else {}
        try:
            inspect.signature(function).bind([0], **self.arguments, **prompts)
        except TypeError as error:
            passed = "a list of seeds, prompts=" if prompts else "a list of seeds"
            raise InputError(
                f"{shown_name(self.function)} cannot be called with {passed} and these arguments "
                f"({error}); correct the function or 'arguments'."
            ) from error
        except ValueError:  # some compiled functions have no signature
            pass
        return CallableGenerator(self, function)


class CallableGenerator(Generator):
    """Calls a regular function in a thread, and awaits an ``async`` function."""

    def __init__(self, settings: CallableArm, function: Callable[..., Any]) -> None:
        self._settings, self._function = settings, function
        self._name = shown_name(settings.function)

    async def generate(self, requests: Sequence[Request]) -> Outcomes:
        name = self._name
        try:
            results = await self._call(requests)
        except GenerationError:
            raise
        except Exception as error:  # user code
            raise GenerationError(
                f"{name} failed ({describe_error(error)}); fix the function."
            ) from error
        if isinstance(results, str | bytes | Mapping | Sample) or not hasattr(results, "__len__"):
            raise GenerationError(
                f"{name} returned a value of type {type(results).__name__}; "
                "return a list with one sample per seed.",
                retryable=False,
            )
        if len(results) != len(requests):
            raise GenerationError(
                f"{name} returned {counted(len(results), 'sample')} for {counted(len(requests), 'seed')}; "
                "return one per seed."
            )
        for position, result in enumerate(results):
            yield position, self._outcome(result, requests[position])

    async def _call(self, requests: Sequence[Request]) -> Any:
        seeds = [request.seed for request in requests]
        arguments: dict[str, Any] = dict(self._settings.arguments)
        if requests and requests[0].prompt is not None:
            arguments["prompts"] = [request.prompt for request in requests]
        if inspect.iscoroutinefunction(self._function):
            return await self._function(seeds, **arguments)
        found = await in_thread(lambda: self._function(seeds, **arguments))
        return await found if inspect.isawaitable(found) else found

    def _outcome(self, result: Any, request: Request) -> Outcome:
        if isinstance(result, GenerationError):
            return result
        price = self._settings.price
        try:
            sample = sample_from(**{"cost": price, "prompt": request.prompt, **_fields(result)})
        except FieldError as error:
            return GenerationError(f"a sample from {self._name} {error}.", cost=price)
        if price is not None and sample.cost is not None and sample.cost > price:
            return GenerationError(
                f"a sample from {self._name} costs {sample.cost:g}, which is more than the "
                f"price of {price:g}; correct one of them.",
                retryable=False,
                cost=sample.cost,
            )
        return sample

    def most_cost(self) -> float | None:
        return self._settings.price


def _fields(result: Any) -> dict[str, Any]:
    """Convert the result of a user function to named fields."""
    if isinstance(result, Sample):
        given = {name: getattr(result, name) for name in FIELDS}
    elif isinstance(result, Mapping):
        given = {str(name): value for name, value in result.items()}
    elif isinstance(result, str):
        given = {"text": result}
    elif isinstance(result, list | tuple) or (_is_array(result) and result.ndim < 2):
        given = {"vector": result}
    elif isinstance(result, bytes | bytearray) or _is_array(result) or _is_pillow(result):
        given = {"image": result}
    else:
        raise FieldError(
            f"is of type {type(result).__name__}; return a text, an image, a vector or a dict with "
            f"{', '.join(FIELDS)}"
        )
    return {name: value for name, value in given.items() if value is not None}


def _is_array(result: Any) -> bool:
    return isinstance(result, np.ndarray) or is_torch(result)


def _is_pillow(result: Any) -> bool:
    return any(base.__module__.startswith("PIL.") for base in type(result).__mro__)
