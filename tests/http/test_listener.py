"""The socket that a worker listens on."""

import socket
from pathlib import Path

import pytest

from stream_apple.errors import ConfigurationError
from stream_apple.http.listener import listen


def test_a_port_in_use_is_a_configuration_error() -> None:
    """The message names the address."""
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"expected to listen on 127.0.0.1 port {port}, found: .*in use"):
            listen("127.0.0.1", port)


@pytest.mark.skipif(not Path("/proc/net/if_inet6").exists(), reason="this kernel has no IPv6")
@pytest.mark.parametrize(("host", "callers"), [("::1", ["::1"]), ("::", ["::1", "127.0.0.1"])])
def test_ipv6(host: str, callers: list[str]) -> None:
    """In a cluster that has nothing else; all addresses are those of IPv4, too."""
    with listen(host, 0) as listener:
        for caller in callers:
            socket.create_connection((caller, listener.getsockname()[1]), 5).close()
