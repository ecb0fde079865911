"""Take screenshots of the report and the dashboard, in both color schemes and at phone width.

All are written to build/screenshots for review; the two that the README shows are also written to docs.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright
from tests.support.browser import CHROMIUM, DESKTOP, FLAGS, PHONE

DOCS = Path(__file__).parent
OUT = DOCS.parent / "build" / "screenshots"
VIEWS = {"light": ("light", DESKTOP), "dark": ("dark", DESKTOP), "phone": ("light", PHONE)}

HEIGHTS = {"live": 900, "report": 1500}
"""Heights of the screenshots in the README, in pixels."""

ARMS = """
import random, re, time, zlib
import numpy as np

CITIES = ["Boston", "Miami", "Seattle", "Honolulu", "Denver", "Austin", "Chicago", "Nashville"]
PLACES = ["the old harbor", "a jazz club", "the night market", "a rooftop bar", "the ball park"]
FEELINGS = ["hums with music", "smells of coffee", "never sleeps", "feels like home", "glows at dusk"]

def postcard(seeds, first, last, wait=0.0):
    time.sleep(wait)
    found = []
    for draw in map(random.Random, seeds):
        city, place, feeling = map(draw.choice, (CITIES[first:last], PLACES, FEELINGS))
        found.append(f"In {city}, {place} {feeling}.")
    return found

def slogan(seeds, wait=0.0):
    time.sleep(wait)
    if seeds[0] % 13 == 0:
        raise RuntimeError("503 Service Unavailable")
    return [f"New York has it all{'!' * (seed % 3)}" for seed in seeds]

def embed(texts):
    rows = np.zeros((len(texts), 128))
    for row, text in zip(rows, texts):
        for word in re.findall("[a-z]+", text.lower()):
            row[zlib.crc32(word.encode()) % 128] += 1
    return rows
"""


def write_study(folder: Path, samples: int, seed: int, wait: float, policy: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "arms.py").write_text(ARMS)

    def arm(function: str, price: float, **arguments: Any) -> dict[str, Any]:
        settings = {"kind": "callable", "function": f"arms:{function}", "price": price}
        return {**settings, "arguments": {**arguments, "wait": wait}, "concurrency": 2}

    study = {
        "name": "postcards",
        "arms": {
            "coast": arm("postcard", 0.002, first=0, last=4),
            "inland": arm("postcard", 0.001, first=4, last=8),
            "lakes": arm("postcard", 0.003, first=5, last=7),
            "slogan": arm("slogan", 0.001),
        },
        "encoder": {"kind": "callable", "function": "arms:embed"},
        "objective": "vendi",
        "policy": policy,
        "seed": seed,
        "budget": {"samples": samples, "cost": 8.0},
        "warm_start": 10,
        "retries": {"attempts": 3, "first_wait": 0.01},
    }
    path = folder / f"study-{seed}.yaml"
    path.write_text(json.dumps(study))
    return path


def start(study: Path, folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "genmix", "run", str(study), "-o", str(folder), "-q"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def make_runs(root: Path) -> subprocess.Popen[bytes]:
    """Make some finished runs and an active one, whose process is returned."""
    for seed, policy in enumerate(["mixture-greedy", "mixture-ucb", "uniform", "one-arm-greedy"]):
        study = write_study(root / "study", 400, seed, 0.0, policy)
        start(study, root / "runs" / "policies" / policy).wait()
    stopped = start(write_study(root / "slow", 900, 9, 0.01, "mixture-greedy"), root / "runs/early")
    time.sleep(6)
    stopped.send_signal(signal.SIGINT)
    stopped.wait()
    running = start(
        write_study(root / "slow", 2500, 1, 0.1, "mixture-greedy"), root / "runs/postcards"
    )
    time.sleep(20)
    return running


def shoot(browser: Browser, url: str, report: Path) -> None:
    several = "&".join(
        f"run=policies/{name}" for name in ("mixture-greedy", "uniform", "mixture-ucb")
    )
    pages = {
        "live": f"{url}run/postcards",
        "runs": url,
        "compare": f"{url}compare?{several}",
        "report": report.as_uri(),
    }
    for view, (scheme, width) in VIEWS.items():
        context = browser.new_context(
            color_scheme=scheme, viewport={"width": width, "height": 860}, reduced_motion="reduce"
        )
        page = context.new_page()
        for name, address in pages.items():
            page.goto(address)
            page.wait_for_timeout(1500)
            page.screenshot(path=OUT / f"{name}-{view}.png", full_page=True)
            if (name, view) in (("live", "dark"), ("report", "light")):
                page.set_viewport_size({"width": width, "height": HEIGHTS[name]})
                page.wait_for_timeout(500)
                page.screenshot(path=DOCS / "assets" / f"{name}.png")
        context.close()


def main() -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        running = make_runs(root)
        command = [sys.executable, "-m", "genmix", "dashboard", str(root / "runs"), "--port", "0"]
        dashboard = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert dashboard.stdout is not None
        url = dashboard.stdout.readline().strip()
        try:
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
                shoot(browser, url, root / "runs/policies/mixture-greedy/report.html")
                browser.close()
        finally:
            for process in (running, dashboard):
                process.send_signal(signal.SIGINT)
                process.wait()
    print(*sorted(OUT.iterdir()), sep="\n")


if __name__ == "__main__":
    main()
