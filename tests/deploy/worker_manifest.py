"""The worker as the manifests describe it, read as the worker and Kubernetes will read it."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from deploy.operator_schemas import Manifest

from stream_apple.adapters.kafka.client_properties import queues_of
from stream_apple.app.joiner import _AHEAD_KIB as _JOINER_AHEAD_KIB
from stream_apple.app.serve import _AHEAD_KIB
from stream_apple.config import Config, load
from stream_apple.config.memory import queue_bytes
from stream_apple.config.schema import LimitSettings
from stream_apple.learners.apple.options import Options
from stream_apple.learners.apple.state.table import BUCKET, COMPANION, SLOT

BASE_BYTES = 200_000_000
"""A worker without a model: the interpreter, its libraries, compiled kernels."""

THREADS, BROKERS = 2, 4
"""What the manifests and the documents count with."""

OUTCOME_BYTES = 250
"""What an outcome takes that is held, as the documents have it."""

_UNITS = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "k": 10**3, "M": 10**6, "G": 10**9}


def only(manifests: Sequence[Manifest], kind: str, name: str = "stream-apple") -> Manifest:
    """The one resource of this kind and name; or, a name being generated or a group's, the one that begins with it."""
    of_kind = [
        one for one in manifests if one["kind"] == kind and "grafana_dashboard" not in one["metadata"].get("labels", {})
    ]
    found = [one for one in of_kind if one["metadata"]["name"] == name]
    found = found or [one for one in of_kind if one["metadata"]["name"].startswith(f"{name}-")]
    assert len(found) == 1, f"expected one {kind} {name}, found {len(found)}"
    return found[0]


def all_of(manifests: Sequence[Manifest], kind: str) -> list[Manifest]:
    """Every resource of this kind."""
    return [one for one in manifests if one["kind"] == kind]


def bytes_of(quantity: str) -> int:
    """A quantity of memory as Kubernetes reads it."""
    for unit, factor in _UNITS.items():
        if quantity.endswith(unit):
            return int(quantity.removesuffix(unit)) * factor
    return int(quantity)


def _table(bits: int) -> int:
    """Bytes of a model."""
    slots = 1 << bits
    # Tags, two bytes a bucket; and, if every slot were a base feature's, as many companions.
    return slots * (SLOT.itemsize + COMPANION.itemsize) + slots + 2 * slots // BUCKET


def serving_memory(bits: int, partitions: int) -> int:
    """Bytes of a process that serves so many partitions, and restores one of them anew."""
    return int(BASE_BYTES + 2 * _AHEAD_KIB * 1024 * partitions + _table(bits) * (partitions + 1))


def joining_memory(max_outcomes: int, partitions: int) -> int:
    """Bytes of a joiner that owns so many partitions, each with as many outcomes as it may hold."""
    # Two logs of each, with as much on its way as is there already.
    return int(BASE_BYTES + partitions * (2 * 2 * _JOINER_AHEAD_KIB * 1024 + max_outcomes * OUTCOME_BYTES))


def memory_needed(bits: int, partitions: int) -> int:
    """Bytes of a worker that owns so many partitions and writes a snapshot of one of them."""
    table = _table(bits)
    queues = queue_bytes(Options(), LimitSettings(), THREADS, queues_of({}, BROKERS))
    return int(BASE_BYTES + queues + table * (partitions + 1))


class Pod(NamedTuple):
    """The template of the worker's pods, and what else is rendered. `container`: the name of the process in it."""

    manifests: list[Manifest]
    stateful_set: Manifest
    container: str = "worker"

    @classmethod
    def of(cls, manifests: list[Manifest]) -> "Pod":
        """The pod of the workers' StatefulSet among them."""
        return cls(manifests, only(manifests, "StatefulSet"))

    @property
    def template(self) -> Manifest:
        """Metadata and spec of a pod."""
        template: Manifest = self.stateful_set["spec"]["template"]
        return template

    @property
    def spec(self) -> Manifest:
        """The pod's spec."""
        spec: Manifest = self.template["spec"]
        return spec

    @property
    def worker(self) -> Manifest:
        """The container of the worker, or of another process of that kind."""
        (container,) = [one for one in self.spec["containers"] if one["name"] == self.container]
        found: Manifest = container
        return found

    @property
    def first_name(self) -> str:
        """The name of the first pod."""
        return f"{self.stateful_set['metadata']['name']}-0"

    def files(self) -> dict[str, str]:
        """Path in the container -> content, of all that is mounted from ConfigMaps; secrets hold their own path."""
        volumes = {volume["name"]: volume for volume in self.spec["volumes"]}
        found: dict[str, str] = {}
        for mount in self.worker["volumeMounts"]:
            volume = volumes[mount["name"]]
            if "configMap" in volume:
                data = only(self.manifests, "ConfigMap")
                assert data["metadata"]["name"] == volume["configMap"]["name"]
                found |= {f"{mount['mountPath']}/{key}": text for key, text in data["data"].items()}
            if "secret" in volume:
                paths = [f"{mount['mountPath']}/{item['path']}" for item in volume["secret"]["items"]]
                found |= {path: f"content of {path}" for path in paths}
        return found

    def environment(self) -> dict[str, str]:
        """What the container's environment will be; the pod's name is that of the first pod."""
        found = {}
        for variable in self.worker["env"]:
            if "valueFrom" in variable:
                assert variable["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name"
                found[variable["name"]] = self.first_name
            else:
                found[variable["name"]] = variable["value"]
        return found

    def configuration(self, directory: Path) -> Config:
        """What `run` will load, from files and variables; ConfigurationError or AssertionError if it can't."""
        for path, text in self.files().items():
            file = directory / path.lstrip("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        arguments = self.worker["args"]
        toml = directory / arguments[arguments.index("--config") + 1].lstrip("/")
        environ = {name: value.replace("file:/", f"file:{directory}/") for name, value in self.environment().items()}
        return load(toml, environ)
