"""The HTTP interface of `stream-apple serve`: the protocols of KServe, on a kept server."""
