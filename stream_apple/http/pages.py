"""The status page, and the JSON that it is drawn from: `/`, `/status` and `/model`, for reading only."""

from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from stream_apple.http.application import KeptReplies, file_route
from stream_apple.http.render_thread import PAGES_SHARE, RenderThread
from stream_apple.http.replies import json_reply
from stream_apple.http.status import NotShownError, Status
from stream_apple.http.work_share import WorkShare
from stream_apple.monitoring.bounds import MOST_TOP

_TOP = 25
_LONGEST_NUMBER = 18  # digits, so that it fits 64 bits
SCRIPTS = ("page", "status", "verdicts", "loss", "merging", "pace", "budget", "model", "charts", "dom", "numbers")
"""The page's modules, `page` being the one that it names; each has one subject."""
ASSETS = {
    "/": ("page.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    **{f"/{name}.js": (f"{name}.js", "text/javascript") for name in SCRIPTS},
}
"""Path -> file, and its type."""


def page_routes(status: Status) -> list[Route]:
    """Return the routes of the page. A thread of its own renders what takes long."""
    thread = RenderThread(WorkShare(*PAGES_SHARE), KeptReplies(status.now))

    async def show_status(request: Request) -> Response:
        since_ms = _number(request, "since", 0, None, 0)
        return await thread.reply(("status", since_ms), lambda: json_reply(status.status(since_ms)))

    async def show_model(request: Request) -> Response:
        partition = _number(request, "partition", 0, None, None)
        top = _number(request, "top", 1, MOST_TOP, _TOP)
        try:
            return await thread.reply(("model", partition, top), lambda: json_reply(status.model(partition, top)))
        except NotShownError as error:
            code = HTTPStatus.NOT_FOUND if error.absent else HTTPStatus.SERVICE_UNAVAILABLE
            raise HTTPException(code, str(error)) from None

    return [
        *(file_route(path, __package__, *asset) for path, asset in ASSETS.items()),
        Route("/status", show_status),
        Route("/model", show_model),
    ]


def _number(request: Request, name: str, least: int, most: int | None, default: int | None) -> int:
    """Return the parameter as a whole number; HTTPException if it is none, or is missing without a default."""
    found = request.query_params.getlist(name)
    if not found and default is not None:
        return default
    expected = f"{name}: expected one whole number from {least}" + (" on" if most is None else f" to {most}")
    if len(found) != 1 or not (found[0].isascii() and found[0].isdigit()) or len(found[0]) > _LONGEST_NUMBER:
        raise HTTPException(HTTPStatus.BAD_REQUEST, f"{expected}, found {', '.join(map(repr, found)) or 'none'}")
    number = int(found[0])
    if number < least or (most is not None and number > most):
        raise HTTPException(HTTPStatus.BAD_REQUEST, f"{expected}, found {number}")
    return number
