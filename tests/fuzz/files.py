"""Targets that read files: features, recorded arms, references and prompts."""

from __future__ import annotations

import asyncio
import io
import json
import shutil
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from hypothesis import strategies as st
from PIL import Image

import genmix as gx
from genmix.data.samples import Sample
from genmix.encoders.base import EncodingError
from genmix.encoders.pixels import PixelsSettings
from genmix.encoders.references import read_reference
from genmix.errors import InputError
from genmix.generators import Context, GenerationError, RecordedArm, Request, collect
from genmix.generators.transformers import TransformersArm
from tests.fuzz.damage import VALUES, changed, damaged
from tests.fuzz.harness import Target

ROWS = np.random.default_rng(0).standard_normal((6, 3))
Named = tuple[str, bytes]
"""A file name and a content."""


def written(save: Any) -> bytes:
    buffer = io.BytesIO()
    save(buffer)
    return buffer.getvalue()


# -- numpy -------------------------------------------------------------------------------------------

NPY = written(lambda file: np.save(file, ROWS))
NPZ = written(lambda file: np.savez(file, reps=ROWS, quality=ROWS[:, 0], cost=abs(ROWS[:, 1])))
ZIPPED = written(lambda file: np.savez_compressed(file, features=np.zeros((40, 9), np.float32)))
STATISTICS = written(
    lambda file: np.savez(file, mu=ROWS[0], sigma=np.cov(ROWS.T), n=6, encoder="é")
)

SHAPES = st.sampled_from(
    "(6, 3)|(3, 6)|(18,)|()|(6,3,1)|(0, 3)|(-6, -3)|(6, 3.0)|(True, 18)|(10**9, 10**9)|(2**62, 4)|6, 3"
    "|[6, 3]|None|(6, '3')|(1000000, 1000000)|(9"
    + "9" * 400
    + ", 1)|((6, 3),)|(6, 3, 0)|(6|"
    + "(" * 300
)
TYPES = st.sampled_from(
    "'<f8'|'>f8'|'<f4'|'<f2'|'<f16'|'<i8'|'|u1'|'|b1'|'<c16'|'|O'|'<U3'|'|S8'|'<M8[ns]'|'<m8[s]'|'|V8'|''|'f'"
    "|[('a','<f8')]|[('a','<f4'),('b','<f4')]|('<f8', (3,))|'<f8,<f8'|None|3|'O8'|'<U0'|'|S0'|[('é','<f8')]"
)
ORDERS = st.sampled_from(["False", "True", "1", "None", "''", "{}"])


@st.composite
def npy(draw: st.DrawFn) -> bytes:
    """An array with a header that is written by hand and may contradict the content."""
    words = (draw(TYPES), draw(ORDERS), draw(SHAPES))
    header = "{{'descr': {}, 'fortran_order': {}, 'shape': {}, }}\n".format(*words).encode()
    version, form = draw(
        st.sampled_from([((1, 0), "<H"), ((2, 0), "<I"), ((3, 0), "<I"), ((9, 9), "<H")])
    )
    size = draw(st.sampled_from([len(header)] * 6 + [0, 3, 65535]))
    body = ROWS.tobytes()[: draw(st.sampled_from([144, 144, 144, 72, 0, 143]))]
    return b"\x93NUMPY" + bytes(version) + struct.pack(form, size) + header + body


@st.composite
def npz(draw: st.DrawFn) -> bytes:
    """A zip file of good, odd and damaged arrays under expected and unexpected names."""
    names = ["reps.npy", "features.npy", "mu.npy", "sigma.npy", "n.npy", "quality.npy", "cost.npy"]
    contents = st.one_of(st.sampled_from([NPY, written(lambda f: np.save(f, ROWS[:, 0]))]), npy())
    members = draw(
        st.lists(
            st.tuples(st.sampled_from([*names, "x", "a\nb.npy", "../x.npy", ""]), contents),
            max_size=4,
        )
    )
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, content in members:
            kind = draw(
                st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
            )
            file.writestr(zipfile.ZipInfo(name), content, kind)
    return buffer.getvalue()


def numpy_files() -> st.SearchStrategy[Named]:
    arrays = st.one_of(damaged(NPY), npy(), npy().flatmap(damaged))
    archives = st.one_of(*map(damaged, (NPZ, ZIPPED, STATISTICS)), npz(), npz().flatmap(damaged))
    return st.one_of(
        st.tuples(st.sampled_from(["x.npy", "x.npz", "x"]), arrays),
        st.tuples(st.sampled_from(["x.npz", "x.npz", "x.npy"]), archives),
    )


# -- Parquet and torch -------------------------------------------------------------------------------

NUMBERS = st.one_of(st.floats(width=32), st.none(), st.just(1e300))
CELLS = st.one_of(st.none(), st.lists(NUMBERS, max_size=3), st.just([1.0, 2.0, 3.0]))
KINDS = {
    "list": pa.list_(pa.float64()),
    "large": pa.large_list(pa.float32()),
    "fixed": pa.list_(pa.float64(), 3),
}
OTHERS = [
    pa.table({"embedding": [[1, 2], [3, 4]]}),
    pa.table({"embedding": [["a"], ["b"]]}),
    pa.table({"embedding": [[[1.0]], [[2.0]]]}),
    pa.table({"embedding": [[{"x": 1.0}]]}),
    pa.table({"a.b": ROWS.tolist(), "text": ["x"] * 6}),
    pa.table({"\n": ROWS.tolist(), "b": ROWS.tolist()}),
    pa.table({"embedding": pa.array([[b"x"]]).cast(pa.list_(pa.binary()))}),
    pa.table({"embedding": pa.array([[1, 2]], pa.list_(pa.timestamp("s")))}),
    pa.table({"embedding": pa.array([[True]])}),
    pa.table({}),
]
PARQUET = written(lambda file: pq.write_table(pa.table({"embedding": ROWS.tolist()}), file))
PACKED = written(
    lambda file: pq.write_table(
        pa.table({"id": range(6), "embedding": ROWS.tolist()}),
        file,
        row_group_size=2,
        compression="zstd",
    )
)


@st.composite
def tables(draw: st.DrawFn) -> bytes:
    cells = draw(st.lists(CELLS, max_size=5))
    kind = KINDS[draw(st.sampled_from(list(KINDS)))]
    if pa.types.is_fixed_size_list(kind):
        cells = [cell if cell is not None and len(cell) == 3 else None for cell in cells]
    made = pa.table({"embedding": pa.array(cells, kind)})
    content = draw(st.sampled_from([made, made, made, *OTHERS]))
    return written(lambda file: pq.write_table(content, file, row_group_size=2))


def parquet_files() -> st.SearchStrategy[Named]:
    contents = st.one_of(damaged(PARQUET), damaged(PACKED), tables(), tables().flatmap(damaged))
    return st.tuples(st.just("x.parquet"), contents)


TENSOR = torch.from_numpy(ROWS)
TENSORS: list[Any] = [
    TENSOR,
    {"features": TENSOR, "step": 3},
    {"a": TENSOR, "features": torch.ones(2)},
    {1: TENSOR, "reps": TENSOR},
    {b"features": TENSOR},
    {("features",): TENSOR},
    {},
    [],
    None,
    3,
    "text",
    TENSOR.to(torch.bfloat16),
    TENSOR.to(torch.complex64),
    TENSOR.to_sparse(),
    torch.ones(1).expand(10**6, 10**6),
    torch.ones(1).expand(3000, 5000),
    torch.empty(0, 3),
    torch.full((2, 2), torch.nan),
    torch.ones(2, 2, dtype=torch.bool),
    torch.empty((2, 2), device="meta"),
]
SAVED = [written(lambda file, value=value: torch.save(value, file)) for value in TENSORS]
LEGACY = written(lambda file: torch.save(TENSOR, file, _use_new_zipfile_serialization=False))


def torch_files() -> st.SearchStrategy[Named]:
    contents = st.one_of(
        st.sampled_from(SAVED),
        st.sampled_from(SAVED).flatmap(damaged),
        damaged(LEGACY),
        damaged(SAVED[0]),
    )
    return st.tuples(st.just("x.pt"), contents)


# -- texts -------------------------------------------------------------------------------------------

RECORD = {
    "embedding": [0.5, 1, -2],
    "text": "a city",
    "prompt": "Name one.",
    "quality": 0.5,
    "cost": 0.25,
    "input_tokens": 3,
    "output_tokens": 4,
}
LINES = b"".join(json.dumps(RECORD).encode() + b"\n" for _ in range(4))
DEEP = b'{"embedding": ' + b"[" * 20_000
LONG = b'{"embedding": [1' + b"0" * 5000 + b"]}"


@st.composite
def records(draw: st.DrawFn) -> bytes:
    ends = st.sampled_from([b"\n", b"\r\n", b"\n\n", b"", b"\xe2\x80\xa8", b"\xff"])
    found = draw(
        st.lists(st.tuples(st.one_of(st.just(RECORD), changed(RECORD), VALUES), ends), max_size=4)
    )
    lines = b"".join(json.dumps(value).encode() + end for value, end in found)
    return draw(st.sampled_from([b"", b"", b"\xef\xbb\xbf", DEEP, LONG + b"\n"])) + lines


def text_files() -> st.SearchStrategy[Named]:
    contents = st.one_of(damaged(LINES), records(), records().flatmap(damaged))
    return st.tuples(st.sampled_from(["x.jsonl", "x.jsonl", "x.ndjson", "x.txt"]), contents)


# -- images ------------------------------------------------------------------------------------------


def picture(kind: str, mode: str = "RGB", **options: Any) -> bytes:
    image = Image.effect_noise((24, 16), 60).convert(mode)
    return written(lambda file: image.save(file, kind, **options))


PICTURES = {
    "a.png": [picture("PNG"), picture("PNG", "P"), picture("PNG", "RGBA"), picture("PNG", "1")],
    "a.jpg": [picture("JPEG"), picture("JPEG", "CMYK"), picture("JPEG", progressive=True)],
    "a.webp": [picture("WEBP"), picture("WEBP", "RGBA", lossless=True)],
}


def image_files() -> st.SearchStrategy[Named]:
    known = [(name, content) for name, contents in PICTURES.items() for content in contents]
    return st.sampled_from(known).flatmap(
        lambda file: st.tuples(st.just(file[0]), damaged(file[1]))
    )


# -- readers -----------------------------------------------------------------------------------------


def put(folder: Path, case: Named) -> Path:
    path = folder / case[0]
    path.write_bytes(case[1])
    return path


def read_features(folder: Path, case: Named) -> None:
    gx.read_features(put(folder, case))


def read_reference_file(folder: Path, case: Named) -> None:
    """Read a reference as a study does, with an encoder that counts letters."""
    path = put(folder, case)
    read_reference(path.name, folder, Letters(), lambda line: None)  # type: ignore[arg-type]


class Letters:
    """An encoder for texts."""

    name, dimension = "letters", 2

    def encode(self, samples: Any) -> Any:
        return np.array([[len(sample.text), len(sample.text.encode())] for sample in samples])


def read_recorded(folder: Path, case: Named) -> None:
    _read_arm(folder, put(folder, case).name)


def _read_arm(folder: Path, name: str) -> None:
    """Build a recorded arm and read all its samples; the first failure counts as a sentence."""
    settings = {"kind": "recorded", "path": name}
    generator = RecordedArm.model_validate(settings).build(Context(folder, 0, "a"))
    count = generator.available()
    assert count is not None
    assert (generator.most_cost() or 0.0) < 1e300
    for outcome in asyncio.run(collect(generator, [Request(i, 0) for i in range(min(count, 50))])):
        if isinstance(outcome, GenerationError):
            raise InputError(str(outcome))


def read_image(folder: Path, case: Named) -> None:
    """Read an image as a recorded sample, then embed it."""
    shutil.rmtree(folder / "images", ignore_errors=True)
    (folder / "images").mkdir()
    put(folder / "images", case)
    _read_arm(folder, "images")
    try:
        PixelsSettings(kind="pixels", size=4).build(folder).encode([Sample(image=case[1])])
    except EncodingError as error:
        raise InputError(str(error)) from error


def read_prompts(folder: Path, case: Named) -> None:
    path = put(folder, case)
    settings = {"kind": "transformers", "model": "x", "prompts_file": path.name}
    TransformersArm.model_validate(settings).read_prompts(Context(folder, 0, "a"))


TARGETS = [
    Target("features: numpy", 16_000, numpy_files, read_features),
    Target("features: Parquet", 6_000, parquet_files, read_features),
    Target("features: torch", 6_000, torch_files, read_features),
    Target("features: JSON Lines", 18_000, text_files, read_features),
    Target("recorded: numpy", 10_000, numpy_files, read_recorded),
    Target("recorded: texts", 12_000, text_files, read_recorded),
    Target("recorded: images", 4_000, image_files, read_image),
    Target(
        "reference", 10_000, lambda: st.one_of(numpy_files(), text_files()), read_reference_file
    ),
    Target("prompts", 6_000, text_files, read_prompts),
]
