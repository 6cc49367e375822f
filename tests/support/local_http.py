"""HTTP to servers on this machine: workers, and what tests start beside them."""

import json
import urllib.error
import urllib.request
from email.message import Message
from typing import Any, NamedTuple

from prometheus_client.parser import text_string_to_metric_families
from support.waiting import DEADLINE_S

# A proxy of the environment has no way to this machine's own ports.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Answer(NamedTuple):
    """What a server has answered, whatever the status."""

    status: int
    headers: Message
    body: bytes

    def json(self) -> Any:
        """The body, which must be JSON by its type, too."""
        assert self.headers.get_content_type() == "application/json", self
        return json.loads(self.body)


def fetch(port: int, path: str, method: str = "GET", body: bytes | None = None, seconds: float = DEADLINE_S) -> Answer:
    """Ask the server at `port`; OSError while there is none. A `body` is JSON."""
    headers = {"Content-Type": "application/json"} if body is not None else {}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body, headers, method=method)
    try:
        with _opener.open(request, timeout=seconds) as reply:
            return Answer(reply.status, reply.headers, reply.read())
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, error.headers, error.read())


def metric(port: int, name: str, **labels: str) -> list[float]:
    """The values of all samples of a worker's metric that have these labels."""
    families = text_string_to_metric_families(fetch(port, "/metrics").body.decode())
    samples = [sample for family in families for sample in family.samples if sample.name == name]
    return [sample.value for sample in samples if labels.items() <= sample.labels.items()]
