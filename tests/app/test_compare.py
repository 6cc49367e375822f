"""Two configurations can be compared or are refused, and what is known of a comparison is shown on a port."""

from collections import deque
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]  # exports are not marked
from support.topics import TopicFactory, unique_topics
from support.waiting import DEADLINE_S
from support.worker_config import write_config

from stream_apple.app.compare import check_comparable, compare_groups
from stream_apple.app.comparison_server import ComparisonView
from stream_apple.comparing.group_comparison import CompareRequest, ComparisonReport
from stream_apple.comparing.loss_comparison import LossComparison, PairedLoss
from stream_apple.config import Config, load
from stream_apple.errors import ConfigurationError


def _config(path: Path, group: str, **settings: Any) -> Config:
    topics = {"examples": "examples", "predictions": f"predictions-{group}"} | settings.pop("topics", {})
    given_settings = {"topics": topics, "worker": {"group": group}, **settings}
    return load(write_config(path / f"{group}.toml", "nowhere:1", **given_settings), {})


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"topics": {"examples": "others"}}, "topics.examples: expected the same"),
        ({"topics": {"predictions": "predictions-a"}}, "topics.predictions: expected another one"),
        ({"learner": {"loss": "logistic"}}, "learner.loss: expected the same"),
        ({"worker": {"group": "a"}}, "worker.group: expected another one"),
    ],
)
def test_what_can_not_be_compared_is_refused(tmp_path: Path, changed: dict[str, Any], why: str) -> None:
    """Before anything is read."""
    first = _config(tmp_path, "a")
    check_comparable(first, _config(tmp_path, "b"))
    with pytest.raises(ConfigurationError, match=why):
        check_comparable(first, _config(tmp_path, "b", **changed))


def test_no_partition_is_left_out_in_silence(kafka: str, topic: TopicFactory, tmp_path: Path) -> None:
    """Those that one topic alone has were in no pair, and nothing said so."""
    first, second = (
        load(write_config(tmp_path / f"{group}.toml", kafka, topics=topics, worker={"group": group}), {})
        for group, topics in (
            ("a", {"examples": "examples", "predictions": topic("predictions", partitions=2)}),
            ("b", {"examples": "examples", "predictions": topic("predictions", partitions=1)}),
        )
    )
    why = f"topic {second.topics.predictions}: expected as many partitions as .* has, 2, found 1; "
    with pytest.raises(ConfigurationError, match=why):
        next(compare_groups(first, second, CompareRequest()))


@pytest.mark.parametrize("change", ["deleted", "grown"])
def test_whoever_follows_hears_of_a_topic_that_is_another(
    change: str, kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It went on with its last verdict; of further partitions it read nothing."""
    monkeypatch.setattr("stream_apple.app.compare.LOOK_S", 0.1)
    topic, admin = unique_topics(kafka), AdminClient({"bootstrap.servers": kafka})
    names = [topic("predictions") for _ in range(2)]
    first, second = (
        load(
            write_config(
                tmp_path / name, kafka, topics={"examples": "examples", "predictions": name}, worker={"group": name}
            ),
            {},
        )
        for name in names
    )
    reports = compare_groups(first, second, CompareRequest(follow=True))
    assert next(reports).complete
    if change == "deleted":
        admin.delete_topics(names[1:])[names[1]].result(DEADLINE_S)
    else:
        admin.create_partitions([NewPartitions(names[1], 2)])[names[1]].result(DEADLINE_S)
    found = "no such topic" if change == "deleted" else "2"
    with pytest.raises(ConfigurationError, match=f"topic {names[1]}: expected the partitions .*, 1, found {found}: "):
        deque(reports, maxlen=0)
    admin.delete_topics(names)


def test_the_view_has_what_is_known(tmp_path: Path) -> None:
    """Probes and metrics: not ready before all has been compared, and dead when nothing turns any more."""
    clock = [0.0]
    view = ComparisonView(_config(tmp_path, "a"), _config(tmp_path, "b"), lambda: clock[0])
    assert view.live().good
    assert not view.ready().good
    comparison = LossComparison(0.05)
    comparison.add([PairedLoss(0.5 + 0.01 * (at % 7), 0.4 + 0.01 * (at % 7), 1.0, 0, at) for at in range(4_000)])
    nothing = {"champion": 0, "challenger": 0}
    view.tell(ComparisonReport(comparison, nothing, nothing, nothing, 0, 0, nothing, complete=True))
    assert view.ready().good
    value = view.metrics.registry.get_sample_value
    assert value("stream_apple_comparison_pairs") == 4_000
    least, gain, most = (value(f"stream_apple_comparison_{name}_ratio") for name in ("least_gain", "gain", "most_gain"))
    assert least is not None
    assert gain is not None
    assert most is not None
    assert 0.0 < least <= gain <= most
    assert view.facts["whole"]["better"] == "challenger"
    clock[0] = 1_000.0
    assert not view.live().good
    view.turned()
    assert view.live().good
