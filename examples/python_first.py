"""A study in Python, with your own functions and an array: ``python examples/python_first.py``."""

import random
import zlib

import numpy as np

import genmix as gx

PLACES = ["Boston", "Denver", "Austin", "Seattle", "Chicago", "Memphis", "Tucson", "Omaha"]
VERBS = ["sleeps", "sings", "rises", "waits", "shines", "hums"]


def small_model(seeds):
    """One text per seed; a list of texts is all that an arm has to return."""
    return [f"{random.Random(seed).choice(PLACES[:3])} sleeps." for seed in seeds]


async def large_model(seeds, verbs):
    """An async function can await an API; a dict can also contain the cost and the quality of a sample."""
    choices = [random.Random(seed) for seed in seeds]
    texts = [f"{choice.choice(PLACES)} {choice.choice(verbs)}." for choice in choices]
    return [{"text": text, "cost": 0.001 * len(text)} for text in texts]


def embed(texts):
    """An array with one row per text. Here, words are hashed; use your model."""
    rows = np.zeros((len(texts), 32))
    for row, text in zip(rows, texts, strict=True):
        row[[zlib.crc32(word.encode()) % 32 for word in text.split()]] = 1
    return rows


real = embed([f"{place} {verb}." for place in PLACES for verb in VERBS])

study = {
    "name": "cities",
    "arms": {
        "small": small_model,
        "large": {
            "kind": "callable",
            "function": large_model,
            "arguments": {"verbs": VERBS},
            "concurrency": 4,
        },
    },
    "encoder": embed,
    "objective": gx.Vendi() + 0.3 * gx.Precision(real),
    "policy": gx.MixtureGreedy(),
    "budget": {"samples": 50},
}

if __name__ == "__main__":
    run = gx.run(study, "runs/cities")
    print(run.status, run.counts)
    run = gx.resume(run, samples=75, study=study)  # now 25 more
    print(run.status, run.counts)
