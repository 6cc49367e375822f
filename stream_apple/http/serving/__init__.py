"""The HTTP interface of `stream-apple serve`: it speaks the protocols of KServe, on uvicorn."""
