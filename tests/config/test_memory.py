"""What models take of memory, and the limits of a process as Linux tells them."""

from dataclasses import replace
from pathlib import Path

import pytest
from support.bare_options import bare

from stream_apple.config import memory
from stream_apple.config.memory import (
    MemoryLimit,
    Queues,
    check_models_fit,
    memory_limit,
    queue_bytes,
    worker_bytes,
)
from stream_apple.config.schema import LimitSettings
from stream_apple.errors import ConfigurationError
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.new_model import empty_scratch, extent_of
from stream_apple.learners.apple.options import Options
from stream_apple.learners.apple.state.table import Extent, empty_table

MACHINE = "MemTotal:       1000 kB\nMemFree:  5 kB\nSwapTotal:       24 kB\n"
KINDS = [
    bare(bits=12),
    bare(bits=12, mixture=False),
    bare(bits=12, mixture=False, selection="ssm"),
]


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Linux of the test's own: no cgroup yet, and a machine of a megabyte."""
    (tmp_path / "meminfo").write_text(MACHINE)
    for name, place in (("_CGROUPS", "cgroup"), ("_OWN_CGROUP", "own"), ("_MACHINE", "meminfo")):
        monkeypatch.setattr(memory, name, tmp_path / place)
    return tmp_path


def limited(system: Path, group: str, name: str, text: str) -> None:
    """Write a limit."""
    file = system / "cgroup" / group / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text + "\n")


class TestLimit:
    """The tightest of all."""

    def test_without_a_cgroup_it_is_the_machine(self, system: Path) -> None:
        """With its swap."""
        assert memory_limit() == (1024 * 1024, "memory of the machine")
        (system / "meminfo").unlink()
        assert memory_limit() is None

    @pytest.mark.parametrize("group", ["", "pods", "pods/one"])
    def test_a_limit_of_the_cgroup_or_around_it(self, system: Path, group: str) -> None:
        """Version 2; "max" is none."""
        (system / "own").write_text("0::/pods/one\n")
        for each in ("", "pods", "pods/one"):
            limited(system, each, "memory.max", "500000" if each == group else "max")
        found = memory_limit()
        assert found is not None
        assert found.bytes == 500_000
        assert found.origin == f"limit of {system / 'cgroup' / group / 'memory.max'}"

    def test_version_1_as_a_container_sees_it(self, system: Path) -> None:
        """The path is that of the host, and the files are at the root."""
        (system / "own").write_text("5:cpu:/docker/7\n4:memory:/docker/7\n0::/\n")
        limited(system, "memory", "memory.limit_in_bytes", "400000")
        found = memory_limit()
        assert found is not None
        assert found.bytes == 400_000

    def test_more_than_the_machine_has_is_no_limit(self, system: Path) -> None:
        """Version 1 says 2^63 for none."""
        (system / "own").write_text("4:memory:/\n")
        limited(system, "memory", "memory.limit_in_bytes", str(1 << 63))
        assert memory_limit() == (1024 * 1024, "memory of the machine")


class TestModels:
    """What they take."""

    @pytest.mark.parametrize("options", KINDS)
    def test_a_model_takes_what_its_arrays_take(self, options: Options) -> None:
        """To a hundredth, which is the admission filter of one kind; never less."""
        options = replace(options, pending_labels=0)
        table = empty_table(12, extent_of(options))
        work = empty_scratch(options, 0)
        taken = sum(array.nbytes for array in (*table, *work.features, work.nodes, work.newcomers))
        assert 0 <= options.model_bytes() + 300 - taken < 0.01 * taken + 300

    def test_the_formula_of_the_documents(self) -> None:
        """Four partitions of 2^22 slots: 1.40 GB, within a thirtieth; of 192 MiB for records, with two threads."""
        queued = queue_bytes(Options(), LimitSettings(), 2, Queues())
        assert queued == 192 << 20
        assert worker_bytes(Options(bits=22), 4, queued) == pytest.approx(1.40e9, rel=0.03)

    def test_what_records_take_grows_with_what_they_may_be(self) -> None:
        """Threads, brokers, bytes, features, and what else is kept of a feature."""
        usual = queue_bytes(Options(), LimitSettings(), 2, Queues())
        assert queue_bytes(Options(), LimitSettings(), 3, Queues()) - usual == 24 << 20
        assert queue_bytes(Options(), LimitSettings(), 2, Queues(brokers=5)) - usual == 4 << 20
        large = queue_bytes(Options(), LimitSettings(max_record_bytes=100_000_000), 1, Queues(brokers=1))
        assert large - usual == pytest.approx(6e8 + 2e8 - (72 << 20), rel=0.05)
        wide = LimitSettings().model_copy(update={"max_features": 1 << 21})
        assert queue_bytes(Options(), wide, 2, Queues()) - usual == 24 << 20
        assert queue_bytes(Options(ngrams=(("text", 2),)), LimitSettings(), 2, Queues()) > usual + (50 << 20)

    def test_of_one_that_merges(self) -> None:
        """Whoever leads has all models compressed, a block of each, one that comes of them, and one that is adopted."""
        options = Options(bits=22)
        more = worker_bytes(options, 4, 0, merged=16) - worker_bytes(options, 4, 0)
        assert more == 12 * options.model_bytes()

    def test_what_does_not_fit_is_refused_before_it_is_made(self) -> None:
        """Both settings, both numbers, and whose limit it is."""
        limit = MemoryLimit(2 << 30, "limit of x")
        check_models_fit(Options(bits=24), 2, limit)
        with pytest.raises(ConfigurationError) as caught:
            check_models_fit(Options(bits=30), 2, limit)
        assert str(caught.value) == (
            "learner.bits, limits.max_features_per_example: expected models that fit into 2,048 MiB, the limit of x, "
            "found 30 and 65,536: they take 92,689 MiB"
        )

    def test_memory_that_the_system_refuses(self) -> None:
        """A table that can't be allocated is the setting's fault, whatever command asks for it: no traceback."""
        with pytest.raises(ConfigurationError, match=r"learner.bits: expected a table that fits .*, found 4,503,599,6"):
            empty_table(52, Extent())
        assert Learner(Options(bits=8)).table is not None
