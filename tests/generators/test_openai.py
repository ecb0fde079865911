"""OpenAI-compatible endpoints as arms, against a real server that misbehaves on request."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import traceback
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from genmix.errors import InputError
from genmix.generators import Context, GenerationError, OpenAIArm, Request, Sample, collect
from genmix.generators.openai import TOKENS_PER_CALL, TOKENS_PER_MESSAGE
from tests.support.asking import ask, use
from tests.support.endpoint import (
    EMPTY,
    HALF,
    NO_CHOICES,
    NOT_JSON,
    Answer,
    Call,
    Endpoint,
    error,
    says,
    text_for,
    vector_for,
)

KEY = "sk-very-secret-0123456789abcdef"
PROMPT = "Write a short sentence about a vibrant city."
PRICE = {"input": 0.5, "output": 2.0}


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as server:
        yield server


def settings_of(url: str | None, **settings: Any) -> OpenAIArm:
    plain = {"kind": "openai", "model": "tiny", "base_url": url, **settings}
    if not {"prompt", "prompts"} & set(settings):
        plain["prompt"] = PROMPT
    return OpenAIArm.model_validate(plain)


def arm_of(url: str | None, **settings: Any) -> Any:
    return settings_of(url, **settings).build(Context(Path(), 0, "arm"))


def failure(endpoint: Endpoint, answer: Answer, **settings: Any) -> GenerationError:
    """The one error that comes of an answer, with a single request sent."""
    endpoint.behave([answer])
    (outcome,) = ask(arm_of(endpoint.url, **settings))
    assert isinstance(outcome, GenerationError)
    assert len(endpoint.requests) == 1  # retries are not the adapter's business
    assert str(outcome).endswith(".")
    return outcome


def unused_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


# -- what is sent, what comes back ------------------------------------------------------------------


def test_a_chat_sends_what_is_set_and_nothing_else(endpoint: Endpoint) -> None:
    ask(arm_of(endpoint.url))
    (call,) = endpoint.requests
    assert call.route == "/chat/completions"
    assert call.payload == {
        "model": "tiny",
        "messages": [{"role": "user", "content": PROMPT}],
        "seed": 100,
    }


def test_a_slow_reply_does_not_hold_back_the_others(endpoint: Endpoint) -> None:
    released = threading.Event()

    def behave(call: Call) -> None:
        if call.payload.get("seed") == 3:
            released.wait(30)

    async def order(generator: Any) -> list[int]:
        found = []
        async for position, outcome in generator.generate([Request(i, i) for i in range(8)]):
            assert isinstance(outcome, Sample)
            found.append(position)
            if len(found) == 7:
                released.set()
        return found

    endpoint.behave(behave)
    found = use(arm_of(endpoint.url), order)
    assert sorted(found[:7]) == [0, 1, 2, 4, 5, 6, 7]
    assert found[7:] == [3]


def test_a_caller_that_leaves_cancels_the_requests_in_flight(endpoint: Endpoint) -> None:
    released = threading.Event()
    endpoint.behave(lambda call: None if call.payload["seed"] == 0 else released.wait(30) and None)

    async def first(generator: Any) -> tuple[int, int]:
        stream = generator.generate([Request(i, i) for i in range(3)])
        position, _ = await anext(stream)
        await stream.aclose()
        await asyncio.sleep(0)
        return position, len(asyncio.all_tasks())

    try:
        assert use(arm_of(endpoint.url), first) == (0, 1)
    finally:
        released.set()


def test_a_chat_with_everything(endpoint: Endpoint) -> None:
    generator = arm_of(
        endpoint.url,
        system="You are a poet.",
        examples=[{"user": "q", "assistant": "a"}],
        temperature=0.5,
        top_p=0.9,
        max_tokens=20,
        max_tokens_name="max_completion_tokens",
        stop=["\n", "END"],
        seed=False,
        extra_body={"min_p": 0.1, "chat_template_kwargs": {"enable_thinking": False}},
    )
    (sample,) = ask(generator)
    assert isinstance(sample, Sample)
    roles = [(message["role"], message["content"]) for message in sent(endpoint).pop("messages")]
    assert roles == [
        ("system", "You are a poet."),
        ("user", "q"),
        ("assistant", "a"),
        ("user", PROMPT),
    ]
    rest = {name: value for name, value in sent(endpoint).items() if name != "messages"}
    assert rest == {
        "model": "tiny",
        "temperature": 0.5,
        "top_p": 0.9,
        "max_completion_tokens": 20,
        "stop": ["\n", "END"],
        "min_p": 0.1,
        "chat_template_kwargs": {"enable_thinking": False},
    }


def sent(endpoint: Endpoint) -> dict[str, Any]:
    (call,) = endpoint.requests
    return dict(call.payload)


def test_a_completion(endpoint: Endpoint) -> None:
    (sample,) = ask(arm_of(endpoint.url, mode="completion", prompt="1. Boston", stop="\n"))
    assert endpoint.requests[0].route == "/completions"
    assert sent(endpoint) == {"model": "tiny", "prompt": "1. Boston", "stop": "\n", "seed": 100}
    assert sample.text == text_for("1. Boston", 100)


def test_prompts_are_used_in_turn(endpoint: Endpoint) -> None:
    found = ask(arm_of(endpoint.url, prompts=["one", "two", "three"]), 5)
    assert [sample.prompt for sample in found] == ["one", "two", "three", "one", "two"]


def test_tokens_become_cost(endpoint: Endpoint) -> None:
    (sample,) = ask(arm_of(endpoint.url, prompt="one two three", price=PRICE))
    assert sample.input_tokens == 3 + 4
    assert sample.output_tokens == len(sample.text.split())
    assert sample.cost == pytest.approx((7 * 0.5 + sample.output_tokens * 2.0) / 1000, rel=1e-12)


def test_an_arm_without_a_price_is_free(endpoint: Endpoint) -> None:
    generator = arm_of(endpoint.url)
    assert generator.most_cost() == 0.0
    assert ask(generator)[0].cost == 0.0


def test_the_most_a_sample_may_cost_covers_every_message(endpoint: Endpoint) -> None:
    generator = arm_of(
        endpoint.url,
        prompts=["a", "größer"],
        system="syst",
        examples=[{"user": "q", "assistant": "a"}],
        max_tokens=5,
        price=PRICE,
    )
    length = 8 + 4 + 2  # bytes of the longer prompt, the system prompt, the example
    bound = (length + 4 * TOKENS_PER_MESSAGE + TOKENS_PER_CALL) * 0.5 + 5 * 2.0
    assert generator.most_cost() == pytest.approx(bound / 1000, rel=1e-12)
    assert all(sample.cost <= generator.most_cost() for sample in ask(generator, 4))
    assert arm_of(endpoint.url, price=PRICE).most_cost() is None


def test_a_server_that_does_not_count_is_taken_to_charge_the_most(endpoint: Endpoint) -> None:
    for usage in (None, "many", {"prompt_tokens": -1, "completion_tokens": 3}, {}):
        endpoint.behave([says({"choices": [{"message": {"content": "x"}}], "usage": usage})])
        generator = arm_of(endpoint.url, max_tokens=5, price=PRICE)
        (sample,) = ask(generator)
        assert sample.cost == generator.most_cost()
        assert sample.input_tokens is None


def test_texts_are_stripped_and_can_be_written_down(endpoint: Endpoint) -> None:
    endpoint.behave([says({"choices": [{"message": {"content": "\n half \ud83d a pair \n"}}]})])
    (sample,) = ask(arm_of(endpoint.url))
    assert sample.text == "half \ufffd a pair"


def test_requests_of_a_batch_are_under_way_together(endpoint: Endpoint) -> None:
    """No answer comes before all four requests have arrived."""
    meeting = threading.Barrier(4, timeout=20)

    def when_all_are_here(call: Call) -> None:
        meeting.wait()

    endpoint.behave(when_all_are_here)
    found = ask(arm_of(endpoint.url), 4)
    texts = [text_for(f"user: {PROMPT}", 100 + index) for index in range(4)]
    assert [sample.text for sample in found] == texts


# -- errors -----------------------------------------------------------------------------------------


def test_a_server_that_is_not_there() -> None:
    url = f"http://127.0.0.1:{unused_port()}/v1"
    (outcome,) = ask(arm_of(url))
    assert str(outcome) == f"{url} cannot be reached; start the server or correct base_url."
    assert outcome.retryable
    with pytest.raises(GenerationError, match="cannot be reached"):
        use(arm_of(url), lambda g: g.ping())


def test_an_answer_that_does_not_come(endpoint: Endpoint) -> None:
    late = failure(endpoint, Answer(delay=5), timeout=0.2)
    assert "did not answer within 0.2 seconds" in str(late)
    assert late.retryable


@pytest.mark.parametrize(
    "answer, said",
    [
        (HALF, "closed the connection before its reply was complete"),
        (NOT_JSON, "malformed reply"),
        (NO_CHOICES, "malformed reply"),
        (says([]), "malformed reply"),
        (says({"choices": None}), "malformed reply"),
        (says({"choices": [{"message": None}]}), "malformed reply"),
        (says({"choices": ["text"]}), "malformed reply"),
        (Answer(body=b""), "malformed reply"),
        (Answer(body=b"\xff\xfe"), "malformed reply"),
        (Answer(body=b"[" * 200_000), "malformed reply"),
        (says({"choices": [{"message": {"content": [1]}}]}), "content is not text"),
    ],
)
def test_replies_that_make_no_sense_may_be_tried_again(
    answer: Answer, said: str, endpoint: Endpoint
) -> None:
    outcome = failure(endpoint, answer, price=PRICE, max_tokens=9)
    assert said in str(outcome)
    assert outcome.retryable


def test_an_empty_text_was_paid_for(endpoint: Endpoint) -> None:
    empty = failure(endpoint, EMPTY, price=PRICE)
    assert "returned an empty text." in str(empty)
    assert empty.retryable
    assert (empty.input_tokens, empty.output_tokens) == (7, 1)
    assert empty.cost == pytest.approx((7 * 0.5 + 2.0) / 1000, rel=1e-12)


@pytest.mark.parametrize(
    "choice, said",
    [
        (
            {"message": {"content": None}, "finish_reason": "length"},
            "empty text; increase max_tokens",
        ),
        ({"message": {"content": "half a"}, "finish_reason": "content_filter"}, "filter"),
    ],
)
def test_other_ways_to_say_nothing(choice: Any, said: str, endpoint: Endpoint) -> None:
    outcome = failure(endpoint, says({"choices": [choice]}))
    assert said in str(outcome)
    assert outcome.retryable
    assert outcome.cost == 0.0  # another seed may do better


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 529])
def test_trouble_that_may_pass(status: int, endpoint: Endpoint) -> None:
    outcome = failure(endpoint, error(status, "slow down", retry_after=7))
    assert f"({status}: slow down)" in str(outcome)
    assert (outcome.retryable, outcome.retry_after) == (True, 7.0)


def test_a_wait_given_as_a_date(endpoint: Endpoint) -> None:
    when = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    outcome = failure(endpoint, error(503, retry_after=when))
    assert outcome.retry_after is not None
    assert 3000 < outcome.retry_after <= 3600


@pytest.mark.parametrize(
    "header, seconds",
    [
        ("1.5", 1.5),
        ("soon", None),
        ("-3", None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        ("Wed, 21 Oct 2015 07:28:00 -0000", 0.0),
    ],
)
def test_odd_waits(header: str, seconds: float | None, endpoint: Endpoint) -> None:
    assert failure(endpoint, error(429, retry_after=header)).retry_after == seconds


@pytest.mark.parametrize(
    "status, said",
    [
        (400, "rejects the request (400: no); correct the settings of the arm"),
        (422, "rejects the request (422: no)"),
        (405, "rejects the request (405: no)"),
        (404, "does not know the model 'tiny', or the URL is wrong (404: no)"),
        (401, "requires a key (401: no); set api_key_env"),
        (403, "requires a key (403: no)"),
    ],
)
def test_errors_that_a_retry_does_not_fix(status: int, said: str, endpoint: Endpoint) -> None:
    outcome = failure(endpoint, error(status))
    assert said in str(outcome)
    assert not outcome.retryable


def test_credit_and_filters_have_their_own_codes(endpoint: Endpoint) -> None:
    assert not failure(endpoint, error(429, code="insufficient_quota")).retryable
    endpoint.requests.clear()
    filtered = failure(endpoint, error(400, code="content_filter"))
    assert (filtered.retryable, filtered.cost) == (True, 0.0)


@pytest.mark.parametrize(
    "body, said",
    [
        (b'{"error": "plain words"}', "(400: plain words)"),
        (b'{"detail": "of FastAPI"}', "(400: of FastAPI)"),
        (b'["a"]', "(400: ['a'])"),
        (b"<html>\n  <b>no</b>", "(400: <html> <b>no</b>)"),
        (b"", "(400)"),
    ],
)
def test_reasons_in_many_forms(body: bytes, said: str, endpoint: Endpoint) -> None:
    assert said in str(failure(endpoint, Answer(400, body)))


def test_a_long_reason_is_cut(endpoint: Endpoint) -> None:
    outcome = failure(endpoint, error(400, "very " * 500))
    assert len(str(outcome)) < 350


# -- the key ----------------------------------------------------------------------------------------


def test_the_key_is_sent_and_a_local_server_gets_a_dummy(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", f" {KEY}\n")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-somebody-else")
    ask(arm_of(endpoint.url, api_key_env="MY_KEY"))
    ask(arm_of(endpoint.url))
    sent = [call.headers["authorization"] for call in endpoint.requests]
    assert sent == [f"Bearer {KEY}", "Bearer none"]


@pytest.mark.parametrize("padding", [0, 165, 180])
@pytest.mark.parametrize("status", [400, 401, 403, 404, 422, 429, 500])
def test_the_key_is_never_said(
    status: int,
    padding: int,
    endpoint: Endpoint,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The server echoes the Authorization header, near the place where its words are cut as well."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("MY_KEY", KEY)
    endpoint.behave(lambda call: error(status, "x" * padding + call.headers["authorization"]))
    generator = arm_of(endpoint.url, api_key_env="MY_KEY", prompt="hello")

    async def everything(g: Any) -> list[str]:
        (outcome,) = await collect(g, [Request(0, 1)])
        assert isinstance(outcome, GenerationError)
        said = [str(outcome), repr(outcome), repr(g), *traceback.format_exception(outcome)]
        try:
            await g.ping()
        except GenerationError as refused:
            said += traceback.format_exception(refused)
        return said

    said = "\n".join([*use(generator, everything), caplog.text])
    assert endpoint.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert not any(KEY[start : start + 8] in said for start in range(len(KEY) - 7))
    if status in (401, 403):
        assert "MY_KEY" in said


def test_a_key_that_is_not_set_or_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "http://127.0.0.1:1/v1"
    for value in (None, "", "  "):
        monkeypatch.delenv("MY_KEY", raising=False)
        if value is not None:
            monkeypatch.setenv("MY_KEY", value)
        with pytest.raises(InputError, match="MY_KEY is not set"):
            arm_of(url, api_key_env="MY_KEY")
    monkeypatch.setenv("MY_KEY", f"{KEY}\nX-Injected: 1")
    with pytest.raises(InputError, match="not allowed in a key") as caught:
        arm_of(url, api_key_env="MY_KEY")
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("name", [KEY, "sk_live_abc", "hf_AbCdEf", "MY KEY", ""])
def test_a_key_in_the_place_of_its_name(name: str) -> None:
    with pytest.raises(ValidationError) as caught:
        settings_of("http://127.0.0.1:1/v1", api_key_env=name)
    assert "use the NAME of an environment variable" in caught.value.errors()[0]["msg"]
    assert not name or name not in str(caught.value)


def test_a_key_in_a_setting_that_does_not_exist() -> None:
    with pytest.raises(ValidationError) as caught:
        settings_of("http://127.0.0.1:1/v1", api_key=KEY)
    assert KEY not in str(caught.value)


def test_without_an_address_the_request_goes_to_openai(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the environment says: a study says itself where its requests go."""
    monkeypatch.setenv("MY_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://elsewhere/v1")
    generator = arm_of(None, api_key_env="MY_KEY")
    assert str(generator._client.base_url) == "https://api.openai.com/v1/"
    asyncio.run(generator.close())


# -- ping and settings ------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [200, 404, 405, 429, 500])
def test_a_sign_of_life_is_enough(status: int, endpoint: Endpoint) -> None:
    endpoint.behave(lambda call: error(status) if status != 200 else None)
    use(arm_of(endpoint.url), lambda g: g.ping())
    assert [call.route for call in endpoint.requests] == ["/models"]


@pytest.mark.parametrize("answer", [HALF, NOT_JSON])
def test_an_odd_list_of_models_is_a_sign_of_life(answer: Answer, endpoint: Endpoint) -> None:
    endpoint.behave(lambda call: answer)
    use(arm_of(endpoint.url), lambda g: g.ping())


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_is_found_before_it_costs(
    status: int, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    endpoint.behave(lambda call: error(status, "wrong key"))
    with pytest.raises(GenerationError, match="rejects the key in MY_KEY") as caught:
        use(arm_of(endpoint.url, api_key_env="MY_KEY"), lambda g: g.ping())
    assert not caught.value.retryable


@pytest.mark.parametrize(
    "settings, said",
    [
        ({"base_url": "127.0.0.1:8080"}, "base_url is not a URL"),
        ({"base_url": "ftp://host/v1"}, "base_url is not a URL"),
        ({"base_url": "http://me:pw@host/v1"}, "contains a password"),
        ({"base_url": "http://host/v1?key=1"}, "contains a password or a query"),
        ({"base_url": None}, "set base_url, or set api_key_env"),
        ({"mode": "completion", "system": "s"}, "put them in the prompt"),
        ({"mode": "completion", "examples": [{"user": "a", "assistant": "b"}]}, "in the prompt"),
        ({"examples": [{"user": "a"}]}, "assistant"),
        ({"extra_body": {"n": 3}}, "which genmix sets"),
        ({"extra_body": {"stream": True}}, "which genmix sets"),
        ({"extra_body": {"temperature": 1}}, "use the arm's setting instead"),
        ({"price": {"input": 1}}, "output"),
        ({"price": {"input": -1, "output": 1}}, "greater than or equal to 0"),
        ({"temperature": -1}, "greater than or equal to 0"),
        ({"timeout": float("inf")}, "finite number"),
        ({"prompts": ["a"], "prompt": "b"}, "only one of"),
        ({"prompt": None}, "there is no prompt"),
    ],
)
def test_settings_that_make_no_sense(settings: Any, said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        settings_of(**{"url": "http://127.0.0.1:1/v1", **url_of(settings)})


def url_of(settings: dict[str, Any]) -> dict[str, Any]:
    return {("url" if name == "base_url" else name): value for name, value in settings.items()}


def test_the_endpoint_embeds_as_openai_does(endpoint: Endpoint) -> None:
    """The route that encoders are tested with; the package asks for base64 unless told otherwise."""
    from openai import OpenAI

    with OpenAI(api_key="none", base_url=endpoint.url, max_retries=0) as client:
        plain = client.embeddings.create(model="m", input=["a", "b"], encoding_format="float")
        packed = client.embeddings.create(model="m", input=["a", "b"])
    for text, row, other in zip("ab", plain.data, packed.data, strict=True):
        assert row.embedding == vector_for(text)
        assert other.embedding == pytest.approx(vector_for(text), abs=1e-7)
