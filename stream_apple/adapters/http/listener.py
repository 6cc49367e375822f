"""The socket of the HTTP port: taken before anything else of a worker, and without its heavy imports."""

import socket

from stream_apple.errors import ConfigurationError


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 is any, host `::` all of IPv6 and IPv4. ConfigurationError if it can't be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=128, dualstack_ipv6=host == "::")
    except (OSError, UnicodeError) as error:  # UnicodeError: a name that no resolver can be asked for
        found = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"http: expected to listen on {host} port {port}, found: {found}") from error
