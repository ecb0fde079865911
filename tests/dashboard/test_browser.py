"""The dashboard in a real browser."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import genmix as gx
from genmix.core.text import number
from genmix.journal.lock import FolderLock
from tests.support.browser import (
    CONTRAST,
    DESKTOP,
    NAMELESS,
    OVERFLOW,
    PHONE,
    browsing,
    watched_page,
)
from tests.support.dashboard_runs import HOSTILE, write_long_journal, write_study
from tests.support.dashboard_server import serving, wait_until

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("with_reports")]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Finished runs with hostile texts, one with a sum as its objective, one without a timeline."""
    root = tmp_path_factory.mktemp("browser")
    study = write_study(root / "study", samples=90)
    gx.run(study, root / "runs" / "one")
    more = [{"vendi": {}}, {"cost": {"weight": 0.1}}]
    gx.run(write_study(root / "sum", samples=70, objective=more), root / "runs" / "group" / "two")
    write_long_journal(root / "runs" / "old", 3000, dimension=4, timeline=False)
    write_long_journal(root / "runs" / "long", 20_000, dimension=4)
    return root / "runs"


@pytest.fixture(scope="module")
def url(runs: Path) -> Iterator[str]:
    with serving(runs) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with browsing() as found:
        yield found


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    with watched_page(browser) as watched:
        yield watched.page


def expect(what: Any) -> Any:
    from playwright.sync_api import expect as wait_for

    wait_for.set_options(timeout=30_000)  # what holds, holds soon; machines may be busy
    return wait_for(what)


def start(study: Path, folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "genmix", "run", str(study), "-o", str(folder), "-q"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def marks(page: Any, title: str) -> int:
    """Shapes with an extent in the chart of that title."""
    figure = page.locator("figure", has_text=re.compile(title))
    found = figure.locator(".mark")
    expect(found.first).to_be_attached()
    boxes = [found.nth(i).bounding_box() for i in range(found.count())]
    return sum(box is not None and box["width"] > 0 for box in boxes)


# -- live --------------------------------------------------------------------------------------------


def test_the_page_follows_a_study_from_empty_to_finished(page: Any, tmp_path: Path) -> None:
    study = write_study(tmp_path / "study", samples=60, wait=0.03)
    gate = tmp_path / "study" / "closed"
    gate.touch()
    folder = tmp_path / "runs" / "live"
    folder.parent.mkdir()
    process = start(study, folder)
    with serving(folder.parent) as url:
        wait_until(lambda: (folder / "journal.sqlite").exists())
        page.goto(f"{url}/run/live")
        page.evaluate("window.same = true")  # it is one page from here on
        expect(page.locator("#status")).to_have_text("running")
        expect(page.locator("#facts")).to_contain_text("0 of 60")
        expect(page.locator("#newest")).to_be_hidden()  # nothing is shown without content
        expect(page.locator("figure:visible")).to_have_count(0)
        assert page.locator(".mark").count() == 0

        gate.unlink()
        expect(page.locator("#newest li").first).to_contain_text("cost 0.0")
        expect(page.locator("figure", has_text="vendi ↑").locator(".mark").first).to_be_visible()
        expect(page.locator("#facts")).to_contain_text("Time left")
        expect(page.locator("#failures")).to_contain_text("<b>no</b> luck today")
        expect(page.locator("#facts")).to_contain_text(re.compile(r"[1-5]?\d of 60"))

        expect(page.locator("#status")).to_have_text("finished", timeout=60_000)
        expect(page.locator("#reason")).to_have_text("the budget of 60 samples is spent")
        expect(page.locator("#facts")).to_contain_text("60 of 60")
        expect(page.locator("#newest li")).to_have_count(12)
        expect(page.locator("#announcement")).to_contain_text("Run status: finished.")
        expect(page.get_by_role("link", name="Report")).to_be_visible()
        assert marks(page, "Weights") == 4
        assert marks(page, "vendi") >= 2
        assert page.evaluate("window.same")
    assert process.wait(30) == 0


def test_stop_and_resume_with_the_buttons(page: Any, tmp_path: Path) -> None:
    study = write_study(tmp_path / "study", samples=100, wait=0.03)
    folder = tmp_path / "runs" / "live"
    folder.parent.mkdir()
    process = start(study, folder)
    with serving(folder.parent) as url:
        wait_until(lambda: (folder / "journal.sqlite").exists())
        page.goto(f"{url}/run/live")
        stop, resume = (page.get_by_role("button", name=name) for name in ("Stop", "Resume"))
        expect(page.locator("#newest li")).to_have_count(12)
        expect(resume).to_be_hidden()
        stop.click()
        expect(page.locator("#status")).to_have_text("interrupted")
        assert process.wait(30) == 130
        expect(stop).to_be_hidden()
        expect(page.locator("#announcement")).to_contain_text("Run status: interrupted.")

        resume.focus()
        page.keyboard.press("Enter")
        expect(resume).to_be_hidden()
        expect(page.locator("#status")).to_have_text("running")
        expect(stop).to_be_visible()
        expect(page.locator("#status")).to_have_text("finished", timeout=60_000)
        expect(page.locator("#facts")).to_contain_text("100 of 100")
        expect(page.locator("#error")).to_be_hidden()


def test_what_cannot_be_done_is_said(browser: Any, tmp_path: Path) -> None:
    write_long_journal(tmp_path / "runs" / "a", 10, dimension=2)
    with serving(tmp_path / "runs") as url, watched_page(browser) as watched:
        page = watched.page
        silence = {"content_type": "text/event-stream", "body": "retry: 1000000\n\n"}
        page.route("**/events/a", lambda route: route.fulfill(**silence))
        page.goto(f"{url}/run/a")
        with FolderLock(tmp_path / "runs" / "a"):
            page.get_by_role("button", name="Resume").click()
            expect(page.locator("#error")).to_have_text(
                "The run is already running; reload the page."
            )
        [complaint] = watched.complaints  # of the browser, about the status of the answer
        assert "409" in complaint
        watched.complaints.clear()


def test_a_page_without_its_server_says_so_and_comes_back(browser: Any, tmp_path: Path) -> None:
    write_long_journal(tmp_path / "a", 10, dimension=2)
    with watched_page(browser) as watched:
        with serving(tmp_path) as url:
            watched.page.goto(f"{url}/run/a")
            expect(watched.page.locator("#connection")).to_have_text("")
        expect(watched.page.locator("#connection")).to_have_text("Connection lost. Reconnecting…")
        assert all("ERR_" in complaint for complaint in watched.complaints)
        watched.complaints.clear()


# -- what is drawn -----------------------------------------------------------------------------------


def test_every_chart_of_a_run_is_drawn(page: Any, url: str) -> None:
    page.goto(f"{url}/run/group/two")
    expect(page.locator("figure")).to_have_count(3)
    assert marks(page, "Weights") == 4
    assert marks(page, "vendi ↑") >= 2
    assert marks(page, "cost ↓") >= 2
    page.goto(f"{url}/run/long")
    weights = page.locator("figure", has_text=re.compile("Weights"))
    expect(weights.locator(".mark")).to_have_count(5)  # the page of a long run is drawn in steps
    assert marks(page, "Weights") == 5
    assert marks(page, "vendi ↑") == 2
    assert len(page.locator("figure .line.mark").first.get_attribute("d")) < 10_000
    page.goto(f"{url}/run/old")
    assert marks(page, "Share of samples") == 5


def test_the_slider_reads_a_chart_by_keys(page: Any, url: str) -> None:
    page.goto(f"{url}/run/one")
    figure = page.locator("figure").first
    slider = figure.get_by_role("slider")
    expect(figure.locator("figcaption")).to_contain_text("at 90 samples")
    slider.focus()
    page.keyboard.press("Home")
    expect(figure.locator("figcaption")).to_contain_text(re.compile(r"at 1 sample$"))
    page.keyboard.press("ArrowRight")
    assert "left" in slider.get_attribute("aria-valuetext")
    assert float(figure.locator(".cursor").get_attribute("x1")) > 0
    figure.locator("summary").click()
    rows = figure.locator("tbody tr")
    expect(rows.first).to_be_visible()
    assert 5 < rows.count() <= 13
    shares = [float(t.rstrip("%")) for t in rows.last.locator("td").all_text_contents() if "%" in t]
    assert sum(shares) == pytest.approx(100, abs=2)


def test_runs_are_listed_found_and_compared_by_keys(page: Any, url: str) -> None:
    page.goto(url)
    expect(page.locator("tbody tr")).to_have_count(4)
    assert page.locator(".sparkline .mark").count() == 3  # the old one has no scores to draw
    compare = page.locator("#compare")
    expect(compare).to_be_disabled()
    for name in ("one", "group/two"):
        page.get_by_role("checkbox", name=f"Compare {name}").focus()
        page.keyboard.press("Space")
    page.get_by_label("Filter").fill("vendi")
    page.get_by_label("Filter").fill("finished GROUP")
    expect(page.locator("tbody tr:visible")).to_have_count(1)
    expect(page.locator("#shown-count")).to_have_text("1 run")
    page.keyboard.press("Enter")  # filters, does not submit
    expect(compare).to_have_text("Compare 2 runs")
    compare.focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/compare\?run="))
    assert marks(page, "vendi") == 2
    expect(page.locator("#table tbody tr")).to_have_count(2)
    assert page.locator("#mixtures .mixture").count() == 2
    page.get_by_label("Score").select_option("cost")
    assert marks(page, "cost") == 1


def test_a_hundred_runs_are_listed(page: Any, tmp_path: Path) -> None:
    write_long_journal(tmp_path / "run 0", 300, dimension=2)
    content = (tmp_path / "run 0" / "journal.sqlite").read_bytes()
    for i in range(1, 100):
        (tmp_path / f"run {i}").mkdir()
        (tmp_path / f"run {i}" / "journal.sqlite").write_bytes(content)
    with serving(tmp_path) as url:
        page.goto(url)
        expect(page.locator("tbody tr")).to_have_count(100)
        assert page.locator(".sparkline .mark").count() == 100


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_an_unreadable_run_is_listed_with_its_problem(
    browser: Any, tmp_path: Path, width: int
) -> None:
    write_long_journal(tmp_path / "good", 30, dimension=2)
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "journal.sqlite").write_bytes(b"not a database" * 100)
    with serving(tmp_path) as url, watched_page(browser, width=width) as watched:
        watched.page.goto(url)
        row = watched.page.locator("tbody tr", has_text="torn")
        expect(row).to_contain_text("unreadable")
        expect(row).to_contain_text("is not a journal")
        assert watched.page.evaluate(OVERFLOW) <= 0


# -- other people's texts ----------------------------------------------------------------------------


def test_hostile_texts_stay_text(page: Any, url: str) -> None:
    seen: set[str] = set()
    for path in ("/run/one", "/run/group/two", "/", "/compare?run=one&run=group/two"):
        page.goto(url + path)
        expect(page.locator("h1")).to_be_visible()
        seen |= set(page.locator("#newest .text").all_text_contents())
        assert page.evaluate("window.pwned") is None
        assert page.locator("main i, main script, main iframe, main b b").count() == 0
        assert page.locator("main img").count() == 0
    assert seen & set(HOSTILE)


def test_a_script_that_gets_in_would_not_run(browser: Any, url: str) -> None:
    """The policy holds even where the page would fail."""
    with watched_page(browser) as watched:
        watched.page.goto(f"{url}/run/one")
        tried = watched.page.evaluate(
            """async () => {
              const tries = [
                () => {
                  const script = document.createElement("script");
                  script.textContent = "window.pwned = 1";
                  document.body.append(script);
                },
                () => { document.body.innerHTML += "<img src=x onerror='window.pwned=1'>"; },
                () => eval("window.pwned = 1"),
                () => setTimeout("window.pwned = 1"),
              ];
              for (const each of tries) {  // not in the debugger's own call, which may do all
                await new Promise((done) => setTimeout(() => { try { each(); } catch {} done(); }));
              }
              return fetch("http://127.0.0.1:9/").then(() => "sent", () => "kept");
            }"""
        )
        assert tried == "kept"
        assert watched.page.evaluate("window.pwned") is None
        assert watched.complaints
        watched.complaints.clear()


# -- for everyone ------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [DESKTOP, PHONE])
@pytest.mark.parametrize("path", ["/", "/run/one", "/run/group/two", "/compare?run=one&run=long"])
def test_pages_can_be_read(browser: Any, url: str, scheme: str, width: int, path: str) -> None:
    with watched_page(browser, scheme, width) as watched:
        page = watched.page
        page.goto(url + path)
        expect(page.locator(".mark").first).to_be_visible()
        assert page.evaluate(OVERFLOW) <= 0
        assert page.evaluate(CONTRAST) == []
        assert page.evaluate(NAMELESS) == []
        assert page.locator("h1").count() == 1
        assert page.locator("main").count() == 1
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        light = sum(map(int, re.findall(r"\d+", background)[:3])) > 380
        assert light == (scheme == "light")


def test_everything_can_be_reached_by_tab(page: Any, url: str) -> None:
    page.goto(f"{url}/run/one")
    expect(page.locator(".mark").first).to_be_visible()
    wanted = page.locator("a:visible, button:visible, input:visible, summary:visible").count()
    seen = set()
    for _ in range(wanted + 6):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.outerHTML.slice(0, 200)"))
        assert page.evaluate(
            "document.activeElement === document.body ||"
            " getComputedStyle(document.activeElement).outlineStyle !== 'none'"
        )
    assert len(seen) >= wanted


# -- the token ---------------------------------------------------------------------------------------


def test_the_token_is_asked_for_once(browser: Any, runs: Path) -> None:
    with serving(runs, token="open sesame") as url, watched_page(browser) as watched:
        page = watched.page
        page.goto(f"{url}/run/one")
        page.get_by_label("Token").fill("wrong")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_have_text("The token is wrong.")
        page.get_by_label("Token").fill("open sesame")
        page.keyboard.press("Enter")
        expect(page.locator("tbody tr")).to_have_count(4)
        page.get_by_role("link", name="one", exact=True).click()
        expect(page.locator("#status")).to_have_text("finished")
        assert all("401" in complaint for complaint in watched.complaints)
        watched.complaints.clear()
        page.goto(f"{url}/?token=open sesame")
        assert page.url == f"{url}/"


def test_the_report_is_shown_apart(browser: Any, url: str) -> None:
    with watched_page(browser) as watched:
        page = watched.page
        page.goto(f"{url}/run/one")
        page.get_by_role("link", name="Report").click()
        expect(page.locator("figure").first).to_be_visible()
        assert page.evaluate("window.origin") == "null"
        assert page.evaluate("window.pwned") is None


NUMBERS = [
    0,
    1,
    -1.5,
    12.34567,
    999.4,
    1234.6,
    1234567.8,
    1.2e7,
    4.8e-5,
    9.99999e-5,
    5.2e-14,
    -3e-9,
]


def test_pages_and_reports_have_the_same_numbers(page: Any, url: str) -> None:
    page.goto(url)
    shown = page.evaluate(
        """async values => {
            const { number } = await import('/static/dom.js');
            return values.map(value => number(value));
        }""",
        NUMBERS,
    )
    assert shown == [number(value) for value in NUMBERS]
