"""Language models in this process: real classes with a few thousand random weights."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
import warnings
import weakref
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError

from genmix.errors import InputError
from genmix.generators import Context, GenerationError, Request, Sample, TransformersArm, collect
from genmix.generators.local_models import AbandonedError
from genmix.generators.transformers import _models
from tests.support.asking import ask, use
from tests.support.dashboard_server import wait_until
from tests.support.tiny_generators import save_language_model


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    save_language_model(folder / "endless", ends=False)
    save_language_model(folder / "ending")
    save_language_model(folder / "base", chat=False)
    return folder


def arm_of(folder: Path, model: str = "endless", **settings: Any) -> Any:
    plain = {"kind": "transformers", "model": model, "prompt": "the city", "max_new_tokens": 6}
    return TransformersArm.model_validate({**plain, **settings}).build(Context(folder, 0, "arm"))


def texts(generator: Any, count: int) -> list[str]:
    return [sample.text for sample in ask(generator, count)]


# -- drawing ----------------------------------------------------------------------------------------


def test_the_next_token_is_drawn_from_the_model_s_own_distribution(study: Path) -> None:
    """Drawn shares of the first token against the model's softmax, by a chi-squared statistic.

    Over the k tokens with an expected count of at least 5 (the rest pooled) it has k − 1 degrees of
    freedom; mean plus five standard deviations is k − 1 + 5·√(2(k − 1)).
    """
    count, temperature = 2000, 0.8
    generator = arm_of(study, max_new_tokens=1, temperature=temperature, together=True)
    drawn = Counter(x.text if isinstance(x, Sample) else "" for x in ask(generator, count))
    shares: dict[str, float] = defaultdict(float)
    for word, share in next_shares(study / "endless", "the city", temperature):
        shares[word] += share
    expected = {word: share * count for word, share in shares.items() if share * count >= 5}
    kept = sum(expected.values())
    rest = sum(number for word, number in drawn.items() if word not in expected)
    statistic = sum((drawn[word] - e) ** 2 / e for word, e in expected.items())
    statistic += (rest - (count - kept)) ** 2 / max(count - kept, 1)
    freedom = len(expected)
    assert freedom > 10
    assert statistic < freedom + 5 * (2 * freedom) ** 0.5


def next_shares(folder: Path, prompt: str, temperature: float) -> list[tuple[str, float]]:
    """Every token with its share, the likeliest first; special tokens are decoded to nothing."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    with torch.inference_mode():
        scores = model(**tokenizer(prompt, return_tensors="pt")).logits[0, -1]
    shares = (scores.double() / temperature).softmax(-1).tolist()
    words = [tokenizer.decode([token], skip_special_tokens=True) for token in range(len(shares))]
    return sorted(zip(words, shares, strict=True), key=lambda pair: -pair[1])


def test_top_k_and_top_p_leave_out_the_unlikely(study: Path) -> None:
    shares = next_shares(study / "endless", "the city", 1.0)
    likeliest = [word for word, _ in shares]
    assert set(texts(arm_of(study, max_new_tokens=1, top_k=2), 40)) == set(likeliest[:2])
    mass = shares[0][1] + shares[1][1] / 2  # reached by the second word
    assert set(texts(arm_of(study, max_new_tokens=1, top_p=mass), 40)) == set(likeliest[:2])
    assert set(texts(arm_of(study, max_new_tokens=1, temperature=0), 5)) == {likeliest[0]}


def test_texts_do_not_depend_on_what_else_draws_with_torch(study: Path) -> None:
    torch.manual_seed(1)
    before = texts(arm_of(study), 3)
    torch.manual_seed(2)
    state = torch.get_rng_state()
    assert texts(arm_of(study), 3) == before
    assert torch.equal(torch.get_rng_state(), state)  # nor does the arm disturb others


@pytest.mark.parametrize("model", ["endless", "ending"])
def test_together_gives_the_same_texts_up_to_rounding(model: str, study: Path) -> None:
    """Prompts of different lengths, so that rows are padded; rounding decides no draw here."""
    prompts = ["the city", "a river runs through the old town"]
    settings: Any = {"prompt": None, "prompts": prompts, "stop": ["the"]}

    def plain(**more: Any) -> list[Any]:
        found = ask(arm_of(study, model, **settings, **more), 8)
        return [x if isinstance(x, Sample) else (str(x), x.output_tokens) for x in found]

    apart, at_once = plain(), plain(together=True)
    if model == "ending":
        assert at_once == apart
    else:  # no end of a text is known, so rows go on being counted after a text to stop at
        assert [x.text for x in at_once if isinstance(x, Sample)] == [
            x.text for x in apart if isinstance(x, Sample)
        ]


def test_the_model_s_own_sampling_settings_do_not_interfere(study: Path, tmp_path: Path) -> None:
    """Many models come with a generation_config.json that samples in its own way."""
    folder = save_language_model(tmp_path / "own", ends=False)
    path = folder / "generation_config.json"
    own = {"do_sample": True, "temperature": 0.01, "top_k": 1, "repetition_penalty": 9.0}
    path.write_text(json.dumps({**json.loads(path.read_text()), **own}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert texts(arm_of(tmp_path, "own"), 3) == texts(arm_of(study), 3)


def test_a_repetition_penalty_changes_the_text(study: Path) -> None:
    plain = {"temperature": 0, "max_new_tokens": 12}
    repeated = texts(arm_of(study, **plain), 1)[0].split()
    assert len(set(repeated)) < len(repeated)
    varied = texts(arm_of(study, repetition_penalty=50.0, **plain), 1)[0].split()
    assert len(set(varied)) == len(varied)


# -- texts and tokens -------------------------------------------------------------------------------


def test_tokens_are_counted(study: Path) -> None:
    (sample,) = ask(arm_of(study, prompt="the city by the bay", price=0.5))
    assert (sample.input_tokens, sample.output_tokens) == (5, 6)
    assert len(sample.text.split()) == 6
    assert sample.prompt == "the city by the bay"
    assert sample.cost == 0.5


def test_a_text_ends_at_the_end_token_or_at_a_text_to_stop_at(study: Path) -> None:
    whole = ask(arm_of(study, max_new_tokens=12), 6)
    cut = ask(arm_of(study, max_new_tokens=12, stop=["city", "the"]), 6)
    shorter = 0
    for before, after in zip(whole, cut, strict=True):
        words = before.text.split()
        places = [i for i, word in enumerate(words) if "the" in word or "city" in word]
        if not places:
            assert after == before
            continue
        assert isinstance(after, Sample | GenerationError)
        assert after.output_tokens == places[0] + 1
        shorter += 1
    assert shorter
    ended = ask(arm_of(study, "ending", max_new_tokens=30), 20)
    assert any(x.output_tokens < 30 for x in ended)
    assert not any("<end>" in x.text for x in ended if isinstance(x, Sample))


def test_an_empty_text_is_a_failure_that_another_seed_may_avoid(study: Path) -> None:
    found = ask(arm_of(study, "ending", max_new_tokens=1, price=0.5), 200)
    empty = [x for x in found if isinstance(x, GenerationError)]
    assert 0 < len(empty) < 100
    assert all(x.retryable and x.cost == 0.5 and "empty text" in str(x) for x in empty)


def test_a_chat_template_with_a_system_prompt(study: Path) -> None:
    (plain,) = ask(arm_of(study, chat=True, prompt="the city"))
    assert plain.input_tokens == 4  # <user> the city <assistant>
    (with_system,) = ask(arm_of(study, chat=True, prompt="the city", system="you are a poet"))
    assert with_system.input_tokens == 4 + 5
    assert with_system.prompt == "the city"
    (refused,) = ask(arm_of(study, "base", chat=True))
    assert "has no chat template; set 'chat: false'" in str(refused)
    assert not refused.retryable


# -- models -----------------------------------------------------------------------------------------


def test_arms_with_the_same_model_share_it_until_the_last_is_closed(study: Path) -> None:
    async def session() -> weakref.ref[Any]:
        first = arm_of(study, prompt="the city")
        second = arm_of(study, prompt="a river", temperature=0.5)
        other = arm_of(study, "ending")
        assert first._shared is second._shared
        assert first._shared is not other._shared
        await asyncio.gather(*(collect(g, [Request(0, 1)]) for g in (first, second, other)))
        model = first._shared.get().model
        assert model is second._shared.get().model
        await first.close()
        with pytest.raises(GenerationError, match="closed"):
            await collect(first, [Request(0, 1)])
        assert isinstance((await collect(second, [Request(0, 1)]))[0], Sample)
        await second.close()
        await other.close()
        return weakref.ref(model)

    gone = asyncio.run(session())
    # The threads of the last calls can still be ending.
    wait_until(lambda: gc.collect() >= 0 and gone() is None)
    assert not _models.models


def test_a_text_that_nobody_waits_for_ends_at_the_next_token(study: Path) -> None:
    generator = arm_of(study, max_new_tokens=50)
    model = generator._shared.get()
    steps: list[int] = []
    hook = model.model.register_forward_hook(lambda *_: steps.append(1))
    stop = threading.Event()
    assert generator.make(model, [Request(0, 1)], stop)
    assert len(steps) == 50
    stop.set()
    with pytest.raises(AbandonedError):
        generator.make(model, [Request(0, 1)], stop)
    assert len(steps) == 51
    hook.remove()
    asyncio.run(generator.close())


def test_after_a_cancellation_no_further_text_is_begun(study: Path) -> None:
    generator = arm_of(study, max_new_tokens=20)
    begun, make = [], generator.make
    first, go_on = threading.Event(), threading.Event()

    def watched(model: Any, requests: Any, stop: Any) -> Any:
        begun.append(requests)
        first.set()
        go_on.wait(20)
        return make(model, requests, stop)

    generator.make = watched

    async def impatient(g: Any) -> None:
        call = asyncio.ensure_future(collect(g, [Request(i, i) for i in range(5)]))
        await asyncio.to_thread(first.wait, 20)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        go_on.set()
        await collect(g, [])  # waits for the model to be free

    use(generator, impatient)
    assert len(begun) == 1


def test_models_may_be_loaded_at_the_same_time(study: Path, tmp_path: Path) -> None:
    """transformers itself cannot do this: weights get lost if two loads overlap."""
    names = [save_language_model(tmp_path / f"m{i}", ends=False).name for i in range(4)]
    alone = texts(arm_of(study), 2)

    async def session() -> list[Any]:
        arms = [arm_of(tmp_path, name, dtype="float32") for name in names]
        arms.append(arm_of(study, dtype="bfloat16"))
        found = await asyncio.gather(
            *(collect(g, [Request(i, 100 + i) for i in range(2)]) for g in arms)
        )
        for generator in arms:
            await generator.close()
        return found[:4]

    for found in asyncio.run(session()):
        assert [sample.text for sample in found] == alone
    assert torch.get_default_dtype() == torch.float32


def test_models_that_cannot_be_loaded(study: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no model in .*none \(config.json is missing\)"):
        arm_of(study, "./none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="there is no model in"):
        arm_of(tmp_path, "empty")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{}")
    with pytest.raises(GenerationError, match="the model broken cannot be loaded") as caught:
        ask(arm_of(tmp_path, "broken"))
    assert not caught.value.retryable


def test_a_prompt_that_is_too_long_is_a_failure(study: Path) -> None:
    (outcome,) = ask(arm_of(study, prompt="the city " * 100))
    assert isinstance(outcome, GenerationError)
    assert "the model endless failed" in str(outcome)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_precision_is_chosen(dtype: str, study: Path) -> None:
    generator = arm_of(study, dtype=dtype, device="cpu")
    assert generator._shared.get().model.dtype == getattr(torch, dtype)
    assert ask(generator)[0].text


def test_a_device_that_is_not_there(study: Path) -> None:
    with pytest.raises(InputError, match="the device cuda:99 is not available"):
        arm_of(study, device="cuda:99")


@pytest.mark.parametrize(
    "settings, said",
    [
        ({"trust_remote_code": True}, "genmix never runs code that comes with a model"),
        ({"system": "s"}, "set 'chat: true'"),
        ({"prompt": None}, "there is no prompt"),
        ({"device": "tpu"}, "pattern"),
        ({"dtype": "int8"}, "float32"),
        ({"top_p": 0}, "greater than 0"),
    ],
)
def test_settings_that_make_no_sense(settings: Any, said: str, study: Path) -> None:
    with pytest.raises(ValidationError, match=said):
        arm_of(study, **settings)
