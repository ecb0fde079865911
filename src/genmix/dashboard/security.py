"""Access checks and security headers.

Every request must pass three checks. The Host header must name this machine, which prevents DNS
rebinding. If a token is set, a cookie or a header must prove that the client knows the token. A
request that changes something must come from one of our own pages or contain the token in a header,
because a cookie alone would allow cross-site request forgery.

A client that tries several wrong tokens has to wait. The cookie is random, so it cannot be guessed and is not
affected: a page that is logged in keeps working while somebody else tries tokens.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import math
import re
import secrets
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import parse_qs, quote, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from genmix.dashboard.pages import login_page
from genmix.dashboard.throttle import Throttle

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
"""Reports contain inline scripts. The sandbox gives them an opaque origin without access to this site."""

HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # "no-referrer" would make forms send a null origin
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "Cache-Control": "no-store",
}

SAFE_METHODS = ("GET", "HEAD")
LOGIN = "/login"
MAX_LOGIN_BYTES = 4096
HOST = re.compile(r"(?:\[([0-9a-f:.%]+)\]|([a-z0-9._-]+))(?::[0-9]+)?")
"""A valid Host header: an address or a name, optionally with a port."""


def same(given: str, expected: str) -> bool:
    """Compare in constant time, so that timing reveals neither contents nor lengths."""
    pair = (
        hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
        for text in (given, expected)
    )
    return hmac.compare_digest(*pair)


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a server bound to that address."""
    try:
        found = {info[4][0] for info in socket.getaddrinfo(host, None)}
    except (OSError, UnicodeError):
        return False
    return bool(found) and all(ipaddress.ip_address(str(a)).is_loopback for a in found)


def host_names(bound: str) -> frozenset[str]:
    """Return the host names of this machine that requests can use, in addition to its addresses."""
    own = () if is_loopback(bound) else (socket.gethostname(), socket.getfqdn())
    return frozenset(name.lower() for name in ("localhost", bound, *own))


@dataclass(frozen=True)
class Access:
    """The address that the server is bound to, and the token that it requires."""

    host: str
    port: int
    token: str | None = None

    @property
    def cookie(self) -> str:
        """The cookie's name. It contains the port because all ports of a host share their cookies."""
        return f"genmix_{self.port}"


class Guard:
    """Passes requests that satisfy the access checks on to the application."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access
        self._names = host_names(access.host)
        self._session = secrets.token_urlsafe(32)
        """The cookie's value: random, so that it proves a login but reveals nothing about the token."""
        self._throttle = Throttle()

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

        refusal = await self._refusal(request)
        await (refusal or self._app)(scope, receive, send_with_headers)

    async def _refusal(self, request: Request) -> Response | None:
        """Return the response to a request that fails a check; None if it passes."""
        if not self._has_our_host(request.headers):
            return refused(
                request, 421, "This host name does not belong to this machine; use its IP address."
            )
        sent = self._bearer(request.headers)
        if sent is not None:
            return self._refused_token(request, sent)
        if request.method not in SAFE_METHODS and not is_same_origin(request.headers):
            return refused(
                request,
                403,
                "Cross-site requests are not allowed; send the token in the Authorization header.",
            )
        return None if self._access.token is None else await self._refusal_of_page(request)

    async def _refusal_of_page(self, request: Request) -> Response | None:
        """Check the cookie, or the token in the address or in the login form."""
        path = request.scope["path"]  # the one used for routing; request.url depends on Host
        given = request.query_params.get("token")
        # Starlette ignores malformed cookies, which other sites on this host may have set.
        is_logged_in = same(request.cookies.get(self._access.cookie, ""), self._session)
        if given is not None and request.method in SAFE_METHODS:
            rest = [(k, v) for k, v in request.query_params.multi_items() if k != "token"]
            target = quote(path) + (f"?{urlencode(rest)}" if rest else "")
            refusal = None if is_logged_in else self._refused_token(request, given)
            return refusal or self._redirect_with_cookie(target)
        if is_logged_in:
            return None
        if path == LOGIN and request.method == "POST":
            return await self._login(request)
        if path.startswith("/static/") and request.method in SAFE_METHODS:
            return None  # the login page needs its style sheet
        return refused(request, 401, None)

    def _refused_token(self, request: Request, given: str) -> Response | None:
        """Return the response to a wrong token, or to any token after too many wrong ones."""
        assert self._access.token is not None
        client = "" if request.client is None else request.client.host
        wait = self._throttle.seconds_to_wait(client)
        if wait > 0:
            message = f"Too many wrong tokens; try again in {math.ceil(wait)} seconds."
            response = refused(request, 429, message)
            response.headers["Retry-After"] = str(math.ceil(wait))
            return response
        if same(given, self._access.token):
            return None
        self._throttle.record_failure(client, given)
        return refused(request, 401, "The token is wrong.")

    def _has_our_host(self, headers: Headers) -> bool:
        given = headers.getlist("host")
        return len(given) == 1 and is_our_name(given[0], self._names)

    def _bearer(self, headers: Headers) -> str | None:
        """Return the token in the Authorization header; None if there is none or none is required."""
        if self._access.token is None:
            return None
        sent = headers.get("authorization", "").encode("latin-1")  # the raw bytes
        kind, _, given = sent.decode("utf-8", "replace").partition(" ")
        return given.strip() if kind.lower() == "bearer" else None

    async def _login(self, request: Request) -> Response:
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > MAX_LOGIN_BYTES:
                return refused(request, 413, "The token is too long.")
        given = parse_qs(body.decode(errors="replace")).get("token", [""])[0]
        return self._refused_token(request, given) or self._redirect_with_cookie("/")

    def _redirect_with_cookie(self, path: str) -> Response:
        """Set the cookie and redirect to the page, without the token in its URL."""
        response = RedirectResponse("/" + path.lstrip("/"), status_code=303)
        response.set_cookie(self._access.cookie, self._session, httponly=True, samesite="strict")
        return response


def is_our_name(host: str, names: Iterable[str]) -> bool:
    """Accept any address, but no unknown name, which DNS rebinding could point at this machine."""
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
    """Return whether the browser says that the request comes from one of our own pages."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None and site != "same-origin":
        return False
    if origin is None:
        return site == "same-origin"
    host = headers.get("host", "")
    return origin in (f"http://{host}", f"https://{host}")


def refused(request: Request, status: int, reason: str | None) -> Response:
    if status in (401, 429) and "text/html" in request.headers.get("accept", ""):
        return Response(login_page(reason), status, media_type="text/html")
    message = reason or "This dashboard requires a token; send it in the Authorization header."
    return JSONResponse({"error": message}, status)
