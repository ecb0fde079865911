"""Requests over plain HTTP, which skip loading certificates (50 ms for every request)."""

from __future__ import annotations

from functools import partial

import httpx

get = partial(httpx.get, verify=False)
post = partial(httpx.post, verify=False)
stream = partial(httpx.stream, verify=False)
Client = partial(httpx.Client, verify=False)
