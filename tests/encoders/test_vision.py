"""DINOv2, CLIP and Inception against the same models called by hand on images prepared by hand."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from genmix.encoders.base import EncodingError
from genmix.encoders.inception import InceptionSettings
from genmix.encoders.vision import ClipSettings, DinoV2Settings
from genmix.errors import InputError
from tests.encoders.test_encoders import IMAGES, TEXTS, one_sentence
from tests.support import tiny_encoders as tiny

if TYPE_CHECKING:  # imported where they are used, because they take seconds to load
    import torch
    from PIL import Image

IMAGENET = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
CLIPS = (
    np.array([0.48145466, 0.4578275, 0.40821073]),
    np.array([0.26862954, 0.26130258, 0.27577711]),
)


@pytest.fixture
def inference_mode() -> Iterator[None]:
    import torch

    with torch.inference_mode():
        yield


def picture(content: bytes | None) -> Image.Image:
    from PIL import Image

    assert content is not None
    return Image.open(io.BytesIO(content)).convert("RGB")


def pixels(image: Image.Image, shortest: int | None, side: int, scale: Any) -> torch.Tensor:
    """Shortest edge to a length, then the centre; or, without a length, all of it squeezed."""
    import torch
    from PIL import Image

    if shortest is None:
        image = image.resize((side, side), Image.Resampling.BICUBIC)
    else:
        width, height = image.size
        factor = shortest / min(width, height)
        image = image.resize((int(width * factor), int(height * factor)), Image.Resampling.BICUBIC)
        left, top = (image.width - side) // 2, (image.height - side) // 2
        image = image.crop((left, top, left + side, top + side))
    mean, deviation = scale
    array = (np.asarray(image) / 255 - mean) / deviation
    return torch.tensor(array.transpose(2, 0, 1)[None], dtype=torch.float32)


@pytest.mark.parametrize("crop", [True, False])
@pytest.mark.usefixtures("inference_mode")
def test_dinov2_is_the_class_token_after_the_last_norm(crop: bool, tmp_path: Path) -> None:
    from transformers import Dinov2Model

    tiny.dinov2_model(tmp_path / "model")
    model = Dinov2Model.from_pretrained(tmp_path / "model").eval()
    rows = DinoV2Settings(kind="dinov2", model="model", crop=crop).build(tmp_path).encode(IMAGES)
    for row, sample in zip(rows, IMAGES, strict=True):
        prepared = pixels(picture(sample.image), 32 if crop else None, 28, IMAGENET)
        tokens = model(prepared).last_hidden_state
        np.testing.assert_allclose(row, tokens[0, 0].numpy(), atol=1e-4)


@pytest.mark.parametrize("crop", [True, False])
@pytest.mark.usefixtures("inference_mode")
def test_clip_embeds_images_and_texts_into_one_space(crop: bool, tmp_path: Path) -> None:
    from transformers import AutoTokenizer, CLIPModel

    tiny.clip_model(tmp_path / "model")
    # As the published models have it: sizes as numbers, an older name of the class.
    old = {
        "crop_size": 28,
        "do_center_crop": True,
        "do_normalize": True,
        "do_resize": True,
        "feature_extractor_type": "CLIPFeatureExtractor",
        "image_mean": CLIPS[0].tolist(),
        "image_std": CLIPS[1].tolist(),
        "resample": 3,
        "size": 28,
    }
    (tmp_path / "model" / "preprocessor_config.json").write_text(json.dumps(old))
    model = CLIPModel.from_pretrained(tmp_path / "model").eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    samples = [TEXTS[0], IMAGES[0], IMAGES[3], TEXTS[2]]
    rows = ClipSettings(kind="clip", model="model", crop=crop).build(tmp_path).encode(samples)
    for row, sample in zip(rows, samples, strict=True):
        if sample.text is not None:
            tokens = tokenizer([sample.text], return_tensors="pt")
            hidden = model.text_model(**tokens).last_hidden_state[0, -1]  # its end mark
            expected = model.text_projection(hidden)
        else:
            prepared = pixels(picture(sample.image), 28 if crop else None, 28, CLIPS)
            expected = model.visual_projection(model.vision_model(prepared).pooler_output)[0]
        np.testing.assert_allclose(row, expected.numpy(), atol=1e-4)


def test_clip_cuts_what_is_too_long(tmp_path: Path) -> None:
    tiny.clip_model(tmp_path / "model")
    long = type(TEXTS[0])(text="many words " * 100)
    assert ClipSettings(kind="clip", model="model").build(tmp_path).encode([long]).shape == (1, 12)


def test_inception_is_called_as_stylegan_does(tmp_path: Path) -> None:
    """On uint8 images of their own size; an image twice as large with the same pixels is the same."""
    import torch

    script = torch.jit.load(str(tiny.inception_script(tmp_path / "i.pt")))
    rows = InceptionSettings(kind="inception", path="i.pt").build(tmp_path).encode(IMAGES)
    for row, sample in zip(rows, IMAGES, strict=True):
        array = np.array(picture(sample.image)).transpose(2, 0, 1)[None]
        expected = script(torch.from_numpy(array.copy()), return_features=True)
        np.testing.assert_allclose(row, expected.detach().numpy()[0], atol=1e-6)


def test_inception_files_that_are_not_there_or_something_else(tmp_path: Path) -> None:
    import torch

    with pytest.raises(InputError, match="inception-2015-12-05") as caught:
        InceptionSettings(kind="inception", path="missing.pt").build(tmp_path)
    one_sentence(caught.value)
    torch.save({"a": torch.ones(2)}, tmp_path / "weights.pt")
    (tmp_path / "text.pt").write_text("nothing")
    for name in ("weights.pt", "text.pt"):
        encoder = InceptionSettings(kind="inception", path=name).build(tmp_path)
        with pytest.raises(InputError, match="not a TorchScript") as caught:
            encoder.encode(IMAGES)
        one_sentence(caught.value)


def test_a_pickle_in_place_of_the_script_is_not_run(tmp_path: Path) -> None:
    import pickle

    import torch

    class Evil:
        def __reduce__(self) -> Any:
            return open, (str(tmp_path / "evidence"), "w")

    (tmp_path / "evil.pt").write_bytes(pickle.dumps(Evil()))
    torch.save(Evil(), tmp_path / "zipped.pt")
    for name in ("evil.pt", "zipped.pt"):
        with pytest.raises(InputError):
            InceptionSettings(kind="inception", path=name).build(tmp_path).load()
    assert not (tmp_path / "evidence").exists()


def test_a_model_that_fails_is_an_encoding_error(tmp_path: Path) -> None:
    import torch

    class Picky(torch.nn.Module):
        def forward(self, img: torch.Tensor, return_features: bool = False) -> torch.Tensor:
            return torch.reshape(img.float(), (img.shape[0], 7))  # no image has seven numbers

    torch.jit.script(Picky()).save(str(tmp_path / "picky.pt"))
    encoder = InceptionSettings(kind="inception", path="picky.pt").build(tmp_path)
    with pytest.raises(EncodingError, match="failed on 5 samples") as caught:
        encoder.encode(IMAGES)
    one_sentence(caught.value)
