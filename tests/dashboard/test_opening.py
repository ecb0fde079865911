"""``genmix dashboard`` opens a browser where there is one."""

from __future__ import annotations

import sys
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from genmix.cli import app, report_commands
from genmix.dashboard import browser, server

URL = "http://127.0.0.1:8765/"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The URLs that were opened, on a machine with a graphical browser."""
    found: list[str] = []

    class Thread:
        def __init__(self, target: Callable[[str], Any], args: tuple[str], daemon: bool) -> None:
            assert daemon
            self.start = lambda: target(*args)

    monkeypatch.setattr(threading, "Thread", Thread)
    monkeypatch.setattr(webbrowser, "open", found.append)
    monkeypatch.setattr(webbrowser, "get", lambda: object())
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv("BROWSER", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setenv("DISPLAY", ":0")
    return found


def test_a_browser_opens_an_address_that_it_can_reach(opened: list[str]) -> None:
    for url in (URL, "http://0.0.0.0:8765/", "http://[::]:80/", "http://[::1]:80/"):
        assert browser.open_browser(url)
    assert opened == [URL, URL, "http://[::1]:80/", "http://[::1]:80/"]


def test_a_machine_without_a_screen_has_no_browser(
    opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DISPLAY")
    assert not browser.open_browser(URL)
    monkeypatch.setenv("BROWSER", "lynx")  # the user's own choice
    assert browser.open_browser(URL)
    monkeypatch.delenv("BROWSER")
    monkeypatch.setattr(sys, "platform", "darwin")
    assert browser.open_browser(URL)
    assert opened == [URL, URL]


def test_a_screen_without_a_browser(opened: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise webbrowser.Error("could not locate runnable browser")

    monkeypatch.setattr(webbrowser, "get", none)
    assert not browser.open_browser(URL)
    assert opened == []


@pytest.mark.parametrize(
    ("options", "terminal", "opens"),
    [([], True, True), (["--no-open"], True, False), ([], False, False)],
)
def test_the_command_opens_it_only_from_a_terminal(
    options: list[str], terminal: bool, opens: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def serve(*arguments: Any) -> None:
        arguments[-1](URL)

    monkeypatch.setattr(server, "serve", serve)
    monkeypatch.setattr(browser, "open_browser", opened.append)
    monkeypatch.setattr(report_commands, "is_interactive", lambda: terminal)
    result = CliRunner().invoke(app, ["dashboard", str(tmp_path), *options])
    assert (result.exit_code, result.stdout) == (0, f"{URL}\n")
    assert opened == ([URL] if opens else [])
