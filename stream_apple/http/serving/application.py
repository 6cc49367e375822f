"""The routes of `serve`, as KServe's protocols have them: V1 for predictions, V2 for health and metadata; and a page.

An error is `{"error": "..."}`, with the faulty instances beside it: a request with one of them is refused as a whole.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from itertools import islice
from typing import Any, Protocol

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from stream_apple.errors import ModelError
from stream_apple.http.application import application, is_unexplained, metrics_route, shown_path
from stream_apple.http.replies import json_reply
from stream_apple.http.serving.answering import Answering, InstanceAnswer
from stream_apple.http.serving.bodies import Bodies
from stream_apple.http.serving.open_inference import SERVER, OpenInference
from stream_apple.http.serving.page import explain_routes
from stream_apple.http.serving.questions import BadRequestError, Questions
from stream_apple.learners.port import LearnerOptions
from stream_apple.monitoring.serving_metrics import ServingMetrics
from stream_apple.stream.following.replicas import NoModelError
from stream_apple.stream.model.instances import BadInstancesError
from stream_apple.stream.walk.moment import Moment

_JSON, _MSGPACK = "application/json", "application/msgpack"
_FORMS = {"": False, _JSON: False, _MSGPACK: True, "application/x-msgpack": True, "application/vnd.msgpack": True}
_LARGE = 65_536  # bytes of a body that takes long enough to answer that others have their turn before the next
_QUESTIONS = "/v1/models/NAME:predict and :explain, and /v2/models/NAME/infer"

_to_msgpack = msgspec.msgpack.Encoder().encode
_Endpoint = Callable[[Request], Awaitable[Response]]


class _Answer(Protocol):
    """Answers a body, which is msgpack if `packed`, and else JSON."""

    def __call__(self, body: bytes, request: Request, /, *, packed: bool) -> Awaitable[dict[str, Any]]: ...


class Application:
    """Answers for one model's name.

    name     of the model, in paths
    options  of the models that answer
    """

    def __init__(
        self,
        name: str,
        answering: Answering,
        questions: Questions,
        bodies: Bodies,
        metrics: ServingMetrics,
        options: LearnerOptions,
    ) -> None:
        self._inference = OpenInference(name, options.objective, options.classes, questions.most)
        self._name = name
        self._answering = answering
        self._questions = questions
        self._bodies = bodies
        self._metrics = metrics
        self._turn, self._explaining = asyncio.Lock(), asyncio.Lock()

    def asgi(self) -> Starlette:
        """Return the ASGI application."""
        return application(
            [
                Route("/v1/models", self._models),
                Route("/v1/models/{name}:predict", self._asked("predict", self._predict), methods=["POST"]),
                Route("/v1/models/{name}:explain", self._asked("explain", self._explain), methods=["POST"]),
                # Else a GET, as of a browser, would be told that there is no model called NAME:predict.
                Route("/v1/models/{name}:predict", _posted_only),
                Route("/v1/models/{name}:explain", _posted_only),
                Route("/v1/models/{name}", self._model),
                Route("/v2", _server),
                Route("/v2/health/live", self._live),
                Route("/v2/health/ready", self._ready),
                *_of_versions("/infer", self._asked("infer", self._infer), ["POST"]),
                *_of_versions("/infer", _posted_only),
                *_of_versions("/ready", self._model),
                *_of_versions("", self._metadata),
                metrics_route(self._metrics.registry),
                *explain_routes(),
            ],
            _explain_error,
        )

    async def _predict(self, body: bytes, _: Request, *, packed: bool) -> dict[str, Any]:
        instances = self._questions.read(body, packed=packed)
        # In this thread: it waits for a portion of learning at most, and decodes into memory of its own.
        return self._answering.predict(instances)

    async def _infer(self, body: bytes, _: Request, *, packed: bool) -> dict[str, Any]:
        if packed:
            raise HTTPException(415, f"expected a body of {_JSON}, found msgpack")
        asked = self._inference.read(body)
        return self._inference.reply(asked, self._answering.predict(self._questions.instances(asked.instances)))

    async def _explain(self, body: bytes, request: Request, *, packed: bool) -> dict[str, Any]:
        """Explain one instance at a time, of all requests: others, and probes, are answered between two.

        ClientDisconnect if nobody waits for the rest.
        """
        instances = self._questions.read(body, packed=packed)
        answered: list[InstanceAnswer] = []
        left = self._answering.explain_each(instances)
        while len(answered) < len(instances):
            if answered and await request.is_disconnected():
                raise ClientDisconnect
            async with self._explaining:
                answered += islice(left, 1)
            await asyncio.sleep(0)
        return self._answering.explained(answered)

    def _asked(self, endpoint: str, answer: _Answer) -> _Endpoint:
        """Return an endpoint that answers what is asked of the model."""

        async def handle(request: Request) -> Response:
            began = time.perf_counter()
            response = await self._answer(request, answer)
            self._metrics.request(endpoint, response.status_code, time.perf_counter() - began)
            return response

        return handle

    async def _answer(self, request: Request, answer: _Answer) -> Response:
        packed = False
        try:
            self._check_name(request)
            packed = _is_packed(request)
            async with self._bodies.read(request) as body:
                if len(body) > _LARGE:
                    await self._next_turn()
                return _reply(200, await answer(body, request, packed=packed), packed=packed)
        except HTTPException as error:
            return _reply(error.status_code, {"error": error.detail}, packed=packed, headers=dict(error.headers or {}))
        except BadRequestError as error:
            return _reply(error.status, {"error": str(error)}, packed=packed)
        except BadInstancesError as error:
            told = [
                {"index": fault.instance, "reason": fault.reason, "message": fault.message} for fault in error.faults
            ]
            return _reply(400, {"error": str(error), "instances": told}, packed=packed)
        except NoModelError as error:
            return _reply(503, {"error": str(error)}, packed=packed, headers={"Retry-After": "1"})
        except ModelError as error:
            return _reply(500, {"error": str(error)}, packed=packed)
        except ClientDisconnect:
            return _reply(400, {"error": "expected the whole body, found that the client has gone"}, packed=packed)

    def _check_name(self, request: Request) -> None:
        name = request.path_params["name"]
        if name != self._name:
            raise HTTPException(404, f"expected the model {self._name!r}, found {name[:200]!r}")
        asked = request.path_params.get("version", self._answering.model)
        if asked != self._answering.model:
            raise HTTPException(404, f"expected the version {self._answering.model!r}, found {asked[:200]!r}")

    async def _next_turn(self) -> None:
        """Let others have their turn, if many wait for this one after another: two never return in one round."""
        async with self._turn:
            await asyncio.sleep(0)

    async def _models(self, _: Request) -> Response:
        return _reply(200, {"models": [self._name]})

    async def _model(self, request: Request) -> Response:
        """Tell whether the model is ready, and how it stands in each partition."""
        self._check_name(request)
        replicas = self._answering.replicas
        ready = replicas.ready
        facts = [
            {
                **_stands(number, replicas.by_partition[number].model),
                "ready": replicas.is_ready(number),
                "lag_records": replicas.by_partition[number].total_lag.records,
            }
            for number in replicas.by_partition
        ]
        told = {"name": self._name, "ready": ready, "model": self._answering.model, "partitions": facts}
        return _reply(200 if ready else 503, told)

    async def _live(self, _: Request) -> Response:
        live = self._answering.replicas.alive
        return _reply(200 if live else 503, {"live": live})

    async def _ready(self, _: Request) -> Response:
        ready = self._answering.replicas.ready
        return _reply(200 if ready else 503, {"ready": ready})

    async def _metadata(self, request: Request) -> Response:
        """Return what the model takes and gives, as V2 has it."""
        self._check_name(request)
        return _reply(200, {"versions": [self._answering.model], **self._inference.metadata()})


def _stands(number: int, model: Any) -> dict[str, Any]:  # noqa: ANN401
    return {"partition": number, "offset": None} if model is None else Moment.of(model).facts()


def _is_packed(request: Request) -> bool:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in _FORMS:
        raise HTTPException(415, f"expected a body of {_JSON} or {_MSGPACK}, found {kind[:100]!r}")
    coding = request.headers.get("content-encoding", "").strip().lower()
    if coding not in {"", "identity"}:
        raise HTTPException(415, f"expected a body that is not compressed, found the encoding {coding[:100]!r}")
    return _FORMS[kind]


def _reply(
    status: int, facts: dict[str, Any], *, packed: bool = False, headers: dict[str, str] | None = None
) -> Response:
    """Return a reply in the form of the request."""
    return Response(_to_msgpack(facts), status, headers, _MSGPACK) if packed else json_reply(facts, status, headers)


def _of_versions(path: str, endpoint: _Endpoint, methods: list[str] | None = None) -> list[Route]:
    """Return the routes of V2 to a model, and to a version of it."""
    return [
        Route(f"/v2/models/{{name}}{middle}{path}", endpoint, methods=methods) for middle in ("", "/versions/{version}")
    ]


async def _server(_: Request) -> Response:
    return _reply(200, {"name": SERVER, "version": version("stream-apple"), "extensions": []})


async def _posted_only(request: Request) -> Response:
    raise HTTPException(405, f"expected POST, found {request.method}", headers={"Allow": "POST"})


def _explain_error(request: Request, error: HTTPException) -> dict[str, Any]:
    told = error.detail
    if is_unexplained(error):
        methods = (error.headers or {}).get("Allow", "").split(", ")
        expected = " or ".join(sorted(methods)) if methods != [""] else "another path"
        told = (
            f"expected {expected}, found {request.method} {shown_path(request)!r}; questions are POSTed to {_QUESTIONS}"
        )
    return {"error": told}
