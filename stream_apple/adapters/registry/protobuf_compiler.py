"""Compiles the text of a schema of Protocol Buffers, by protoc of the package grpcio-tools.

What a schema may import without having it as a reference: the types of Google (`google/protobuf`, `google/type`) and of
Confluent (`confluent/meta.proto`, `confluent/type`). For these names the product's own files count, whatever the
registry has under them.
"""

import errno
import importlib
import pkgutil
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import grpc_tools
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from stream_apple.adapters.registry.payloads import SchemaError

ITSELF = "schema_of_the_topic.proto"
_STANDARD = Path(grpc_tools.__file__).parent / "_proto"
_WITH_TYPES = ("google.type", "confluent_kafka.schema_registry.confluent")
"""The packages that hold the other known types, as generated modules."""
_COMPILING_S = 30.0
_NO_FAULT = re.compile(r"^WARNING: |^[IWEF]\d{4} |: warning: ")


def compiled(schema: str, references: Mapping[str, str]) -> list[FileDescriptorProto]:
    """Return the descriptors of a schema, which is the last, and of all that it imports; SchemaError if it is none.

    references  the texts of the files that it imports, by the names under which it does
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        known = folder / "known"
        known.write_bytes(_known_types().SerializeToString())
        given = folder / "given"
        for imported, text in {**references, ITSELF: schema}.items():
            _write(given, imported, text)
        found = folder / "descriptors"
        # In a process of its own: what protoc has against a schema is written to its standard error.
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{given}", f"-I{_STANDARD}"]
        command += [f"--descriptor_set_in={known}", f"--descriptor_set_out={found}", "--include_imports", ITSELF]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_COMPILING_S)  # noqa: S603  ours
        except subprocess.TimeoutExpired:
            raise SchemaError(f"protoc takes more than {_COMPILING_S:g} s") from None
        if done.returncode != 0:
            raise SchemaError(f"protoc: {_first_fault(done.stderr, given)}")
        return list(FileDescriptorSet.FromString(found.read_bytes()).file)


def _write(folder: Path, name: str, text: str) -> None:
    """Write an imported file, unless its name is that of a known one."""
    try:
        path = (folder / name).resolve()
        if path == folder or not path.is_relative_to(folder):
            raise SchemaError(f"it imports {name!r}, which is not the name of a file")
        if name not in _known_names():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except (ValueError, FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        # A NUL or a lone surrogate, or a name that is the folder of another one.
        raise SchemaError(f"the file {name!r} can't be written ({type(error).__name__})") from None
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        raise SchemaError("it imports a file whose name is too long") from None


def _first_fault(told: str, folder: Path) -> str:
    """Return the first fault that protoc has found in a schema, without its warnings and the log of its library."""
    lines = (line.strip() for line in told.replace(f"{folder}/", "").splitlines())
    return next((line for line in lines if line and not _NO_FAULT.search(line)), "it gives no reason")


@cache
def _known_types() -> FileDescriptorSet:
    return FileDescriptorSet(file=_generated())


@cache
def _known_names() -> frozenset[str]:
    standard = (str(path.relative_to(_STANDARD)) for path in _STANDARD.rglob("*.proto"))
    return frozenset(standard) | {file.name for file in _known_types().file}


def _generated() -> Iterator[FileDescriptorProto]:
    for package in map(importlib.import_module, _WITH_TYPES):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if module.name.endswith("_pb2"):
                yield FileDescriptorProto.FromString(importlib.import_module(module.name).DESCRIPTOR.serialized_pb)
