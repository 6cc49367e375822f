"""What the operators' own definitions say of a resource: Prometheus operator, KEDA, Strimzi.

The npm packages `@kubernetes-models/...` carry each definition twice: as a compiled validator, which checks values, and
as a TypeScript interface, against which the compiler finds fields that do not exist. Both are asked. The versions, with
hashes, are those of `operators/package-lock.json`; npm puts them into the repository's `.cache` once.
"""

import hashlib
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from support.required import UnavailableError, fetch_once

Manifest = dict[str, Any]

PACKAGES = {
    "keda.sh": "@kubernetes-models/keda",
    "kafka.strimzi.io": "@kubernetes-models/strimzi-kafka-operator",
    "monitoring.coreos.com": "@kubernetes-models/prometheus-operator",
}
"""API group -> the package that defines its resources."""

_FILES = Path(__file__).parent / "operators"
_CACHE = Path(__file__).resolve().parent.parent.parent / ".cache" / "operator-schemas"
_INSTALL_SECONDS = 300
_CHECK_SECONDS = 120
_OPTIONS = ["--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext", "--target", "es2022"]


def resolve() -> Path:
    """The directory in which npm has installed the schemas; UnavailableError if that can't be done."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            raise UnavailableError(f"the operators' schemas need `{program}` on the path")
    lock = _FILES / "package-lock.json"
    place = _CACHE / hashlib.sha256(lock.read_bytes()).hexdigest()[:16]
    return fetch_once(place, _install)


def _install(directory: Path) -> Path:
    made = directory / "made"
    shutil.copytree(_FILES, made)
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    try:
        done = subprocess.run(command, cwd=made, capture_output=True, text=True, check=False, timeout=_INSTALL_SECONDS)
    except subprocess.TimeoutExpired:
        raise UnavailableError(f"npm did not install the operators' schemas within {_INSTALL_SECONDS} s") from None
    if done.returncode:
        raise UnavailableError(f"npm can't install the operators' schemas: {done.stderr[-2000:]}")
    return made


def operator_faults(place: Path, manifests: Sequence[Manifest]) -> list[str]:
    """What is wrong with these resources of the operators: unknown fields, and values that are not allowed.

    Each is looked at once in a process: to start the compiler costs the same for one and for fifty.
    """
    texts = [json.dumps(manifest) for manifest in manifests]
    if new := [text for text in dict.fromkeys(texts) if text not in _known]:
        with tempfile.TemporaryDirectory(dir=place) as work:
            directory = Path(work)
            shutil.copy(_FILES / "validate.mjs", directory)
            asked = [json.loads(text) for text in new]
            values, fields = _wrong_values(directory, asked), _unknown_fields(directory, place, asked)
        _known.update({text: values[number] + fields[number] for number, text in enumerate(new)})
    return [fault for text in texts for fault in _known[text]]


_known: dict[str, list[str]] = {}
"""A resource as JSON -> what is wrong with it."""


def _module(manifest: Manifest) -> str:
    group = manifest["apiVersion"].partition("/")[0]
    return f"{PACKAGES[group]}/{manifest['apiVersion']}/{manifest['kind']}"


def _name(manifest: Manifest) -> str:
    return f"{manifest['kind']} {manifest['metadata']['name']}"


def _wrong_values(directory: Path, manifests: Sequence[Manifest]) -> list[list[str]]:
    """Of each."""
    request = json.dumps([[_module(manifest), manifest] for manifest in manifests])
    done = subprocess.run(
        ["node", "validate.mjs"],
        cwd=directory,
        input=request,
        capture_output=True,
        text=True,
        check=False,
        timeout=_CHECK_SECONDS,
    )
    if done.returncode:
        raise RuntimeError(f"the operators' validators can't be run: {done.stderr[-2000:]}")
    answers: list[str | None] = json.loads(done.stdout)
    return [
        [] if answer is None else [f"{_name(manifest)}: {answer}"]
        for manifest, answer in zip(manifests, answers, strict=True)
    ]


def _unknown_fields(directory: Path, place: Path, manifests: Sequence[Manifest]) -> list[list[str]]:
    """Of each. One line of TypeScript a resource, so that the line in the compiler's answer names it."""
    lines = [
        f'export const m{number}: import("{_module(manifest)}").I{manifest["kind"]} = {json.dumps(manifest)};'
        for number, manifest in enumerate(manifests)
    ]
    (directory / "manifests.mts").write_text("\n".join(lines), encoding="utf-8")
    compiler = place / "node_modules" / "typescript" / "bin" / "tsc"
    done = subprocess.run(
        ["node", str(compiler), *_OPTIONS, "manifests.mts"],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        timeout=_CHECK_SECONDS,
    )
    found = re.findall(r"^manifests\.mts\((\d+),\d+\): error TS\d+: (.*)$", done.stdout, re.MULTILINE)
    if done.returncode and not found:
        raise RuntimeError(f"the operators' types can't be checked: {(done.stdout + done.stderr)[-2000:]}")
    return [
        [f"{_name(manifest)}: {message}" for line, message in found if int(line) == number]
        for number, manifest in enumerate(manifests, 1)
    ]
