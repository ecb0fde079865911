"""The recorded city world: its files agree with each other, with the card and with what made them."""

from __future__ import annotations

import gzip
import importlib.util
import json
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import genmix as gx

CITY = Path(__file__).parents[2] / "worlds" / "city"
ARMS = ["smol/plain", "smol/cold", "smol/poet", "smol/guide", "gemma/east", "gemma/west"]
SIZE = 1000


@pytest.fixture(scope="module")
def make() -> Any:
    spec = importlib.util.spec_from_file_location("make_city", CITY / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def world() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((CITY / "world.json").read_text("utf-8"))
    return found


@pytest.fixture(scope="module")
def vectors() -> dict[str, NDArray[np.float16]]:
    with np.load(CITY / "minilm.npz", allow_pickle=False) as file:
        return dict(file)


@pytest.fixture(scope="module")
def texts() -> dict[str, list[dict[str, Any]]]:
    found = defaultdict(list)
    with gzip.open(CITY / "texts.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            found[row["arm"]].append(row)
    return found


@pytest.fixture(scope="module")
def card() -> dict[str, list[str]]:
    """The rows of the card's table of arms, by the arm's name."""
    rows = re.findall(r"^\| `(\S+)` \|( \d.*)\|$", (CITY / "README.md").read_text("utf-8"), re.M)
    return {name: [cell.strip() for cell in cells.split("|")] for name, cells in rows}


def test_world_json_names_what_is_there(world: dict[str, Any]) -> None:
    assert world["name"] == "city"
    assert world["note"]
    assert world["arms"] == ARMS
    assert list(world["costs"]) == ARMS
    encoder = world["encoders"]["minilm"]
    assert (encoder["file"], encoder["dimension"]) == ("minilm.npz", 384)


def test_vectors_are_short_floats_of_unit_length(vectors: dict[str, NDArray[np.float16]]) -> None:
    assert list(vectors) == [*(f"arm_{place}" for place in range(len(ARMS))), "reference"]
    for rows in vectors.values():
        assert rows.shape == (SIZE, 384)
        assert rows.dtype == np.float16
        lengths = np.linalg.norm(rows.astype(float), axis=1)
        np.testing.assert_allclose(lengths, 1, atol=1e-3)


def test_every_row_has_its_text(make: Any, texts: dict[str, list[dict[str, Any]]]) -> None:
    assert list(texts) == [*ARMS, "reference"]
    for arm, rows in texts.items():
        assert len(rows) == SIZE
        for index, row in enumerate(rows):
            assert re.search(r"\w", row["text"])
            assert row["text"] == make.clean(row["text"])
            assert 0 < row["output_tokens"] <= 50
            assert row["input_tokens"] > 0
            assert 0 <= row["seed"] - make.seed_of(arm, index) < 10


def test_equal_texts_and_only_they_have_equal_vectors(
    vectors: dict[str, NDArray[np.float16]], texts: dict[str, list[dict[str, Any]]]
) -> None:
    """Rows in another order than their texts would show here."""
    by_text: dict[str, set[bytes]] = defaultdict(set)
    for rows, said in zip(vectors.values(), texts.values(), strict=True):
        for vector, row in zip(rows, said, strict=True):
            by_text[row["text"].lower()].add(vector.tobytes())
    assert all(len(found) == 1 for found in by_text.values())
    assert len(set.union(*by_text.values())) > 0.99 * len(by_text)


def test_costs_are_tokens_per_sample(
    world: dict[str, Any], texts: dict[str, list[dict[str, Any]]]
) -> None:
    assert world["cost_unit"] == "tokens"
    for arm, cost in world["costs"].items():
        assert cost == pytest.approx(
            np.mean([row["output_tokens"] for row in texts[arm]]), abs=1e-3
        )


def test_the_card_counts_right(
    card: dict[str, list[str]], texts: dict[str, list[dict[str, Any]]]
) -> None:
    assert list(card) == [*ARMS, "reference"]
    for arm, (distinct, tokens, *_) in card.items():
        assert int(distinct) == len({row["text"] for row in texts[arm]})
        mean = np.mean([row["output_tokens"] for row in texts[arm]])
        assert float(tokens) == pytest.approx(mean, abs=0.051)


def test_the_card_gives_the_optimum(
    card: dict[str, list[str]], vectors: dict[str, NDArray[np.float16]]
) -> None:
    pools = {arm: vectors[f"arm_{place}"].astype(float) for place, arm in enumerate(ARMS)}
    best = gx.optimal_mixture(pools, gx.Vendi())
    for arm in ARMS:
        alone, weight = (float(cell) for cell in card[arm][2:])
        assert alone == pytest.approx(float(best.single_scores[arm]), abs=0.051)
        assert weight == pytest.approx(best.weights[arm], abs=0.0051)
    said = re.search(r"The best mixture scores (\S+) ", (CITY / "README.md").read_text("utf-8"))
    assert said is not None
    assert float(said[1]) == pytest.approx(float(best.score), abs=0.051)


def test_the_world_is_small() -> None:
    files = [path for path in CITY.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert sum(path.stat().st_size for path in files) < 8_000_000


def test_the_reference_goes_evenly_over_real_cities(
    make: Any, texts: dict[str, list[dict[str, Any]]]
) -> None:
    cities = make.cities()
    assert len(cities) == len({city for city, _ in cities}) == 100
    assert all(city and state for city, state in cities)
    assert {("Honolulu", "Hawaii"), ("Washington", "D.C."), ("St. Louis", "Missouri")} < set(cities)
    asked = Counter()
    for index in range(SIZE):
        settings, before = make.about(index, make.arms())
        city = cities[index % len(cities)][0]
        assert city in settings["prompt"]
        assert "{" not in settings["prompt"]
        assert before == ("" if settings["model"] == "smollm2" else city)
        assert texts["reference"][index]["text"].startswith(before)
        asked[city, settings["model"]] += 1
    assert len(asked) == 200
    assert set(asked.values()) == {5}


def test_the_arms_are_those_of_the_study(make: Any) -> None:
    arms = make.arms()
    assert list(arms) == ARMS
    assert {arm["prompt"] for name, arm in arms.items() if name.startswith("smol")} == {
        "Write a short sentence about a vibrant city in the U.S."
    }
    assert [arms[arm]["temperature"] for arm in ARMS] == [1, 0.5, 1, 1, 1, 1]
    assert all(arm["max_tokens"] == 50 and arm["stop"] == "\n" for arm in arms.values())


@pytest.mark.parametrize(
    "raw, cleaned",
    [
        (" Reno is  small.\t", "Reno is small."),
        ('"Reno is small."', "Reno is small."),
        ("“Reno is small.”", "Reno is small."),
        ('12. "Reno is small."', "Reno is small."),
        ("- Reno is small.", "Reno is small."),
        ('"Reno" is called "small"', '"Reno" is called "small"'),
        ("1849 was Reno's year.", "1849 was Reno's year."),
        ("3.5 million live there.", "3.5 million live there."),
        ('" "', ""),
        (" \n", ""),
    ],
)
def test_cleaning(make: Any, raw: str, cleaned: str) -> None:
    assert make.clean(raw) == cleaned


def test_a_second_call_goes_on_where_the_first_ended(make: Any, tmp_path: Path) -> None:
    raw = tmp_path / "raw.jsonl"
    assert make.read_rows(raw) == []
    whole = {"arm": "smol/cold", "index": 0, "text": "A line\u2028separator."}
    raw.write_text(json.dumps(whole, ensure_ascii=False) + '\n{"arm": "smol/co', "utf-8")
    assert make.read_rows(raw) == [whole]
    assert raw.read_text("utf-8").count("\n") == 1
    left = [place for block in make.blocks({("smol/cold", 0)}) for place in block]
    assert len(left) == len(set(left)) == 7 * SIZE - 1
    assert ("smol/cold", 0) not in left


@pytest.mark.real
def test_a_few_texts_repeat_exactly(
    make: Any,
    vectors: dict[str, NDArray[np.float16]],
    texts: dict[str, list[dict[str, Any]]],
) -> None:
    """In an order of their own, from servers that have said nothing else."""
    places = [("gemma/west", 7), ("smol/poet", 900), ("reference", 3), ("gemma/west", 6)]
    with make.servers() as addresses:
        drawn = [make.draw(arm, index, addresses) for arm, index in places]
    stored = [texts[arm][index] for arm, index in places]
    assert [make.clean(row["text"]) for row in drawn] == [row["text"] for row in stored]
    for key in ("seed", "input_tokens", "output_tokens"):
        assert [row[key] for row in drawn] == [row[key] for row in stored]
    keys = {**{arm: f"arm_{place}" for place, arm in enumerate(ARMS)}, "reference": "reference"}
    kept = np.array([vectors[keys[arm]][index] for arm, index in places])
    np.testing.assert_allclose(make.embed([row["text"] for row in stored]), kept, atol=3e-4)
