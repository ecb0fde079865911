"""The web application: a list of runs, a page for each run, and a page that compares runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from genmix.dashboard.actions import Actions
from genmix.dashboard.event_stream import MAX_STREAMS, RETRY_AFTER, EventStreams, RunData
from genmix.dashboard.page_data import REPORT, comparison_data, every_arm, run_data
from genmix.dashboard.pages import data_page, message_page
from genmix.dashboard.run_list import RunList
from genmix.dashboard.runs_folder import RunsFolder
from genmix.dashboard.security import REPORT_POLICY, Access, Guard
from genmix.dashboard.status import status_of
from genmix.errors import GenmixError, InputError
from genmix.journal.images import IMAGES
from genmix.monitoring.finding import read_inside
from genmix.monitoring.monitor import RunMonitor

STATIC = Path(__file__).parent / "static"
MAX_IMAGE_BYTES = MAX_REPORT_BYTES = 100_000_000
PNG = b"\x89PNG\r\n\x1a\n"
MAX_COMPARED = 12


class Dashboard:
    """Request handlers for one or several folders of runs."""

    def __init__(
        self, root: Path | Mapping[str, Path], is_closing: Callable[[], bool] = lambda: False
    ) -> None:
        self.runs, self.actions = RunsFolder(root), Actions()
        self._list = RunList(self.runs, self.actions)
        self._streams = EventStreams(self._current, is_closing)

    # -- pages -----------------------------------------------------------------------------------

    def list_page(self, request: Request) -> Response:
        data = {"runs": self._list.entries(), "root": self.runs.title}
        return HTMLResponse(data_page("runs", "Runs", data))

    def run_page(self, request: Request) -> Response:
        name, run = self._run(request)
        return HTMLResponse(data_page("run", name, run_data(name, run, self.actions)))

    def compare_page(self, request: Request) -> Response:
        return HTMLResponse(data_page("compare", "Compare runs", self._compared(request)))

    # -- data ------------------------------------------------------------------------------------

    def entries(self, request: Request) -> Response:
        return PlainJSONResponse({"runs": self._list.entries()})

    def curves(self, request: Request) -> Response:
        return PlainJSONResponse(self._compared(request))

    def _compared(self, request: Request) -> dict[str, Any]:
        names = list(dict.fromkeys(request.query_params.getlist("run")))[:MAX_COMPARED]
        runs = {name: run for name in names if (run := self.runs.find(name)) is not None}
        return comparison_data(runs, self.actions)

    def state(self, request: Request) -> Response:
        name, run = self._run(request)
        return PlainJSONResponse(run_data(name, run, self.actions))

    def arms(self, request: Request) -> Response:
        _, run = self._run(request)
        return PlainJSONResponse({"arms": every_arm(run, self.actions)})

    async def events(self, request: Request) -> Response:
        if self._streams.are_exhausted:
            raise HTTPException(
                503,
                f"The dashboard has {MAX_STREAMS} open event streams, which is the maximum; try "
                "again later, or read /state instead.",
                headers={"Retry-After": str(RETRY_AFTER), "Connection": "close"},
            )
        name, _ = await run_in_threadpool(self._run, request)
        return self._streams.response(name)

    def _current(self, name: str) -> RunData:
        run = self.runs.find(name)  # find it again, since another run may have replaced it
        if run is None:
            raise FileNotFoundError
        return run_data(name, run, self.actions)

    def image(self, request: Request) -> Response:
        _, run = self._run(request)
        name = run.image_of(request.path_params["ticket"])
        content = None
        if name is not None:
            content = read_inside(run.folder, IMAGES, Path(name).name, max_bytes=MAX_IMAGE_BYTES)
        if content is None or not content.startswith(PNG):
            raise HTTPException(404, "This image does not exist.")
        return Response(content, media_type="image/png")

    def report(self, request: Request) -> Response:
        _, run = self._run(request)
        content = read_inside(run.folder, REPORT, max_bytes=MAX_REPORT_BYTES)
        if content is None:
            raise HTTPException(404, "This run has no report yet; write it with genmix report.")
        headers = {"Content-Security-Policy": REPORT_POLICY}
        return Response(content, media_type="text/html", headers=headers)

    # -- actions ---------------------------------------------------------------------------------

    def stop(self, request: Request) -> Response:
        name, run = self._run(request)
        self.actions.stop(run.folder, at_once="now" in request.query_params)
        return PlainJSONResponse(run_data(name, run, self.actions)["status"])

    def resume(self, request: Request) -> Response:
        name, run = self._run(request)
        with run.lock:
            run.refresh()
            status = status_of(run, self.actions)
        if status.name == "finished":
            raise InputError("The run is finished; there is nothing to resume.")
        self.actions.resume(run.folder)
        return PlainJSONResponse(run_data(name, run, self.actions)["status"])

    def _run(self, request: Request) -> tuple[str, RunMonitor]:
        name = request.path_params["name"] or "."
        run = self.runs.find(name)
        if run is None:
            raise HTTPException(404, "This run does not exist.")
        return name, run


def make_app(
    root: Path | Mapping[str, Path],
    access: Access,
    is_closing: Callable[[], bool] = lambda: False,
) -> ASGIApp:
    """Build the application and its access checks; ``root`` is a folder, or several by name."""
    dashboard = Dashboard(root, is_closing)
    routes = [
        Route("/", dashboard.list_page),
        Route("/runs", dashboard.entries),
        Route("/compare", dashboard.compare_page),
        Route("/curves", dashboard.curves),
        Route("/run/{name:path}", dashboard.run_page),
        Route("/state/{name:path}", dashboard.state),
        Route("/arms/{name:path}", dashboard.arms),
        Route("/events/{name:path}", dashboard.events),
        Route("/image/{ticket:int}/{name:path}", dashboard.image),
        Route("/report/{name:path}", dashboard.report),
        Route("/stop/{name:path}", dashboard.stop, methods=["POST"]),
        Route("/resume/{name:path}", dashboard.resume, methods=["POST"]),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    handlers: Any = {
        HTTPException: lambda request, e: _error_response(
            request, e.status_code, e.detail, e.headers
        ),
        GenmixError: lambda request, e: _error_response(request, 409, str(e)),
        FileNotFoundError: lambda request, e: _error_response(
            request, 404, "The run folder no longer exists."
        ),
    }
    return Guard(Starlette(routes=routes, exception_handlers=handlers), access)


def _error_response(
    request: Request, status: int, message: str, headers: Mapping[str, str] | None = None
) -> Response:
    if "text/html" in request.headers.get("accept", ""):
        return HTMLResponse(message_page(status, message), status, headers)
    return PlainJSONResponse({"error": message}, status, headers)


class PlainJSONResponse(JSONResponse):
    """JSON in ASCII, which can represent file names that are not valid UTF-8."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()
