"""The report in a real browser, opened from disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.data.png import as_png
from tests.support.browser import (
    CONTRAST,
    DESKTOP,
    NAMELESS,
    OVERFLOW,
    PHONE,
    browsing,
    watched_page,
)
from tests.support.dashboard_runs import HOSTILE, write_study

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("with_reports")]

CHARTS = {"scores": "rect", "weights": "area", "pooled": "line", "map": "symbol", "cost": "symbol"}
CHARTS |= {"frontier": "area"}
"""Every chart, and the kind of mark that it is made of."""


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("texts")
    gx.run(write_study(root / "study", samples=90), root / "run")
    return root / "run" / "report.html"


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("images")
    rng = np.random.default_rng(0)
    for arm in ("dark", "light"):
        (root / arm).mkdir()
        for i in range(40):
            pixels = rng.integers(0, 100, (8, 8, 3)) + (0 if arm == "dark" else 150)
            (root / arm / f"{i}.png").write_bytes(as_png(pixels.astype(np.uint8)))
    study = {
        "name": "images",
        "arms": {arm: {"kind": "recorded", "path": str(root / arm)} for arm in ("dark", "light")},
        "encoder": {"kind": "pixels", "size": 4},
        "objective": "vendi",
        "budget": {"samples": 40},
        "warm_start": 4,
    }
    gx.run(study, root / "run")
    return root / "run" / "report.html"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with browsing() as found:
        yield found


def drawn(page: Any, chart: str, kind: str) -> int:
    """Marks of a chart that have an extent on the screen; the key beside it does not count."""
    return int(
        page.evaluate(
            """([chart, kind]) => {
              const marks = document.querySelectorAll(`figure#${chart} svg g.mark-${kind}.role-mark > *`);
              return [...marks].filter((mark) => {
                const box = mark.getBoundingClientRect();
                return box.width > 0.2 && box.height > 0.2;
              }).length;
            }""",
            [chart, kind],
        )
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_it_opens_from_disk_with_every_chart_drawn(
    browser: Any, texts: Path, scheme: str, width: int
) -> None:
    with watched_page(browser, scheme, width) as watched:
        page = watched.page
        page.goto(texts.as_uri())
        found = {chart: drawn(page, chart, kind) for chart, kind in CHARTS.items()}
        assert found["scores"] >= 4
        assert found["weights"] >= 4
        assert found["pooled"] >= 1
        assert found["map"] >= 90
        assert found["cost"] >= 2
        assert page.locator("figure").count() == len(CHARTS)
        assert page.evaluate(OVERFLOW) <= 0
        assert page.evaluate(NAMELESS) == []
        assert watched.requests == [texts.as_uri()]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_its_words_can_be_read(browser: Any, texts: Path, scheme: str) -> None:
    with watched_page(browser, scheme) as watched:
        watched.page.goto(texts.as_uri())
        assert watched.page.evaluate(CONTRAST) == []


def test_hostile_texts_stay_text(browser: Any, texts: Path) -> None:
    with watched_page(browser) as watched:
        page = watched.page
        page.goto(texts.as_uri())
        words = page.locator("main").inner_text()
        assert sum(text in words for text in HOSTILE) >= 3
        assert page.locator("main script, main iframe, main img, main i").count() == 0
        assert page.evaluate("window.pwned") is None


def test_the_map_is_read_by_keys(browser: Any, texts: Path) -> None:
    with watched_page(browser) as watched:
        page = watched.page
        page.goto(texts.as_uri())
        before = page.locator("#tip").inner_text()
        page.locator("#map svg").focus()
        told = set()
        for _ in range(20):
            page.keyboard.press("ArrowRight")
            told.add(page.locator("#tip").inner_text())
        assert before not in told
        assert len(told) > 5
        assert page.evaluate("window.pwned") is None


def test_images_are_in_the_file(browser: Any, images: Path) -> None:
    with watched_page(browser) as watched:
        page = watched.page
        page.goto(images.as_uri())
        shown = page.evaluate("[...document.images].map((i) => i.complete && i.naturalWidth > 0)")
        assert len(shown) >= 4
        assert all(shown)
        assert drawn(page, "map", "symbol") >= 40
        assert all(address.startswith(("file:", "data:")) for address in watched.requests)
