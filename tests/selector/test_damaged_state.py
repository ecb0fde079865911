"""Saved states that are missing, damaged or tampered with: one sentence, never another exception."""

from __future__ import annotations

import copy
import io
import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.core import state
from genmix.core.description import to_plain
from genmix.errors import GenmixError
from tests.support.conformance import assert_same_bits

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="module")
def selector() -> gx.Selector:
    found = gx.Selector(["a", "b"], gx.Vendi() + 0.5 * gx.Quality(), warm_start=3, seed=1)
    rng = np.random.default_rng(0)
    for _ in range(20):
        [ticket] = found.ask()
        found.tell(ticket, rng.normal(size=3), quality=float(rng.random()))
    found.ask(2)
    return found


@pytest.fixture(scope="module")
def saved(selector: gx.Selector, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "selector.npz"
    selector.save(path)
    return path


def assert_sentence(error: BaseException) -> None:
    text = str(error)
    assert text.endswith("."), text
    assert "\n" not in text, text
    assert len(text) < 500, text


def refused(path: Path, match: str | None = None) -> None:
    with pytest.raises(gx.InputError, match=match) as caught:
        gx.Selector.load(path)
    assert_sentence(caught.value)


# -- files -------------------------------------------------------------------------------------------


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    refused(
        tmp_path / "nope.npz", r"^there is no file .*nope\.npz; pass a file that save\(\) wrote\.$"
    )
    refused(tmp_path, "is not a saved state")


def test_a_number_that_changed_with_a_valid_zip_checksum_is_noticed(
    saved: Path, tmp_path: Path
) -> None:
    with np.load(saved) as content:
        arrays = {name: content[name] for name in content}
    name = next(name for name in arrays if arrays[name].dtype == np.float64 and arrays[name].size)
    arrays[name] = arrays[name] + 1e-9
    np.savez(tmp_path / "changed.npz", **arrays)
    refused(tmp_path / "changed.npz", "has changed since it was saved")


def test_a_header_that_changed_is_noticed(saved: Path, tmp_path: Path) -> None:
    with np.load(saved) as content:
        arrays = {name: content[name] for name in content}
    header = json.loads(str(arrays["json"])) | {"warm_start": 4}
    np.savez(tmp_path / "changed.npz", **(arrays | {"json": np.array(json.dumps(header))}))
    refused(tmp_path / "changed.npz", "has changed since it was saved")


def test_states_without_a_digest_still_load() -> None:
    for path in DATA.glob("*.npz"):
        with np.load(path) as content:
            assert "digest" not in content
        gx.Selector.load(path)


def npy(shape: str, descr: str = "'<f8'", data: bytes = b"") -> bytes:
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}\n".encode("latin1")
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


@pytest.mark.parametrize(
    "member",
    [
        npy("(10000000000000,)"),
        npy("(99999999999999999999999,)"),
        npy("(-1,)"),
        npy("(3,)", data=b"12"),
        npy("(1,)", "'|O'", b"\x80\x04N."),
        npy("(", data=b"x"),
        npy("(1,)", "[('a', '<f8'"),
        npy("'x'"),
        npy("(1L,)", data=b"12345678"),
        b"\x93NUMPY\x09\x00",
        b"",
    ],
)
def test_a_header_that_lies_is_refused_before_memory_is_taken(
    member: bytes, saved: Path, tmp_path: Path
) -> None:
    path = tmp_path / "lies.npz"
    with zipfile.ZipFile(saved) as source, zipfile.ZipFile(path, "w") as target:
        for name in source.namelist():
            target.writestr(name, member if name == "1.npy" else source.read(name))
    refused(path)


def test_compressed_and_encrypted_members_are_refused_or_read(saved: Path, tmp_path: Path) -> None:
    content = bytearray(saved.read_bytes())
    place = content.rindex(b"PK\x01\x02")
    for offset, value in ((8, 1), (10, 99)):  # the encryption flag and an unknown method
        damaged = bytearray(content)
        damaged[place + offset] = value
        (tmp_path / "odd.npz").write_bytes(damaged)
        refused(tmp_path / "odd.npz")


def test_a_deep_header_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "deep.npz", json=np.array("[" * 100_000))
    refused(tmp_path / "deep.npz", "is not a saved state")


def load_or_refuse(path: Path, expected: gx.Selector) -> str:
    try:
        found = gx.Selector.load(path)
    except GenmixError as error:
        assert_sentence(error)
        return "sentence"
    assert_same_bits(found.state_dict(), expected.state_dict())
    return "same"


def damage_many(saved: Path, folder: Path, selector: gx.Selector, seeds: range) -> set[str]:
    whole, path, results = saved.read_bytes(), folder / "damaged.npz", []
    for seed in seeds:
        rng = np.random.default_rng([15, seed])
        content = bytearray(whole)
        if rng.random() < 0.25:
            content = content[: rng.integers(len(content))]
        else:
            for place in rng.integers(len(content), size=rng.integers(1, 11)):
                content[place] ^= int(rng.integers(1, 256))
        path.write_bytes(content)
        results.append(load_or_refuse(path, selector))
    print({result: results.count(result) for result in set(results)})
    return set(results)


def test_random_damage_is_refused_in_one_sentence_or_changes_nothing(
    saved: Path, tmp_path: Path, selector: gx.Selector
) -> None:
    assert "sentence" in damage_many(saved, tmp_path, selector, range(150))


@pytest.mark.long
def test_two_thousand_damaged_states(saved: Path, tmp_path: Path, selector: gx.Selector) -> None:
    assert "sentence" in damage_many(saved, tmp_path, selector, range(150, 2150))


# -- tampered states ---------------------------------------------------------------------------------

ODD: list[Any] = [
    None,
    -1,
    10**30,
    1e400,
    float("nan"),
    "x",
    "",
    [],
    [None],
    {},
    {"type": "NobodysClass"},
    {"type": "float", "value": "x"},
    {"type": "map", "keys": ["a"], "values": []},
    np.array([[1.0]]),
    np.array(["x"]),
    True,
]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all entries of a nested state."""
    keys: list[Any] = []
    if isinstance(value, dict):
        keys = list(value)
    elif isinstance(value, list | tuple):
        keys = list(range(min(len(value), 2)))
    return [path] * bool(path) + [p for key in keys for p in places(value[key], (*path, key))]


def changed(plain: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    found = copy.deepcopy(plain)
    inner: Any = found
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return found


def test_every_entry_with_every_odd_value_is_refused_in_one_sentence_or_works(
    selector: gx.Selector,
) -> None:
    plain = selector.state_dict()
    plain = json_lists(plain)
    tried = refusals = 0
    for path in places(plain):
        for odd in ODD:
            tried += 1
            try:
                gx.Selector.from_state_dict(changed(plain, path, odd))
            except GenmixError as error:
                refusals += 1
                assert_sentence(error)
    assert tried > 500
    assert refusals > 0.7 * tried


def json_lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: json_lists(item) for key, item in value.items()}
    return [json_lists(item) for item in value] if isinstance(value, list | tuple) else value


def test_every_missing_entry_is_refused_unless_older_states_lack_it(selector: gx.Selector) -> None:
    plain, older = selector.state_dict(), state.load(DATA / "warm_vendi.npz")
    for key in plain:
        without = {name: value for name, value in plain.items() if name != key}
        try:
            gx.Selector.from_state_dict(without)
        except GenmixError as error:
            assert_sentence(error)
        else:
            assert key == "mixture" or key not in older, key


PREVIOUS = to_plain({"mixture": {"a": 0.5, "b": 0.5}, "gap": 0.0})

TAMPERED: dict[str, Callable[[dict[str, Any]], Any]] = {
    "weights is invalid": lambda s: s.update(weights=np.array([np.nan, 1.0])),
    "targets is invalid": lambda s: s.update(targets=np.array(0.5)),
    "mixture is invalid": lambda s: s.update(mixture=np.array([0.7, 0.7])),
    "previous needs the statistics": lambda s: s.update(previous=PREVIOUS, tally=None),
    "counts differ in number": lambda s: s["told"].append(3),
    "differs from the statistics": lambda s: s["told"].__setitem__(0, s["told"][0] + 1),
    "ticket": lambda s: s["in_flight"][0].update(arm="c"),
    "tickets in flight": lambda s: s.update(next_id=1),
    "solved_at": lambda s: s.update(solved_at=10**6),
    "place": lambda s: s.update(place="tensorflow"),
    "dimension": lambda s: s.update(dimension=10**12),
}


@pytest.mark.parametrize("match", TAMPERED)
def test_states_that_contradict_themselves_are_refused(match: str, selector: gx.Selector) -> None:
    plain = copy.deepcopy(selector.state_dict())
    TAMPERED[match](plain)
    with pytest.raises(gx.InputError, match=re.escape(match)) as caught:
        gx.Selector.from_state_dict(plain)
    assert_sentence(caught.value)


def test_rows_of_another_width_are_refused() -> None:
    selector = gx.Selector(["a"], gx.Vendi(), warm_start=3)
    for ticket in selector.ask(5):
        selector.tell(ticket, np.random.default_rng(ticket.id).normal(size=30))
    plain = copy.deepcopy(selector.state_dict())
    plain["tally"]["kept"][0] = plain["tally"]["kept"][0][:, :1]
    with pytest.raises(gx.InputError, match="rows of shape") as caught:
        gx.Selector.from_state_dict(plain)
    assert_sentence(caught.value)


def test_the_digest_covers_names_types_and_shapes(tmp_path: Path) -> None:
    same = {"a": np.zeros((2, 3)), "b": np.zeros(4, dtype=np.float32)}
    state.save(tmp_path / "s.npz", same)
    with np.load(tmp_path / "s.npz") as content:
        arrays = {name: content[name] for name in content}
    for name, other in (("0", np.zeros((3, 2))), ("1", np.zeros(2))):
        stream = io.BytesIO()
        np.savez(stream, **(arrays | {name: other}))
        (tmp_path / "other.npz").write_bytes(stream.getvalue())
        with pytest.raises(gx.InputError, match="has changed"):
            state.load(tmp_path / "other.npz")


def test_the_limit_is_for_all_arrays_of_a_file_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GENMIX_MAX_BYTES", "1000000")
    bomb = tmp_path / "bomb.npz"
    np.savez_compressed(bomb, **{f"a{k}": np.zeros(100_000) for k in range(20)})
    refused(bomb, "GENMIX_MAX_BYTES")


@pytest.mark.parametrize("other", [np.array(1.0), np.zeros(3), np.zeros((3, 4))])
def test_moments_of_another_shape_are_refused(other: Any) -> None:
    made, rng = gx.Selector(["a", "b"], gx.Vendi(), warm_start=5), np.random.default_rng(0)
    for _ in range(40):
        [ticket] = made.ask()
        made.tell(ticket, rng.normal(size=3))
    plain = copy.deepcopy(made.state_dict())
    plain["tally"]["second"] = [other, other]
    with pytest.raises(gx.InputError) as caught:
        gx.Selector.from_state_dict(plain)
    assert_sentence(caught.value)
