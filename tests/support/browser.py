"""A real browser for tests; errors on the console and requests to other hosts fail the test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

CHROMIUM = "/usr/bin/chromium"
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
OURS = ("http://127.0.0.1:", "file:///", "data:", "blob:")

DESKTOP, PHONE = 1280, 390

OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"

CONTRAST = """
() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const luminance = ([r, g, b]) => {
    const linear = (v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  };
  const background = (node) => {
    for (; node; node = node.parentElement) {
      const color = rgba(getComputedStyle(node).backgroundColor);
      if (color[3] > 250) return color;
    }
    return [255, 255, 255, 255];
  };
  const poor = [];
  for (const node of document.querySelectorAll("body *")) {
    const hasText = [...node.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    const exempt = node.closest(":disabled, script, noscript, title, desc");
    if (!hasText || exempt || !node.checkVisibility({visibilityProperty: true})) continue;
    const style = getComputedStyle(node);
    const ink = rgba(node instanceof SVGElement ? style.fill : style.color);
    const [one, other] = [luminance(ink), luminance(background(node))].sort((a, b) => b - a);
    const ratio = (one + 0.05) / (other + 0.05);
    const label = `${node.tagName} ${node.textContent.trim().slice(0, 30)}`;
    if (ratio < 4.5) poor.push(`${label}: ${ratio.toFixed(2)}`);
  }
  return poor;
}
"""
"""Texts with a contrast below 4.5, the minimum of WCAG."""

NAMELESS = """
() => [...document.querySelectorAll("a, button, input, select, img, [role=img], [role=region], summary")]
  .filter((node) => node.checkVisibility() && !node.closest("[aria-hidden=true]"))
  .filter((node) => !(node.textContent.trim() || node.labels?.length
    || ["aria-label", "aria-labelledby", "alt"].some((name) => node.hasAttribute(name))))
  .map((node) => node.outerHTML.slice(0, 120))
"""
"""Elements without an accessible name."""


class Watched:
    """A page with its console errors and its requests."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))

    def _on_console(self, message: Any) -> None:
        if message.type in ("error", "warning", "assert"):
            self.complaints.append(f"{message.type}: {message.text}")

    @property
    def foreign(self) -> list[str]:
        return [address for address in self.requests if not address.startswith(OURS)]


@contextmanager
def browsing() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def watched_page(browser: Any, scheme: str = "light", width: int = DESKTOP) -> Iterator[Watched]:
    """A fresh page; fails at the end if there were errors or requests to other hosts."""
    context = browser.new_context(
        color_scheme=scheme, viewport={"width": width, "height": 900}, reduced_motion="reduce"
    )
    try:
        watched = Watched(context.new_page())
        watched.page.set_default_timeout(30_000)
        yield watched
        assert watched.complaints == []
        assert watched.foreign == []
        assert watched.requests
    finally:
        context.close()
