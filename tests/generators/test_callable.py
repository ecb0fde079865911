"""Functions as arms: what they may return, and where they come from."""

from __future__ import annotations

import asyncio
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from pydantic import ValidationError

from genmix.data.png import SIGNATURE, as_png
from genmix.errors import InputError
from genmix.generators import CallableArm, Context, GenerationError, Request, Sample, collect

PIXELS = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)


def arm_of(folder: Path, function: str, **settings: Any) -> Any:
    settings = {"kind": "callable", "function": function, **settings}
    return CallableArm.model_validate(settings).build(Context(folder, 0, "arm"))


def ask(generator: Any, seeds: list[int]) -> list[Any]:
    return asyncio.run(collect(generator, [Request(i, seed) for i, seed in enumerate(seeds)]))


def outcome_of(folder: Path, result: Any, **settings: Any) -> Any:
    """What becomes of one result of a function."""
    generator = arm_of(folder, "returning:results", **settings)
    generator._function.__globals__["RESULT"] = result
    return ask(generator, [5])[0]


@pytest.fixture(autouse=True)
def _path_and_modules_are_restored() -> Any:
    """Names that tests bring in do not reach the next test; the path must be as it was."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    assert sys.path == path
    for name in set(sys.modules) - modules:
        if name.partition(".")[0] in ("returning", "arms", "helper", "house"):
            del sys.modules[name]


@pytest.fixture
def study(tmp_path: Path) -> Path:
    (tmp_path / "returning.py").write_text(
        "RESULT = None\ndef results(seeds):\n    return [RESULT for _ in seeds]\n"
    )
    return tmp_path


# -- results ----------------------------------------------------------------------------------------


def test_a_text(study: Path) -> None:
    assert outcome_of(study, "hello") == Sample(text="hello")


@pytest.mark.parametrize(
    "image",
    [PIXELS, torch.from_numpy(PIXELS), Image.fromarray(PIXELS), as_png(PIXELS)],
    ids=["array", "tensor", "pillow", "bytes"],
)
def test_an_image_of_any_kind_is_the_same_png(image: Any, study: Path) -> None:
    found = outcome_of(study, image)
    assert found.image.startswith(SIGNATURE)
    assert found == Sample(image=as_png(PIXELS))


def test_a_grey_image(study: Path) -> None:
    assert outcome_of(study, PIXELS[:, :, 0]) == Sample(image=as_png(PIXELS[:, :, 0]))


@pytest.mark.parametrize(
    "vector", [[1, 2.5], np.array([1, 2.5], np.float16), torch.tensor([1, 2.5]).double()]
)
def test_a_vector(vector: Any, study: Path) -> None:
    found = outcome_of(study, vector)
    assert found.vector.dtype == np.float64
    assert found.vector.tolist() == [1, 2.5]


def test_single_precision_stays_single(study: Path) -> None:
    assert outcome_of(study, np.ones(3, np.float32)).vector.dtype == np.float32


def test_a_dict_and_a_sample_carry_what_is_known(study: Path) -> None:
    known = {"text": "a", "prompt": "p", "quality": 0.5, "cost": 0.1, "output_tokens": 3}
    assert outcome_of(study, known) == Sample(**known)
    assert outcome_of(study, Sample(**known)) == Sample(**known)
    assert outcome_of(study, {"text": "a", "cost": None}) == Sample(text="a")


def test_a_price_is_what_a_sample_costs_that_says_nothing(study: Path) -> None:
    assert outcome_of(study, "a", price=2).cost == 2
    assert outcome_of(study, {"text": "a", "cost": 1}, price=2).cost == 1
    assert arm_of(study, "returning:results", price=2).most_cost() == 2
    assert arm_of(study, "returning:results").most_cost() is None
    above = outcome_of(study, {"text": "a", "cost": 3}, price=2)
    assert not above.retryable
    assert above.cost == 3


def test_half_a_character_is_replaced(study: Path) -> None:
    assert outcome_of(study, "a\ud83d b \ud83d\ude00").text == "a\ufffd b \U0001f600"


@pytest.mark.parametrize(
    "result, said",
    [
        (None, "is of type NoneType; return a text"),
        (3, "is of type int; return a text"),
        ({"txt": "a"}, "has the unknown field 'txt'"),
        ({"text": "a", "vector": [1.0]}, "exactly one of text, image and vector"),
        ({"quality": 1}, "exactly one of text, image and vector"),
        ({"text": b"a"}, "text of type bytes"),
        ({"text": "a", "quality": float("nan")}, "quality nan"),
        ({"text": "a", "quality": "good"}, "quality 'good'"),
        ({"text": "a", "quality": [1, 2]}, "finite number"),
        ({"text": "a", "cost": -1}, "cost -1"),
        ({"text": "a", "output_tokens": 1.5}, "output_tokens 1.5"),
        ({"text": "a", "output_tokens": True}, "output_tokens True"),
        ([1.0, float("inf")], "NaN, infinity"),
        ([], "shape (0,)"),
        (["a", "b"], "pass real numbers of shape (d,)"),
        ([[1.0], [1.0, 2.0]], "not an array of numbers"),
        (np.float64(3), "is of type float64"),
        (np.zeros((2, 3)), "shape (2, 3) and dtype float64"),
        (np.zeros((2, 3, 4), np.uint8), "shape (2, 3, 4)"),
        (b"\xff\xd8\xff", "not a PNG"),
        ({"image": "cat.png"}, "image of type str"),
    ],
)
def test_a_result_that_is_no_sample(result: Any, said: str, study: Path) -> None:
    found = outcome_of(study, result)
    assert isinstance(found, GenerationError)
    assert str(found).startswith("a sample from returning:results ")
    assert said in str(found)


def test_an_error_may_be_returned_for_one_sample_and_raised_for_all(study: Path) -> None:
    error = GenerationError("busy.", retry_after=3)
    assert outcome_of(study, error) is error
    (study / "arms.py").write_text(
        "from genmix.generators import GenerationError\n"
        "def busy(seeds): raise GenerationError('busy.', retry_after=3)\n"
        "def wrong(seeds): return 1 / 0\n"
        "def leaves(seeds): raise SystemExit(1)\n"
        "def stops(seeds): return next(iter([]))\n"
    )
    with pytest.raises(GenerationError, match=r"^busy\.$") as caught:
        ask(arm_of(study, "arms:busy"), [1])
    assert caught.value.retry_after == 3
    for name, said in (
        ("wrong", "ZeroDivisionError: division by zero"),
        ("leaves", "SystemExit"),
        ("stops", "StopIteration"),
    ):
        with pytest.raises(GenerationError, match=said) as caught:
            ask(arm_of(study, f"arms:{name}"), [1])
        assert caught.value.retryable


@pytest.mark.parametrize(
    "code, said",
    [
        ("'hello'", "returned a value of type str"),
        ("{'text': 'a'}", "returned a value of type dict"),
        ("None", "returned a value of type NoneType"),
        ("['a']", "returned 1 sample for 2 seeds"),
    ],
)
def test_a_function_that_returns_no_list(code: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "arms.py").write_text(f"def make(seeds): return {code}\n")
    with pytest.raises(GenerationError, match=said):
        ask(arm_of(tmp_path, "arms:make"), [1, 2])


# -- calling ----------------------------------------------------------------------------------------


def test_blocking_functions_run_beside_each_other(tmp_path: Path) -> None:
    """Two calls that wait for each other: they end only if both run at the same time."""
    (tmp_path / "arms.py").write_text(
        "import threading\nmeeting = threading.Barrier(2, timeout=20)\n"
        "def make(seeds):\n    meeting.wait()\n    return [str(seed) for seed in seeds]\n"
    )
    generator = arm_of(tmp_path, "arms:make")

    async def both() -> Any:
        calls = (collect(generator, [Request(0, seed)]) for seed in (1, 2))
        return await asyncio.gather(*calls)

    assert asyncio.run(both()) == [[Sample(text="1")], [Sample(text="2")]]


def test_a_function_that_hangs_holds_up_nobody(tmp_path: Path) -> None:
    (tmp_path / "arms.py").write_text(
        "import threading\nlet_go = threading.Event()\ndef hang(seeds): let_go.wait()\n"
    )
    generator = arm_of(tmp_path, "arms:hang")

    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(collect(generator, [Request(0, 1)]), 0.05)

    asyncio.run(give_up())  # ends, although the thread does not
    hanging = [t for t in threading.enumerate() if t.name == "genmix-generator"]
    assert all(thread.daemon for thread in hanging)
    generator._function.__globals__["let_go"].set()


def test_objects_and_functions_that_return_awaitables(tmp_path: Path) -> None:
    (tmp_path / "arms.py").write_text(
        "class Maker:\n"
        "    async def __call__(self, seeds, mark='.'):\n"
        "        return [f'{seed}{mark}' for seed in seeds]\n"
        "make = Maker()\n"
    )
    generator = arm_of(tmp_path, "arms:make", arguments={"mark": "!"})
    assert ask(generator, [1, 2]) == [Sample(text="1!"), Sample(text="2!")]


# -- modules ----------------------------------------------------------------------------------------


def test_two_studies_may_have_modules_of_the_same_name(tmp_path: Path) -> None:
    for name in ("first", "second"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "helper.py").write_text(f"NAME = {name!r}\n")
        (folder / "arms.py").write_text(
            "from helper import NAME\ncalls = []\n"
            "def make(seeds):\n    calls.append(1)\n    return [f'{NAME} {len(calls)}'] * len(seeds)\n"
            "def other(seeds): return make(seeds)\n"
        )
    first, second = (arm_of(tmp_path / name, "arms:make") for name in ("first", "second"))
    assert ask(first, [1]) == [Sample(text="first 1")]
    assert ask(second, [1]) == [Sample(text="second 1")]
    for name in ("first", "second"):  # a second arm of a study shares the study's module
        again = arm_of(tmp_path / name, "arms:other")
        assert ask(again, [1]) == [Sample(text=f"{name} 2")]


def test_packages_in_the_folder_and_installed_modules(tmp_path: Path) -> None:
    (tmp_path / "house").mkdir()
    (tmp_path / "house" / "__init__.py").write_text("")
    (tmp_path / "house" / "words.py").write_text("WORD = 'in'\n")
    (tmp_path / "house" / "arms.py").write_text(
        "from .words import WORD\ndef make(seeds): return [WORD for _ in seeds]\n"
    )
    assert ask(arm_of(tmp_path, "house.arms:make"), [1]) == [Sample(text="in")]
    found = ask(arm_of(tmp_path, "numpy:vander", arguments={"N": 3}), [2, 5])
    assert [sample.vector.tolist() for sample in found] == [[4, 2, 1], [25, 5, 1]]


def test_a_file_does_not_take_the_place_of_an_installed_module_for_others(tmp_path: Path) -> None:
    import yaml

    (tmp_path / "yaml.py").write_text("def make(seeds): return ['mine' for _ in seeds]\n")
    assert ask(arm_of(tmp_path, "yaml:make"), [1]) == [Sample(text="mine")]
    assert sys.modules["yaml"] is yaml


@pytest.mark.parametrize(
    "content, function, said",
    [
        ("", "none:make", "the module none is neither in"),
        ("", "arms.more:make", "the module arms.more is neither in"),
        ("", "arms:make", "has no function named make"),
        ("make = 3", "arms:make", "has no function named make"),
        ("1 / 0", "arms:make", "importing arms failed (ZeroDivisionError: division by zero)"),
        ("import surely_not_there", "arms:make", "the module arms needs surely_not_there"),
        ("def make(): pass", "arms:make", "cannot be called with a list of seeds"),
        ("def make(seeds, size): pass", "arms:make", "missing a required argument: 'size'"),
    ],
)
def test_a_function_that_cannot_be_had(
    content: str, function: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "arms.py").write_text(content)
    with pytest.raises(InputError) as caught:
        arm_of(tmp_path, function)
    assert said in str(caught.value)


def test_a_name_that_python_itself_uses(tmp_path: Path) -> None:
    (tmp_path / "random.py").write_text("def make(seeds): return []\n")
    with pytest.raises(InputError, match="another module is named random"):
        arm_of(tmp_path, "random:make")


@pytest.mark.parametrize("name", ["make", "arms:", ":make", "arms:make()", "os; x:y", "../a:b"])
def test_a_name_that_is_none(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="pattern"):
        arm_of(tmp_path, name)
