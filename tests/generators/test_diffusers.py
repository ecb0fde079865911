"""Image pipelines in this process: real classes with a few thousand random weights."""

from __future__ import annotations

import asyncio
import io
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from pydantic import ValidationError

from genmix.errors import InputError
from genmix.generators import Context, DiffusersArm, GenerationError, Request, Sample, collect
from genmix.generators.local_models import AbandonedError
from tests.support.asking import ask
from tests.support.tiny_generators import save_text_to_image_pipeline, save_unconditional_pipeline


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    save_unconditional_pipeline(folder / "ddpm")
    save_text_to_image_pipeline(folder / "sd")
    return folder


def arm_of(folder: Path, model: str, **settings: Any) -> Any:
    plain = {"kind": "diffusers", "model": model, "steps": 2, **settings}
    return DiffusersArm.model_validate(plain).build(Context(folder, 0, "arm"))


def text_arm(folder: Path, **settings: Any) -> Any:
    return arm_of(folder, "sd", **{"prompt": "a city", "height": 16, "width": 16, **settings})


def pixels(sample: Any) -> Any:
    assert isinstance(sample, Sample), str(sample)
    assert sample.image is not None
    return np.asarray(Image.open(io.BytesIO(sample.image), formats=["PNG"]))


def test_images_are_those_of_the_pipeline_itself(study: Path) -> None:
    from diffusers import DDPMPipeline

    pipeline = DDPMPipeline.from_pretrained(study / "ddpm")
    pipeline.set_progress_bar_config(disable=True)
    wanted = [
        np.asarray(
            pipeline(
                generator=torch.Generator().manual_seed(100 + i), num_inference_steps=2
            ).images[0]
        )
        for i in range(2)
    ]
    found = [pixels(sample) for sample in ask(arm_of(study, "ddpm", price=0.5), 2)]
    assert np.array_equal(found, wanted)


def test_settings_reach_the_pipeline(study: Path) -> None:
    (plain,) = ask(text_arm(study))
    assert plain.prompt == "a city"
    assert pixels(plain).shape == (16, 16, 3)
    for change in (
        {"prompt": "a forest"},
        {"negative_prompt": "grey"},
        {"guidance": 1.5},
        {"steps": 4},
        {"height": 32},
    ):
        (other,) = ask(text_arm(study, **change))
        assert other.image != plain.image, change
    (wide,) = ask(text_arm(study, width=32))
    assert pixels(wide).shape == (16, 32, 3)


def test_prompts_are_used_in_turn(study: Path) -> None:
    found = ask(text_arm(study, prompt=None, prompts=["a", "b"], price=0.25), 3)
    assert [(sample.prompt, sample.cost) for sample in found] == [
        ("a", 0.25),
        ("b", 0.25),
        ("a", 0.25),
    ]


def test_images_do_not_depend_on_what_else_draws_with_torch(study: Path) -> None:
    torch.manual_seed(1)
    before = ask(text_arm(study), 2)
    torch.manual_seed(2)
    state = torch.get_rng_state()
    assert ask(text_arm(study), 2) == before
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    "model, settings, said",
    [
        ("ddpm", {"guidance": 2.0}, "DDPMPipeline does not support 'guidance'; remove it"),
        ("ddpm", {"prompt": "a"}, "DDPMPipeline does not support 'prompt'; remove it"),
        ("ddpm", {"height": 8}, "DDPMPipeline does not support 'height'; remove it"),
        ("sd", {}, "StableDiffusionPipeline needs a prompt"),
    ],
)
def test_settings_that_the_pipeline_does_not_know(
    model: str, settings: Any, said: str, study: Path
) -> None:
    first, second = ask(arm_of(study, model, **settings), 2)
    for outcome in (first, second):
        assert isinstance(outcome, GenerationError)
        assert said in str(outcome)
        assert not outcome.retryable


def test_what_the_pipeline_itself_refuses_is_a_failure(study: Path) -> None:
    (outcome,) = ask(text_arm(study, height=17))
    assert isinstance(outcome, GenerationError)
    assert "divisible by 8" in str(outcome)


def test_a_blanked_image_is_a_failure_that_another_seed_may_avoid(tmp_path: Path) -> None:
    save_text_to_image_pipeline(tmp_path / "prudish", prudish=True)
    settings: Any = {"prompt": "a", "height": 16, "width": 16, "price": 0.5}
    (outcome,) = ask(arm_of(tmp_path, "prudish", **settings))
    assert isinstance(outcome, GenerationError)
    assert str(outcome) == "the safety checker of prudish rejected the image."
    assert (outcome.retryable, outcome.cost) == (True, 0.5)


def test_an_image_that_nobody_waits_for_is_left_at_the_next_step(study: Path) -> None:
    generator = text_arm(study, steps=20)
    pipeline = generator._shared.get()
    steps: list[int] = []
    hook = pipeline.unet.register_forward_hook(lambda *_: steps.append(1))
    stop = threading.Event()
    assert generator.make(pipeline, [Request(0, 1)], stop)
    whole = len(steps)
    assert whole >= 20
    stop.set()
    with pytest.raises(AbandonedError):
        generator.make(pipeline, [Request(0, 1)], stop)
    assert len(steps) == whole + 1
    hook.remove()
    assert ask(generator) == ask(text_arm(study, steps=20))  # the pipeline is as good as before


def test_arms_with_the_same_pipeline_share_it(study: Path) -> None:
    async def session() -> None:
        first, second = text_arm(study), text_arm(study, prompt="b", guidance=3.0)
        both = await asyncio.gather(*(collect(g, [Request(0, 1)]) for g in (first, second)))
        assert first._shared.get() is second._shared.get()
        assert both[0][0].image != both[1][0].image
        for generator in (first, second):
            await generator.close()

    asyncio.run(session())


def test_pipelines_that_are_not_there(study: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"model_index.json is missing"):
        arm_of(study, "./none")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "model_index.json").write_text("{}")
    with pytest.raises(GenerationError, match="the model broken cannot be loaded") as caught:
        ask(arm_of(tmp_path, "broken"))
    assert not caught.value.retryable


@pytest.mark.parametrize("name", ["trust_remote_code", "custom_pipeline"])
def test_code_from_elsewhere_is_refused(name: str, study: Path) -> None:
    with pytest.raises(ValidationError, match="genmix never runs code that comes with a model"):
        arm_of(study, "ddpm", **{name: True})


def test_a_negative_prompt_alone_is_refused(study: Path) -> None:
    with pytest.raises(ValidationError, match="negative_prompt needs a prompt"):
        arm_of(study, "sd", negative_prompt="grey")
