"""What has been proved of the image, of the manifests and of the autoscaler, and of which files.

`prove.py` writes it to `proven.json`. To build the image, an API server and KEDA takes minutes. A proof holds for as
long as the files that it is about, and those that do the proving, have the content that they had when it passed;
otherwise it is made anew.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parents[3]
RECORD = Path(__file__).parent / "proven.json"
FORCED = "PROVE_DEPLOYMENT"
"""Set, every proof is made anew."""

_PROVING = "tests/deploy/proof"
_LEFT_OUT = {".md", ".pyc"}
_API_SERVER = tuple(f"{_PROVING}/{name}" for name in ("apiserver", "apiserver.py", "debian.py", "go_program.py"))


class Subject(NamedTuple):
    """Something that is proved.

    about   files and folders of the repository; of folders, everything but documents
    not_in  folders in them that it does not depend on
    tests   the file of its tests
    """

    name: str
    about: tuple[str, ...]
    not_in: tuple[str, ...]
    tests: str

    def files(self, repository: Path = REPOSITORY) -> Iterator[Path]:
        """What it is about, and what proves it, in a fixed order."""
        left_out = [repository / folder for folder in self.not_in]
        for named in sorted({*self.about, f"{_PROVING}/{self.tests}"}):
            place = repository / named
            found = [place] if place.is_file() else sorted(place.rglob("*"))
            for file in found:
                is_document = file.suffix in _LEFT_OUT and file != place
                if file.is_file() and not is_document and not any(map(file.is_relative_to, left_out)):
                    yield file

    def digest(self, repository: Path = REPOSITORY) -> str:
        """Of names and contents of all of them."""
        content = hashlib.sha256()
        for file in self.files(repository):
            content.update(f"{file.relative_to(repository)}\0{file.stat().st_size}\0".encode())
            content.update(file.read_bytes())
        return content.hexdigest()

    def proven(self, record: Path = RECORD) -> str | None:
        """The day on which it passed with files like these, or None."""
        known = read(record).get(self.name, {})
        return known.get("passed") if known.get("digest") == self.digest() else None


# The package itself is not among them: that what it has become learns is what all other tests say.
IMAGE = Subject(
    "image",
    (
        "docker",
        "LICENSE",
        "docs/package-index.md",
        "pyproject.toml",
        *(f"{_PROVING}/{name}" for name in ("debian.py", "image.py", "jail.sh")),
    ),
    ("docker/grafana",),
    "test_image_learns.py",
)
MANIFESTS = Subject(
    "manifests",
    ("deploy", *_API_SERVER),
    ("deploy/monitoring/tests",),
    "test_cluster_accepts.py",
)
AUTOSCALER = Subject(
    "autoscaler",
    (
        "deploy/base",
        *(f"deploy/components/{name}" for name in ("keda", "strimzi", "tls-sasl")),
        "deploy/overlays/production",
        *_API_SERVER,
        f"{_PROVING}/keda",
        f"{_PROVING}/keda.py",
    ),
    (),
    "test_keda_scales.py",
)
SUBJECTS = (IMAGE, MANIFESTS, AUTOSCALER)


def forced() -> bool:
    """Whether proofs are made anew though they hold."""
    return bool(os.environ.get(FORCED))


def read(record: Path = RECORD) -> dict[str, dict[str, str]]:
    """The record: name of a subject -> its digest, and the day of the proof."""
    found: dict[str, dict[str, str]] = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}
    return found


def write(proofs: dict[str, dict[str, str]], record: Path = RECORD) -> None:
    """Put these into the record; the others stay."""
    record.write_text(json.dumps({**read(record), **proofs}, indent=2, sort_keys=True) + "\n", encoding="utf-8")
