"""What has come while no joiner ran, with a record among it whose time is false: through the loop and its broker."""

import pytest
from simulation.cluster import MemoryCluster
from simulation.joining.process import DEAD_LETTERS, JOIN_RULE, JoinerProcess
from simulation.log import Message
from stream.joining.test_partition_join import impression, outcome
from stream.joining.two_logs import RULE, SECOND, START
from support.oracles.offline_join import content_of, joined_in_sequence
from support.records import FakeRecord

from stream_apple.stream.model.dead_letters import dead_letter_origin

OUTAGE_S = 150
LONGEST_S = 600


@pytest.mark.parametrize("ahead_s", [400 * 86_400, 7200, 100])
@pytest.mark.parametrize("emit", ["when_due", "on_outcome"])
def test_one_false_time(emit: str, ahead_s: int) -> None:
    """The others have the labels of their outcomes, and none of them is a dead letter."""
    rule = JOIN_RULE._replace(on_outcome=emit == "on_outcome", max_impressions=50, several="first")
    topics = (rule.impressions, rule.outcomes, rule.examples, DEAD_LETTERS)
    cluster, now = MemoryCluster(dict.fromkeys(topics, 1)), START / SECOND

    def write(topic: str, record: FakeRecord, key: bytes) -> None:
        cluster.log(topic, 0).append(Message(key, record.payload, record.time_ms))

    def run(seconds: int) -> None:
        """Run a joiner for so long, with nothing new in the topics, and stop it."""
        nonlocal now
        joiner = JoinerProcess(cluster, "joiner", lambda: now, rule=rule)
        for _ in range(2 * seconds):
            now += 0.5
            joiner.step()
            assert joiner.ended is None, joiner.error
        joiner.stop()

    write(rule.impressions, impression(0, 0, "before"), b"before")
    run(3)
    for second in range(3, OUTAGE_S):
        if second == 20:
            write(rule.impressions, impression(0, second + ahead_s, "false"), b"false")
        write(rule.impressions, impression(0, second, f"i{second}"), b"%d" % second)
        write(rule.outcomes, outcome(0, second + 0.5, name=f"i{second}"), b"")
    now = START / SECOND + OUTAGE_S
    run(LONGEST_S)
    cluster.transactions.settle()
    examples = [each for each in cluster.log(rule.examples, 0).committed() if each.named not in {b"false", b"before"}]
    assert sorted(int(each.named or b"") for each in examples) == list(range(3, OUTAGE_S))
    assert {content_of(each.payload)["label"] for each in examples} == {1}
    letters = [dead_letter_origin(each) for each in cluster.log(DEAD_LETTERS, 0).committed()]
    refused = [(each.topic, each.offset) for each in letters if each is not None]
    assert {topic for topic, _ in refused} <= {rule.impressions}
    false = [each.at for each in cluster.log(rule.impressions, 0).committed() if each.named == b"false"]
    assert [offset for _, offset in refused] == false
    if emit == "when_due":
        shown, said = (cluster.log(topic, 0).committed() for topic in topics[:2])
        wanted = joined_in_sequence(RULE, shown, said)
        assert wanted.refused_impressions == false
