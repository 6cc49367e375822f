"""How many cores there are, by what the process is bound to and what its cgroup may use."""

import os
from pathlib import Path

import pytest

from stream_apple.stream.learning import threads


@pytest.mark.parametrize(
    ("quota", "cores"),
    [
        ("max 100000", 8),
        ("200000 100000", 2),
        ("150000 100000", 2),
        ("50000 100000", 1),
        ("1000 100000", 1),
        ("1600000 100000", 8),
        ("-1 100000", 8),
        ("nonsense", 8),
    ],
)
def test_a_quota_limits_the_cores(quota: str, cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounded to whole cores, at least one; without a limit, all that the process is bound to."""
    path = tmp_path / "cpu.max"
    path.write_text(f"{quota}\n")
    monkeypatch.setattr(threads, "_QUOTA", path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    assert threads.usable_cores() == cores


def test_the_older_cgroups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two files, and -1 for no limit."""
    files = tmp_path / "quota", tmp_path / "period"
    monkeypatch.setattr(threads, "_QUOTA", tmp_path / "none")
    monkeypatch.setattr(threads, "_QUOTA_V1", files)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    assert threads.usable_cores() == 8
    for quota, cores in (("300000", 3), ("-1", 8)):
        files[0].write_text(f"{quota}\n")
        files[1].write_text("100000\n")
        assert threads.usable_cores() == cores
