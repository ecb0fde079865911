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
    if isinstance(error, socket.gaierror) or error.errno is None:
        reason = error.strerror or str(error)
    else:
        reason = os.strerror(error.errno)  # create_server adds the address to error.strerror
    is_taken = error.errno in (errno.EADDRINUSE, errno.EACCES)
    advice = "choose another port" if is_taken else "pass an address of this machine as the host"
    return InputError(f"could not {what} on {host} port {port} ({reason}); {advice}.")
