"""The file that a group's models start from: what it does to their name, and which files are refused, and when."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from app.test_model_files import LEARNER, save
from support.records import stream

from stream_apple.app.inspect import Inspected, to_file
from stream_apple.app.model_factories import onlooker_factory
from stream_apple.app.model_files import merge_model_files, open_model_file
from stream_apple.app.starting_model import check_starting_model, starting_model
from stream_apple.app.startup import open_up
from stream_apple.config import Config
from stream_apple.errors import ConfigurationError
from stream_apple.learners.apple.learner import as_apple, is_of_preparation
from stream_apple.learners.apple.merging.mergeable import mergeable_of
from stream_apple.monitoring.inspection import view_model
from stream_apple.records.message.feature_names import Names
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.positions.lineage import Provenance, SnapshotPointer


def configured(path: Path | str, learner: dict[str, Any] | None = None) -> Config:
    """A group that starts from this file; nobody listens where its brokers are."""
    return Config.model_validate(
        {
            "kafka": {"bootstrap.servers": "127.0.0.1:1"},
            "http": {"host": "127.0.0.1", "port": 0},
            "worker": {"from_model": str(path)},
            "learner": learner or LEARNER,
        }
    )


def begun(config: Config) -> PartitionModel:
    """The model of partition 0, before its first record."""
    provenance = Provenance.of(config)
    model = onlooker_factory(config, starting_model(config, provenance))(0, provenance.lineage(0, 0))
    model.begin()
    return model


def test_the_model_is_that_of_the_file(tmp_path: Path) -> None:
    """Each time, and of a merged file too."""
    models = [save(tmp_path / str(number), number) for number in range(2)]
    first = begun(configured(tmp_path / "0"))
    assert mergeable_of(first.learner).digest() == mergeable_of(models[0].learner).digest()
    assert begun(configured(tmp_path / "0")).digest() == first.digest()
    assert starting_model(configured(""), Provenance.of(configured(""))) is None
    merge_model_files([tmp_path / "0", tmp_path / "1"], tmp_path / "merged", "votes")
    merged = open_model_file(tmp_path / "merged").model.learner
    assert mergeable_of(begun(configured(tmp_path / "merged")).learner).digest() == mergeable_of(merged).digest()


def test_its_content_is_part_of_the_name(tmp_path: Path) -> None:
    """Another path of the same file is the same model; another file makes another, and so does no file."""
    save(tmp_path / "0", 0)
    save(tmp_path / "1", 1)
    (tmp_path / "copy").write_bytes((tmp_path / "0").read_bytes())
    names = [Provenance.of(configured(tmp_path / name)).lineage(0, 0).model for name in ("0", "copy", "1")]
    none = Provenance.of(configured(""))
    assert none.settings == configured("").model_settings() == configured(tmp_path / "0").model_settings()
    assert names[0] == names[1]
    assert len({*names, none.lineage(0, 0).model}) == 3


def test_numbers_are_prepared_as_in_the_file(tmp_path: Path) -> None:
    """Of a model with cuts, centres and units of labels: they are the file's own, and learning goes on from there."""
    saved = save(tmp_path / "0", 0, {"bits": 10})
    model = begun(configured(tmp_path / "0", {"bits": 10}))
    found, expected = as_apple(model.learner).sums, as_apple(saved.learner).sums
    prepared = [name for name in expected if is_of_preparation(name)]
    assert {"label_units", "prepared_splines_centers"} <= set(prepared)
    assert all(np.array_equal(found[name], expected[name]) for name in prepared)
    assert found["prepared_fitted"].tolist() == [1]
    assert mergeable_of(model.learner).digest() == mergeable_of(saved.learner).digest()
    assert (model.learner.examples, as_apple(model.learner).restarts) == (0, 0)
    assert len(model.process(stream(200, seed=5)).predictions) > 150


def test_a_model_that_started_from_a_file_is_saved_and_merged(tmp_path: Path) -> None:
    """Its file has its name, and needs no other; what is merged of such has not started from one."""
    save(tmp_path / "0", 0)
    config = configured(tmp_path / "0")
    model = begun(config)
    pointer = SnapshotPointer(model.next_offset, 3, 4, model.digest())
    view = view_model(model, Names(), 5, pointer)
    to_file(tmp_path / "again", config, Inspected(model, view, Names(), pointer))
    (tmp_path / "0").unlink()
    opened = open_model_file(tmp_path / "again")
    assert opened.saved.lineage == model.lineage
    assert opened.model.digest() == model.digest()
    merge_model_files([tmp_path / "again", tmp_path / "again"], tmp_path / "merged", "votes")
    merged = open_model_file(tmp_path / "merged")
    assert merged.saved.lineage.model == Provenance.of(merged.config).lineage(0, 0).model
    assert merged.saved.merged_from[0].model == model.lineage.model
    assert mergeable_of(begun(configured(tmp_path / "again")).learner).digest() == mergeable_of(model.learner).digest()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing", "worker.from_model: expected a readable file .*missing: No such file"),
        ("text", "worker.from_model: expected a file that `inspect --save` has written, or `merge`, found another: "),
    ],
)
def test_no_model_file_is_refused_before_anybody_is_fenced(
    tmp_path: Path, name: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By start-up, by whoever asks for the models' name, and by `check`."""

    def make(*_: object) -> None:
        pytest.fail("it has connected")

    monkeypatch.setattr("stream_apple.app.startup.KafkaBroker", make)
    (tmp_path / "text").write_text("a model of a stream\n")
    config = configured(tmp_path / name)
    for ask in (open_up, Provenance.of):
        with pytest.raises(ConfigurationError, match=message):
            ask(config)
    (finding,) = check_starting_model(config)
    assert (finding.verdict, finding.subject) == ("fault", "worker.from_model")
    assert finding.text.startswith("expected a ")


@pytest.mark.parametrize(
    ("learner", "message"),
    [
        (LEARNER | {"bits": 11}, r"a model of the \[learner\] that is configured, .*0: .*bits 11.*found bits 10"),
        ({"bits": 10, "method": "linear"}, "found .*method 'apple'"),
    ],
)
def test_other_options_are_refused(tmp_path: Path, learner: dict[str, Any], message: str) -> None:
    """With what differs; and such as mean something else in each model."""
    save(tmp_path / "0", 0)
    config = configured(tmp_path / "0", learner)
    with pytest.raises(ConfigurationError, match=rf"^worker\.from_model: .*{message}"):
        starting_model(config, Provenance.of(config))
    assert [finding.verdict for finding in check_starting_model(config)] == ["fault"]


def test_a_damaged_file_and_one_that_changes_are_refused(tmp_path: Path) -> None:
    """The models would not be those that their name says."""
    save(tmp_path / "0", 0)
    config = configured(tmp_path / "0")
    assert [finding.verdict for finding in check_starting_model(config)] == ["ok"]
    assert list(check_starting_model(configured(""))) == []
    provenance = Provenance.of(config)
    save(tmp_path / "0", 1)
    with pytest.raises(ConfigurationError, match=r"expected .*0 to stay as it was, .*sha256.* found "):
        starting_model(config, provenance)
    (tmp_path / "0").write_bytes((tmp_path / "0").read_bytes()[:-1])
    with pytest.raises(ConfigurationError, match=r"worker\.from_model: .*expected content with digest"):
        starting_model(config, Provenance.of(config))
