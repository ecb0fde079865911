"""A function of your own as an arm."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from pydantic import Field, JsonValue

from genmix.core.arrays import is_torch
from genmix.core.functions import load_function
from genmix.core.text import fault
from genmix.core.threads import in_thread
from genmix.data.conversion import FIELDS, FieldError, checked
from genmix.data.samples import Request, Sample
from genmix.errors import InputError
from genmix.generators.base import GenerationError
from genmix.generators.settings import ArmSettings, Context


class CallableArm(ArmSettings):
    """``function(seeds, **arguments)`` returns one sample a seed; it may be ``async``."""

    kind: Literal["callable"]
    function: str = Field(
        pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*$",
        description="module:function; the module lies beside the study, or is installed.",
    )
    arguments: dict[str, JsonValue] = Field(
        default_factory=dict, description="Keyword arguments for every call."
    )
    price: float | None = Field(
        None, ge=0, allow_inf_nan=False, description="What a sample costs, and at most costs."
    )

    def build(self, context: Context) -> CallableGenerator:
        function = load_function(self.function, context.folder)
        try:
            inspect.signature(function).bind([0], **self.arguments)
        except TypeError as error:
            raise InputError(
                f"{self.function} cannot be called with a list of seeds and these arguments "
                f"({error}): correct one or the other."
            ) from error
        except ValueError:  # compiled functions may keep their signature to themselves
            pass
        return CallableGenerator(self, function)


class CallableGenerator:
    """Calls the function in a thread, or awaits it."""

    def __init__(self, settings: CallableArm, function: Callable[..., Any]) -> None:
        self._settings, self._function = settings, function

    async def generate(self, requests: Sequence[Request]) -> list[Sample | GenerationError]:
        name = self._settings.function
        try:
            results = await self._call([request.seed for request in requests])
        except GenerationError:
            raise
        except Exception as error:  # it is other people's code
            raise GenerationError(f"{name} failed ({fault(error)}): mend it.") from error
        if isinstance(results, str | bytes | Mapping | Sample) or not hasattr(results, "__len__"):
            raise GenerationError(
                f"{name} returned a {type(results).__name__}: return a list, one sample a seed.",
                retryable=False,
            )
        if len(results) != len(requests):
            raise GenerationError(
                f"{name} returned {len(results)} samples for {len(requests)} seeds: return as many."
            )
        return [self._outcome(result) for result in results]

    async def _call(self, seeds: list[int]) -> Any:
        arguments = self._settings.arguments
        if inspect.iscoroutinefunction(self._function):
            return await self._function(seeds, **arguments)
        found = await in_thread(lambda _: self._function(seeds, **arguments))
        return await found if inspect.isawaitable(found) else found

    def _outcome(self, result: Any) -> Sample | GenerationError:
        if isinstance(result, GenerationError):
            return result
        price = self._settings.price
        try:
            fields = _fields_of(result)
            sample = checked(**{"cost": price, **fields})
        except FieldError as error:
            return GenerationError(f"a sample of {self._settings.function} {error}.", cost=price)
        if price is not None and sample.cost is not None and sample.cost > price:
            return GenerationError(
                f"a sample of {self._settings.function} costs {sample.cost:g}, above its price of "
                f"{price:g}: correct one or the other.",
                retryable=False,
                cost=sample.cost,
            )
        return sample

    async def ping(self) -> None:
        """Whether a function works is not known before it is called."""

    def most_cost(self) -> float | None:
        return self._settings.price

    def available(self) -> int | None:
        return None

    async def close(self) -> None:
        """There is nothing to let go of."""


def _fields_of(result: Any) -> dict[str, Any]:
    """The fields that a result gives: by name, or by what kind of thing it is."""
    if isinstance(result, Sample):
        given = {name: getattr(result, name) for name in FIELDS}
    elif isinstance(result, Mapping):
        given = {str(name): value for name, value in result.items()}
    elif isinstance(result, str):
        given = {"text": result}
    elif isinstance(result, list | tuple) or _is_row(result):
        given = {"vector": result}
    elif (
        isinstance(result, bytes | bytearray | np.ndarray) or is_torch(result) or _is_pillow(result)
    ):
        given = {"image": result}
    else:
        raise FieldError(
            f"is a {type(result).__name__}: give a text, an image, a vector or a dict of "
            f"{', '.join(FIELDS)}"
        )
    return {name: value for name, value in given.items() if value is not None}


def _is_row(result: Any) -> bool:
    return (isinstance(result, np.ndarray) or is_torch(result)) and result.ndim < 2


def _is_pillow(result: Any) -> bool:
    return any(base.__module__.startswith("PIL.") for base in type(result).__mro__)
