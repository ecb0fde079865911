"""Explain why a server could not listen on an address."""

from __future__ import annotations

import errno
import os
import socket

from genmix.errors import InputError


def cannot_listen(what: str, host: str, port: int, error: OSError | OverflowError) -> InputError:
    """Return the error to raise; ``what`` is e.g. "serve metrics"."""
    if isinstance(error, OverflowError):
        return InputError(f"the port is {port}; pass a port from 0 to 65535.")
    is_unknown = isinstance(error, socket.gaierror)
    reason = error.strerror or str(error)
    if error.errno is not None and not is_unknown:
        reason = os.strerror(error.errno)  # create_server adds the address to error.strerror
    advice = "fix this, and try again"
    if error.errno in (errno.EADDRINUSE, errno.EACCES):
        advice = "choose another port"
    elif is_unknown or error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
        advice = "use an address of this machine"
    return InputError(f"could not {what} on {host} port {port} ({reason}); {advice}.")
