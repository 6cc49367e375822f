"""Proofs that take minutes: made if what they are about has changed since they last passed, else skipped, saying so."""

from collections.abc import Callable, Iterator

import pytest
from deploy.proof.apiserver import API_SERVER, ApiServer
from deploy.proof.debian import Programs
from deploy.proof.image import Image
from deploy.proof.record import RECORD, Subject, forced
from support.required import UnavailableError, unavailable


@pytest.fixture(scope="module", autouse=True)
def subject(request: pytest.FixtureRequest) -> Subject | None:
    """What the module proves; a skip if that is proven."""
    found: Subject | None = getattr(request.module, "SUBJECT", None)
    if found and not forced() and (day := found.proven()):
        pytest.skip(f"{found.name}: passed on {day}, and none of its files has changed since ({RECORD.name})")
    return found


@pytest.fixture(autouse=True)
def _noted(request: pytest.FixtureRequest, record_property: Callable[[str, object], None]) -> None:
    """For the end of the session, which tells how to record it; tests of the record name subjects, and prove none."""
    proved: Subject | None = getattr(request.module, "SUBJECT", None)
    if proved and not forced():
        record_property("proved_anew", proved.name)


@pytest.fixture(scope="module")
def image(subject: Subject, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    """The image, built from the Dockerfile as it is."""
    assert subject
    try:
        with Image(tmp_path_factory.mktemp("image")) as image:
            yield image
    except UnavailableError as error:
        unavailable(str(error))


@pytest.fixture(scope="module")
def cluster(subject: Subject, kubectl: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """An API server that knows Kubernetes' own kinds."""
    assert subject
    directory = tmp_path_factory.mktemp("cluster")
    try:
        with ApiServer(kubectl, Programs("etcd-server"), API_SERVER.resolve(), directory) as server:
            yield server
    except UnavailableError as error:
        unavailable(str(error))
