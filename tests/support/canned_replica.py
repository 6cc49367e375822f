"""A server that answers as it is told to, in place of `stream-apple serve`."""

from http.server import BaseHTTPRequestHandler, HTTPServer


class CannedReplica(HTTPServer):
    """Gives the answer that it is told to; keeps the bodies of what it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = (200, b"")
        self.address = f"http://127.0.0.1:{self.server_port}"
        self.asked: list[tuple[str, bytes]] = []


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: CannedReplica

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append((self.path, body))
        status, text = self.server.answer
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name of the base class
        """Say nothing."""
