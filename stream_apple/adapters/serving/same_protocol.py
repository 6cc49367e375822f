"""A connection that stays with HTTP/1.1, whatever other protocol a client would rather speak.

A request may ask for another protocol by the header `Upgrade`, as those of Java's own client do for HTTP/2, and a
server may ignore it (RFC 9110, section 7.8). httptools doesn't read the body of such a request, so it is given the head
once more, without that header, and then the body.
"""

from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_UPGRADE = b"upgrade"
_feed = httptools.HttpRequestParser.feed_data


class SameProtocol(HttpToolsProtocol):
    """A connection on which the body of each request is read."""

    def __init__(self, *arguments: Any, **named: Any) -> None:  # noqa: ANN401  uvicorn's
        super().__init__(*arguments, **named)
        self.parser = _Parser(self)

    def read(self, left: memoryview) -> None:
        """Parse a part of what the client sends; a parser that has met an upgrade is of no more use."""
        while len(left):
            try:
                _feed(self.parser, left)
            except httptools.HttpParserUpgrade as upgrade:
                if not self._comes_again:  # the method CONNECT
                    raise
                left, head = left[upgrade.args[0] :], self._head()
                self.parser = _Parser(self)
                _feed(self.parser, head)
            else:
                return

    def on_headers_complete(self) -> None:
        """Have the request answered, unless its head comes again."""
        if not self._comes_again:
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Note that the body is whole, unless the head comes again."""
        if not self._comes_again:
            super().on_message_complete()

    @property
    def _comes_again(self) -> bool:
        """Whether the parser has read a head with an upgrade, behind which it reads no body."""
        return self.parser.should_upgrade() and any(name == _UPGRADE for name, _ in self.headers)

    def _head(self) -> bytes:
        """Return the head that was read last, without the upgrade."""
        first = self.parser.get_method(), self.url, self.parser.get_http_version().encode()
        others = (b"%b: %b\r\n" % each for each in self.headers if each[0] != _UPGRADE)
        return b"%b %b HTTP/%b\r\n%b\r\n" % (*first, b"".join(others))


class _Parser(httptools.HttpRequestParser):
    def __init__(self, connection: SameProtocol) -> None:
        super().__init__(connection)
        self.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's own is
        self._connection = connection

    def feed_data(self, data: Any) -> None:  # noqa: ANN401  bytes or so
        """Parse a part of what the client sends."""
        self._connection.read(memoryview(data))
