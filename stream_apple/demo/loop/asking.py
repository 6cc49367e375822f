"""Asks `stream-apple serve`, as an application would: one instance, JSON, over a connection that stays open."""

import http.client
import json
from urllib.parse import urlsplit

from stream_apple.errors import ConfigurationError
from stream_apple.records.message.example import Features

_TIMEOUT_S = 5.0
_NO_MODEL_YET = 503


class Asker:
    """Asks for the predictions of one model, until it is closed.

    address    of the server, such as http://127.0.0.1:8080
    model      its name: serve.name, or the workers' group
    partition  whose model is to answer; None: that of the impression's key
    """

    def __init__(self, address: str, model: str, partition: int | None = None) -> None:
        parts = urlsplit(address)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=_TIMEOUT_S)
        self._path = f"/v1/models/{model}:predict"
        self._partition = partition

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def ask(self, features: Features, key: str) -> float | None:
        """Return the log-odds of label 1; None if there is no model yet, or nobody answers.

        ConfigurationError for any other answer than a prediction: this server is not the one to ask.
        """
        place = {"key": key} if self._partition is None else {"partition": self._partition}
        body = json.dumps({"instances": [{"features": features, **place}]}).encode()
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
            raise ConfigurationError(
                f"expected one prediction from serve, found status {status}: {text[:200]!r}"
            ) from error
