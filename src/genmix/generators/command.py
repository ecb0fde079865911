"""Arms that run a program written by the user, exchanging JSON lines over its stdin and stdout."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import os
import shutil
import signal
from asyncio.subprocess import SubprocessStreamProtocol
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

from pydantic import Field, field_validator

from genmix.core.masking import longest_form, mask, mask_end, remember_variables
from genmix.core.text import quotable
from genmix.data.samples import FieldError, Request, Sample, sample_from
from genmix.errors import InputError
from genmix.generators.base import Context, GenerationError, Generator, Outcome, Outcomes
from genmix.generators.process_tree import KILL, MARK, ProcessTree, new_mark
from genmix.generators.prompts import PromptSettings, prompt_for

LONGEST_REPLY = 1 << 27
"""Maximum length of a reply in bytes."""

EXIT_SECONDS = 5.0
"""Time allowed for a program to exit after SIGTERM."""

REST_SECONDS = 0.2
"""Time allowed for reading the rest of a program's output after it has exited."""

PASSED_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT")
"""Environment variables that are always passed on; most programs need them, and none are secret."""

STDERR_KEPT = 4096
"""Bytes of a program's stderr that are kept, in addition to the length of the longest secret."""

STDERR_QUOTED = 300
"""Maximum number of characters of a program's stderr quoted in an error message."""

CONTENT = ("text", "image_base64", "vector")
METADATA = ("index", "prompt", "quality")
USAGE = ("cost", "input_tokens", "output_tokens")


class CommandArm(PromptSettings):
    """Settings for an arm whose ``command`` is started once and answers each JSON line with one line."""

    kind: Literal["command"]
    command: tuple[str, ...] = Field(
        min_length=1, description="The program and its arguments as a list."
    )
    env: tuple[str, ...] = Field(
        (), description="Names of additional environment variables to pass to the program."
    )
    price: float | None = Field(
        None,
        ge=0,
        allow_inf_nan=False,
        description="Cost of a sample that reports no cost, and the maximum cost of a sample that does.",
    )

    @field_validator("command", mode="before")
    @classmethod
    def _is_list(cls, value: Any) -> Any:
        if isinstance(value, str):
            raise ValueError("command is a string; write a list, e.g. [python, generate.py]")
        return value

    @field_validator("command")
    @classmethod
    def _is_startable(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value[0] or any("\0" in part for part in value):
            raise ValueError("command has an empty program or a null character; remove it")
        return value

    def build(self, context: Context) -> CommandGenerator:
        missing = next((name for name in self.env if name not in os.environ), None)
        if missing is not None:
            raise InputError(f"the environment variable {missing} is not set; set it.")
        return CommandGenerator(self, context)


class CommandGenerator(Generator):
    """Sends requests to a process one at a time; restarts it after it exits or misbehaves."""

    def __init__(self, settings: CommandArm, context: Context) -> None:
        self._settings, self._folder = settings, context.folder
        self._prompts = settings.read_prompts(context)
        self._secrets = tuple(os.environ[name] for name in settings.env)
        remember_variables(settings.env)
        self._lock = asyncio.Lock()
        self._process: _Process | None = None
        self._killed: list[_Process] = []
        self._cut_off: set[Request] = set()
        """Requests that were sent to the program and canceled before it answered."""

    async def generate(self, requests: Sequence[Request]) -> Outcomes:
        self._cut_off.difference_update(requests)
        for position, request in enumerate(requests):
            async with self._lock:
                outcome = await self._answer(request)
            yield position, outcome

    async def _answer(self, request: Request) -> Outcome:
        question: dict[str, Any] = {"index": request.index, "seed": request.seed}
        prompt = prompt_for(request, self._prompts)
        if prompt is not None:
            question["prompt"] = prompt
        try:
            process = await self._start()
            return self._sample(await process.ask(json.dumps(question)), request, prompt)
        except GenerationError as error:
            return error
        except _BrokenError as error:
            return await self._stop_broken(str(error))
        except (
            BaseException
        ):  # canceled: a late reply must not be taken as the answer to the next request
            self._cut_off.add(request)
            self.kill()
            raise

    async def _start(self) -> _Process:
        if self._process is None:
            try:
                self._process = await _Process.start(
                    self._settings.command, str(self._folder), self._environment()
                )
            except OSError as error:
                raise self._cannot_start(error.strerror or str(error)) from None
        return self._process

    def _environment(self) -> dict[str, str]:
        names = (*PASSED_VARIABLES, *self._settings.env)
        return {name: os.environ[name] for name in names if name in os.environ}

    def _cannot_start(self, why: str) -> GenerationError:
        return GenerationError(
            f"the program {self._settings.command[0]!r} cannot be started ({why}); check 'command'.",
            retryable=False,
        )

    async def _stop_broken(self, problem: str) -> GenerationError:
        """Stop a process whose replies are no longer reliable, and return the error."""
        assert self._process is not None
        process, self._process = self._process, None
        stderr = await process.end(at_once=True)
        message = quotable(stderr, self._secrets, most=2 * STDERR_KEPT)[-STDERR_QUOTED:]
        return self._error(f"{problem} (stderr: {message})" if message else problem)

    def _error(self, phrase: str, retryable: bool = True, **usage: Any) -> GenerationError:
        program = self._settings.command[0]
        message = quotable(phrase, self._secrets, most=2 * STDERR_QUOTED)
        return GenerationError(f"the program {program!r} {message}.", retryable=retryable, **usage)

    def _sample(self, line: bytes, request: Request, prompt: str | None) -> Sample:
        """Parse a reply; raise the error if the program reports one."""
        reply = _parse(line, request.index)
        price = self._settings.price
        try:
            usage = {"cost": price, **_usage(reply)}
            if "error" in reply:
                retryable = reply.get("retryable", True) is not False
                message = quotable(reply["error"], self._secrets) or "an error"
                raise self._error(f"reports {message}", retryable, **usage)
            sample = sample_from(**{"prompt": prompt, **_content(reply), **usage})
        except FieldError as error:
            raise self._error(f"returned a sample that {error}", cost=price) from None
        if price is not None and sample.cost is not None and sample.cost > price:
            wrong = (
                f"charges {sample.cost:g} for a sample, which is more than the price of {price:g}; "
                "correct one of them"
            )
            raise self._error(wrong, retryable=False, **usage)
        return sample

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._killed.append(self._process)
            self._process = None

    async def ping(self) -> None:
        program = self._settings.command[0]
        path = str(self._folder / program) if os.path.dirname(program) else program
        if shutil.which(path) is None:
            raise self._cannot_start("no such program was found")

    def most_cost(self) -> float | None:
        return self._settings.price

    def may_be_charged(self, request: Request) -> bool:
        return request in self._cut_off

    async def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            await process.end()
        for killed in self._killed:
            await killed.end(at_once=True)
        self._killed = []


class _BrokenError(Exception):
    """The process sent no valid reply. The message is a predicate, e.g. ``exited early``."""


class _Protocol(SubprocessStreamProtocol):
    """Reports the exit of a program even if another process holds its pipes open."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(LONGEST_REPLY, loop)
        self.exited = asyncio.Event()

    def process_exited(self) -> None:
        super().process_exited()
        self.exited.set()


class _Process:
    """A running program, in a separate session so that Ctrl-C does not interrupt it."""

    def __init__(self, pipes: asyncio.SubprocessTransport, protocol: _Protocol, mark: str) -> None:
        loop = asyncio.get_running_loop()
        self._process = process = asyncio.subprocess.Process(pipes, protocol, loop)
        self._pipes, self._exited = pipes, protocol.exited
        self._tree = ProcessTree(process.pid, mark)
        self._stderr, self._is_cut = b"", False
        self._reader = asyncio.create_task(self._read_stderr())

    @classmethod
    async def start(
        cls, command: Sequence[str], folder: str, environment: Mapping[str, str]
    ) -> _Process:
        loop, mark = asyncio.get_running_loop(), new_mark()
        transport, protocol = await loop.subprocess_exec(
            lambda: _Protocol(loop),
            *command,
            cwd=folder,
            env={**environment, MARK: mark},
            start_new_session=True,
        )
        return cls(transport, protocol, mark)

    async def ask(self, line: str) -> bytes:
        """Send one line to the program and return its reply."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(line.encode() + b"\n")
            await stdin.drain()
            reply = await self._read_line(stdout)
        except (ConnectionError, OSError) as error:
            raise _BrokenError("exited without a reply") from error
        except ValueError as error:
            raise _BrokenError(f"wrote a line of more than {LONGEST_REPLY} bytes") from error
        if not reply.endswith(b"\n"):
            raise _BrokenError("exited without a reply")
        return reply

    async def _read_line(self, stdout: asyncio.StreamReader) -> bytes:
        """Return the next line, or what there is of it when the program exits."""
        line = asyncio.ensure_future(stdout.readline())
        exited = asyncio.ensure_future(self._exited.wait())
        try:
            await asyncio.wait({line, exited}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({line}, timeout=REST_SECONDS)
            return line.result() if line.done() else b""
        finally:
            line.cancel()
            exited.cancel()

    async def _read_stderr(self) -> None:
        """Keep the end of stderr, including any secret that starts before the part to be quoted."""
        assert self._process.stderr is not None
        while chunk := await self._process.stderr.read(4096):
            kept = self._stderr + chunk
            most = STDERR_KEPT + 4 * longest_form()  # a character has up to four bytes
            self._stderr, self._is_cut = kept[-most:], self._is_cut or len(kept) > most

    async def end(self, at_once: bool = False) -> str:
        """Terminate the program, kill it if necessary, and return the end of its stderr."""
        try:
            if not at_once:
                self._signal(signal.SIGTERM)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._exited.wait(), EXIT_SECONDS)
            else:  # wait for the rest of stderr
                await asyncio.wait({self._reader}, timeout=REST_SECONDS)
        finally:  # even if the wait is canceled
            self.kill()
        await asyncio.wait({self._reader}, timeout=REST_SECONDS)
        self._reader.cancel()
        self._close_pipes()
        await self._process.wait()
        return mask_end(self._stderr.decode(errors="replace"), STDERR_KEPT, self._is_cut)

    def kill(self) -> None:
        self._signal(KILL)

    def _signal(self, number: int) -> None:
        """Send a signal to the program and every process that it started."""
        self._tree.signal(number, is_root_alive=self._process.returncode is None)

    def _close_pipes(self) -> None:
        """Close the pipes even if a surviving process holds their other ends open."""
        for number in range(3):
            pipe = self._pipes.get_pipe_transport(number)
            if pipe is not None:
                pipe.close()


def _parse(line: bytes, index: int) -> dict[str, Any]:
    try:
        reply = json.loads(line)
    except (ValueError, RecursionError):
        reply = None
    if not isinstance(reply, dict) or not set(reply) & {*CONTENT, "error"}:
        shown = quotable(mask(line.decode(errors="replace"))[:400], most=80)
        raise _BrokenError(
            f"answered {shown!r}, which is not a valid reply; write a JSON object with one of "
            f"{', '.join(CONTENT)}"
        )
    if reply.get("index", index) != index:
        raise _BrokenError(f"answered request {reply['index']!r} instead of {index}")
    return reply


def _content(reply: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the sample in a reply, except cost and tokens."""
    unknown = sorted(set(reply) - {*CONTENT, *METADATA, *USAGE})
    if unknown:
        known = ", ".join((*CONTENT, *METADATA, *USAGE))
        raise FieldError(f"has the unknown field {unknown[0]!r}; use {known}")
    names = ("text", "vector", "prompt", "quality")
    fields = {name: reply[name] for name in names if reply.get(name) is not None}
    if reply.get("image_base64") is not None:
        fields["image"] = _decoded(reply["image_base64"])
    return fields


def _usage(reply: Mapping[str, Any]) -> dict[str, Any]:
    given = {name: reply[name] for name in USAGE if reply.get(name) is not None}
    found = sample_from(text="", **given)
    return {name: getattr(found, name) for name in given}


def _decoded(encoded: Any) -> bytes:
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise FieldError("has an image_base64 that is not base64") from None
