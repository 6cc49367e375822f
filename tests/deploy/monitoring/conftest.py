"""Prometheus for the tests of what it is given to do."""

import pytest
from deploy.monitoring.prometheus_server import Binaries, resolve_binaries
from support.required import UnavailableError, unavailable


@pytest.fixture(scope="session")
def binaries() -> Binaries:
    """Prometheus and promtool; where they can't be had, a skip, but in CI a failure."""
    try:
        return resolve_binaries()
    except UnavailableError as error:
        unavailable(str(error))
