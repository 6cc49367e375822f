"""What the status page is made of, over a real socket: its files, /status and /model."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from support.page_site import HOSTILE, Site
from support.planted_pair import PAIR

from stream_apple.http.pages import SCRIPTS
from stream_apple.monitoring.bounds import MOST_TOP
from stream_apple.monitoring.inspection import view_model


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """A running server."""
    made = Site()
    with made.server:
        yield made


class TestFiles:
    """The page itself."""

    @pytest.mark.parametrize(
        ("path", "kind"),
        [
            ("/", "text/html; charset=utf-8"),
            ("/page.css", "text/css; charset=utf-8"),
            *((f"/{name}.js", "text/javascript; charset=utf-8") for name in SCRIPTS),
        ],
    )
    def test_is_served_with_its_type(self, site: Site, path: str, kind: str) -> None:
        """Each file is there, and nothing in it names another host."""
        status, headers, body = site.ask(path)
        assert (status, headers["Content-Type"]) == (200, kind)
        elsewhere = set(re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]+[^\s\"')]*", body.decode()))
        assert elsewhere <= {"http://www.w3.org/2000/svg"}, "the name of a vocabulary is no address"

    def test_names_every_file_that_it_uses(self, site: Site) -> None:
        """What the page asks for by relative address is served."""
        page = site.ask("/")[2].decode()
        used = re.findall(r'(?:src|href)="([^"#:]+)"', page)
        assert {"page.css", "page.js", "metrics", "status"} <= set(used)
        for path in used:
            assert site.ask(f"/{path}")[0] in {200, 503}, path

    def test_every_script_is_used_and_every_one_used_is_served(self, site: Site) -> None:
        """From the page's own script on, the imports lead to each file once known, and to no other."""
        found, asked = {"page"}, ["page"]
        for name in asked:
            script = site.ask(f"/{name}.js")[2].decode()
            used = set(re.findall(r'^import .* from "\./([a-z]+)\.js";$', script, re.MULTILINE))
            asked += sorted(used - found)
            found |= used
        assert found == set(SCRIPTS)

    @pytest.mark.parametrize("path", ["/", "/status", "/metrics", "/nowhere"])
    def test_browsers_are_told_to_trust_nothing(self, site: Site, path: str) -> None:
        """No script but our own files, no frame, no guessing of types, and no other site may read it."""
        _, headers, _ = site.ask(path)
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Access-Control-Allow-Origin"] is None

    def test_the_script_never_makes_html_of_text(self, site: Site) -> None:
        """None of the ways in which text becomes elements occurs."""
        script = b"".join(site.ask(f"/{name}.js")[2] for name in SCRIPTS)
        for way in (b"innerHTML", b"outerHTML", b"insertAdjacent", b"document.write", b"eval(", b"Function("):
            assert way not in script


class TestStatus:
    """What the page is drawn from."""

    def test_tells_everything_but_models(self, site: Site) -> None:
        """Partitions with state, lag and losses, dead letters, configuration without secrets, versions."""
        status, facts = site.facts("/status")
        assert status == 200
        live, restoring = facts["partitions"]
        assert (live["partition"], live["state"], restoring["state"]) == (0, "live", "restoring")
        assert live["lag_records"] == 12
        assert restoring["recovery_records_left"] == 5
        assert live["losses"]["start"]["progressive_loss"] == site.model.learner.progress.report("whole").loss
        assert live["losses"]["start"]["linear_progressive_loss"] > live["losses"]["start"]["progressive_loss"]
        assert live["digest"]["digest"] == site.model.ended.digest
        assert live["examples"]["learned"] == 800
        assert facts["about"]["worker"] == "w"
        assert facts["dead_letters"]["by_reason"] == {"malformed": 1}
        assert facts["dead_letters"]["recent"] == [
            {"partition": 0, "offset": 77, "reason": "malformed", "message": f"found {HOSTILE}", "timestamp_ms": 5}
        ]
        assert facts["config"]["worker"]["id"] == "worker-7"
        assert facts["config"]["kafka"]["sasl.password"] == "***"
        assert b"hunter2" not in site.ask("/status")[2]

    def test_history_from_a_moment_on(self, site: Site) -> None:
        """All points, or those that are later than the caller knows."""
        (point,) = site.facts("/status")[1]["history"]["0"]
        assert point[1] == 800
        assert site.facts(f"/status?since={point[0]}")[1]["history"] == {"0": [], "1": []}
        assert len(site.facts(f"/status?since={point[0] - 1}")[1]["history"]["0"]) == 1

    @pytest.mark.parametrize("value", ["-1", "x", "1.5", "9" * 30, "%D9%A3", "1&since=2", ""])
    def test_a_wrong_moment_is_told(self, site: Site, value: str) -> None:
        """400, with what was expected and found."""
        status, facts = site.facts(f"/status?since={value}")
        assert status == 400
        assert facts["error"].startswith("since: expected one whole number from 0 on, found ")


class TestModel:
    """The view of one model."""

    def test_names_what_was_found(self, site: Site) -> None:
        """The pair comes first, and so many as were asked for follow."""
        status, facts = site.facts("/model?partition=0&top=3")
        assert status == 200
        assert facts["top"][0]["name"] == PAIR
        assert [len(facts[name]) for name in ("top", "products")] == [3, 3]
        assert [len(each["rows"]) for each in facts["tables"]] == [3]
        assert facts["at"] == 800
        assert len(site.facts("/model?partition=0")[1]["top"]) == 25

    @pytest.mark.parametrize(
        ("query", "status", "text"),
        [
            ("", 400, "partition: expected one whole number from 0 on, found none"),
            ("?partition=x", 400, "partition: expected one whole number from 0 on, found 'x'"),
            ("?partition=0&top=0", 400, f"top: expected one whole number from 1 to {MOST_TOP}, found 0"),
            ("?partition=0&top=1000", 400, f"top: expected one whole number from 1 to {MOST_TOP}, found 1000"),
            ("?partition=9", 404, "expected a partition of this worker (0, 1 at the moment), found 9"),
            ("?partition=1", 503, "expected a complete model of partition 1, found it restoring"),
        ],
    )
    def test_what_cannot_be_shown_is_told(self, site: Site, query: str, status: int, text: str) -> None:
        """A status for each cause, and a sentence."""
        assert site.facts(f"/model{query}") == (status, {"error": text})

    def test_many_viewers_cost_as_much_as_one(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        """A view is made once in a while, however often and with whatever `top` it is asked for."""
        made: list[int] = []

        def counting(*arguments: Any) -> Any:
            made.append(1)
            return view_model(*arguments)

        monkeypatch.setattr("stream_apple.http.status.view_model", counting)
        site.clock.now += 100
        for top in range(1, 40):
            assert site.facts(f"/model?partition=0&top={top}")[0] == 200
        assert len(made) == 1
        site.clock.now += 100
        site.facts("/model?partition=0")
        assert len(made) == 2
