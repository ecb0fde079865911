"""The Ray engine: arms and encoders are actors on a cluster, and this process is the controller."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from genmix.core.optional import require
from genmix.core.resources import Resources, variables_of
from genmix.core.text import describe_error
from genmix.encoders.base import Encoder, EncoderSettings
from genmix.engines.base import Engine
from genmix.engines.ray_encoder import RayEncoder
from genmix.engines.ray_generator import RayGenerator
from genmix.engines.ray_workers import EncoderWorker, GeneratorWorker
from genmix.errors import InputError
from genmix.generators.base import ArmSettings, Context, Generator

ADDRESS = "RAY_ADDRESS"
"""An environment variable of Ray with the address of a cluster."""

ENCODER_RETRIES = 3
"""How often Ray repeats a call of an encoder whose worker died."""


class RayEngine(Engine):
    """Builds arms and encoders as actors on a Ray cluster."""

    def __init__(self, start_limit: float, *, is_owner: bool) -> None:
        self._start_limit, self._is_owner = start_limit, is_owner

    @classmethod
    def connect(cls, address: str | None, start_limit: float) -> RayEngine:
        """Connect to a cluster; without an address, start one on this machine.

        A connection that the process already has is used and left open.
        """
        ray = require("ray", extra="ray", what="the engine ray")
        if address is not None and address.startswith("ray://"):
            raise InputError(
                f"{address} is a Ray client address, and Ray's client cannot stream results; start genmix on "
                "a node of the cluster, with --address auto."
            )
        if ray.is_initialized():
            return cls(start_limit, is_owner=False)
        where = address or os.environ.get(ADDRESS) or "local"
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        options = {"include_dashboard": False} if where == "local" else {}
        try:
            with _own_signals():
                ray.init(
                    where,
                    log_to_driver=False,
                    logging_level=logging.CRITICAL,
                    **options,
                )
        except Exception as error:
            raise InputError(
                f"cannot connect to the Ray cluster at {where} ({describe_error(error)}); start it, or "
                "correct the address."
            ) from error
        return cls(start_limit, is_owner=True)

    def generator(self, settings: ArmSettings, context: Context) -> Generator:
        resources = settings.resources
        create = self._creator(GeneratorWorker, resources, settings, context)
        return RayGenerator(
            settings.describe(context),
            create,
            replicas=resources.replicas,
            concurrency=settings.concurrency,
            start_limit=self._start_limit,
            is_billed=settings.billed,
        )

    def encoder(self, settings: EncoderSettings, folder: Path) -> Encoder:
        resources = settings.resources
        options = {"max_task_retries": ENCODER_RETRIES if resources.max_restarts else 0}
        return RayEncoder(
            settings.build(folder),
            self._creator(EncoderWorker, resources, settings, folder, **options),
            replicas=resources.replicas,
            time_limit=settings.time_limit,
        )

    def _creator(
        self, worker: type, resources: Resources, settings: BaseModel, place: Any, **options: Any
    ) -> Any:
        """Return a function that creates a worker.

        Secrets are arguments of the worker, which makes them its environment. Ray writes the environment
        variables that it is given itself into logs and command lines.
        """
        import ray

        given = {name: os.environ[name] for name in variables_of(settings) if name in os.environ}
        actor = ray.remote(worker).options(
            num_cpus=resources.num_cpus,
            num_gpus=resources.num_gpus,
            max_restarts=resources.max_restarts,
            **options,
        )
        return lambda: actor.remote(settings, place, given)

    def close(self) -> None:
        if self._is_owner:
            import ray

            self._is_owner = False
            ray.shutdown()


@contextmanager
def _own_signals() -> Iterator[None]:
    """Keep the handler of SIGTERM, which Ray replaces."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
