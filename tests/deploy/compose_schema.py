"""The Compose specification's own JSON Schema, out of the Go module that `docker compose` reads files with."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from support.required import UnavailableError

MODULE = "github.com/compose-spec/compose-go/v2@v2.16.2"
SUM = "h1:pTp1DqQwJzFd85GzlWsSszKA1ABrV/ySqsClujIcWA8="
_SECONDS = 300


def compose_schema() -> dict[str, Any]:
    """The schema; unknown keys are errors in it. UnavailableError if Go can't fetch the module."""
    go = shutil.which("go")
    if go is None:
        raise UnavailableError("the Compose specification's schema needs `go` on the path")
    try:
        done = subprocess.run(
            [go, "mod", "download", "-json", MODULE],
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
            cwd="/",
        )
    except subprocess.TimeoutExpired:
        raise UnavailableError(f"Go did not fetch {MODULE} within {_SECONDS} s") from None
    if done.returncode:
        raise UnavailableError(f"Go can't fetch {MODULE}: {(done.stdout + done.stderr)[-2000:]}")
    answer = json.loads(done.stdout)
    if answer["Sum"] != SUM:
        raise RuntimeError(f"{MODULE}: expected the checksum {SUM}, found {answer['Sum']}")
    schema: dict[str, Any] = json.loads(Path(answer["Dir"], "schema", "compose-spec.json").read_text(encoding="utf-8"))
    return schema
