"""Make the topics world: real answers from two small language models to 24 prompts,
and embeddings of the prompts and the answers.

    HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 python worlds/topics/make.py

This needs the packages of requirements-real.lock and about half an hour on two cores. Raw texts are
collected in build/topics/raw.jsonl, so an interrupted run continues from there. The files of the world are
written once all texts exist.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import json
import queue
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
RAW = HERE.parent.parent / "build" / "topics" / "raw.jsonl"

ANSWERS = 40
"""Number of answers from each arm to each prompt."""

WORKERS = 2
"""Number of workers. Each has its own servers and requests one text at a time, which is reproducible."""

TOPICS = {
    "travel": [
        "Recommend a place to visit in the summer.",
        "Describe a walk through an old town.",
        "Suggest a weekend trip by train.",
        "Tell me about a beach that few people know.",
    ],
    "recipes": [
        "Suggest a quick dinner for two.",
        "Describe a dish with potatoes.",
        "Name a dessert and say how to make it.",
        "Suggest a soup for a cold day.",
    ],
    "code": [
        "Suggest a small programming project for a beginner.",
        "Explain what a function is.",
        "Describe a bug that is hard to find.",
        "Give a tip for writing readable code.",
    ],
    "verse": [
        "Write a line of a poem about the sea.",
        "Write a line of a poem about the night.",
        "Write a line of a song about home.",
        "Write a line of a poem about winter.",
    ],
    "science": [
        "State a surprising fact about animals.",
        "State a surprising fact about the planets.",
        "Explain something about water.",
        "State a surprising fact about the human body.",
    ],
    "stories": [
        "Write the first sentence of a mystery.",
        "Write the first sentence of a fairy tale.",
        "Write the last sentence of a novel.",
        "Describe a person on a train.",
    ],
}
"""The prompts of each group."""

SMOL = {
    "model": "smollm2",
    "temperature": 1.0,
    "max_tokens": 32,
    "stop": ["\n"],
    "prompt": "{prompt}",
}
GEMMA = {**SMOL, "model": "gemma3", "mode": "completion"}

GUIDE = "You are a travel guide. Be concrete: name places."
CHEF = "You are a chef who thinks of food all day. Be concrete: name ingredients."
SCHOLAR = "You are a scientist and programmer. Be concrete: name facts."
LIST = """\
Short answers, each about something else.
Question: Name a hobby.
Answer: Building kites from newspaper.
Question: {prompt}
Answer:"""
WRITER = """\
From the notebook of a writer.
Prompt: Describe a room.
Text: Dust turned gold above the piano nobody played.
Prompt: {prompt}
Text:"""

ARMS: dict[str, dict[str, Any]] = {
    "smol/plain": SMOL,
    "smol/guide": {**SMOL, "system": GUIDE},
    "smol/chef": {**SMOL, "system": CHEF},
    "smol/scholar": {**SMOL, "system": SCHOLAR},
    "gemma/list": {**GEMMA, "prompt": LIST},
    "gemma/writer": {**GEMMA, "prompt": WRITER},
}

Place = tuple[str, int, int]
"""The label of an arm, and the numbers of a prompt and of an answer."""


def prompts() -> list[tuple[str, str]]:
    """The prompts in order, each with its group."""
    return [(text, topic) for topic, texts in TOPICS.items() for text in texts]


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


city = load(HERE.parent / "city" / "make.py")


def seed_of(place: Place) -> int:
    """A 31-bit seed for one text."""
    name = "topics {} {} {}".format(*place)
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4]) >> 1


def draw(place: Place, addresses: dict[str, str]) -> dict[str, Any]:
    """One answer; an empty text is drawn again with the next seed."""
    arm, prompt, answer = place
    settings = dict(ARMS[arm])
    settings["prompt"] = settings["prompt"].replace("{prompt}", prompts()[prompt][0])
    seed = seed_of(place)
    while True:
        reply = city.ask(settings, addresses[settings["model"]], seed)
        if city.clean(reply["text"]):
            return {"arm": arm, "prompt": prompt, "answer": answer, **reply}
        seed += 1


def blocks(have: set[Place]) -> Iterator[list[Place]]:
    """The texts that are still missing: the answers of one arm to one prompt are drawn together."""
    for prompt in range(len(prompts())):
        for arm in ARMS:
            block = [(arm, prompt, answer) for answer in range(ANSWERS)]
            if missing := [place for place in block if place not in have]:
                yield missing


def gather(raw: Path) -> list[dict[str, Any]]:
    """All texts; those that are missing from the file are drawn and appended to it."""
    raw.parent.mkdir(parents=True, exist_ok=True)
    rows = city.read_rows(raw)
    waiting: queue.SimpleQueue[list[Place]] = queue.SimpleQueue()
    for block in blocks({(row["arm"], row["prompt"], row["answer"]) for row in rows}):
        waiting.put(block)
    lock, failures = threading.Lock(), list[BaseException]()

    def work() -> None:
        try:
            with city.servers() as addresses, raw.open("a", encoding="utf-8") as file:
                while not failures and not waiting.empty():
                    for place in waiting.get_nowait():
                        line = json.dumps(draw(place, addresses), ensure_ascii=False)
                        with lock:
                            file.write(line + "\n")
                            file.flush()
                    print(f"{waiting.qsize()} blocks left", flush=True)
        except queue.Empty:
            pass  # the other worker took the last block
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(0 if waiting.empty() else WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return list(city.read_rows(raw))


def write(rows: list[dict[str, Any]], folder: Path) -> None:
    rows = sorted(
        rows, key=lambda row: (list(ARMS).index(row["arm"]), row["prompt"], row["answer"])
    )
    texts = [city.clean(row["text"]) for row in rows]
    shape = (len(ARMS), len(prompts()), ANSWERS, 384)
    answers = city.embed(texts).reshape(shape)
    asked = city.embed([text for text, _ in prompts()])
    tokens = np.array([row["output_tokens"] for row in rows]).reshape(shape[:3]).mean(axis=(1, 2))
    world = {
        "name": "topics",
        "note": "answers of two small language models to 24 prompts on six topics",
        "arms": list(ARMS),
        "answers_per_prompt": ANSWERS,
        "prompts": [{"text": text, "group": topic} for text, topic in prompts()],
        "costs": {arm: round(float(mean), 3) for arm, mean in zip(ARMS, tokens, strict=True)},
        "cost_unit": "tokens",
        "encoders": {
            "minilm": {
                "file": "minilm.npz",
                "name": "all-MiniLM-L6-v2, unit length",
                "dimension": 384,
            }
        },
    }
    (folder / "world.json").write_text(json.dumps(world, indent=2) + "\n", "utf-8")
    pools = {f"arm_{place}": answers[place].reshape(-1, 384) for place in range(len(ARMS))}
    np.savez_compressed(folder / "minilm.npz", prompts=asked, **pools)
    kept = ("arm", "prompt", "seed", "input_tokens", "output_tokens")
    lines = [
        json.dumps({**{key: row[key] for key in kept}, "text": text}, ensure_ascii=False) + "\n"
        for row, text in zip(rows, texts, strict=True)
    ]
    (folder / "texts.jsonl.gz").write_bytes(gzip.compress("".join(lines).encode(), mtime=0))


if __name__ == "__main__":
    write(gather(RAW), HERE)
