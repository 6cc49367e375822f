"""Models in files become one: what it is, what it says of itself, and which are refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support.records import stream

from stream_apple import load_model
from stream_apple.app.inspect import from_file
from stream_apple.app.model_factories import onlooker_factory
from stream_apple.app.model_files import merge_model_files, open_model_file
from stream_apple.cli.inspect import command as inspect
from stream_apple.cli.merge import command
from stream_apple.config import Config
from stream_apple.errors import ConfigurationError, SnapshotError
from stream_apple.learners.apple.merging.merge import merge
from stream_apple.learners.apple.merging.mergeable import mergeable_of
from stream_apple.records.message.feature_names import Names
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.positions.lineage import Provenance, SnapshotPointer
from stream_apple.stream.snapshots.model_file import model_file_of

LEARNER: dict[str, Any] = {"mergeable": True, "bits": 10}


def save(
    path: Path, partition: int, learner: dict[str, Any] | None = None, names: str = "a", **sections: dict[str, Any]
) -> PartitionModel:
    """Write the model that a partition has learned, as `inspect --save` does."""
    config = Config.model_validate({"learner": learner or LEARNER, **sections})
    model = onlooker_factory(config)(partition, Provenance.of(config).lineage(partition, 0))
    model.process(stream(600, seed=partition, partition=partition))
    assert model.learner.census().parents.sum() > 0 or model.learner.options.name != "apple"
    known = Names()
    known.add([(partition + 1, names)])
    settings = config.model_dump(mode="json", include={"learner", "epochs", "limits", "input", "output"})
    settings |= {"registry": bool(config.registry)}
    pointer = SnapshotPointer(model.next_offset, 3, 4, model.digest())
    path.write_bytes(model_file_of(model, "group", settings, pointer, known))
    return model


def test_a_model_of_records_with_a_schema(tmp_path: Path) -> None:
    """It is opened without the registry, under the name that it has in its group; what is merged of it is a new one."""
    model = save(tmp_path / "0", 0, registry={"url": "http://registry"})
    assert open_model_file(tmp_path / "0").model.lineage == model.lineage
    merge_model_files([tmp_path / "0"] * 2, tmp_path / "merged", "votes")
    assert open_model_file(tmp_path / "merged").model.learner.census().parents.sum() > 0


def test_what_a_model_of_a_file_explains_has_the_names_of_neighbours(tmp_path: Path) -> None:
    """Also of those that the file does not name."""
    save(tmp_path / "0", 0, {"bits": 12, "method": "linear", "ngrams": {"": 2}})
    names = {each.name for each in load_model(tmp_path / "0").explain({"b": 1.0, "c": 1.0})}
    assert "b^c" in names


@pytest.mark.parametrize("system", ["tuples", "hashed"])
def test_a_model_of_another_system_is_opened_and_not_merged(tmp_path: Path, system: str) -> None:
    """To the bit; the message of `merge` names the system."""
    model = save(tmp_path / "0", 0, {"system": system, system: {"bits": 10, "loss": "squared"}})
    assert open_model_file(tmp_path / "0").model.digest() == model.digest()
    with pytest.raises(ConfigurationError, match=f"expected learner.system = apple, found {system}"):
        merge_model_files([tmp_path / "0"] * 2, tmp_path / "merged", "votes")


@pytest.mark.parametrize("parents", ["votes", "union"])
def test_the_merged_model_is_that_of_the_function(tmp_path: Path, parents: Any) -> None:
    """In the order of the files, with everyone's names; it has learned nothing itself, and says what it was made of."""
    paths = [tmp_path / f"{number}" for number in range(3)]
    models = [save(path, number, names=f"name {number}") for number, path in enumerate(paths)]
    counts, digest = merge_model_files(paths, tmp_path / "merged", parents)
    expected = merge([model.learner for model in models], parents=parents)
    assert counts == expected.counts
    opened = open_model_file(tmp_path / "merged")
    assert mergeable_of(opened.model.learner).digest() == expected.model.digest()
    assert opened.model.digest() == opened.saved.pointer.digest == digest
    assert (opened.model.learner.examples, opened.model.next_offset, opened.model.clock.epoch) == (0, 0, -1)
    assert set(opened.saved.names.values()) == {"name 0", "name 1", "name 2"}
    assert [(each.partition, each.digest, each.model, each.at) for each in opened.saved.merged_from] == [
        (number, model.digest(), model.lineage.model, model.next_offset) for number, model in enumerate(models)
    ]
    # Which learns on as a model does.
    learned = opened.model.process(stream(50, seed=9))
    assert len(learned.predictions) > 40


def test_merged_models_are_merged_again_and_the_same_bytes_twice(tmp_path: Path) -> None:
    """A file that was merged is a model file; the same files give the same bytes."""
    for number in range(2):
        save(tmp_path / str(number), number)
    paths = [tmp_path / "0", tmp_path / "1"]
    merge_model_files(paths, tmp_path / "a", "votes")
    merge_model_files(paths, tmp_path / "b", "votes")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    for twice, target in (("a", "c"), ("c", "d")):  # in a merged table a monomial has its own place
        merge_model_files([tmp_path / twice, tmp_path / twice], tmp_path / target, "votes")
    first, again = (open_model_file(tmp_path / name).model.learner for name in "cd")
    assert mergeable_of(first).digest() == mergeable_of(again).digest()  # equal models make the same model


def test_the_commands(tmp_path: Path) -> None:
    """`merge` tells what became of monomials, `inspect --file` of what the model was made."""
    paths = [str(tmp_path / str(number)) for number in range(2)]
    models = [save(Path(path), number) for number, path in enumerate(paths)]
    out = str(tmp_path / "merged")
    result = CliRunner().invoke(command, [*paths, "--out", out])
    assert result.exit_code == 0, result.output
    assert "2 models are one" in result.stdout
    told = json.loads(CliRunner().invoke(command, [*paths, "--out", out, "--json"]).stdout)
    assert (told["models"], told["models_dropped"]) == (2, 1)  # each has units of labels of its own
    assert "1 of the models do not count" in result.stdout
    assert told["digest"] in result.stdout
    shown = CliRunner().invoke(inspect, ["--file", out], env={"COLUMNS": "200"})
    assert shown.exit_code == 0, shown.output
    text = " ".join(shown.stdout.split())
    for number, model in enumerate(models):
        made_of = f"merged from examples-{number} of group group at offset {model.next_offset}: model"
        assert f"{made_of} {model.lineage.model}, digest {model.digest()}" in text
    assert f"merged, {told['digest']}" in text
    assert [each["partition"] for each in from_file(Path(out), 5)["merged_from"]] == [0, 1]
    assert "merged_from" not in from_file(Path(paths[0]), 5)


@pytest.mark.parametrize(
    ("learner", "message"),
    [
        (LEARNER | {"bits": 11}, r"0 and .*other: .*bits 10.*found bits 11"),
        ({"bits": 10, "method": "linear"}, "found .*method 'linear'"),
    ],
)
def test_models_of_other_options_are_refused(tmp_path: Path, learner: dict[str, Any], message: str) -> None:
    """With both files' names, and what differs; nothing is written."""
    save(tmp_path / "0", 0)
    save(tmp_path / "other", 1, learner)
    with pytest.raises(ConfigurationError, match=message):
        merge_model_files([tmp_path / "0", tmp_path / "other"], tmp_path / "merged", "votes")
    assert not (tmp_path / "merged").exists()


def test_what_can_not_be_merged_or_read_is_refused(tmp_path: Path) -> None:
    """Models whose parts mean different things, damaged files, and a place that can't be written."""
    save(tmp_path / "cut", 0, {"bits": 10, "loss": "logistic"})
    with pytest.raises(ConfigurationError, match=r"expected learner\.mergeable = true, found false"):
        merge_model_files([tmp_path / "cut"], tmp_path / "merged", "votes")
    save(tmp_path / "0", 0)
    with pytest.raises(ConfigurationError, match="expected a file that can be written"):
        merge_model_files([tmp_path / "0"], tmp_path / "missing" / "merged", "votes")
    (tmp_path / "0").write_bytes((tmp_path / "0").read_bytes()[:-1])
    with pytest.raises(SnapshotError, match="0: expected content with digest"):
        merge_model_files([tmp_path / "0"], tmp_path / "merged", "votes")
