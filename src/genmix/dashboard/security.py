"""Who may look, who may act, and what a page may load.

Three things keep strangers out. The Host header must name this machine, so that no foreign name can be
made to point here (DNS rebinding). With a token, every request must carry it. What changes something
must come from our own pages, or carry the token itself: a cookie alone could be used by others.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import parse_qs, quote, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from genmix.dashboard import pages

POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
)

REPORT_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""A report carries its scripts; it is shown as a stranger's page, which can reach nothing here."""

HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with none at all, forms would not say where they come from
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "Cache-Control": "no-store",
}

SAFE = ("GET", "HEAD")
LOGIN = "/login"
LONGEST_LOGIN = 4096
HOST = re.compile(r"(?:\[([0-9a-f:.%]+)\]|([a-z0-9._-]+))(?::[0-9]+)?")
"""A Host header: an address or a name, perhaps with a port, and nothing behind it."""


def same(given: str, wanted: str) -> bool:
    """In a time that tells nothing of either, not even their lengths."""
    pair = (
        hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest() for text in (given, wanted)
    )
    return hmac.compare_digest(*pair)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach what is bound there."""
    try:
        found = {info[4][0] for info in socket.getaddrinfo(host, None)}
    except (OSError, UnicodeError):
        return False
    return bool(found) and all(ipaddress.ip_address(str(a)).is_loopback for a in found)


def host_names(bound: str) -> frozenset[str]:
    """Names by which this machine may be called, beside its addresses."""
    own = () if is_loopback(bound) else (socket.gethostname(), socket.getfqdn())
    return frozenset(name.lower() for name in ("localhost", bound, *own))


@dataclass(frozen=True)
class Access:
    """Where the page is bound, and the token that it wants."""

    host: str
    port: int
    token: str | None = None

    @property
    def cookie(self) -> str:
        """Cookies do not know of ports; two pages on one machine are told apart by name."""
        return f"genmix_{self.port}"

    @property
    def pass_word(self) -> str:
        """What the cookie holds: it shows that the token was given, and is not the token."""
        assert self.token is not None
        return hmac.new(self.token.encode(), b"genmix dashboard", hashlib.sha256).hexdigest()


class Guard:
    """Lets requests through to the application, or not."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access
        self._names = host_names(access.host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        request = Request(scope, receive)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        answer = await self._refusal(request)
        await (answer or self._app)(scope, receive, send_with_headers)

    async def _refusal(self, request: Request) -> Response | None:
        """The answer to one who is not let through."""
        if not self._is_for_us(request.headers):
            return refused(request, 421, "This page is not served under that name.")
        may_act = is_same_origin(request.headers) or self._has_bearer(request.headers)
        if request.method not in SAFE and not may_act:
            return refused(request, 403, "Changes need the token, or come from this page itself.")
        if self._access.token is None:
            return None
        path = request.scope["path"]  # what is routed by; request.url is made from the Host header
        given = request.query_params.get("token")
        if given is not None and request.method in SAFE and same(given, self._access.token):
            rest = [(k, v) for k, v in request.query_params.multi_items() if k != "token"]
            return self._welcome(quote(path) + (f"?{urlencode(rest)}" if rest else ""))
        if self._is_known(request):
            return None
        if path == LOGIN and request.method == "POST":
            return await self._login(request)
        if path.startswith("/static/") and request.method in SAFE:
            return None  # the page that asks for the token has a look, too
        return refused(request, 401, None if given is None else "That is not the token.")

    def _is_for_us(self, headers: Headers) -> bool:
        given = headers.getlist("host")
        return len(given) == 1 and is_our_name(given[0], self._names)

    def _has_bearer(self, headers: Headers) -> bool:
        sent = headers.get("authorization", "").encode("latin-1")  # as it came, byte by byte
        kind, _, given = sent.decode("utf-8", "replace").partition(" ")
        wanted = self._access.token
        return wanted is not None and kind.lower() == "bearer" and same(given.strip(), wanted)

    def _is_known(self, request: Request) -> bool:
        if self._has_bearer(request.headers):
            return True
        cookie = request.cookies.get(self._access.cookie)  # lenient: other ports have cookies, too
        return cookie is not None and same(cookie, self._access.pass_word)

    async def _login(self, request: Request) -> Response:
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > LONGEST_LOGIN:
                return refused(request, 413, "That is too long for a token.")
        given = parse_qs(body.decode(errors="replace")).get("token", [""])[0]
        assert self._access.token is not None
        if not same(given, self._access.token):
            return refused(request, 401, "That is not the token.")
        return self._welcome("/")

    def _welcome(self, path: str) -> Response:
        """On to the page, without the token in its address."""
        answer = RedirectResponse("/" + path.lstrip("/"), status_code=303)
        answer.set_cookie(
            self._access.cookie, self._access.pass_word, httponly=True, samesite="strict"
        )
        return answer


def is_our_name(host: str, names: Iterable[str]) -> bool:
    """An address is ours, since the request came here; a name might be a stranger's."""
    found = HOST.fullmatch(host.strip().lower())
    if found is None:
        return False
    name = found[1] or found[2]
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name.rstrip(".") in names
    return True


def is_same_origin(headers: Headers) -> bool:
    """Whether a browser says that one of our own pages asks."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None and site != "same-origin":
        return False
    if origin is None:
        return site == "same-origin"
    host = headers.get("host", "")
    return origin in (f"http://{host}", f"https://{host}")


def refused(request: Request, status: int, why: str | None) -> Response:
    if status == 401 and "text/html" in request.headers.get("accept", ""):
        return Response(pages.login(why), status, media_type="text/html")
    return JSONResponse({"error": why or "This page wants its token."}, status)
