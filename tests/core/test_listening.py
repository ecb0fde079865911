"""Why a server cannot listen, in one sentence."""

from __future__ import annotations

import errno
import socket

import pytest

from genmix.core.listening import cannot_listen


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(errno.EADDRINUSE, "taken (while binding)"), "choose another port"),
        (PermissionError(errno.EACCES, "no"), "choose another port"),
        (OSError(errno.EADDRNOTAVAIL, "no"), "use an address of this machine"),
        (socket.gaierror(socket.EAI_NONAME, "unknown name"), "(unknown name); use an address"),
        (OSError(errno.EMFILE, "too many files"), "fix this, and try again"),
        (OSError("odd"), "(odd); fix this, and try again"),
        (OverflowError("port must be 0-65535"), "the port is 99; pass a port from 0 to 65535."),
    ],
)
def test_the_advice_fits_the_reason(error: OSError | OverflowError, reason: str) -> None:
    message = str(cannot_listen("listen", "somewhere", 99, error))
    assert reason in message
    assert "while binding" not in message
