"""Requests to an application of ASGI, without a server; and models that it may ask."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

from starlette.applications import Starlette
from support.planted_pair import SETTINGS, finder, planted
from support.records import TOPIC

from stream_apple.http.serving.answering import Answering
from stream_apple.http.serving.application import Application
from stream_apple.http.serving.bodies import Bodies
from stream_apple.http.serving.questions import Questions
from stream_apple.monitoring.serving_metrics import ServingMetrics
from stream_apple.records.mapping import InputMapping
from stream_apple.stream.following.lag import Lag
from stream_apple.stream.following.replicas import NoModelError
from stream_apple.stream.model.instances import InstanceReader
from stream_apple.stream.model.partition_model import ModelSettings, PartitionModel
from stream_apple.stream.walk.moment import Moment

Body = bytes | Sequence[bytes]


class Reply(NamedTuple):
    """What the application has answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """The body, which must be JSON."""
        assert self.headers["content-type"] == "application/json"
        return json.loads(self.body)


def call(
    application: Starlette, method: str, path: str, body: Body = b"", headers: dict[str, str] | None = None
) -> Reply:
    """One request; a body of several parts has no length, and of none never comes."""
    parts = [body] if isinstance(body, bytes) else list(body)
    told = {"content-length": str(len(body))} if isinstance(body, bytes) and body else {}
    coming = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    if parts:
        coming[-1]["more_body"] = False
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if coming:
            return coming.pop(0)
        await asyncio.sleep(3600)
        raise AssertionError

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in {**told, **(headers or {})}.items()],
    }
    asyncio.run(application(scope, receive, send))
    head, *rest = sent
    content = b"".join(part.get("body", b"") for part in rest)
    return Reply(head["status"], {name.decode(): value.decode() for name, value in head["headers"]}, content)


class _Standing:
    """As much of a replica as is shown."""

    def __init__(self, model: PartitionModel | None) -> None:
        self.model = model
        self.own_lag, self.total_lag = Lag(), Lag()


class FixedReplicas:
    """Models that learn nothing more; None where there is none."""

    def __init__(self, models: Sequence[PartitionModel | None], *, merged: bool = False) -> None:
        self.by_partition = {number: _Standing(model) for number, model in enumerate(models)}
        self.merged = merged
        self.alive = True

    @property
    def ready(self) -> bool:
        """If there is a model of each."""
        return all(map(self.is_ready, self.by_partition))

    def is_ready(self, number: int) -> bool:
        """If there is one."""
        return self.by_partition[number].model is not None

    @contextmanager
    def turn(self, number: int) -> Iterator[tuple[PartitionModel, Moment]]:
        """As the real ones do."""
        model = self.by_partition[number].model
        if model is None:
            raise NoModelError(f"expected a model of partition {number}")
        yield model, Moment.of(model)


def learned(settings: ModelSettings = SETTINGS, count: int = 600) -> PartitionModel:
    """A model of the planted pair."""
    if settings is SETTINGS:
        return finder(planted(count))[0]
    model = PartitionModel(TOPIC, 0, finder(planted(1))[0].lineage, settings, settings.decoder())
    model.process(planted(count))
    return model


def application_of(
    replicas: FixedReplicas,
    settings: ModelSettings = SETTINGS,
    *,
    most: int = 5,
    body: int = 2_000,
    pending: int = 10_000_000,
    body_s: float = 0.05,
    metrics: ServingMetrics | None = None,
) -> Starlette:
    """The application, which answers for a model named `clicks`; a key's partition is its length's remainder."""
    answering = Answering(
        replicas,  # type: ignore[arg-type]
        InstanceReader(settings),
        "0123456789abcdef",
        lambda key, count: len(key) % count,
    )
    questions = Questions(most, mapped=settings.mapping is not None)
    bodies = Bodies(body, pending, body_s)
    return Application("clicks", answering, questions, bodies, metrics or ServingMetrics(), settings.options).asgi()


MAPPED = SETTINGS._replace(mapping=InputMapping(label="y", features="*"))
SOFTMAX = SETTINGS._replace(
    options=replace(SETTINGS.options, loss="softmax", classes=3), limits=SETTINGS.limits._replace(classes=3)
)
