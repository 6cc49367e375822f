"""The status page, and the JSON that it is drawn from: `/`, `/status` and `/model`, for reading only."""

from http import HTTPStatus
from importlib.resources import files

from stream_apple.adapters.http.messages import MOST_TOP, Reply, ReplyCache, Request, Route, json_reply
from stream_apple.adapters.http.status import NotShownError, Status

_TOP = 25
_LONGEST_NUMBER = 18  # digits, so that it fits 64 bits
SCRIPTS = ("page", "status", "verdicts", "loss", "merging", "pace", "budget", "model", "charts", "dom", "numbers")
"""The page's modules, `page` being the one that it names; each has one subject."""
_ASSETS = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    **{f"/{name}.js": (f"{name}.js", "text/javascript; charset=utf-8") for name in SCRIPTS},
}


class _ParameterError(Exception):
    """A parameter of the query is missing or out of range."""


def page_routes(status: Status) -> dict[str, Route]:
    """Return the page's paths, each with its route."""
    kept = ReplyCache(status.now)

    def tell_status(request: Request) -> Reply:
        try:
            since_ms = _number(request, "since", 0, None, 0)
        except _ParameterError as error:
            return _refused(HTTPStatus.BAD_REQUEST, error)
        return kept.reply(("status", since_ms), lambda: json_reply(HTTPStatus.OK, status.status(since_ms)))

    def tell_model(request: Request) -> Reply:
        try:
            partition = _number(request, "partition", 0, None, None)
            top = _number(request, "top", 1, MOST_TOP, _TOP)
            return kept.reply(
                ("model", partition, top), lambda: json_reply(HTTPStatus.OK, status.model(partition, top))
            )
        except _ParameterError as error:
            return _refused(HTTPStatus.BAD_REQUEST, error)
        except NotShownError as error:
            return _refused(HTTPStatus.NOT_FOUND if error.absent else HTTPStatus.SERVICE_UNAVAILABLE, error)

    return {
        **{path: _asset(*asset) for path, asset in _ASSETS.items()},
        "/status": tell_status,
        "/model": tell_model,
    }


def _asset(name: str, content_type: str) -> Route:
    body = files(__package__).joinpath("static", name).read_bytes()
    reply = Reply(HTTPStatus.OK, content_type, body)
    return lambda _: reply


def _refused(status: HTTPStatus, error: Exception) -> Reply:
    return json_reply(status, {"status": str(error)})


def _number(request: Request, name: str, least: int, most: int | None, default: int | None) -> int:
    """Return the parameter as a whole number; _ParameterError if it is none, or is missing without a default."""
    found = request.query.get(name, [])
    if not found and default is not None:
        return default
    expected = f"{name}: expected one whole number from {least}" + (" on" if most is None else f" to {most}")
    if len(found) != 1 or not (found[0].isascii() and found[0].isdigit()) or len(found[0]) > _LONGEST_NUMBER:
        raise _ParameterError(f"{expected}, found {', '.join(map(repr, found)) or 'none'}")
    number = int(found[0])
    if number < least or (most is not None and number > most):
        raise _ParameterError(f"{expected}, found {number}")
    return number
