"""`python -m stream_apple` is the same as `stream-apple`."""

from stream_apple.cli import main

main(prog_name="stream-apple")
