"""The shape of the house: rooms look up the table of CONTRIBUTING.md, never down."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "genmix"


def floors() -> dict[str, int]:
    """The row of every room."""
    rows = re.findall(r"^\| (`[^|]+`) \|", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.M)
    names = [re.findall(r"`(\w+)(?:\.py|/)`", row) for row in rows]
    return {name: floor for floor, row in enumerate(names) for name in row}


def rooms_in(file: Path) -> set[str]:
    """What a file imports at its top."""
    found = set()
    for node in ast.parse(file.read_text("utf-8")).body:
        names = []
        if isinstance(node, ast.ImportFrom) and node.module == "genmix":
            names = [f"genmix.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        found |= {_room(name) for name in names if name.split(".")[0] == "genmix"}
    return found


def _room(module: str) -> str:
    name = (*module.split("."), "")[1]
    is_room = (SOURCE / name).is_dir() or (SOURCE / f"{name}.py").exists()
    return name if name and is_room else "__init__"  # a public name


def test_every_room_is_in_the_table() -> None:
    rooms = {path.stem for path in SOURCE.glob("*.py")}
    rooms |= {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert rooms == set(floors())


def test_no_room_looks_down() -> None:
    level = floors()
    down = []
    for file in SOURCE.rglob("*.py"):
        room = file.relative_to(SOURCE).parts[0].removesuffix(".py")
        down += [
            f"{file.relative_to(SOURCE)} imports {other}"
            for other in rooms_in(file)
            if level[other] > level[room]
        ]
    assert not down


def test_encoders_and_generators_do_not_import_each_other() -> None:
    for room, other in (("encoders", "generators"), ("generators", "encoders")):
        for file in (SOURCE / room).glob("*.py"):
            assert other not in rooms_in(file), file.name


def test_only_the_journal_and_the_embedding_cache_use_sql() -> None:
    statement = re.compile(r"SELECT |INSERT (OR \w+ )?INTO |UPDATE \w+ SET |PRAGMA |import sqlite3")
    found = {
        str(file.relative_to(SOURCE))
        for file in SOURCE.rglob("*.py")
        if statement.search(file.read_text("utf-8"))
    }
    names = ("integrity", "journal", "prompts", "reader", "schema")
    assert found == {"encoders/cache.py", *(f"journal/{name}.py" for name in names)}
