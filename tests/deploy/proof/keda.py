"""KEDA beside an API server: the operator, and the adapter that answers what autoscalers ask."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from deploy.proof.apiserver import ApiServer
from deploy.proof.go_program import GoProgram
from security.authority import Authority
from support.child_process import start_child
from support.ports import free_ports
from support.waiting import wait_until

_MODULE = "github.com/kedacore/keda/v2"
_FOLDER = Path(__file__).parent / "keda"
_STAMP = f"{_MODULE}/version.Version"
_SECONDS = 180

OPERATOR = GoProgram("keda-operator", _MODULE, "cmd/operator", _FOLDER, _STAMP)
ADAPTER = GoProgram("keda-adapter", _MODULE, "cmd/adapter", _FOLDER, _STAMP)


class Keda:
    """Both processes; a context. `directory` gets everything that they write.

    authority  issues the certificate by which the two know each other
    """

    def __init__(self, cluster: ApiServer, authority: Authority, directory: Path) -> None:
        self.cluster = cluster
        self._authority, self._directory = authority, directory
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        metrics, probes, service, port = free_ports(4)
        self._adapter = f"--server=https://127.0.0.1:{port}"
        certificates = self._certificates()
        kubeconfig = self.cluster.kubeconfig
        commands: list[list[Path | str]] = [
            [
                OPERATOR.resolve(),
                f"--metrics-bind-address=127.0.0.1:{metrics}",
                f"--health-probe-bind-address=127.0.0.1:{probes}",
                f"--metrics-service-bind-address=127.0.0.1:{service}",
                f"--cert-dir={certificates}",
            ],
            [
                ADAPTER.resolve(),
                f"--secure-port={port}",
                "--port=0",
                "--authentication-skip-lookup",
                f"--metrics-service-address=127.0.0.1:{service}",
                f"--cert-dir={certificates}",
                *(f"--{use}-kubeconfig={kubeconfig}" for use in ("lister", "authentication", "authorization")),
            ],
        ]
        environment = {"KUBECONFIG": str(kubeconfig), "WATCH_NAMESPACE": ""}
        environment |= {"POD_NAMESPACE": "keda", "KEDA_CLUSTER_OBJECT_NAMESPACE": "keda"}
        environment |= {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        running = []
        for command in commands:
            process = start_child(command, self._directory / f"{Path(command[0]).name}.log", environment)
            self._stack.callback(process.wait)
            self._stack.callback(process.kill)
            running.append(process)

        def ready() -> bool:
            for process in running:
                assert process.poll() is None, self._tail()
            return self.cluster.kubectl("get", "--raw", "/readyz", self._adapter).returncode == 0

        try:
            wait_until(ready, self._tail, _SECONDS, pause_s=0.5)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _certificates(self) -> Path:
        directory = self._directory / "certificates"
        directory.mkdir()
        (directory / "ca.crt").write_bytes(self._authority.certificate.read_bytes())
        both = self._authority.server().read_bytes()
        for name in ("tls.crt", "tls.key"):
            (directory / name).write_bytes(both)
        return directory

    def _tail(self) -> str:
        logs = sorted(self._directory.glob("*.log"))
        return "\n".join(log.read_text(encoding="utf-8", errors="replace")[-3000:] for log in logs)

    def metric(self, name: str, scaled: str) -> int:
        """What an autoscaler is told of the scaled object `scaled` in the namespace `kafka`."""
        path = f"/apis/external.metrics.k8s.io/v1beta1/namespaces/kafka/{name}"
        selector = f"labelSelector=scaledobject.keda.sh%2Fname%3D{scaled}"
        answer = json.loads(self.cluster.done("get", "--raw", f"{path}?{selector}", self._adapter))
        (value,) = answer["items"]
        return int(value["value"])
