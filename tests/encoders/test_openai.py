"""The embeddings endpoint: order, batches, retries, refusals, and a key that never shows."""

from __future__ import annotations

import email.utils
import json
import socket
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from genmix.core.endpoints import retry_after
from genmix.encoders import openai as room
from genmix.encoders.base import EncodingError
from genmix.encoders.openai import OpenAISettings
from genmix.errors import InputError
from tests.encoders.test_encoders import TEXTS, one_sentence
from tests.support.embeddings_server import KEY, EmbeddingsServer, serving, vector_of


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddingsServer]:
    monkeypatch.setattr(room, "WAITS", (0.01, 0.01, 0.01))
    monkeypatch.setenv("GENMIX_TEST_KEY", KEY)
    with serving(KEY) as running:
        yield running


def built(server: EmbeddingsServer, **settings: Any) -> Any:
    given = {"base_url": server.url, "model": "tiny", "api_key_env": "GENMIX_TEST_KEY", **settings}
    return OpenAISettings(kind="openai", **given).build(Path())


def refusal(message: str) -> str:
    return json.dumps({"error": {"message": message}})


def expected(dimension: int = 8) -> Any:
    return np.array([vector_of(sample.text or "", dimension) for sample in TEXTS], np.float32)


def test_rows_follow_the_index_and_batches_the_setting(server: EmbeddingsServer) -> None:
    np.testing.assert_array_equal(built(server, batch=2).encode(TEXTS), expected())
    assert [len(request["input"]) for request in server.requests] == [2, 2, 1]
    assert {request["model"] for request in server.requests} == {"tiny"}


def test_shorter_vectors_are_asked_for(server: EmbeddingsServer) -> None:
    encoder = built(server, dimensions=3)
    assert encoder.dimension == 3
    np.testing.assert_array_equal(encoder.encode(TEXTS), expected(3))
    assert f"tiny at {server.url}, 3 dimensions" in encoder.name


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503])
def test_busy_and_failing_servers_are_asked_again(status: int, server: EmbeddingsServer) -> None:
    server.fail(status)
    server.fail(status, retry_after="0.02")
    np.testing.assert_array_equal(built(server).encode(TEXTS), expected())


@pytest.mark.parametrize(
    "body",
    ["", "<html>", '{"data": ', "[]", '{"data": []}', '{"data": [{"index": 0}]}', '{"data": null}'],
)
def test_a_malformed_answer_is_asked_for_again(body: str, server: EmbeddingsServer) -> None:
    server.fail(200, body)
    np.testing.assert_array_equal(built(server).encode(TEXTS), expected())


def test_a_wrong_number_of_vectors_is_never_taken(server: EmbeddingsServer) -> None:
    one = '{"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": [1, 2]}]}'
    server.fail(200, one)
    np.testing.assert_array_equal(built(server).encode(TEXTS), expected())


def test_it_gives_up_after_four_attempts(server: EmbeddingsServer) -> None:
    for _ in range(4):
        server.fail(503)
    with pytest.raises(EncodingError, match="HTTP 503 after 4 attempts") as caught:
        built(server).encode(TEXTS)
    one_sentence(caught.value)
    assert not server.plan


def test_texts_that_are_refused(server: EmbeddingsServer) -> None:
    server.fail(400, refusal(f"Too long. Key was {KEY}."))
    with pytest.raises(EncodingError, match="rejected the texts") as caught:
        built(server).encode(TEXTS)
    assert "Too long" in one_sentence(caught.value)
    assert not server.requests


@pytest.mark.parametrize("status", [401, 403, 404])
def test_errors_that_a_retry_does_not_fix_stop_the_run(
    status: int, server: EmbeddingsServer
) -> None:
    server.fail(status)
    with pytest.raises(InputError, match=str(status)) as caught:
        built(server).encode(TEXTS)
    one_sentence(caught.value)
    assert not server.requests


def test_a_wrong_key_is_seen_early_and_never_shown(
    server: EmbeddingsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "sk-wrong-2718281828459045"
    monkeypatch.setenv("GENMIX_TEST_KEY", secret)
    encoder = built(server)
    for call in (encoder.load, lambda: encoder.encode(TEXTS)):
        with pytest.raises(InputError, match="rejects the key") as caught:
            call()
        one_sentence(caught.value)
        assert secret not in "".join(traceback.format_exception(caught.value))
    assert secret not in repr(encoder) + str(vars(encoder)["_settings"]) + encoder.name


def test_an_answer_that_repeats_the_key_is_cleaned(server: EmbeddingsServer) -> None:
    server.fail(400, refusal(f"bad {KEY}"))
    with pytest.raises(EncodingError) as caught:
        built(server).encode(TEXTS)
    shown = "".join(traceback.format_exception(caught.value))
    assert "bad ***" in shown
    assert KEY not in shown


def test_a_server_that_is_not_there(server: EmbeddingsServer) -> None:
    encoder = built(server, base_url="http://127.0.0.1:9/v1")
    with pytest.raises(InputError, match="cannot be reached") as caught:
        encoder.load()
    one_sentence(caught.value)
    with pytest.raises(EncodingError, match="cannot be reached after 4 attempts") as late:
        encoder.encode(TEXTS)
    one_sentence(late.value)


def test_a_server_that_never_answers(server: EmbeddingsServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        encoder = built(server, base_url=f"http://127.0.0.1:{port}/v1", timeout=0.05)
        with pytest.raises(
            EncodingError, match="did not answer in time after 4 attempts"
        ) as caught:
            encoder.encode(TEXTS)
    one_sentence(caught.value)


def test_a_server_without_a_list_of_models_is_fine(server: EmbeddingsServer) -> None:
    encoder = built(server, base_url=server.url.replace("/v1", "/other"))
    encoder.load()
    with pytest.raises(InputError, match="404"):
        encoder.encode(TEXTS)


def test_where_the_key_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "NOT_SET_AT_ALL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InputError, match="OPENAI_API_KEY") as caught:
        OpenAISettings(kind="openai", model="tiny").build(Path())
    one_sentence(caught.value)
    with pytest.raises(InputError, match="NOT_SET_AT_ALL"):
        OpenAISettings(kind="openai", model="tiny", api_key_env="NOT_SET_AT_ALL").build(Path())
    with serving() as server:
        own = OpenAISettings(kind="openai", model="tiny", base_url=server.url).build(Path())
        np.testing.assert_array_equal(own.encode(TEXTS), expected())
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert OpenAISettings(kind="openai", model="tiny").build(Path()).name == "openai tiny"


@pytest.mark.parametrize(
    "settings",
    [
        {"api_key_env": "sk-abc"},
        {"api_key_env": "MY KEY"},
        {"base_url": "localhost:80/v1"},
        {"base_url": "ftp://host/v1"},
        {"base_url": "http://me:secret@host/v1"},
        {"base_url": "http://host/v1?key=secret"},
        {"api_key": "sk-abc"},
        {"batch": 0},
    ],
)
def test_settings_that_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        OpenAISettings(kind="openai", model="tiny", **settings)


def test_waiting_as_long_as_the_server_asks() -> None:
    soon = email.utils.formatdate(time.time() + 30, usegmt=True)
    assert retry_after("7") == 7
    assert 20 < (retry_after(soon) or 0) <= 30
    for nonsense in ("", "soon", "-3", "nan", "inf"):
        assert retry_after(nonsense) is None
