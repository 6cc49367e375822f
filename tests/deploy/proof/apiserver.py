"""A real API server of Kubernetes with a real etcd, without nodes and controllers: it takes objects, or refuses them.

The API server is built from its Go module; etcd is Debian's.
"""

import json
import os
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import yaml
from deploy.operator_schemas import PACKAGES, Manifest
from deploy.proof.debian import Programs
from deploy.proof.go_program import GoProgram
from support.child_process import start_child
from support.ports import free_ports
from support.waiting import wait_until

API_SERVER = GoProgram(
    "kube-apiserver",
    "k8s.io/kubernetes",
    "cmd/kube-apiserver",
    Path(__file__).parent / "apiserver",
    "k8s.io/component-base/version.gitVersion",
)
_SECONDS = 60
_TOKEN = "administrator"  # of a server that nobody but this process can reach


class ApiServer:
    """One API server with an etcd of its own; a context. `directory` gets everything that they write.

    kubeconfig  of its administrator
    """

    def __init__(self, kubectl: str, etcd: Programs, apiserver: Path, directory: Path) -> None:
        self._kubectl, self._etcd, self._apiserver, self._directory = kubectl, etcd, apiserver, directory
        self.kubeconfig = directory / "kubeconfig"
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        store, peer, port = free_ports(3)
        directory = self._directory
        directory.mkdir(parents=True, exist_ok=True)
        address = f"http://127.0.0.1:{store}"
        self._start(
            "etcd",
            *self._etcd.command("etcd"),
            f"--data-dir={directory / 'etcd'}",
            f"--listen-client-urls={address}",
            f"--advertise-client-urls={address}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-cluster=default=http://127.0.0.1:{peer}",
            "--unsafe-no-fsync",
        )
        key = directory / "accounts.key"
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
        (directory / "tokens.csv").write_text(f"{_TOKEN},administrator,administrator,system:masters\n")
        server = self._start(
            "kube-apiserver",
            str(self._apiserver),
            f"--etcd-servers={address}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={directory / 'certificates'}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--authorization-mode=RBAC",
            f"--token-auth-file={directory / 'tokens.csv'}",
        )
        self.kubeconfig.write_text(_kubeconfig(port))

        def ready() -> bool:
            assert server.poll() is None, self._tail()
            return self.kubectl("get", "--raw", "/readyz").returncode == 0

        try:
            wait_until(ready, self._tail, _SECONDS * 3, pause_s=0.5)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start(self, name: str, *command: str | Path) -> "subprocess.Popen[bytes]":
        process = start_child(command, self._directory / f"{name}.log")
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return process

    def _tail(self) -> str:
        logs = (self._directory / f"{name}.log" for name in ("etcd", "kube-apiserver"))
        return "\n".join(log.read_text(encoding="utf-8", errors="replace")[-3000:] for log in logs if log.exists())

    def kubectl(self, *arguments: str | Path, given: object = None) -> "subprocess.CompletedProcess[str]":
        """How `kubectl` ended; `given`, an object, is its input."""
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig), "HOME": str(self._directory)}
        # A proxy of the environment has no way to this machine's own ports.
        environment |= {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        return subprocess.run(
            [self._kubectl, *map(str, arguments)],
            input=None if given is None else json.dumps(given),
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
        )

    def done(self, *arguments: str | Path, given: object = None) -> str:
        """What `kubectl` says; AssertionError with its complaint, or its warning, if it has one."""
        ended = self.kubectl(*arguments, given=given)
        assert (ended.returncode, ended.stderr) == (0, ""), ended.stderr + ended.stdout
        return ended.stdout

    def get(self, *arguments: str) -> Any:
        """The object, or the list of objects."""
        return json.loads(self.done("get", *arguments, "--output=json"))

    def create(self, manifest: Manifest) -> None:
        """Have it made; AssertionError with what the server has against it."""
        self.done("create", "--filename=-", "--validate=strict", given=manifest)

    def define(self, manifests: list[Manifest]) -> None:
        """Make the operators' kinds known; what may be in them is asked of their own schemas elsewhere."""
        for api, kind in sorted({(one["apiVersion"], one["kind"]) for one in manifests}):
            group, _, name = api.partition("/")
            if group not in PACKAGES:
                continue
            definition = f"customresourcedefinition/{kind.lower()}s.{group}"
            if self.kubectl("get", definition).returncode:
                self.create(_definition(group, name, kind))
                self.done("wait", "--for=condition=Established", definition)


def _definition(group: str, version_name: str, kind: str) -> Manifest:
    names = {"kind": kind, "plural": f"{kind.lower()}s", "singular": kind.lower(), "listKind": f"{kind}List"}
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names['plural']}.{group}"},
        "spec": {
            "group": group,
            "names": names,
            "scope": "Namespaced",
            "versions": [
                {"name": version_name, "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}
            ],
        },
    }


def _kubeconfig(port: int) -> str:
    one = {"cluster": "proof", "user": "administrator"}
    text: str = yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "proof",
                    "cluster": {"server": f"https://127.0.0.1:{port}", "insecure-skip-tls-verify": True},
                }
            ],
            "users": [{"name": "administrator", "user": {"token": _TOKEN}}],
            "contexts": [{"name": "proof", "context": one}],
            "current-context": "proof",
        }
    )
    return text
