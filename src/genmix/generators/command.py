"""A program of your own as an arm: JSON lines on its stdin and stdout, no shell between."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

from pydantic import Field, field_validator

from genmix.core.text import quotable
from genmix.data.conversion import FieldError, checked
from genmix.data.samples import Request, Sample
from genmix.errors import InputError
from genmix.generators.base import GenerationError
from genmix.generators.prompts import PromptSettings, prompt_for
from genmix.generators.settings import Context

LONGEST_REPLY = 1 << 27
"""Bytes in one line of a reply; a longer one is taken for a fault."""

PATIENCE = 5.0
"""Seconds that a program has to end after it was asked to."""

ALWAYS_PASSED = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT")
"""Environment variables that hardly any program can do without; none of them holds a secret."""

WORDS_QUOTED = 300
"""Characters of a program's stderr in an error."""

CONTENT = ("text", "image_base64", "vector")
NOTES = ("index", "prompt", "quality")
PAID = ("cost", "input_tokens", "output_tokens")


class CommandArm(PromptSettings):
    """``command`` is started once and answers one JSON line to every JSON line."""

    kind: Literal["command"]
    command: tuple[str, ...] = Field(
        min_length=1, description="The program and its arguments, as a list."
    )
    env: tuple[str, ...] = Field(
        (), description="Names of environment variables that the program may see."
    )
    price: float | None = Field(
        None, ge=0, allow_inf_nan=False, description="What a sample costs, and at most costs."
    )

    @field_validator("command", mode="before")
    @classmethod
    def _no_shell(cls, value: Any) -> Any:
        if isinstance(value, str):
            raise ValueError("command is a text: write a list, such as [python, generate.py]")
        return value

    @field_validator("command")
    @classmethod
    def _can_be_started(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value[0] or any("\0" in part for part in value):
            raise ValueError("command holds an empty program or a zero byte: write a plain list")
        return value

    def build(self, context: Context) -> CommandGenerator:
        missing = next((name for name in self.env if name not in os.environ), None)
        if missing is not None:
            raise InputError(f"the environment variable {missing} is not set: set it, then start.")
        return CommandGenerator(self, context)


class CommandGenerator:
    """Speaks with one process, one request at a time; starts it anew when it died or may be late."""

    def __init__(self, settings: CommandArm, context: Context) -> None:
        self._settings, self._folder = settings, context.folder
        self._prompts = settings.read_prompts(context)
        self._secrets = tuple(os.environ[name] for name in settings.env)
        self._turn = asyncio.Lock()
        self._process: _Process | None = None

    async def generate(self, requests: Sequence[Request]) -> list[Sample | GenerationError]:
        async with self._turn:
            return [await self._answer(request) for request in requests]

    async def _answer(self, request: Request) -> Sample | GenerationError:
        asked: dict[str, Any] = {"index": request.index, "seed": request.seed}
        prompt = prompt_for(request.index, self._prompts)
        if prompt is not None:
            asked["prompt"] = prompt
        try:
            process = await self._running()
            sample = self._read(await process.ask(json.dumps(asked)), request, prompt)
        except GenerationError as error:
            return error
        except _BrokenError as error:
            return await self._out_of_step(str(error))
        except BaseException:  # cancelled: a late reply must not be taken for the next one
            self._drop()
            raise
        return sample

    async def _running(self) -> _Process:
        if self._process is None:
            try:
                self._process = await _Process.start(
                    self._settings.command, str(self._folder), self._environment()
                )
            except OSError as error:
                raise self._cannot_start(error.strerror or str(error)) from None
        return self._process

    def _environment(self) -> dict[str, str]:
        names = (*ALWAYS_PASSED, *self._settings.env)
        return {name: os.environ[name] for name in names if name in os.environ}

    def _cannot_start(self, why: str) -> GenerationError:
        return GenerationError(
            f"the program {self._settings.command[0]!r} cannot be started ({why}): check 'command'.",
            retryable=False,
        )

    async def _out_of_step(self, fault: str) -> GenerationError:
        """The error for a process that cannot be trusted with the next request; it is ended."""
        assert self._process is not None
        process, self._process = self._process, None
        said = quotable(await process.end(at_once=True), self._secrets, most=8192)[-WORDS_QUOTED:]
        return self._error(f"{fault} (stderr: {said})" if said else fault)

    def _error(self, phrase: str, retryable: bool = True, **paid: Any) -> GenerationError:
        program = self._settings.command[0]
        said = quotable(phrase, self._secrets, most=2 * WORDS_QUOTED)
        return GenerationError(f"the program {program!r} {said}.", retryable=retryable, **paid)

    def _read(self, line: bytes, request: Request, prompt: str | None) -> Sample:
        """The sample in a reply."""
        reply = _parse(line, request.index)
        price = self._settings.price
        try:
            paid = {"cost": price, **_paid(reply)}
            if "error" in reply:
                retryable = reply.get("retryable", True) is not False
                said = quotable(reply["error"], self._secrets) or "an error"
                raise self._error(f"reports {said}", retryable, **paid)
            sample = checked(**{"prompt": prompt, **_content(reply), **paid})
        except FieldError as error:
            raise self._error(f"gave a sample that {error}", cost=price) from None
        if price is not None and sample.cost is not None and sample.cost > price:
            wrong = f"asks {sample.cost:g} for a sample, above its price of {price:g}: correct one"
            raise self._error(wrong, retryable=False, **paid)
        return sample

    def _drop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None

    async def ping(self) -> None:
        program = self._settings.command[0]
        path = str(self._folder / program) if os.path.dirname(program) else program
        if shutil.which(path) is None:
            raise self._cannot_start("there is no such program")

    def most_cost(self) -> float | None:
        return self._settings.price

    def available(self) -> int | None:
        return None

    async def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            await process.end()


class _BrokenError(Exception):
    """The conversation with the process is over; a phrase says why."""


class _Process:
    """A running program, in a session of its own so that Ctrl-C does not reach it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._tail = b""
        self._listener = asyncio.create_task(self._listen())

    @classmethod
    async def start(
        cls, command: Sequence[str], folder: str, environment: Mapping[str, str]
    ) -> _Process:
        pipe = asyncio.subprocess.PIPE
        return cls(
            await asyncio.create_subprocess_exec(
                *command,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                cwd=folder,
                env=environment,
                limit=LONGEST_REPLY,
                start_new_session=True,
            )
        )

    async def ask(self, line: str) -> bytes:
        """One line out, one line back."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(line.encode() + b"\n")
            await stdin.drain()
            reply = await stdout.readline()
        except (ConnectionError, OSError) as error:
            raise _BrokenError("ended before it answered") from error
        except ValueError as error:
            raise _BrokenError(f"gave a line of more than {LONGEST_REPLY} bytes") from error
        if not reply.endswith(b"\n"):
            raise _BrokenError("ended before it answered")
        return reply

    async def _listen(self) -> None:
        """Keep the end of what it says on stderr."""
        assert self._process.stderr is not None
        while chunk := await self._process.stderr.read(4096):
            self._tail = (self._tail + chunk)[-4096:]

    async def end(self, at_once: bool = False) -> str:
        """Terminate it, kill it if that does not help, and give the end of its stderr."""
        try:
            if not at_once:
                self._signal(signal.SIGTERM)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._process.wait(), PATIENCE)
            else:  # its last words may be on their way
                await asyncio.wait({self._listener}, timeout=0.2)
        finally:  # also where the wait is cancelled
            self.kill()
        await self._process.wait()
        await asyncio.wait({self._listener}, timeout=0.2)
        self._listener.cancel()
        return self._tail.decode(errors="replace")

    def kill(self) -> None:
        self._signal(signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)

    def _signal(self, number: int) -> None:
        """To the program and whatever it has started."""
        if self._process.returncode is not None:
            return  # its number may be another's by now
        with suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, number)
            else:
                self._process.send_signal(number)


def _parse(line: bytes, index: int) -> dict[str, Any]:
    """The reply to the request ``index``; a line that may not be one ends the conversation."""
    try:
        reply = json.loads(line)
    except (ValueError, RecursionError):
        reply = None
    if not isinstance(reply, dict) or not set(reply) & {*CONTENT, "error"}:
        shown = quotable(line[:400].decode(errors="replace"), most=80)
        raise _BrokenError(
            f"answered with {shown!r}, which is no reply: write {', '.join(CONTENT)}"
        )
    if reply.get("index", index) != index:
        raise _BrokenError(f"answered to number {reply['index']!r} instead of {index}")
    return reply


def _content(reply: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a sample in a reply, but for what was paid."""
    unknown = sorted(set(reply) - {*CONTENT, *NOTES, *PAID})
    if unknown:
        raise FieldError(
            f"has the field {unknown[0]!r}: give {', '.join((*CONTENT, *NOTES, *PAID))}"
        )
    fields = {
        name: reply[name]
        for name in ("text", "vector", "prompt", "quality")
        if reply.get(name) is not None
    }
    if reply.get("image_base64") is not None:
        fields["image"] = _decoded(reply["image_base64"])
    return fields


def _paid(reply: Mapping[str, Any]) -> dict[str, Any]:
    given = {name: reply[name] for name in PAID if reply.get(name) is not None}
    found = checked(text="", **given)
    return {name: getattr(found, name) for name in given}


def _decoded(encoded: Any) -> bytes:
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise FieldError("has an image_base64 that is no base64") from None
