"""When a proof holds, and that only what has passed is recorded."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from deploy.proof.record import AUTOSCALER, IMAGE, MANIFESTS, REPOSITORY, SUBJECTS, Subject, read, write


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of everything that is proved."""
    for subject in SUBJECTS:
        for file in subject.files():
            target = tmp_path / file.relative_to(REPOSITORY)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
    return tmp_path


@pytest.mark.parametrize(
    ("subject", "file"),
    [
        (IMAGE, "docker/Dockerfile"),
        (IMAGE, "docker/entrypoint.sh"),
        (IMAGE, "docker/requirements.lock"),
        (IMAGE, "docker/compose.yaml"),
        (IMAGE, "pyproject.toml"),
        (IMAGE, "tests/deploy/proof/jail.sh"),
        (IMAGE, "tests/deploy/proof/test_image_learns.py"),
        (MANIFESTS, "deploy/base/stateful-set.yaml"),
        (MANIFESTS, "deploy/overlays/two-groups/clicks/stream_apple.toml"),
        (MANIFESTS, "deploy/monitoring/dashboard.json"),
        (MANIFESTS, "tests/deploy/proof/apiserver/go.sum"),
        (MANIFESTS, "tests/deploy/proof/test_cluster_accepts.py"),
        (AUTOSCALER, "deploy/components/keda/scaled-object.yaml"),
        (AUTOSCALER, "tests/deploy/proof/keda/go.mod"),
    ],
)
def test_another_content_is_another_digest(tree: Path, subject: Subject, file: str) -> None:
    """Of what is shipped, and of what proves it; a name that is gone counts, too."""
    seen = {subject.digest(tree)}
    (tree / file).write_text((tree / file).read_text(encoding="utf-8") + "\n", encoding="utf-8")
    seen.add(subject.digest(tree))
    (tree / file).rename(tree / f"{file}.old")
    seen.add(subject.digest(tree))
    assert len(seen) == 3
    assert subject.digest() in seen


def test_documents_do_not_count(tree: Path) -> None:
    """What people read is not what is applied."""
    before = {subject.name: subject.digest(tree) for subject in SUBJECTS}
    for name in (
        "deploy/README.md",
        "deploy/monitoring/runbook.md",
        "docker/README.md",
        "deploy/monitoring/tests/x.yaml",
    ):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("another")
    assert {subject.name: subject.digest(tree) for subject in SUBJECTS} == before


def test_everything_that_is_applied_or_built_counts() -> None:
    """No overlay, component or step of the build is outside of what the digests cover."""
    applied = {file.relative_to(REPOSITORY) for file in MANIFESTS.files()}
    below = (REPOSITORY / "deploy").rglob("*")
    wanted = {file.relative_to(REPOSITORY) for file in below if file.suffix in {".yaml", ".json", ".toml"}}
    assert {file for file in wanted - applied if file.parts[:3] != ("deploy", "monitoring", "tests")} == set()
    built = {str(file.relative_to(REPOSITORY)) for file in IMAGE.files()}
    ignored = (REPOSITORY / "docker" / "Dockerfile.dockerignore").read_text(encoding="utf-8").split()
    copied = {line[1:] for line in ignored if line.startswith("!")}
    # The package's own code is what all other tests are about.
    assert copied - built == {"schemas", "stream_apple"}


def test_a_record_holds_for_these_files_only(tmp_path: Path) -> None:
    """With another digest, or none, nothing is proven."""
    record = tmp_path / "proven.json"
    assert IMAGE.proven(record) is None
    write({"image": {"digest": "0" * 64, "passed": "2026-01-01"}}, record)
    assert IMAGE.proven(record) is None
    write({"image": {"digest": IMAGE.digest(), "passed": "2026-01-02"}}, record)
    assert IMAGE.proven(record) == "2026-01-02"
    assert MANIFESTS.proven(record) is None
    write({"manifests": {"digest": MANIFESTS.digest(), "passed": "2026-01-03"}}, record)
    assert set(read(record)) == {"image", "manifests"}


_GOOD = "def test_one(): pass\n"


_PROVE = """if True:
    import sys
    from pathlib import Path
    from deploy.proof import prove
    from deploy.proof.record import Subject
    record, *files = map(Path, sys.argv[1:])
    subjects = [Subject(file.stem, ("LICENSE",), (), str(file)) for file in files]
    sys.exit(prove.main(record, subjects))
"""


def proved(directory: Path, record: Path, *files: Path) -> subprocess.CompletedProcess[str]:
    """What `make prove` does of subjects with these tests."""
    return subprocess.run(
        [sys.executable, "-c", _PROVE, record, *files],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY / "tests")},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize(
    ("text", "recorded"),
    [
        (_GOOD, True),
        (_GOOD + "def test_two(): assert False\n", False),
        (_GOOD + "import pytest\ndef test_two(): pytest.skip('not here')\n", False),
        (_GOOD + "import pytest\n@pytest.mark.xfail\ndef test_two(): assert False\n", False),
        (
            _GOOD + "import pytest\n@pytest.fixture\ndef bad():\n  yield\n  assert False\ndef test_two(bad): pass\n",
            False,
        ),
        ("import nothing_of_that_name\n", False),
        ("", False),
    ],
)
def test_only_what_has_passed_is_recorded(tmp_path: Path, text: str, *, recorded: bool) -> None:
    """A test that fails, is skipped, fails as it ends, or is not there: the record stays, and it is said."""
    record, first, second = tmp_path / "proven.json", tmp_path / "test_first.py", tmp_path / "test_second.py"
    first.write_text(_GOOD)
    second.write_text(text)
    before = {"digest": "of before", "passed": "2026-01-01"}
    write({"test_second": before}, record)
    done = proved(tmp_path, record, first, second)
    assert read(record)["test_first"]["passed"] > before["passed"]
    assert (read(record)["test_second"] != before) == recorded, done.stdout
    assert (done.returncode == 0) == recorded
    assert ("test_second: NOT recorded" in done.stdout) == (not recorded)


def test_what_was_interrupted_is_not_recorded(tmp_path: Path) -> None:
    """Tests that have not run are not told of those that have passed."""
    record, first = tmp_path / "proven.json", tmp_path / "test_first.py"
    first.write_text(_GOOD + "def test_two(): raise KeyboardInterrupt\n")
    assert proved(tmp_path, record, first).returncode != 0
    assert read(record) == {}


def test_the_record_is_of_what_is_here() -> None:
    """Each subject has its digest and the day of its proof, and nothing else is in it."""
    known = read()
    assert set(known) <= {subject.name for subject in SUBJECTS}
    for proof in known.values():
        assert set(proof) == {"digest", "passed"}
