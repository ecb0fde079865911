"""A function of one's own: found beside the study, named by its content, checked in what it returns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from genmix.data.samples import Sample
from genmix.encoders.base import EncodingError
from genmix.encoders.callable import CallableSettings
from genmix.encoders.precomputed import PrecomputedSettings
from genmix.errors import InputError
from tests.encoders.test_encoders import IMAGES, TEXTS, VECTORS, one_sentence


def built(folder: Path, code: str = "", function: str = "mine:embed", **settings: Any) -> Any:
    if code:
        (folder / "mine.py").write_text(code, encoding="utf-8")
    return CallableSettings(kind="callable", function=function, **settings).build(folder)


def test_texts_come_as_str_and_images_as_bytes(tmp_path: Path) -> None:
    code = "def embed(contents): return [[len(c), isinstance(c, str)] for c in contents]"
    samples = [TEXTS[0], IMAGES[0]]
    rows = built(tmp_path, code).encode(samples)
    assert rows.tolist() == [[len(TEXTS[0].text or ""), 1], [len(IMAGES[0].image or b""), 0]]


def test_the_name_has_a_hash_of_the_source_and_the_arguments(tmp_path: Path) -> None:
    code = "def embed(contents, scale=1): return [[scale * len(c)] for c in contents]"
    first = built(tmp_path, code)
    assert first.name.startswith("callable mine:embed #")
    assert built(tmp_path, code).name == first.name
    assert built(tmp_path, code + "\n# other").name != first.name
    scaled = built(tmp_path, code, arguments={"scale": 3})
    assert scaled.name == f'{first.name} {{"scale": 3}}'
    assert (scaled.encode(TEXTS) == 3 * first.encode(TEXTS)).all()


def test_it_may_import_what_lies_beside_it(tmp_path: Path) -> None:
    (tmp_path / "beside_it.py").write_text("WIDTH = 3")
    code = "from beside_it import WIDTH\ndef embed(c): return [[len(x)] * WIDTH for x in c]"
    assert built(tmp_path, code).encode(TEXTS).shape == (5, 3)


def test_two_studies_may_have_files_of_one_name(tmp_path: Path) -> None:
    for width in (2, 4):
        (tmp_path / str(width)).mkdir()
        code = f"def embed(c): return [[len(x)] * {width} for x in c]"
        assert built(tmp_path / str(width), code).encode(TEXTS).shape == (5, width)


def test_an_installed_function(tmp_path: Path) -> None:
    rows = built(tmp_path, function="tests.support.tiny_encoders:letter_counts").encode(TEXTS)
    assert rows.shape == (5, 26)


def test_a_module_in_a_subfolder(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "deep.py").write_text("def embed(c): return [[1.0, 2.0]] * len(c)")
    assert built(tmp_path, function="inner.deep:embed").encode(TEXTS).shape == (5, 2)


@pytest.mark.parametrize(
    "code, function, part",
    [
        ("", "absent:embed", "needs the module absent,"),
        ("", "absent.deeper:embed", "needs the module absent.deeper,"),
        ("", "sys:embed", "needs the module sys,"),
        ("def other(c): pass", "mine:embed", "no function named embed"),
        ("embed = 3", "mine:embed", "no function named embed"),
        ("def embed(", "mine:embed", "SyntaxError"),
        ("import not_there_at_all", "mine:embed", "not_there_at_all"),
        ("1 / 0", "mine:embed", "ZeroDivisionError"),
    ],
)
def test_a_function_that_is_not_there(code: str, function: str, part: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        built(tmp_path, code, function).load()
    assert part in one_sentence(caught.value)


@pytest.mark.parametrize("function", ["mine", "mine.py:embed()", "../mine:embed", "os;x:y", ":f"])
def test_only_module_and_function_are_names(function: str, tmp_path: Path) -> None:
    with pytest.raises(ValidationError):
        built(tmp_path, function=function)


@pytest.mark.parametrize(
    "body, part",
    [
        ("raise RuntimeError('no. Never')", "RuntimeError: no)"),
        ("return [[1.0]]", "shape (1, 1)"),
        ("return [1.0] * len(c)", "shape (5,)"),
        ("return [['a']] * len(c)", "dtype <U1"),
        ("return [[1.0], [1.0, 2.0]]", "failed"),
        ("return None", "shape ()"),
        ("return [[float('nan')]] * len(c)", "NaN or infinity for sample 0"),
        ("return [[1e39]] * len(c)", "NaN or infinity for sample 0"),
    ],
)
def test_what_a_function_does_wrong_is_said(body: str, part: str, tmp_path: Path) -> None:
    encoder = built(tmp_path, f"def embed(c): {body}")
    with pytest.raises(EncodingError) as caught:
        encoder.encode(TEXTS)
    assert part in one_sentence(caught.value)


def test_the_dimension_may_not_change(tmp_path: Path) -> None:
    code = "def embed(c): return [[0.0] * len(c)] * len(c)"
    with pytest.raises(EncodingError, match="dimension") as caught:
        built(tmp_path, code, batch=3).encode(TEXTS)  # 3, then 2
    one_sentence(caught.value)
    with pytest.raises(EncodingError, match="dimension 5 after vectors of dimension 4"):
        built(tmp_path, code, dimension=4).encode(TEXTS)
    assert built(tmp_path, code, dimension=4).dimension == 4


def test_precomputed_takes_vectors_as_they_are() -> None:
    encoder = PrecomputedSettings(kind="precomputed").build(Path())
    rows = encoder.encode(VECTORS)
    np.testing.assert_array_equal(rows, np.array([s.vector for s in VECTORS], np.float32))
    with pytest.raises(ValidationError, match="used unchanged"):
        PrecomputedSettings(kind="precomputed", normalise=True)
    for bad in (
        [VECTORS[0], Sample(vector=[1.0])],
        [Sample(vector=[[1.0]])],
        [Sample(vector=["a"])],
    ):
        with pytest.raises(EncodingError) as caught:
            PrecomputedSettings(kind="precomputed").build(Path()).encode(bad)
        one_sentence(caught.value)
