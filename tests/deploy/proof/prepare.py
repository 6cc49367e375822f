"""Builds what takes longest before tests need it, if they will: a test that takes so long counts as one that hangs."""

import sys

from deploy.proof.apiserver import resolve_apiserver
from deploy.proof.record import MANIFESTS, forced
from support.required import UnavailableError

if __name__ == "__main__" and (forced() or MANIFESTS.proven() is None):
    try:
        print(f"the API server of Kubernetes, built once: {resolve_apiserver()}")
    except UnavailableError as error:
        # The tests say what becomes of it.
        print(error, file=sys.stderr)
