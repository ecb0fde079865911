"""Small models of the classes that the real encoders load, with random weights, saved to a folder."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def png(rng: np.random.Generator, width: int = 40, height: int = 36) -> bytes:
    """A smooth random picture: resized noise, so that resizing it again loses little."""
    from PIL import Image

    small = rng.integers(0, 256, (5, 5, 3), dtype=np.uint8)
    return encoded(Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC))


def encoded(image: Any, kind: str = "PNG") -> bytes:
    target = io.BytesIO()
    image.save(target, kind)
    return target.getvalue()


def sentence_model(folder: Path) -> Path:
    """BERT with two layers and mean pooling: the shape of MiniLM."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import BertConfig, BertModel, BertTokenizer

    torch.manual_seed(0)
    folder.mkdir(parents=True)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *(f"##{c}" for c in LETTERS)]
    (folder / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
    )
    BertModel(config).save_pretrained(folder / "bert")
    BertTokenizer(vocab=str(folder / "vocab.txt")).save_pretrained(folder / "bert")
    body = Transformer(str(folder / "bert"), max_seq_length=48)
    SentenceTransformer(modules=[body, Pooling(16)], device="cpu").save(str(folder / "model"))
    return folder / "model"


def dinov2_model(folder: Path) -> Path:
    import torch
    from transformers import BitImageProcessorPil, Dinov2Config, Dinov2Model

    torch.manual_seed(1)
    config = Dinov2Config(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, image_size=42, patch_size=14
    )
    Dinov2Model(config).save_pretrained(folder)
    BitImageProcessorPil(
        size={"shortest_edge": 32},
        crop_size={"height": 28, "width": 28},
        image_mean=[0.485, 0.456, 0.406],
        image_std=[0.229, 0.224, 0.225],
    ).save_pretrained(folder)
    return folder


def clip_model(folder: Path) -> Path:
    import torch
    from transformers import CLIPConfig, CLIPImageProcessorPil, CLIPModel, CLIPTokenizer

    torch.manual_seed(2)
    folder.mkdir(parents=True)
    marks = ["<|startoftext|>", "<|endoftext|>"]
    symbols = [*LETTERS, *(f"{c}</w>" for c in LETTERS + ".,"), ".", ",", *marks]
    vocabulary = {symbol: place for place, symbol in enumerate(symbols)}
    (folder / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    (folder / "merges.txt").write_text("#version: 0.2\n", encoding="utf-8")
    tokenizer = CLIPTokenizer(
        vocab=str(folder / "vocab.json"), merges=str(folder / "merges.txt"), model_max_length=77
    )
    tokenizer.save_pretrained(folder)
    part = {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
    }
    ids = {"bos_token_id": len(symbols) - 2, "eos_token_id": len(symbols) - 1}
    config = CLIPConfig(
        text_config={**part, **ids, "vocab_size": len(symbols), "pad_token_id": len(symbols) - 1},
        vision_config={**part, "image_size": 28, "patch_size": 14},
        projection_dim=12,
    )
    CLIPModel(config).save_pretrained(folder)
    CLIPImageProcessorPil(
        size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28}
    ).save_pretrained(folder)
    return folder


def inception_script(file: Path) -> Path:
    """A script that is called as the real one is: uint8 images of any size, features on request."""
    import torch

    class Tiny(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = torch.nn.Conv2d(3, 10, 3, stride=2)
            self.head = torch.nn.Linear(10, 4)

        def forward(self, img: torch.Tensor, return_features: bool = False) -> torch.Tensor:
            assert img.dtype == torch.uint8
            small = torch.nn.functional.interpolate(
                img.float(), size=(9, 9), mode="bilinear", align_corners=False
            )
            features = self.body((small - 128) / 128).relu().mean(dim=[2, 3])
            if return_features:
                return features
            return self.head(features).softmax(dim=1)

    torch.manual_seed(3)
    file.parent.mkdir(parents=True, exist_ok=True)
    torch.jit.script(Tiny().eval()).save(str(file))
    return file


class Counting:
    """An encoder and how many samples it was asked for."""

    def __init__(self, encoder: Any) -> None:
        self.encoder, self.asked = encoder, 0
        self.name = encoder.name

    @property
    def dimension(self) -> int | None:
        return self.encoder.dimension

    def encode(self, samples: Any) -> Any:
        self.asked += len(samples)
        return self.encoder.encode(samples)

    def load(self) -> None:
        self.encoder.load()

    def close(self) -> None:
        self.encoder.close()


def letter_counts(texts: list[str]) -> list[list[int]]:
    """An encoder in a module that can be imported."""
    return [[text.count(letter) for letter in LETTERS] for text in texts]
