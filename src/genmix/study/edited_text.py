"""Change settings in the text of a study file, and keep its comments."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import yaml

from genmix.study.parsing import StudyFile, parse_study_text
from genmix.study.problems import KeyPath

BUDGET = "budget"
VALUE = re.compile(r"(\w+\s*:\s*)[^\s,#}][^,#}\n]*?(?=\s*([,#}]|$))")
"""A key with a value on the same line."""


def text_with_budget(text: str, limits: Mapping[str, float]) -> str:
    """Return the text of a study with these limits in its budget."""
    return text_with(text, {BUDGET: limits})


def text_with(text: str, changes: Mapping[str, Any]) -> str:
    """Return the text of a study with these settings; a mapping changes only the keys that it contains.

    If the text is too unusual to be edited, e.g. because the budget is an alias, it is written anew
    without its comments.
    """
    expected = dict(parse_study_text("the study", text).data)
    for key, value in changes.items():
        if isinstance(value, Mapping):
            before = expected.get(key)
            expected[key] = {**(before if isinstance(before, dict) else {}), **value}
            for name, limit in value.items():
                text = _with_value(text, (key, name), limit)
        else:
            expected[key] = value
            text = _with_value(text, (key,), value)
    if _data_of(text) == expected:
        return text
    return str(yaml.safe_dump(expected, sort_keys=False, allow_unicode=True))


def _with_value(text: str, path: KeyPath, value: Any) -> str:
    """Replace the value of a key, or insert the key: before another one, or at the end of the file."""
    try:
        file = parse_study_text("the study", text)
    except ValueError:
        return text
    section = file.data.get(str(path[0])) if len(path) > 1 else file.data
    written = _written(value)
    if not isinstance(section, dict) or not section:
        return f"{text.rstrip()}\n{path[0]}: {{{path[1]}: {written}}}\n"
    if path[-1] in section:
        return _edited(file, path, lambda rest: VALUE.sub(lambda m: m[1] + written, rest, count=1))
    first = (*path[:-1], next(iter(section)))
    return _edited(file, first, None, f"{path[-1]}: {written}")


def _written(value: Any) -> str:
    """Return a value as YAML, in quotes only if it needs them."""
    return f"{value}" if _data_of(f"key: {value}") == {"key": value} else json.dumps(value)


def _edited(file: StudyFile, path: KeyPath, change: Any, insert: str = "") -> str:
    """Change the rest of the line from a key on, or insert an entry before it."""
    lines = file.text.splitlines(keepends=True)
    line, column = file.position(path)
    before, after = lines[line - 1][: column - 1], lines[line - 1][column - 1 :]
    if change is not None:
        after = change(after)
    elif before.strip():
        after = f"{insert}, {after}"
    else:
        after = f"{insert}\n{before}{after}"
    lines[line - 1] = before + after
    return "".join(lines)


def _data_of(text: str) -> Any:
    try:
        return parse_study_text("the study", text).data
    except ValueError:
        return None
