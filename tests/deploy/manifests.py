"""Rendering of kustomizations, and what Kubernetes and the operators would refuse of the result."""

import json
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import kubernetes_validate
import yaml
from deploy.operator_schemas import PACKAGES, Manifest, operator_faults

REPOSITORY = Path(__file__).resolve().parent.parent.parent
DEPLOY = REPOSITORY / "deploy"
COMPONENTS = sorted(path.parent.name for path in DEPLOY.glob("components/*/kustomization.yaml"))
OVERLAYS = sorted(path.parent.name for path in DEPLOY.glob("overlays/*/kustomization.yaml"))

KUBERNETES = ("1.29", "1.37")
"""The oldest version that is meant to work, and the newest whose schemas there are."""

_RENDER_SECONDS = 60


def render(kubectl: str, directory: Path) -> list[Manifest]:
    """The manifests of a kustomization, as `kubectl apply -k` would send them; AssertionError with its complaint."""
    done = subprocess.run(
        [kubectl, "kustomize", str(directory)],
        capture_output=True,
        text=True,
        check=False,
        timeout=_RENDER_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    # kustomize warns of what will not work one day, and goes on.
    assert not done.stderr, done.stderr
    return list(yaml.load_all(done.stdout, yaml.CSafeLoader))


def copy(directory: Path) -> Path:
    """A copy of `deploy/` to be changed."""
    return Path(shutil.copytree(DEPLOY, directory / "deploy"))


def combine(tree: Path, components: Sequence[str]) -> Path:
    """A kustomization in `tree`, a copy of `deploy/`, of the base with these components."""
    directory = tree / "overlays" / "combination"
    directory.mkdir()
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": ["../../base"],
        "components": [f"../../components/{name}" for name in components],
    }
    (directory / "kustomization.yaml").write_text(yaml.safe_dump(kustomization), encoding="utf-8")
    return directory


def of_operators(manifests: Sequence[Manifest]) -> list[Manifest]:
    """Those whose schemas are an operator's."""
    return [one for one in manifests if one["apiVersion"].partition("/")[0] in PACKAGES]


@cache
def _kubernetes_faults(text: str) -> list[str]:
    """What Kubernetes' schemas have against a manifest, given as JSON: renderings have most of them in common."""
    manifest, found = json.loads(text), []
    for version in KUBERNETES:
        try:
            kubernetes_validate.validate(manifest, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            where = ".".join(map(str, error.absolute_path))
            found.append(f"{manifest['kind']} {manifest['metadata']['name']} {where}: {error.message}")
        except kubernetes_validate.SchemaNotFoundError as error:
            found.append(error.message)
    return found


def faults(operators: Path, manifests: Sequence[Manifest]) -> list[str]:
    """Everything that Kubernetes' and the operators' schemas, taken strictly, have against these manifests."""
    theirs = of_operators(manifests)
    plain = [json.dumps(manifest) for manifest in manifests if manifest not in theirs]
    return [fault for text in plain for fault in _kubernetes_faults(text)] + operator_faults(operators, theirs)
