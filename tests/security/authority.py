"""Certificates for tests, made by `openssl`: an authority, a server's, a client's."""

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

_NEW = ("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-days", "2")
_SECONDS = 60


class Client(NamedTuple):
    """What a client needs for mutual TLS: PEM files, and both in a PKCS#12 store."""

    certificate: Path
    key: Path
    store: Path


class Authority:
    """An authority of its own, in a directory of its own. `certificate` is what those who trust it have."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        self._directory = directory
        self.certificate = directory / "authority.crt"
        self._key = directory / "authority.key"
        _openssl(*_NEW, "-noenc", "-subj", "/CN=authority", "-keyout", self._key, "-out", self.certificate)

    def server(self) -> Path:
        """Key and certificate of a server at 127.0.0.1, in one PEM file."""
        certificate, key = self._issue("server", "subjectAltName=IP:127.0.0.1", "-noenc")
        both = self._directory / "server.pem"
        both.write_text(key.read_text() + certificate.read_text() + self.certificate.read_text())
        return both

    def client(self, name: str, passphrase: str) -> Client:
        """A client that the server knows by this name; its key and its store are encrypted."""
        certificate, key = self._issue(name, "extendedKeyUsage=clientAuth", "-passout", f"pass:{passphrase}")
        store = self._directory / f"{name}.p12"
        inputs = ("-inkey", key, "-passin", f"pass:{passphrase}", "-in", certificate)
        _openssl("pkcs12", "-export", *inputs, "-passout", f"pass:{passphrase}", "-out", store)
        return Client(certificate, key, store)

    def _issue(self, name: str, extension: str, *how: str) -> tuple[Path, Path]:
        certificate, key = self._directory / f"{name}.crt", self._directory / f"{name}.key"
        by = ("-CA", self.certificate, "-CAkey", self._key)
        _openssl(*_NEW, *by, *how, "-subj", f"/CN={name}", "-addext", extension, "-keyout", key, "-out", certificate)
        return certificate, key


def _openssl(*arguments: str | Path) -> None:
    command = [shutil.which("openssl") or "openssl", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
