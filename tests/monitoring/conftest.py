"""Prometheus for the tests of what it is given to do."""

import pytest
from kafka_broker import UnavailableError
from monitoring.prometheus_server import Binaries, resolve_binaries
from required import unavailable


@pytest.fixture(scope="session")
def binaries() -> Binaries:
    """Prometheus and promtool; where they can't be had, a skip, but in CI a failure."""
    try:
        return resolve_binaries()
    except UnavailableError as error:
        unavailable(str(error))
