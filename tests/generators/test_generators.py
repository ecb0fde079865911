"""The generator protocol, checked for every kind of arm. A new kind needs one line in ``CASES``."""

from __future__ import annotations

import asyncio
import io
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from pydantic import ValidationError

from genmix.core.optional import package_of
from genmix.errors import InputError
from genmix.generators import (
    ARM_KINDS,
    ArmSettings,
    CallableArm,
    CommandArm,
    Context,
    DiffusersArm,
    GenerationError,
    Generator,
    OpenAIArm,
    Outcome,
    RecordedArm,
    Request,
    Sample,
    TransformersArm,
    collect,
)
from tests.support.endpoint import Endpoint
from tests.support.tiny_generators import (
    save_language_model,
    save_text_to_image_pipeline,
    save_unconditional_pipeline,
)

ROOT = Path(__file__).parents[2]

FUNCTIONS = """
import numpy as np

def rows(seeds, size=4):
    return [np.random.default_rng(seed).standard_normal(size) for seed in seeds]

async def texts(seeds):
    return [f"text {seed}" for seed in seeds]

def pixels(seeds):
    return [np.random.default_rng(seed).integers(0, 255, (5, 4, 3), np.uint8) for seed in seeds]
"""

PROGRAM = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    reply = {"index": asked["index"], "text": f"{asked['prompt']} {asked['seed']}", "cost": 0.25}
    print(json.dumps(reply), flush=True)
"""


def build_world(folder: Path) -> None:
    """All files that the cases below name."""
    from PIL import Image

    rng = np.random.default_rng(0)
    (folder / "arms.py").write_text(FUNCTIONS)
    (folder / "program.py").write_text(PROGRAM)
    np.save(folder / "rows.npy", rng.standard_normal((20, 3)).astype(np.float32))
    np.savez(folder / "rows.npz", features=rng.standard_normal((20, 3)), quality=np.arange(20.0))
    lines = [json.dumps({"text": f"text {n}", "cost": n / 100}) for n in range(20)]
    (folder / "texts.jsonl").write_text("\n".join(lines))
    (folder / "images").mkdir()
    for n in range(20):
        Image.new("RGB", (4, 3), (n, 2 * n, 0)).save(folder / "images" / f"{n:02d}.png")
    save_language_model(folder / "lm", ends=False)
    save_unconditional_pipeline(folder / "ddpm")
    save_text_to_image_pipeline(folder / "sd")


def openai_arm(url: str, **more: Any) -> OpenAIArm:
    return OpenAIArm(kind="openai", model="m", base_url=url, prompts=("one", "two"), **more)


PRICE: Any = {"input": 0.1, "output": 0.2}

CASES: dict[str, Callable[[str], ArmSettings]] = {
    "callable": lambda url: CallableArm(
        kind="callable", function="arms:rows", arguments={"size": 6}, price=0.5
    ),
    "callable async": lambda url: CallableArm(kind="callable", function="arms:texts"),
    "callable images": lambda url: CallableArm(kind="callable", function="arms:pixels"),
    "recorded npy": lambda url: RecordedArm(kind="recorded", path="rows.npy"),
    "recorded npz": lambda url: RecordedArm(kind="recorded", path="rows.npz", cost=2),
    "recorded texts": lambda url: RecordedArm(kind="recorded", path="texts.jsonl"),
    "recorded images": lambda url: RecordedArm(kind="recorded", path="images"),
    "command": lambda url: CommandArm(
        kind="command", command=(sys.executable, "program.py"), prompt="hello", price=0.25
    ),
    "openai chat": lambda url: openai_arm(url, price=PRICE, max_tokens=6, system="be brief"),
    "openai completion": lambda url: openai_arm(url, mode="completion"),
    "transformers": lambda url: TransformersArm(
        kind="transformers", model="lm", prompt="the city", max_new_tokens=8, price=0.01
    ),
    "diffusers": lambda url: DiffusersArm(kind="diffusers", model="ddpm", steps=2),
    "diffusers prompts": lambda url: DiffusersArm(
        kind="diffusers", model="sd", steps=2, prompts=("a", "b"), guidance=2.0, height=16, width=16
    ),
}
"""Name → settings, given the address of an endpoint."""

REQUESTS = [Request(index, 1000 + 17 * index) for index in range(5)]


@dataclass(frozen=True)
class Case:
    settings: ArmSettings
    context: Context

    @cached_property
    def samples(self) -> list[Any]:
        """The samples for ``REQUESTS``, asked for at once."""
        (found,) = self.run(REQUESTS)
        return found

    def run(self, *batches: Sequence[Request]) -> list[list[Any]]:
        """The outcomes of some batches, one after the other, with one generator."""

        async def ask(generator: Generator) -> list[list[Any]]:
            return [[plain(x) for x in await collect(generator, batch)] for batch in batches]

        return self.use(ask)

    def use(self, work: Callable[[Generator], Any]) -> Any:
        """What ``work`` gives with a generator that is closed afterwards."""

        async def session() -> Any:
            generator = self.settings.build(self.context)
            try:
                return await work(generator)
            finally:
                await generator.close()

        return asyncio.run(session())


def plain(outcome: Sample | GenerationError) -> Any:
    """Something that can be compared; a failure fails the test."""
    assert isinstance(outcome, Sample), str(outcome)
    if outcome.vector is None:
        return outcome
    return replace(outcome, vector=(outcome.vector.dtype, outcome.vector.tobytes()))


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as server:
        yield server


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    build_world(folder)
    return folder


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest, world: Path, endpoint: Endpoint) -> Case:
    return Case(CASES[request.param](endpoint.url), Context(world, 7, "arm"))


def test_every_kind_has_a_case() -> None:
    assert {type(make("http://127.0.0.1:1/v1")) for make in CASES.values()} == set(ARM_KINDS)


def test_a_request_gives_the_same_sample_whatever_else_is_asked(case: Case) -> None:
    all_at_once = case.samples
    one_by_one = case.run(*([request] for request in REQUESTS))
    assert [row[0] for row in one_by_one] == all_at_once
    backwards, again = case.run(REQUESTS[::-1], REQUESTS[2:4])
    assert backwards[::-1] == all_at_once
    assert again == all_at_once[2:4]


def test_requests_give_different_samples(case: Case) -> None:
    contents = [(sample.text, sample.image, sample.vector) for sample in case.samples]
    assert len(set(contents)) == len(REQUESTS)


def test_a_sample_is_one_thing_and_costs_no_more_than_was_said(case: Case) -> None:
    async def ask(generator: Generator) -> tuple[float | None, list[Any]]:
        return generator.most_cost(), await collect(generator, REQUESTS)

    most, found = case.use(ask)
    for sample in found:
        assert sum(x is not None for x in (sample.text, sample.image, sample.vector)) == 1
        assert sample.image is None or size_of(sample.image) > (1, 1)
        assert most is None or sample.cost <= most


def size_of(png: bytes) -> tuple[int, int]:
    from PIL import Image

    with Image.open(io.BytesIO(png), formats=["PNG"]) as image:
        image.load()
        return image.size


def test_calls_at_the_same_time_do_not_mix(case: Case) -> None:
    async def ask(generator: Generator) -> list[Any]:
        calls = [collect(generator, [request]) for request in REQUESTS]
        return [plain(outcome) for (outcome,) in await asyncio.gather(*calls)]

    assert case.use(ask) == case.samples


def test_a_cancelled_call_leaves_the_arm_usable(case: Case) -> None:
    async def ask(generator: Generator) -> list[Any]:
        for pause in (0, 0.001, 0.02):
            call = asyncio.ensure_future(collect(generator, REQUESTS[::-1]))
            await asyncio.sleep(pause)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
        return [plain(outcome) for outcome in await collect(generator, REQUESTS)]

    assert case.use(ask) == case.samples


def test_every_request_gets_one_outcome_with_its_position(case: Case) -> None:
    async def ask(generator: Generator) -> list[tuple[int, Outcome]]:
        return [arrived async for arrived in generator.generate(REQUESTS)]

    found = case.use(ask)
    assert sorted(position for position, _ in found) == list(range(len(REQUESTS)))
    assert all(plain(outcome) == case.samples[position] for position, outcome in found)


def test_a_caller_may_stop_after_the_first_outcome(case: Case) -> None:
    async def ask(generator: Generator) -> list[Any]:
        stream = generator.generate(REQUESTS)
        await anext(stream)
        await stream.aclose()
        return [plain(outcome) for outcome in await collect(generator, REQUESTS)]

    assert case.use(ask) == case.samples


def test_ping_is_silent_and_closing_twice_is_fine(case: Case) -> None:
    async def look(generator: Generator) -> int | None:
        await generator.ping()
        await generator.close()
        return generator.available()

    assert case.use(look) == (20 if isinstance(case.settings, RecordedArm) else None)


def test_no_request_gives_no_sample(case: Case) -> None:
    assert case.run([]) == [[]]


def test_settings_survive_json(case: Case) -> None:
    written = json.loads(case.settings.model_dump_json())
    assert type(case.settings).model_validate(written) == case.settings
    short = json.loads(case.settings.model_dump_json(exclude_defaults=True))
    assert type(case.settings).model_validate(short) == case.settings


def test_an_unknown_key_is_refused(case: Case) -> None:
    written = {**case.settings.model_dump(), "temprature": 1}
    with pytest.raises(ValidationError, match="temprature"):
        type(case.settings).model_validate(written)


@pytest.mark.parametrize("kind", ARM_KINDS, ids=lambda kind: kind.__name__)
def test_every_field_says_what_it_is(kind: type[ArmSettings]) -> None:
    described = {name: field.description for name, field in kind.model_fields.items()}
    assert {name for name, said in described.items() if not said} == {"kind"}
    assert kind.model_json_schema()["properties"]["kind"]["const"]


@pytest.mark.parametrize("kind", ARM_KINDS, ids=lambda kind: kind.__name__)
def test_a_missing_package_is_named_with_the_way_to_get_it(
    kind: type[ArmSettings], world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = (make("http://127.0.0.1:1/v1") for make in CASES.values())
    settings = next(settings for settings in made if isinstance(settings, kind))
    for module in kind.needs:
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, module, None)
            patch.setitem(sys.modules, f"{module}.Image", None)
            with pytest.raises(
                InputError, match=rf"needs the {package_of(module)} package; install it with"
            ):
                settings.build(Context(world, 0, "arm"))


def test_importing_all_kinds_is_light() -> None:
    code = "import sys, genmix.generators; print(*{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert {"genmix", "pydantic"} <= loaded
    assert not loaded & {"torch", "transformers", "diffusers", "openai", "PIL", "httpx", "httpx2"}


# -- prompts ----------------------------------------------------------------------------------------


def prompts_of(folder: Path, **settings: Any) -> tuple[str, ...]:
    arm = CommandArm(kind="command", command=("true",), **settings)
    return arm.read_prompts(Context(folder, 0, "arm"))


def test_prompts_come_from_one_of_three_places(tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text("one\n\n  two $HOME `x`  \n", encoding="utf-8")
    (tmp_path / "p.jsonl").write_text('{"prompt": "one\\ntwo"}\n\n{"prompt": "drei", "id": 4}\n')
    assert prompts_of(tmp_path) == ()
    assert prompts_of(tmp_path, prompt="a") == ("a",)
    assert prompts_of(tmp_path, prompts=["a", "b"]) == ("a", "b")
    assert prompts_of(tmp_path, prompts_file="p.txt") == ("one", "two $HOME `x`")
    assert prompts_of(tmp_path, prompts_file="p.jsonl") == ("one\ntwo", "drei")


@pytest.mark.parametrize(
    "settings, said",
    [
        ({"prompt": "a", "prompts": ["b"]}, "only one of prompt, prompts and prompts_file"),
        ({"prompts": []}, "at least 1"),
        ({"prompt": ""}, "at least 1"),
    ],
)
def test_prompts_that_make_no_sense(settings: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match=said):
        prompts_of(tmp_path, **settings)


@pytest.mark.parametrize(
    "name, content, said",
    [
        ("none.txt", None, "no prompts file found"),
        ("n" * 300, None, "no prompts file found"),
        ("empty.txt", b"\n \n", "contains no prompts"),
        ("bytes.txt", b"\xff\xfe\xff", "UTF-8"),
        ("wrong.jsonl", b'{"prompt": "a"}\n{"text": "b"}', "line 2 is no"),
        ("list.jsonl", b"[1]", "line 1 is no"),
    ],
)
def test_files_of_prompts_that_cannot_be_read(
    name: str, content: bytes | None, said: str, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=said):
        prompts_of(tmp_path, prompts_file=name)


# -- the page ---------------------------------------------------------------------------------------


def test_every_example_of_the_page_is_valid_and_every_kind_has_one() -> None:
    page = (ROOT / "docs" / "guide" / "generators.md").read_text(encoding="utf-8")
    kinds = {kind.model_fields["kind"].annotation.__args__[0]: kind for kind in ARM_KINDS}  # type: ignore[union-attr]
    seen = set()
    for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL):
        for label, settings in yaml.safe_load(block)["arms"].items():
            assert isinstance(label, str)
            seen.add(settings["kind"])
            variants = settings.pop("variants", {"": {}})
            for variant in variants.values():
                kinds[settings["kind"]].model_validate({**settings, **variant})
    assert seen == set(kinds)


def test_the_page_names_every_setting() -> None:
    page = (ROOT / "docs" / "guide" / "generators.md").read_text(encoding="utf-8")
    for kind in ARM_KINDS:
        for name in kind.model_fields:
            assert f"`{name}" in page or f"{name}:" in page, f"{kind.__name__}.{name}"
