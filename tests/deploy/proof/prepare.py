"""Fetches and builds, if tests will need it, what takes so long that a test that did it would seem to hang."""

import sys
from collections.abc import Callable
from pathlib import Path

from deploy.proof.apiserver import API_SERVER
from deploy.proof.keda import ADAPTER, OPERATOR
from deploy.proof.record import AUTOSCALER, MANIFESTS, forced
from support.kafka.broker import resolve_jars
from support.required import UnavailableError


def wanted() -> dict[str, Callable[[], Path]]:
    """What to say of each, and what makes it."""
    needed: dict[str, Callable[[], Path]] = {"Kafka's jars": resolve_jars}
    scaling = forced() or AUTOSCALER.proven() is None
    if scaling or MANIFESTS.proven() is None:
        needed["the API server of Kubernetes, built once"] = API_SERVER.resolve
    if scaling:
        needed["KEDA, built once"] = OPERATOR.resolve
        needed["KEDA's adapter"] = ADAPTER.resolve
    return needed


if __name__ == "__main__":
    for what, resolve in wanted().items():
        try:
            print(f"{what}: {resolve()}")
        except UnavailableError as error:
            # The tests say what becomes of it.
            print(error, file=sys.stderr)
