"""The example that ``genmix init`` writes. It runs in seconds without additional packages."""

from __future__ import annotations

import json
import os
from pathlib import Path

from genmix.errors import InputError
from genmix.study.edited_text import text_with
from genmix.study.study import json_schema, valid_name

EXAMPLE = """\
# yaml-language-server: $schema=study.schema.json
#
# A study: generators ("arms"), an encoder, an objective and a budget.
#   genmix check study.yaml     validates the study and draws one sample from each arm
#   genmix run study.yaml       generates the samples and learns the best mixture as it goes
# Paths are relative to this file. Keep secrets out of it: use environment variables instead.

name: cities                  # also the name of the run folder in runs/
seed: 0

# The generators, each under a label that you choose. These three are functions in arms.py.
# Other kinds: recorded (existing files), command (any program), openai (any compatible
# endpoint), transformers and diffusers (models on this machine).
arms:
  coast:
    kind: callable
    function: arms:postcard
    arguments: {cities: [Boston, Miami, Seattle, Baltimore, Honolulu, San Diego]}
  inland:
    kind: callable
    function: arms:postcard
    arguments: {cities: [Denver, Austin, Chicago, Nashville]}
    batch: 4                  # at most 4 samples per call
  slogan:                     # says almost the same thing every time
    kind: callable
    function: arms:slogan
#  smol:
#    kind: openai
#    model: smollm2
#    base_url: http://127.0.0.1:8081/v1
#    api_key_env: MY_KEY      # the NAME of the variable that contains the key
#    prompt: "Write a short sentence about a vibrant city in the U.S."
#    concurrency: 4           # concurrent calls
#    variants:                # one arm per variant: smol/plain and smol/cold
#      plain: {}
#      cold: {temperature: 0.5}

# The encoder turns samples into vectors. This one is also a function in arms.py. Better ones:
# {kind: sentence-transformers, model: all-MiniLM-L6-v2} for text, {kind: dinov2} for images.
encoder:
  kind: callable
  function: arms:embed

# What to optimize over all samples together. Write a sum as a list:
#   - vendi: {order: 1, kernel: cosine}
#   - precision: {k: 5, weight: 0.3}
objective: vendi
# reference: real.npz         # real samples, for objectives that compare with them

policy: mixture-ucbv          # does not lock out arms; mixture-greedy is the paper's
warm_start: 10                # samples per arm before the first mixture is computed

budget:                       # the run ends when it reaches the first limit
  samples: 200
#  cost: 1.50
#  time: 30m

# weights: {at_least: {slogan: 0.05}, at_most: {coast: 0.5}}
# draw: iid                   # or tracking; by default, what the policy prefers
# resolve_growth: 0.01        # recompute the mixture whenever the sample count grows by 1%
# in_flight: 8                # concurrent samples across all arms
# retries: {attempts: 5, first_wait: 1.0, longest_wait: 60.0, timeout: 300.0}
# stop_when: {weights_within: 0.01, over: 100}
# keep: {samples: 100}        # the data set: the 100 samples that score best together
"""

ARMS = '''\
"""Generators and an encoder for study.yaml, as plain functions."""

import random
import re
import zlib

import numpy as np

PLACES = ["the old harbor", "a jazz club", "the night market", "a rooftop bar", "the ball park"]
FEELINGS = ["hums with music", "smells of coffee", "never sleeps", "feels like home", "glows at dusk"]


def postcard(seeds, cities):
    """Return one text per seed; the same seed always produces the same text."""
    found = []
    for seed in seeds:
        draw = random.Random(seed)
        city, place, feeling = map(draw.choice, (cities, PLACES, FEELINGS))
        found.append(f"In {city}, {place} {feeling}.")
    return found


def slogan(seeds):
    """Return dicts, which can also report the cost and the quality of a sample."""
    return [{"text": f"New York has it all{'!' * (seed % 3)}", "cost": 0.0} for seed in seeds]


def embed(texts):
    """Return one row per text: word counts, hashed into 256 columns."""
    rows = np.zeros((len(texts), 256))
    for row, text in zip(rows, texts):
        for word in re.findall("[a-z]+", text.lower()):
            row[zlib.crc32(word.encode()) % 256] += 1
    return rows
'''


def write_example(folder: str | os.PathLike[str], force: bool = False) -> list[Path]:
    """Write the example and its schema to ``folder``; overwrite files only if ``force`` is true.

    The study is named after the folder.
    """
    content = {
        "study.yaml": text_with(EXAMPLE, {"name": valid_name(Path(folder).resolve().name)}),
        "arms.py": ARMS,
        "study.schema.json": json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n",
    }
    paths = [Path(folder) / name for name in content]
    taken = next((path for path in paths if path.exists()), None)
    if taken is not None and not force:
        raise InputError(
            f"{taken} already exists; choose another folder, or overwrite it with --force."
        )
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        for path, text in zip(paths, content.values(), strict=True):
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"cannot write the example to {folder} ({error.strerror}); choose another folder."
        ) from error
    return paths
