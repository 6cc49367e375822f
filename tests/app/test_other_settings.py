"""Whoever looks at a model with other settings than it was made with is told which these are."""

from pathlib import Path
from typing import Any

import pytest
from app.test_model_files import save
from stream.snapshots.forgery import content_of, file_of
from stream.verification.published_logs import MemoryLogs
from support.records import stream

from stream_apple.app.model_factories import onlooker_factory
from stream_apple.app.model_files import open_model_file
from stream_apple.app.other_settings import differing_settings
from stream_apple.config import Config
from stream_apple.errors import SnapshotError
from stream_apple.stream.log.ports import Committed
from stream_apple.stream.positions.lineage import OffsetMetadata, OtherSettingsError, Provenance, SnapshotPointer
from stream_apple.stream.snapshots.codec import encode_snapshot
from stream_apple.stream.snapshots.store import SnapshotStore

Given = dict[str, dict[str, Any]]
LOGISTIC: Given = {"learner": {"loss": "logistic"}}
SOFTMAX: Given = {"learner": {"loss": "softmax", "classes": 2}}
NOT_TOLD = (
    "settings of [epochs], [limits], [input], [registry] or [output], or worker.from_model, that its snapshot does not "
    "tell"
)


def config_with(given: Given) -> Config:
    """Of small models, with these settings."""
    return Config.model_validate({**given, "learner": {"bits": 8, **given.get("learner", {})}})


def kept_by(config: Config) -> MemoryLogs:
    """What a group with this configuration leaves of a partition."""
    provenance, logs = Provenance.of(config), MemoryLogs()
    model = onlooker_factory(config)(0, provenance.lineage(0, 0))
    model.process(stream(200, seed=3))
    snapshot = encode_snapshot(model)
    offsets = [
        logs.append(("models", 0), provenance.snapshot_key(0, index), message)
        for index, message in enumerate(snapshot.messages)
    ]
    pointer = SnapshotPointer(snapshot.at, offsets[0], offsets[-1], snapshot.digest)
    logs.offsets[0] = Committed(model.next_offset, OffsetMetadata(model.lineage, pointer).to_text())
    return logs


def told(made: Given, here: Given) -> str:
    """What somebody reads who looks with the settings `here` at a model that was made with others."""
    logs, config = kept_by(config_with(made)), config_with(here)
    store = SnapshotStore(logs, Provenance.of(config), onlooker_factory(config))
    committed = logs.offsets[0]
    assert committed is not None
    with pytest.raises(OtherSettingsError, match=r"expected model .* \(of this configuration\)") as caught:
        store.newest(0, committed)
    noted = caught.value.noted
    assert noted.snapshot is not None
    manifest = store.manifest(0, noted.snapshot)
    assert manifest is not None
    return differing_settings(config, 0, noted.lineage, manifest)


@pytest.mark.parametrize(
    ("made", "here", "expected"),
    [
        ({}, {"learner": {"bits": 9}}, "learner.bits is 8 in the model and 9 here"),
        (
            {"learner": {"method": "linear", "learning_rate": 0.25}},
            {"learner": {"method": "linear"}},
            "learner.learning_rate is 0.25 in the model and 0.5 here",
        ),
        ({}, {"epochs": {"length": "5m"}}, "epochs.length is 1h in the model and 5m here"),
        ({"epochs": {"length": "30m"}}, {}, "epochs.length is 30m in the model and 1h here"),
        ({"epochs": {"length": "30m"}}, {"epochs": {"length": "1d"}}, "epochs.length is 30m in the model and 1d here"),
        ({}, {"limits": {"max_label": 5.0}}, "limits.max_label is 1000000000.0 in the model and 5.0 here"),
        (
            {"epochs": {"length": "30m"}, "limits": {"max_features_per_example": 5000}},
            {"limits": {"max_features": 7}, "learner": {"max_degree": 3}},
            (
                "learner.max_degree is 4 in the model and 3 here, "
                "limits.max_features_per_example is 5000 in the model and 65536 here, "
                "epochs.length is 30m in the model and 1h here, limits.max_features is 4096 in the model and 7 here"
            ),
        ),
        (
            {"limits": {"max_label": 5.0}},
            {},
            NOT_TOLD,
        ),
        ({}, {"input": {"label": "clicked"}}, "input.label is 'label' in the model and 'clicked' here"),
        (
            {"input": {"ignore": ["x"]}},
            {"input": {"ignore": ["x"], "time_zone": "Europe/Berlin"}, "epochs": {"length": "5m"}},
            (
                "epochs.length is 1h in the model and 5m here, "
                "input.time_zone is 'UTC' in the model and 'Europe/Berlin' here"
            ),
        ),
        (
            {},
            {"input": {"ignore": ["x"], "weight": ""}},
            "input is nothing in the model and {'weight': '', 'ignore': ['x']} here",
        ),
        ({"input": {"label": "clicked"}}, {}, NOT_TOLD),
        ({}, {"registry": {"url": "http://r"}}, "registry.url is nothing in the model and 'set' here"),
        (
            {"input": {"ignore": ["x"]}, "registry": {"url": "http://r"}},
            {"input": {"ignore": ["x"]}},
            "registry.url is 'set' in the model and nothing here",
        ),
        ({"learner": {"pending_labels": 0}}, {}, "learner.pending_labels is 0 in the model and 2000 here"),
        (
            {"learner": {"method": "linear", "pending_labels": 9}},
            {"learner": {"method": "linear"}},
            "learner.pending_labels is 9 in the model and 2000 here",
        ),
        (
            {**SOFTMAX, "output": {"format": "json", "probabilities": "all"}},
            SOFTMAX,
            (
                "output.format is 'json' in the model and 'msgpack' here, "
                "output.probabilities is 'all' in the model and 'one' here"
            ),
        ),
        (
            LOGISTIC,
            {**LOGISTIC, "output": {"format": "json"}},
            "output.format is 'msgpack' in the model and 'json' here",
        ),
    ],
)
def test_settings_that_differ_are_named(made: Given, here: Given, expected: str) -> None:
    """With both values, if the model's name comes out with them; what can't be told is said to be so."""
    assert told(made, here) == expected


def test_a_file_that_models_start_from(tmp_path: Path) -> None:
    """It is a part of their settings, too."""
    save(tmp_path / "0", 0, {"bits": 8})
    found = told({}, {"worker": {"from_model": str(tmp_path / "0")}})
    assert found == f"worker.from_model is nothing in the model and '{tmp_path / '0'}' here"


def test_settings_that_were_changed_in_a_file(tmp_path: Path) -> None:
    """They are named, and the model is not called damaged."""
    save(tmp_path / "0", 0, {"bits": 8})
    content = content_of((tmp_path / "0").read_bytes())
    content["settings"]["epochs"]["length"] = "2h"
    (tmp_path / "0").write_bytes(file_of(content))
    with pytest.raises(SnapshotError, match=r"found those of .*: epochs\.length is 1h in the model and 2h here$"):
        open_model_file(tmp_path / "0")


def test_a_snapshot_that_can_not_be_had() -> None:
    """Then it is told that settings differ, and no more."""
    logs, config = kept_by(config_with({})), config_with({"learner": {"bits": 9}})
    store = SnapshotStore(logs, Provenance.of(config), onlooker_factory(config))
    last = len(logs.logs["models", 0]) - 1
    pointer = SnapshotPointer(0, 0, logs.logs["models", 0][last].at, "0" * 32)
    assert store.manifest(0, pointer) is not None
    logs.logs["models", 0][last] = logs.logs["models", 0][last]._replace(payload=b"\xc0")
    assert store.manifest(0, pointer) is None
    logs.remove_before(("models", 0), pointer.last + 1)
    assert store.manifest(0, pointer) is None
