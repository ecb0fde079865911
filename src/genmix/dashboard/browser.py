"""Open the dashboard in a browser, on machines that have one."""

from __future__ import annotations

import os
import sys
import threading
import webbrowser
from urllib.parse import urlsplit

UNSPECIFIED = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}
"""Addresses that a server can listen on but that a browser cannot always open."""


def open_browser(url: str) -> bool:
    """Open a URL in the user's browser; return False if this machine has none.

    Browsers that run inside the terminal would take it over, so they count only if $BROWSER names one.
    """
    if not has_browser():
        return False
    # Some browsers block until they are closed.
    threading.Thread(target=webbrowser.open, args=(_reachable(url),), daemon=True).start()
    return True


def has_browser() -> bool:
    if "BROWSER" not in os.environ and sys.platform not in ("darwin", "win32"):
        if not any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")):
            return False
    try:
        return webbrowser.get() is not None
    except webbrowser.Error:
        return False


def _reachable(url: str) -> str:
    address = urlsplit(url)
    host = UNSPECIFIED.get(address.hostname or "")
    return url if host is None else f"http://{host}:{address.port}/"
