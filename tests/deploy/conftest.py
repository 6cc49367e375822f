"""What the tests of manifests need: kubectl, the operators' schemas, and that of compose files."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from deploy.compose_schema import compose_schema
from deploy.monitoring.prometheus_server import resolve_binaries
from deploy.operator_schemas import resolve
from support.required import UnavailableError, unavailable

pytest.register_assert_rewrite("deploy.agreement")


@pytest.fixture(scope="session")
def kubectl() -> str:
    """The program that renders kustomizations; it needs no cluster for that."""
    found = shutil.which("kubectl")
    if found is None:
        unavailable("rendering the manifests needs `kubectl` on the path")
    return found


@pytest.fixture(scope="session")
def operators() -> Path:
    """The directory with the schemas of the operators' resources."""
    try:
        return resolve()
    except UnavailableError as error:
        unavailable(str(error))


@pytest.fixture(scope="session")
def promtool() -> Path:
    """The program that reads Prometheus's configuration as Prometheus does."""
    try:
        return resolve_binaries().promtool
    except UnavailableError as error:
        unavailable(str(error))


@pytest.fixture(scope="session")
def specification() -> dict[str, Any]:
    """The schema of compose files."""
    try:
        return compose_schema()
    except UnavailableError as error:
        unavailable(str(error))
