"""Small runs for the tests of the report."""

from __future__ import annotations

import copy
import json
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import genmix as gx
from genmix.report.facts import Facts

HOSTILE = (
    "</script><script>window.hacked=1</script>",
    "<img src=x onerror=window.hacked=1>",
    "<!-- <script>",
    "</style><style>*{display:none}</style>",
    "\u2028\u2029 two ends of a line",
    "\u202egnp.exe\u202c",
    "{{7*7}} {% raw %} ${7*7} {{ facts.folder }}",
    "\x00\x1b[31mred\x07",
    "<svg onload=window.hacked=1>",
    "\"'><b onmouseover=window.hacked=1>x",
    "&lt;b&gt; &amp;",
    "<a href='https://example.com/leak'>click</a>",
    "<link rel=stylesheet href=//example.com/x.css>",
    "]]>",
    "",
)
ARMS = ("plain <b>bold</b>", "</script><script>window.hacked=1</script>", 'q" onload="x')


def feature_run(
    folder: Path,
    samples: int = 300,
    callbacks: Any = (),
    note: Any = lambda line: None,
    **more: Any,
) -> gx.Run:
    """Three recorded arms: two that need each other, and one that adds nothing."""
    rng = np.random.default_rng(0)
    arms = {}
    worlds = (("flat", [1, 1, 0.1, 0.1]), ("tall", [0.1, 0.1, 1, 1]), ("dot", [0.01] * 4))
    for price, (arm, scale) in enumerate(worlds, start=1):
        path = folder / f"{arm}.npy"
        np.save(path, [1, 0, 0, 0] + rng.normal(size=(samples, 4)) * scale)
        arms[arm] = {"kind": "recorded", "path": str(path), "cost": 0.5 * price}
    study = {"name": "t", "arms": arms, "objective": "vendi", "budget": {"samples": samples}}
    return gx.run(study | more, folder / "run", callbacks=callbacks, note=note)


def text_run(folder: Path, samples: int = 120, **more: Any) -> gx.Run:
    """Arms whose names and texts try to break out of the page."""
    arms: dict[str, Any] = {}
    for k, arm in enumerate(ARMS):
        path = folder / f"{k}.jsonl"
        lines = [
            {"text": f"{HOSTILE[i % len(HOSTILE)]} {'abc'[k] * (i % 7)}.", "prompt": HOSTILE[0]}
            for i in range(samples)
        ]
        path.write_text("\n".join(map(json.dumps, lines)))
        arms[arm] = {"kind": "recorded", "path": str(path)}
    (folder / "letters.py").write_text(
        "import numpy as np\n\n\ndef embed(texts):\n"
        "    return np.array([[1.0 + t.count(c) for c in 'abcdeilnoprst<'] for t in texts])\n"
    )
    study = {
        "name": "hostile",
        "arms": arms,
        "encoder": {"kind": "callable", "function": "letters:embed"},
        "objective": [{"vendi": {}}],
        "budget": {"samples": samples},
        "warm_start": 5,
    }
    path = folder / "study.json"
    path.write_text(json.dumps(study | more))
    return gx.run(path, folder / "run")


def altered(facts: Facts, **values: Any) -> Facts:
    """A copy of the facts with some values replaced; the others stay as computed."""
    for name, value in vars(Facts).items():
        if isinstance(value, cached_property):
            getattr(facts, name)
    changed = copy.copy(facts)
    unknown = set(values) - set(vars(changed))
    assert not unknown, unknown
    vars(changed).update(values)
    return changed
