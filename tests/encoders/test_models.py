"""Where a model comes from: a folder, an installed package, the hub; and what is refused."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
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


@pytest.fixture
def empty_hub() -> Iterator[str]:
    """A hub that answers, and has no model."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(404)
            self.send_header("X-Error-Code", "RepoNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_HEAD = do_GET

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def in_a_process_with(home: Path, code: str, **environment: str) -> list[str]:
    """The library reads its environment when it is imported, so it is imported anew."""
    settled = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "TRANSFORMERS_"))}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**settled, "HF_HOME": str(home), **environment},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


LOAD = """
from pathlib import Path
from genmix.encoders.vision import DinoV2Settings
from genmix.errors import InputError
for settings in ({"model": "org/tiny"}, {"model": "org/tiny", "revision": "main"}, {}):
    encoder = DinoV2Settings(kind="dinov2", **settings).build(Path("/"))
    print(encoder.name)
    try:
        encoder.load()
        print("loaded")
    except InputError as error:
        print(error)
"""
NAMES = ["dinov2 org/tiny", "dinov2 org/tiny@main", "dinov2 facebook/dinov2-large"]
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def home(models: Path, tmp_path: Path) -> Path:
    """Where the hub's files are kept, with org/tiny and nothing else."""
    stored = tmp_path / "hub" / "models--org--tiny"
    shutil.copytree(models / "dinov2", stored / "snapshots" / COMMIT)
    (stored / "refs").mkdir()
    (stored / "refs" / "main").write_text(COMMIT)
    return tmp_path


@pytest.mark.parametrize(
    "environment", [{"HF_ENDPOINT": "http://127.0.0.1:9"}, {"HF_HUB_OFFLINE": "1"}]
)
def test_without_the_hub_what_is_here_loads_and_the_rest_is_said_in_a_sentence(
    home: Path, environment: dict[str, str]
) -> None:
    said = in_a_process_with(home, LOAD, **environment)
    assert said[::2] == NAMES
    assert said[1] == said[3] == "loaded"
    assert "the Hub cannot be reached" in one_sentence(InputError(said[5]))


def test_a_model_that_the_hub_does_not_have(home: Path, empty_hub: str) -> None:
    said = in_a_process_with(home, LOAD, HF_ENDPOINT=empty_hub)
    assert said[1] == "loaded"
    assert "the Hub has no model" in one_sentence(InputError(said[5]))


def test_a_short_name_is_the_library_s_own(tmp_path: Path) -> None:
    name = sbert(model="all-MiniLM-L6-v2").build(tmp_path).name
    assert name == "sentence-transformers sentence-transformers/all-MiniLM-L6-v2, unit norm"
