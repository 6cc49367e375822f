"""The socket of the HTTP port, which a worker takes first, before its heavy imports."""

import errno
import socket
from collections.abc import Sequence

from stream_apple.errors import ConfigurationError


def listen(host: str, *ports: int, section: str = "http") -> socket.socket:
    """Return a socket that listens on the first of these ports that is free.

    host, ports  port 0 is any free one, host `::` all addresses of IPv6 and IPv4
    section      of the settings that the port is in

    ConfigurationError if no port can be taken.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for port in ports:
        try:
            return socket.create_server((host, port), family=family, backlog=128, dualstack_ipv6=host == "::")
        except (OSError, UnicodeError) as error:  # UnicodeError: a name that no resolver can be asked for
            if getattr(error, "errno", None) == errno.EADDRINUSE and port != ports[-1]:
                continue
            found = getattr(error, "strerror", None) or error
            raise ConfigurationError(
                f"{section}: expected to listen on {host} {_named(ports)}, found: {found}; "
                f"{section}.port (STREAM_APPLE_{section.upper()}__PORT) names another, 0 any that is free"
            ) from error
    raise ValueError("expected a port to listen on, found none named")


def _named(ports: Sequence[int]) -> str:
    return f"port {ports[0]}" if len(ports) == 1 else f"ports {ports[0]} to {ports[-1]}"
