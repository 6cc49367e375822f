"""Asks `stream-apple serve`, as an application would: one instance, JSON, over a connection that stays open."""

import http.client
import json

from stream_apple.core.codec.example import Features
from stream_apple.errors import StreamAppleError

_TIMEOUT_S = 5.0
_NO_MODEL_YET = 503


class AnswerError(StreamAppleError):
    """An answer that no healthy replica gives to what the demo asks."""


class Asker:
    """Asks for the predictions of one model, of one partition; `close` it in the end.

    port   of the server, on this machine
    model  its name, which is the workers' group
    """

    def __init__(self, port: int, model: str, partition: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_S)
        self._path = f"/v1/models/{model}:predict"
        self._partition = partition

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def ask(self, features: Features) -> float | None:
        """Return the log-odds of label 1; None if there is no model yet, or nobody answers.

        AnswerError for any other answer than a prediction.
        """
        body = json.dumps({"instances": [{"features": features, "partition": self._partition}]}).encode()
        try:
            self._connection.request("POST", self._path, body, {"Content-Type": "application/json"})
            reply = self._connection.getresponse()
            status, text = reply.status, reply.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()  # the next question opens it again
            return None
        if status == _NO_MODEL_YET:
            return None
        try:
            (prediction,) = json.loads(text)["predictions"]
            return float(prediction["prediction"])
        except (ValueError, KeyError, TypeError) as error:
            raise AnswerError(f"expected one prediction from serve, found status {status}: {text[:200]!r}") from error
