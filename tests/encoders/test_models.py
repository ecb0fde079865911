"""Where a model comes from: a folder, an installed package, the hub; and what is refused."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from genmix.encoders.sentence_transformers import SentenceTransformersSettings
from genmix.encoders.vision import ClipSettings, DinoV2Settings
from genmix.errors import InputError
from tests.encoders.test_encoders import IMAGES, TEXTS, one_sentence
from tests.support import tiny_encoders as tiny


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    tiny.sentence_model(folder / "sbert")
    tiny.dinov2_model(folder / "dinov2")
    return folder


def sbert(**settings: Any) -> SentenceTransformersSettings:
    return SentenceTransformersSettings(kind="sentence-transformers", **settings)


def dinov2(**settings: Any) -> DinoV2Settings:
    return DinoV2Settings(kind="dinov2", **settings)


def refused(settings: Any, folder: Path, *parts: str) -> None:
    with pytest.raises(InputError) as caught:
        settings.build(folder).load()
    text = one_sentence(caught.value)
    for part in parts:
        assert part in text, text


# -- folders and packages ----------------------------------------------------------------------------


def test_a_folder_is_known_by_its_content(models: Path, tmp_path: Path) -> None:
    """The same weights elsewhere are the same encoder; other weights in the same place are another."""
    here = dinov2(model="dinov2").build(models)
    shutil.copytree(models / "dinov2", tmp_path / "dinov2")
    (tmp_path / "dinov2" / "README.md").write_text("nothing to do with the vectors")
    there = dinov2(model=str(tmp_path / "dinov2")).build(Path())
    assert here.name == there.name
    weights = tmp_path / "dinov2" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    assert dinov2(model=str(tmp_path / "dinov2")).build(Path()).name != here.name


def test_a_model_inside_an_installed_package(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "tiny_packaged_model"
    shutil.copytree(models / "sbert" / "model", package / "model")
    (package / "__init__.py").write_text("raise RuntimeError('this must not be run')")
    monkeypatch.syspath_prepend(tmp_path)
    encoder = sbert(model="package:tiny_packaged_model/model").build(Path())
    expected = sbert(model="sbert/model").build(models)
    np.testing.assert_array_equal(encoder.encode(TEXTS), expected.encode(TEXTS))
    for model, part in {
        "package:tiny_packaged_model/else": "no model folder else",
        "package:tiny_packaged_model/../..": "no model folder",
        "package:tiny_missing_package/model": "pip install",
        "package:os": "no package named 'os'",
        "package:": "no package",
    }.items():
        refused(sbert(model=model), Path(), part)


def test_invalid_models_are_rejected(models: Path, tmp_path: Path) -> None:
    refused(sbert(model="./missing"), tmp_path, "missing", "correct the path")
    refused(dinov2(model="dinov2", revision="main"), models, "revision")
    (tmp_path / "empty").mkdir()
    refused(sbert(model="empty"), tmp_path, "cannot be loaded")
    refused(dinov2(model="empty"), tmp_path, "cannot be loaded")
    refused(ClipSettings(kind="clip", model="dinov2"), models, "of type dinov2", "clip")
    refused(dinov2(model="dinov2", device="cuda:77"), models, "cuda:77", "device: cpu")
    refused(dinov2(model="dinov2", device="abacus"), models, "abacus")
    shutil.copytree(models / "dinov2", tmp_path / "torn")
    weights = tmp_path / "torn" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    refused(dinov2(model="torn"), tmp_path, "cannot be loaded", "complete")


def test_code_that_comes_with_a_model_is_never_run(models: Path, tmp_path: Path) -> None:
    evidence = tmp_path / "evidence"
    code = f"open({str(evidence)!r}, 'w')\nclass Evil: pass\n"
    for name in ("sbert/model", "dinov2"):
        shutil.copytree(models / name, tmp_path / name)
        (tmp_path / name / "modeling_evil.py").write_text(code)
    modules = tmp_path / "sbert" / "model" / "modules.json"
    listed = json.loads(modules.read_text())
    listed[1]["type"] = "modeling_evil.Evil"
    modules.write_text(json.dumps(listed))
    refused(sbert(model="sbert/model"), tmp_path, "cannot be loaded")
    config = tmp_path / "dinov2" / "config.json"
    settings = json.loads(config.read_text())
    settings["auto_map"] = {"AutoModel": "modeling_evil.Evil", "AutoConfig": "modeling_evil.Evil"}
    config.write_text(json.dumps(settings))
    assert dinov2(model="dinov2").build(tmp_path).encode(IMAGES).shape == (5, 16)
    assert not evidence.exists()


# -- the hub -----------------------------------------------------------------------------------------


COMMIT = "0123456789abcdef0123456789abcdef01234567"
NAMES = ["dinov2 org/tiny", "dinov2 org/tiny@main", "dinov2 facebook/dinov2-large"]
LOAD = """
import sys
from pathlib import Path
from genmix.encoders.vision import DinoV2Settings
from genmix.errors import InputError
for word in sys.stdin:
    if word.strip() == "offline":
        import huggingface_hub
        huggingface_hub.constants.HF_HUB_OFFLINE = True
    for settings in ({"model": "org/tiny"}, {"model": "org/tiny", "revision": "main"}, {}):
        encoder = DinoV2Settings(kind="dinov2", **settings).build(Path("/"))
        print(encoder.name)
        try:
            encoder.load()
            print("loaded")
        except InputError as error:
            print(error)
    sys.stdout.flush()
"""


class Loader:
    """Loads what is stored and what is not; the library reads its environment when it is imported."""

    def __init__(self, home: Path, **environment: str) -> None:
        settled = {
            k: v for k, v in os.environ.items() if not k.startswith(("HF_", "TRANSFORMERS_"))
        }
        self._process = subprocess.Popen(
            [sys.executable, "-c", LOAD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**settled, "HF_HOME": str(home), **environment},
        )

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def load(self, word: str = "") -> list[str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()
        return [self._process.stdout.readline().rstrip("\n") for _ in range(2 * len(NAMES))]


class EmptyHub(BaseHTTPRequestHandler):
    """Answers, and has no model."""

    def do_GET(self) -> None:
        self.send_response(404)
        self.send_header("X-Error-Code", "RepoNotFound")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_GET

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def home(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the hub's files are kept, with org/tiny and nothing else."""
    folder = tmp_path_factory.mktemp("home")
    stored = folder / "hub" / "models--org--tiny"
    shutil.copytree(models / "dinov2", stored / "snapshots" / COMMIT)
    (stored / "refs").mkdir()
    (stored / "refs" / "main").write_text(COMMIT)
    return folder


@pytest.fixture(scope="module")
def said(home: Path) -> dict[str, list[str]]:
    """What one process says while the hub cannot be reached, then has no model, then is not asked."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), EmptyHub, bind_and_activate=False)
    server.server_bind()  # nobody listens yet
    with server, Loader(home, HF_ENDPOINT=f"http://127.0.0.1:{server.server_port}") as loader:
        found = {"unreachable": loader.load()}
        server.server_activate()
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        found["empty"] = loader.load()
        found["offline"] = loader.load("offline")
        server.shutdown()
    return found


def loads_what_is_here_and_explains_the_rest(said: list[str]) -> None:
    assert said[::2] == NAMES
    assert said[1] == said[3] == "loaded"
    assert "the Hub cannot be reached" in one_sentence(InputError(said[5]))


@pytest.mark.drill
@pytest.mark.parametrize("hub", ["unreachable", "offline"])
def test_without_the_hub_what_is_here_loads_and_the_rest_is_said_in_a_sentence(
    said: dict[str, list[str]], hub: str
) -> None:
    loads_what_is_here_and_explains_the_rest(said[hub])


@pytest.mark.drill
def test_the_environment_says_that_there_is_no_hub(home: Path) -> None:
    with Loader(home, HF_HUB_OFFLINE="1") as loader:
        loads_what_is_here_and_explains_the_rest(loader.load())


@pytest.mark.drill
def test_a_model_that_the_hub_does_not_have(said: dict[str, list[str]]) -> None:
    assert said["empty"][1] == "loaded"
    assert "the Hub has no model" in one_sentence(InputError(said["empty"][5]))


def test_a_short_name_is_the_library_s_own(tmp_path: Path) -> None:
    name = sbert(model="all-MiniLM-L6-v2").build(tmp_path).name
    assert name == "sentence-transformers sentence-transformers/all-MiniLM-L6-v2, unit norm"
