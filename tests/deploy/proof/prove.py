"""`make prove`: builds the image and lets it learn, applies the manifests to an API server, and records what passed.

Nothing else writes the record. A subject is recorded if all its tests have run and passed, and none of its files has
changed meanwhile.
"""

import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from deploy.proof.record import FORCED, RECORD, SUBJECTS, Subject, write

_OPTIONS = ("--durations=8", "--continue-on-collection-errors", "-p", "no:cacheprovider")


class Outcomes:
    """What has become of each test, as pytest reports it."""

    def __init__(self) -> None:
        self._passed: dict[str, set[str]] = {}
        self._else: dict[str, set[str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Setup, call and teardown of a test; only a call can pass, each can do otherwise."""
        file = Path(report.location[0]).name
        if report.outcome != "passed":
            self._else.setdefault(file, set()).add(report.nodeid)
        elif report.when == "call":
            self._passed.setdefault(file, set()).add(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that can't be read has not passed."""
        if report.outcome != "passed":
            self._else.setdefault(Path(report.nodeid).name, set()).add(report.nodeid)

    def passed(self, file: str) -> bool:
        """Whether the file has tests, and all of them have passed."""
        name = Path(file).name
        return bool(self._passed.get(name)) and not self._else.get(name)


def main(record: Path = RECORD, subjects: Sequence[Subject] = SUBJECTS) -> int:
    """The exit code: 0 if everything has passed and is recorded."""
    os.environ[FORCED] = "true"
    before = {subject.name: subject.digest() for subject in subjects}
    outcomes = Outcomes()
    folder = Path(__file__).parent
    files = [str(folder / subject.tests) for subject in subjects]
    code = pytest.main([*_OPTIONS, *files], plugins=[outcomes])
    whole = code in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}  # of one that is interrupted, tests are missing
    today = datetime.now(UTC).date().isoformat()
    proofs = {
        subject.name: {"digest": before[subject.name], "passed": today}
        for subject in subjects
        if whole and outcomes.passed(subject.tests) and subject.digest() == before[subject.name]
    }
    write(proofs, record)
    for subject in subjects:
        told = f"recorded in {record.name}" if subject.name in proofs else "NOT recorded"
        print(f"{subject.name}: {told}")
    return 0 if not code and len(proofs) == len(subjects) else 1


if __name__ == "__main__":
    sys.exit(main())
