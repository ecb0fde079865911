"""The groups of prompts on the page of a run that is running, in a real browser."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import genmix as gx
from genmix.runs.timeline import Live
from tests.runs.test_prompts import TOPICS, study
from tests.support.browser import CONTRAST, DESKTOP, OVERFLOW, PHONE, browsing, watched_page
from tests.support.dashboard_server import serving, wait_until

pytestmark = pytest.mark.browser


def test_a_running_study_shows_weights_and_scores_of_each_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GENMIX_REPORT", "off")
    monkeypatch.setattr("genmix.runs.timeline.PAUSE", 0.0)
    held, released = threading.Event(), threading.Event()
    found: dict[str, dict[str, float]] = {}

    def hold(live: Live) -> None:
        if live.told >= 40 and not held.is_set():
            found.update(live.selector.weights_by_group)
            held.set()
            released.wait(300)

    plain, folder = study(tmp_path, repeat=5), tmp_path / "runs" / "topics"
    runner = threading.Thread(target=lambda: gx.run(plain, folder, callbacks=[hold]))
    runner.start()
    try:
        assert held.wait(300)
        with serving(tmp_path / "runs") as url, browsing() as browser:
            for width, scheme in ((DESKTOP, "light"), (DESKTOP, "dark"), (PHONE, "light")):
                with watched_page(browser) as watched:
                    page = watched.page
                    page.emulate_media(color_scheme=scheme)
                    page.set_viewport_size({"width": width, "height": 900})
                    page.goto(f"{url}/run/topics")
                    page.wait_for_selector("#groups tbody tr", timeout=60_000)
                    assert page.inner_text("#status") == "running"
                    rows = page.locator("#groups tbody tr")
                    assert rows.count() == len(TOPICS)
                    for i in range(rows.count()):
                        group, score, *cells = rows.nth(i).locator("th, td").all_inner_texts()
                        weights = found[group.split("\n")[0]]
                        assert float(score) >= 1
                        shares = [float(cell.split("%")[0]) / 100 for cell in cells]
                        assert shares == pytest.approx(list(weights.values()), abs=0.006)
                    assert page.evaluate(OVERFLOW) <= 0
                    assert page.evaluate(CONTRAST) == []
                if width == PHONE:
                    released.set()
                    wait_until(lambda: not runner.is_alive(), 120)
    finally:
        released.set()
        runner.join()
