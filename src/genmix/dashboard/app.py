"""The web application: a list of runs, a page for each, a page that compares some."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from genmix.dashboard import live, pages
from genmix.dashboard.actions import Actions
from genmix.dashboard.folder import RunsFolder, read_inside
from genmix.dashboard.follower import Follower
from genmix.dashboard.security import REPORT_POLICY, Access, Guard
from genmix.dashboard.state import REPORT, compared, curve_of, entry_of, state_of
from genmix.errors import InputError
from genmix.runs.images import FOLDER as IMAGES

STATIC = Path(__file__).parent / "static"
LARGEST_IMAGE, LARGEST_REPORT = 100_000_000, 100_000_000
PNG = b"\x89PNG\r\n\x1a\n"
MOST_COMPARED = 12


class Dashboard:
    """The pages of one folder of runs."""

    def __init__(self, root: Path, is_closing: Callable[[], bool] = lambda: False) -> None:
        self.runs, self.actions = RunsFolder(root), Actions()
        self._is_closing = is_closing

    # -- pages -----------------------------------------------------------------------------------

    def list_page(self, request: Request) -> Response:
        return HTMLResponse(pages.runs(self._entries(), self.runs.root))

    def run_page(self, request: Request) -> Response:
        name, run = self._run(request)
        return HTMLResponse(pages.run(name, state_of(name, run, self.actions)))

    def compare_page(self, request: Request) -> Response:
        return HTMLResponse(pages.compare(self._curves(request)))

    # -- data ------------------------------------------------------------------------------------

    def entries(self, request: Request) -> Response:
        return JSONResponse({"runs": self._entries()})

    def _entries(self) -> list[dict[str, Any]]:
        found = ((name, self.runs.find(name)) for name in self.runs.names())
        entries = [entry_of(name, run, self.actions) for name, run in found if run is not None]
        return sorted(entries, key=lambda entry: entry.get("begun") or 0.0, reverse=True)

    def curves(self, request: Request) -> Response:
        return JSONResponse(self._curves(request))

    def _curves(self, request: Request) -> dict[str, Any]:
        wanted = list(dict.fromkeys(request.query_params.getlist("run")))[:MOST_COMPARED]
        found = ((name, self.runs.find(name)) for name in wanted)
        return compared([curve_of(name, run, self.actions) for name, run in found if run])

    def state(self, request: Request) -> Response:
        name, run = self._run(request)
        return JSONResponse(state_of(name, run, self.actions))

    async def events(self, request: Request) -> Response:
        name, _ = await run_in_threadpool(self._run, request)

        def read() -> live.State:
            run = self.runs.find(name)  # another one, if another run took the folder's place
            if run is None:
                raise FileNotFoundError
            return state_of(name, run, self.actions)

        return StreamingResponse(
            live.stream(read, self._is_closing), media_type="text/event-stream"
        )

    def image(self, request: Request) -> Response:
        _, run = self._run(request)
        name = run.image_of(request.path_params["ticket"])
        content = None
        if name is not None:
            content = read_inside(run.folder, IMAGES, Path(name).name, most=LARGEST_IMAGE)
        if content is None or not content.startswith(PNG):
            raise HTTPException(404, "There is no such image.")
        return Response(content, media_type="image/png")

    def report(self, request: Request) -> Response:
        _, run = self._run(request)
        content = read_inside(run.folder, REPORT, most=LARGEST_REPORT)
        if content is None:
            raise HTTPException(404, "The run has no report yet: genmix report writes one.")
        headers = {"Content-Security-Policy": REPORT_POLICY}
        return Response(content, media_type="text/html", headers=headers)

    # -- actions ---------------------------------------------------------------------------------

    def stop(self, request: Request) -> Response:
        name, run = self._run(request)
        self.actions.stop(run.folder, at_once="now" in request.query_params)
        return JSONResponse(state_of(name, run, self.actions)["life"])

    def resume(self, request: Request) -> Response:
        name, run = self._run(request)
        self.actions.resume(run.folder)
        return JSONResponse(state_of(name, run, self.actions)["life"])

    def _run(self, request: Request) -> tuple[str, Follower]:
        name = request.path_params["name"] or "."
        run = self.runs.find(name)
        if run is None:
            raise HTTPException(404, "There is no such run.")
        return name, run


def make_app(root: Path, access: Access, is_closing: Callable[[], bool] = lambda: False) -> ASGIApp:
    """The application behind its guard."""
    board = Dashboard(root, is_closing)
    routes = [
        Route("/", board.list_page),
        Route("/runs", board.entries),
        Route("/compare", board.compare_page),
        Route("/curves", board.curves),
        Route("/run/{name:path}", board.run_page),
        Route("/state/{name:path}", board.state),
        Route("/events/{name:path}", board.events),
        Route("/image/{ticket:int}/{name:path}", board.image),
        Route("/report/{name:path}", board.report),
        Route("/stop/{name:path}", board.stop, methods=["POST"]),
        Route("/resume/{name:path}", board.resume, methods=["POST"]),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    handlers: Any = {HTTPException: _say, InputError: _explain, FileNotFoundError: _say_gone}
    return Guard(Starlette(routes=routes, exception_handlers=handlers), access)


def _say(request: Request, error: HTTPException) -> Response:
    return _answer(request, error.status_code, error.detail)


def _explain(request: Request, error: InputError) -> Response:
    return _answer(request, 409, str(error))


def _say_gone(request: Request, error: Exception) -> Response:
    return _answer(request, 404, "The run is gone.")


def _answer(request: Request, status: int, words: str) -> Response:
    if "text/html" in request.headers.get("accept", ""):
        return HTMLResponse(pages.message(status, words), status)
    return JSONResponse({"error": words}, status)
