"""Whatever an address answers, it is read within bounds, and none of it is repeated: it may repeat credentials."""

import gzip
import json
import socket
import threading
from base64 import b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from structlog.testing import capture_logs
from support.waiting import wait_until

from stream_apple.adapters.registry import registry_client
from stream_apple.adapters.registry.payloads import SchemaError
from stream_apple.adapters.registry.registry_client import MOST_BYTES, AnswerError, MissingError, RegistryClient
from stream_apple.adapters.registry.schema_registry import SchemaRegistry
from stream_apple.config.secrets import conceal, remember
from stream_apple.records.framing import frame_of, with_frame

USER, PASSWORD, TOKEN = "scorer", "hunter2-Xq9", "eyJhbGciOi.Xq9.token"
BASIC = b64encode(f"{USER}:{PASSWORD}".encode()).decode()
DOUBLE = {"schema": '"double"'}


class Server(ThreadingHTTPServer):
    """Gives the answers that it has; keeps what it was asked, with the headers.

    answers  path -> status, body, and further headers; "" as a path: for all others
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.answers: dict[str, tuple[int, bytes, dict[str, str]]] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []

    def answer(self, path: str, body: object, status: int = 200, **headers: str) -> None:
        """Answer so from now on."""
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.answers[path] = (status, text, {"Content_Type": "application/vnd.schemaregistry.v1+json", **headers})


class Handler(BaseHTTPRequestHandler):
    """Of one connection."""

    server: Server

    def do_GET(self) -> None:
        """Answer."""
        path = self.path.partition("?")[0]
        self.server.asked.append((path, dict(self.headers)))
        missing = (404, b'{"error_code": 40403, "message": "none"}', {"Content-Type": "application/json"})
        status, body, headers = self.server.answers.get(path, self.server.answers.get("", missing))
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name of the base class
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    """A server that has no schema yet."""
    found = Server()
    threading.Thread(target=found.serve_forever, daemon=True).start()
    yield found
    found.shutdown()
    found.server_close()


def client_of(server: Server, **properties: Any) -> RegistryClient:
    """A client of that server."""
    return RegistryClient({"url": server.url, "timeout": 5.0, **properties})


def test_a_schema_is_asked_for_by_its_number_or_its_guid(server: Server) -> None:
    """And what it refers to comes first, once."""
    reference = {"name": "B", "subject": "b", "version": 1}
    server.answer("/schemas/ids/7", {**DOUBLE, "references": [reference, {"name": "C", "subject": "c", "version": 2}]})
    server.answer("/schemas/guids/89791762-2336-7186-9674-299b90a802e2", DOUBLE)
    server.answer("/subjects/b/versions/1", {"subject": "b", "version": 1, "id": 1, "schema": '"long"'})
    inner = {"subject": "c", "version": 2, "id": 2, "schema": '"int"', "references": [reference]}
    server.answer("/subjects/c/versions/2", inner)
    client = client_of(server)
    found, referenced = client.schema(7)
    assert found.schema_str == '"double"'
    assert list(referenced.items()) == [("B", '"long"'), ("C", '"int"')]
    assert client.schema("89791762-2336-7186-9674-299b90a802e2")[0].schema_str == '"double"'
    assert [path for path, _ in server.asked].count("/subjects/b/versions/1") == 1
    assert {headers["Accept-Encoding"] for _, headers in server.asked} == {"identity"}


def test_schemas_that_refer_to_each_other_end(server: Server) -> None:
    """As no registry should have them."""
    server.answer("/schemas/ids/7", {**DOUBLE, "references": [{"name": "A", "subject": "a", "version": 1}]})
    again = {
        "subject": "a",
        "version": 1,
        "id": 1,
        "schema": "x",
        "references": [{"name": "A", "subject": "a", "version": 1}],
    }
    server.answer("/subjects/a/versions/1", again)
    assert client_of(server).schema(7)[1] == {"A": "x"}
    for number in range(300):
        following = [{"name": f"N{number + 1}", "subject": f"n{number + 1}", "version": 1}]
        body = {"subject": f"n{number}", "version": 1, "id": 1, "schema": "x", "references": following}
        server.answer(f"/subjects/n{number}/versions/1", body)
    server.answer("/schemas/ids/8", {**DOUBLE, "references": [{"name": "N0", "subject": "n0", "version": 1}]})
    with pytest.raises(SchemaError, match="it refers to more than 200 schemas"):
        client_of(server).schema(8)


@pytest.mark.parametrize(
    ("size", "fault"),
    [
        (MOST_BYTES, None),
        (MOST_BYTES + 1, "it is larger than 1,000,000 bytes with the schemas that it refers to"),
        (3 * MOST_BYTES, "the registry's answer has more than 2,000,000 bytes"),
        (100 * MOST_BYTES, "the registry's answer has more than 2,000,000 bytes"),
    ],
)
def test_a_schema_of_more_than_a_megabyte_is_refused(server: Server, size: int, fault: str | None) -> None:
    """No more of it is read than two."""
    server.answer("/schemas/ids/7", {"schema": "x" * size})
    if fault is None:
        assert len(client_of(server).schema(7)[0].schema_str or "") == size
    else:
        with pytest.raises(SchemaError, match=f"^{fault}$"):
            client_of(server).schema(7)


def test_so_are_schemas_that_are_larger_together(server: Server) -> None:
    """Each of them would pass."""
    server.answer(
        "/schemas/ids/7", {"schema": "x" * 600_000, "references": [{"name": "A", "subject": "a", "version": 1}]}
    )
    server.answer("/subjects/a/versions/1", {"subject": "a", "version": 1, "id": 1, "schema": "x" * 600_000})
    with pytest.raises(SchemaError, match="it is larger than 1,000,000 bytes"):
        client_of(server).schema(7)


@pytest.mark.parametrize(
    ("status", "body", "headers", "fault"),
    [
        (
            502,
            b"<html>" + b"x" * 3 * MOST_BYTES,
            {"Content-Type": "text/html"},
            "HTTP status 502 with an answer of more than",
        ),
        (
            200,
            b"<html>" + b"x" * 3 * MOST_BYTES,
            {"Content-Type": "text/html"},
            "HTTP status 200 with an answer of more than",
        ),
        (200, gzip.compress(b"x" * MOST_BYTES), {"Content-Encoding": "gzip"}, "a compressed answer"),
        (200, b"<html>", {}, "an answer that is not JSON"),
        (200, b"[" * 100_000, {}, "an answer that is no registry's"),
        (200, b"[]", {}, "an answer that is no registry's"),
        (200, b"{}", {}, "an answer that is no registry's"),
        (200, b"", {}, "an answer that is no registry's"),
        (200, {"schema": 7}, {}, "an answer that is no registry's"),
        (200, {"schema": "x", "references": "x"}, {}, "an answer that is no registry's"),
        (302, b"", {"Location": "http://127.0.0.1:1/"}, "HTTP status 302 with an answer that is no registry's"),
        (404, b"none", {}, "HTTP status 404 with an answer that is no registry's"),
        (404, {"error_code": 404, "message": "HTTP 404 Not Found"}, {}, "HTTP status 404, error code 404"),
        (401, {"error_code": 401, "message": "Unauthorized"}, {}, "HTTP status 401, error code 401"),
        (500, {"error_code": 50001, "message": "store"}, {}, "HTTP status 500, error code 50001"),
        (500, {"error_code": "50001", "message": "store"}, {}, "HTTP status 500 with an answer that is no registry's"),
    ],
)
def test_other_answers_do_not_decide(
    server: Server, status: int, body: object, headers: dict[str, str], fault: str
) -> None:
    """A proxy, or a registry in trouble, may give the schema later."""
    server.answer("", body, status, **{name.replace("-", "_"): value for name, value in headers.items()})
    with pytest.raises(AnswerError, match=fault):
        client_of(server).schema(7)


@pytest.mark.parametrize("code", [40401, 40402, 40403])
def test_a_registry_that_has_no_such_schema_decides(server: Server, code: int) -> None:
    """By its error code, as the status alone may be that of a proxy."""
    server.answer("", {"error_code": code, "message": "none"}, 404)
    with pytest.raises(MissingError, match=f"no such .* \\(HTTP status 404, error code {code}\\)"):
        client_of(server).schema(7)


def test_an_answer_that_never_ends_is_left(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each read has its own timeout, and each byte would renew it."""
    monkeypatch.setattr(registry_client, "_ANSWER_S", -1.0)
    server.answer("/schemas/ids/7", DOUBLE)
    with pytest.raises(AnswerError, match="an answer that took more than"):
        client_of(server).schema(7)


def echoes() -> list[tuple[int, object, dict[str, str]]]:
    """Answers that repeat what the client has sent."""
    said = f"Basic {BASIC} of {USER}:{PASSWORD}, {PASSWORD}, Bearer {TOKEN}"
    return [
        (401, {"error_code": 40101, "message": said}, {}),
        (404, {"error_code": 40403, "message": said}, {}),
        (500, {"error_code": said, "message": said}, {}),
        (500, said.encode(), {}),
        (200, said.encode(), {}),
        (200, {"schema": f'"{said}"'}, {}),
        (200, {"schema": said}, {}),
        (200, {"schema": f'syntax = "proto3"; import "{said}";', "schemaType": "PROTOBUF"}, {}),
        (200, {"schema": "{}", "schemaType": said}, {}),
        (200, {"schema": "{}", "references": [{"name": said, "subject": said, "version": said}]}, {}),
        (302, said.encode(), {"Location": f"http://{USER}:{PASSWORD}@127.0.0.1:1/"}),
    ]


@pytest.mark.parametrize("number", range(len(echoes())))
@pytest.mark.parametrize("bearer", [False, True])
def test_credentials_that_are_sent_back_are_not_shown(server: Server, number: int, bearer: bool) -> None:  # noqa: FBT001
    """Neither by an event nor by a dead letter, however the registry is spelled that repeats them."""
    status, body, headers = echoes()[number]
    server.answer("", body, status, **headers)
    properties: dict[str, str | float | bool] = {"basic.auth.user.info": f"{USER}:{PASSWORD}"}
    if bearer:
        properties = {
            "bearer.auth.credentials.source": "STATIC_TOKEN",
            "bearer.auth.token": TOKEN,
            "bearer.auth.logical.cluster": "lsrc-1",
        }
    for name, value in {"basic.auth.user.info": f"{USER}:{PASSWORD}", "bearer.auth.token": TOKEN}.items():
        remember(name, value)
    registry = SchemaRegistry({"url": server.url, **properties}, patience_s=0.0)
    with capture_logs() as logs:
        with pytest.raises(Exception) as caught:  # noqa: PT011  of either kind
            registry.parsed(7, b"")
        wait_until(lambda: registry._asking == 0, "the answer")
    sent = server.asked[0][1]["Authorization"]
    assert sent == (f"Bearer {TOKEN}" if bearer else f"Basic {BASIC}")
    shown = f"{caught.value} {logs} {registry.fault(7)}"
    for secret in (PASSWORD, BASIC, TOKEN):
        assert secret not in shown


def test_a_status_line_that_repeats_them_is_not_shown() -> None:
    """HTTP's library quotes what is not HTTP."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(f"Authorization: Basic {BASIC}\r\n\r\n".encode())

        thread = threading.Thread(target=answer)
        thread.start()
        client = RegistryClient({"url": f"http://127.0.0.1:{listener.getsockname()[1]}"})
        with pytest.raises(AnswerError) as caught:
            client.schema(7)
        thread.join()
    assert str(caught.value) == "no answer (RemoteProtocolError)"


def test_a_registry_that_is_down_is_told_from_one_that_answers() -> None:
    """The error is this machine's, and helps."""
    with pytest.raises(AnswerError, match=r"ConnectError: .*refused"):
        RegistryClient({"url": "http://127.0.0.1:1"}).schema(7)


def test_a_password_is_hidden_however_http_spells_it() -> None:
    """The header of basic authentication has it in base64."""
    remember("basic.auth.user.info", f"{USER}:{PASSWORD}")
    assert conceal(f"{USER}:{PASSWORD} {PASSWORD} {BASIC}") == "*** *** ***"


def test_a_record_of_confluents_own_serializer_is_read(server: Server) -> None:
    """Its GUID is in a header, and the value has no frame."""
    schema = json.dumps({"type": "record", "name": "R", "fields": [{"name": "x", "type": "int"}]})
    with SchemaRegistryClient.new_client({"url": "mock://registry"}) as mock:
        serializer = AvroSerializer(mock, schema, conf={"schema.id.serializer": header_schema_id_serializer})
        headers: list[tuple[str, str | bytes | None]] = []
        payload = serializer({"x": -1}, SerializationContext("examples", MessageField.VALUE, headers=headers))
    value = with_frame(payload, headers)
    frame = frame_of(value)
    assert value is not None
    assert frame is not None
    assert payload == b"\x01"
    server.answer(f"/schemas/guids/{frame[0]}", {"schema": schema, "guid": frame[0]})
    assert SchemaRegistry({"url": server.url}).parsed(frame[0], value[frame[1] :]) == {"x": -1}
