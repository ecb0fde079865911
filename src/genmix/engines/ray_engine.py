"""The Ray engine: arms and encoders are actors on a cluster, and this process is the controller."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from genmix.cluster.connection import connect
from genmix.cluster.resources import variables_of
from genmix.core.text import describe_error
from genmix.encoders.base import Encoder, EncoderSettings
from genmix.engines.base import Engine
from genmix.engines.ray_encoder import RayEncoder
from genmix.engines.ray_generator import RayGenerator
from genmix.engines.ray_workers import EncoderWorker, GeneratorWorker
from genmix.errors import InputError
from genmix.generators.base import ArmSettings, Context, Generator

ENCODER_RETRIES = 3
"""Maximum number of times that a batch whose worker died is embedded again."""

ENCODER_START_LIMIT = 60.0
"""Seconds within which a worker of an encoder must start, before it loads its model.

Unlike that of an arm, it does not depend on ``retries.timeout``, because a late worker ends the run.
"""


class RayEngine(Engine):
    """Builds arms and encoders as actors on a Ray cluster."""

    def __init__(self, start_limit: float, *, is_owner: bool) -> None:
        self._start_limit, self._is_owner = start_limit, is_owner
        self._encoders: list[RayEncoder] = []

    @classmethod
    def connect(cls, address: str | None, start_limit: float) -> RayEngine:
        """Connect to a cluster; see :func:`~genmix.cluster.connection.connect`."""
        return cls(start_limit, is_owner=connect(address))

    def generator(self, settings: ArmSettings, context: Context) -> Generator:
        create = self._creator(GeneratorWorker, settings, context, "it")
        return RayGenerator(
            settings.describe(context),
            create,
            resources=settings.resources,
            concurrency=settings.concurrency,
            start_limit=self._start_limit,
            is_billed=settings.billed,
        )

    def encoder(self, settings: EncoderSettings, folder: Path) -> Encoder:
        restarts = settings.resources.max_restarts
        made = RayEncoder(
            settings.build(folder),
            self._creator(EncoderWorker, settings, folder, "the encoder"),
            resources=settings.resources,
            retries=ENCODER_RETRIES if restarts < 0 else min(restarts, ENCODER_RETRIES),
            start_limit=ENCODER_START_LIMIT,
            time_limit=settings.time_limit,
        )
        self._encoders.append(made)
        return made

    def _creator(
        self, worker: type, settings: ArmSettings | EncoderSettings, place: Any, what: str
    ) -> Callable[[], Any]:
        """Return a function that creates a worker; ``place`` is where it finds its files.

        Ray restarts no worker and repeats no call: only the caller knows whether a worker died or was
        killed, and what its call had delivered by then.

        Secrets are arguments of the worker, which makes them its environment. Ray writes the environment
        variables that it is given itself into logs and command lines.
        """
        import ray

        given = {name: os.environ[name] for name in variables_of(settings) if name in os.environ}
        needs = settings.resources
        actor = ray.remote(worker).options(
            num_cpus=needs.num_cpus, num_gpus=needs.num_gpus, max_restarts=0, max_task_retries=0
        )
        try:
            sent = ray.put(settings)  # once, however many workers receive it
        except Exception as error:  # a function may hold anything
            why = describe_error(error.__cause__ or error)  # Ray's own message repeats all settings
            raise InputError(
                f"{what} cannot be sent to the workers of Ray ({why}); create such "
                "objects inside the function."
            ) from error
        return lambda: actor.remote(sent, place, given)

    def close(self) -> None:
        for encoder in self._encoders:
            encoder.close()  # if the start failed, nobody else has done so
        if self._is_owner:
            import ray

            self._is_owner = False
            ray.shutdown()
