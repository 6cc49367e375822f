"""The page of a replica: an example is pasted, and its score is shown as a sum, by asking `:explain`.

It is the replica's and not the worker's: a worker's models learn without a lock, on threads that no page may hold up,
and its port takes no body. A replica gives each question its turn.
"""

from starlette.routing import Route

from stream_apple.http.application import file_route

_HERE, _WORKERS = "stream_apple.http.serving", "stream_apple.http"
_HTML, _CSS, _SCRIPT = "text/html", "text/css", "text/javascript"
PAGE = {
    "/": (_HERE, "explain.html", _HTML),
    "/explain.js": (_HERE, "explain.js", _SCRIPT),
    # Its looks and numbers are those of the worker's page.
    **{
        f"/{name}": (_WORKERS, name, kind)
        for name, kind in (("page.css", _CSS), ("dom.js", _SCRIPT), ("numbers.js", _SCRIPT))
    },
}
"""Path -> package, file in it, and type."""


def explain_routes() -> list[Route]:
    """Return the routes of the page and of all that it uses."""
    return [file_route(path, *found) for path, found in PAGE.items()]
