"""The page of a replica: its files, and what browsers are told of them."""

import re

import pytest
from support.asgi import FixedReplicas, Reply, application_of, call

from stream_apple.http.serving.page import PAGE


def get(path: str, method: str = "GET") -> Reply:
    """What a replica without a model answers."""
    return call(application_of(FixedReplicas([None])), method, path)


@pytest.mark.parametrize(("path", "kind"), [(path, kind) for path, (_, _, kind) in PAGE.items()])
def test_each_file_is_served(path: str, kind: str) -> None:
    """By its type; it names no other host, and nothing can be sent to it."""
    reply = get(path)
    assert (reply.status, reply.headers["content-type"]) == (200, f"{kind}; charset=utf-8")
    assert not re.search(rb"https?://", reply.body)
    assert get(path, "POST").status == 405


def test_all_that_it_uses_is_served() -> None:
    """By addresses below its own, so that it works behind a gateway, too."""
    page = get("/").body.decode()
    used = re.findall(r'(?:src|href)="([^"#:]+)"', page)
    assert {"page.css", "explain.js"} <= set(used)
    assert all(get(f"/{path}").status in {200, 503} for path in used)
    found, asked = {"explain"}, ["explain"]
    for name in asked:
        script = get(f"/{name}.js").body.decode()
        imported = set(re.findall(r'^import .* from "\./([a-z]+)\.js";$', script, re.MULTILINE))
        asked += sorted(imported - found)
        found |= imported
        assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|Function\(", script)
    assert {f"/{name}.js" for name in found} == {path for path in PAGE if path.endswith(".js")}
