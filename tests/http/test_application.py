"""Probes and metrics over a real socket."""

import json
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any
from urllib.request import Request, urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.routing import Route
from structlog.typing import EventDict
from support.clock import Clock
from support.local_http import Answer, fetch
from support.served import served

from stream_apple.http import application
from stream_apple.http.application import probe_routes, read_only, routes
from stream_apple.http.listener import listen
from stream_apple.http.server import HttpServer
from stream_apple.monitoring.definitions import METRICS
from stream_apple.monitoring.health import SLOW_AFTER_S, STUCK_AFTER_S, Health, Verdict
from stream_apple.monitoring.metric import PREFIX
from stream_apple.monitoring.metrics import Metrics

GOOD = Verdict(good=True, facts={})


class Site:
    """A server, and what it reads."""

    def __init__(self) -> None:
        self.clock = Clock(1000.0)
        self.health = Health(self.clock)
        self.metrics = Metrics()
        made = read_only(routes(self.health, self.metrics.registry))
        self.server = HttpServer(made, listen("127.0.0.1", 0))

    def ask(self, path: str, method: str = "GET") -> Answer:
        """What it answers."""
        return fetch(self.server.port, path, method)

    def facts(self, path: str) -> tuple[int, dict[str, Any]]:
        """Status and the JSON body."""
        answer = self.ask(path)
        return answer.status, answer.json()


@pytest.fixture
def site() -> Iterator[Site]:
    """A running server of a worker that has done nothing yet."""
    made = Site()
    with made.server:
        yield made


class TestProbes:
    """What Kubernetes asks."""

    def test_compiling_is_alive_and_not_ready(self, site: Site) -> None:
        """A start that takes a minute is no reason for a restart, and the body says what is waited for."""
        assert site.facts("/livez") == (200, {"status": "compiling"})
        status, facts = site.facts("/readyz")
        assert status == 503
        assert facts["waiting_for"] == ["kernels to compile", "the group to assign partitions"]

    def test_a_loop_that_does_not_turn_is_not_alive(self, site: Site) -> None:
        """Alive until STUCK_AFTER_S after the last turn, and again after the next turn."""
        site.health.compiled()
        site.clock.now += STUCK_AFTER_S
        assert site.facts("/livez")[0] == 200
        site.clock.now += 1
        status, facts = site.facts("/livez")
        assert (status, facts["status"], facts["seconds_since_turn"]) == (503, "stuck", STUCK_AFTER_S + 1)
        site.health.iterated([])
        assert site.facts("/livez")[0] == 200

    def test_a_thread_that_hangs_in_a_batch_is_not_alive(self, site: Site) -> None:
        """However busily the loop turns."""
        site.health.compiled()
        site.health.iterated([], STUCK_AFTER_S)
        assert site.facts("/livez")[0] == 200
        site.health.iterated([], STUCK_AFTER_S + 1)
        status, facts = site.facts("/livez")
        assert (status, facts["status"], facts["seconds_in_a_batch"]) == (503, "stuck", STUCK_AFTER_S + 1)

    def test_a_worker_without_partitions_is_on_standby(self, site: Site) -> None:
        """More workers than partitions: the spare one must not hold up a rollout, and is told from one at work."""
        site.health.compiled()
        site.health.iterated([])
        assert site.facts("/readyz") == (
            200,
            {"status": "standby", "waiting_for": [], "catching_up": None, "partitions": {}},
        )

    def test_a_group_that_has_not_answered(self, site: Site) -> None:
        """Nothing owned because nobody has said what, or because it was taken away, is not ready."""
        site.health.compiled()
        for told in (False, True, False):
            site.health.iterated([] if told else None)
            status, facts = site.facts("/readyz")
            assert status == (200 if told else 503)
            assert facts["waiting_for"] == ([] if told else ["the group to assign partitions"])

    def test_brokers_that_do_not_answer(self, site: Site) -> None:
        """What the worker believes to own may have another owner: not ready, but alive; a restart mends nothing."""
        reachable = True
        site.health.watch_brokers(lambda: reachable)
        site.health.compiled()
        site.health.iterated([])
        assert site.facts("/readyz")[0] == 200
        reachable = False
        status, facts = site.facts("/readyz")
        assert (status, facts["status"], facts["waiting_for"]) == (503, "waiting", ["an answer of a broker"])
        assert site.facts("/livez")[0] == 200

    def test_topics_that_can_not_be_written(self, site: Site) -> None:
        """The body names the topic and Kafka's error; the worker is alive and continues when it is mended."""
        faulty = ["topic predictions (NOT_ENOUGH_REPLICAS)"]
        site.health.watch_topics(lambda: faulty)
        site.health.compiled()
        site.health.iterated([])
        status, facts = site.facts("/readyz")
        assert (status, facts["status"], facts["waiting_for"]) == (503, "waiting", faulty)
        assert site.facts("/livez")[0] == 200
        faulty.clear()
        assert site.facts("/readyz")[0] == 200

    def test_a_loop_that_is_slow_is_not_ready(self, site: Site) -> None:
        """Long before it counts as stuck: what it said last may be past."""
        site.health.compiled()
        site.health.iterated([])
        site.clock.now += SLOW_AFTER_S
        assert site.facts("/readyz")[0] == 200
        site.clock.now += 1
        status, facts = site.facts("/readyz")
        assert (status, facts["waiting_for"]) == (503, ["the loop to turn"])
        assert site.facts("/livez")[0] == 200
        site.health.iterated([])
        assert site.facts("/readyz")[0] == 200

    def test_a_worker_that_leaves_is_not_ready(self, site: Site) -> None:
        """From the signal, or the error, on: it answers no further record."""
        site.health.compiled()
        site.health.iterated([])
        site.health.leave()
        assert site.facts("/readyz") == (
            503,
            {"status": "stopping", "waiting_for": [], "catching_up": None, "partitions": {}},
        )


class TestPaths:
    """What is served, and what is not."""

    def test_metrics_are_prometheus_text(self, site: Site) -> None:
        """Prometheus's own parser finds every metric of the table under its name, type and help."""
        status, headers, body = site.ask("/metrics")
        assert status == 200
        assert headers["Content-Type"].startswith("text/plain")
        found = {family.name: family for family in text_string_to_metric_families(body.decode())}
        for row in METRICS:
            family = found[PREFIX + row.name.removesuffix("_total")]
            assert (family.documentation, family.type) == (row.help, row.kind.__name__.lower())
        assert not [name for name in found if name.endswith("_created")]

    def test_head_has_no_body(self, site: Site) -> None:
        """HEAD answers as GET does, without the body."""
        status, headers, body = site.ask("/livez", "HEAD")
        assert (status, headers["Content-Type"], body) == (200, "application/json", b"")

    def test_an_unknown_path_lists_the_known_ones(self, site: Site) -> None:
        """404, also for a known path with something after it; a query string does not matter."""
        status, facts = site.facts("/metricz")
        assert (status, facts["paths"]) == (404, ["/livez", "/metrics", "/readyz"])
        assert facts["error"] == "no such path: /metricz"
        assert site.ask("/livez/x")[0] == 404
        assert site.ask("/livez?verbose=1")[0] == 200

    @pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
    @pytest.mark.parametrize("path", ["/metrics", "/livez"])
    def test_nothing_can_be_changed(self, site: Site, path: str, method: str) -> None:
        """Only reading methods exist: 405 names them, also to a client that sends a body."""
        status, headers, body = fetch(site.server.port, path, method, b"{}" * 50_000)
        assert (status, sorted(headers["Allow"].split(", "))) == (405, ["GET", "HEAD"])
        assert json.loads(body) == {"error": "expected GET or HEAD: this port is for reading only"}

    def test_a_connection_serves_many_requests(self, site: Site) -> None:
        """Keep-alive works, so that a scrape does not cost a connection."""
        connection = HTTPConnection("127.0.0.1", site.server.port, timeout=10)
        for _ in range(3):
            connection.request("GET", "/livez")
            assert connection.getresponse().read() == b'{"status":"compiling"}'
        connection.close()

    def test_a_scrape_may_name_metrics(self, site: Site) -> None:
        """As Prometheus's own clients let it; the format is the one that the scraper accepts."""
        name = "stream_apple_loop_turns_total"
        text = site.ask(f"/metrics?name[]={name}").body.decode()
        assert [family.name for family in text_string_to_metric_families(text)] == [name.removesuffix("_total")]
        request = Request(
            f"http://127.0.0.1:{site.server.port}/metrics", headers={"Accept": "application/openmetrics-text"}
        )
        with urlopen(request, timeout=10) as reply:
            assert reply.headers.get_content_type() == "application/openmetrics-text"
            assert reply.read().endswith(b"# EOF\n")

    def test_metrics_are_rendered_once_a_second_at_most(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        """However many scrape."""
        rendered: list[int] = []
        collect = site.metrics.registry.collect

        def counting() -> Any:
            rendered.append(1)
            return collect()

        monkeypatch.setattr(site.metrics.registry, "collect", counting)
        monkeypatch.setattr(application, "KEPT_S", 60.0)
        for _ in range(5):
            assert site.ask("/metrics").status == 200
        assert len(rendered) == 1


class TestDefects:
    """An endpoint that raises what nobody expects."""

    def test_a_defect_is_logged(self, log_events: list[EventDict]) -> None:
        """500, and an event; the server goes on."""

        async def fail(_: Any) -> Any:
            raise ZeroDivisionError

        with served(read_only([Route("/", fail), *probe_routes(lambda: GOOD, lambda: GOOD)])) as port:
            answer = fetch(port, "/")
            assert (answer.status, answer.json()) == (500, {"error": "a defect, see http_failed in the log"})
            assert fetch(port, "/livez").status == 200
        assert [event["event"] for event in log_events] == ["http_failed"]


class TestNames:
    """The table of metrics keeps Prometheus's rules."""

    @pytest.mark.parametrize("row", METRICS, ids=lambda row: row.name)
    def test_names_follow_the_conventions(self, row: Any) -> None:
        """Counters, and only they, end in _total; no label is repeated in the name; help is a sentence."""
        assert row.name.endswith("_total") == (row.kind.__name__ == "Counter")
        assert row.help.endswith(".")
        assert row.name == row.name.lower()
        assert not {"created", "bucket", "count", "sum"} & set(row.name.split("_"))
