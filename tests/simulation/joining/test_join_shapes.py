"""The joiner's loop on records of other shapes, some of whose schemas come late, with crashes at any of its calls.

And where impressions are sent as soon as they have an outcome.
"""

import random

import pytest
from simulation.cluster import MemoryCluster
from simulation.faults import Fault, Kind, When
from simulation.joining.process import DEAD_LETTERS, JOIN_RULE, JoinerProcess
from simulation.log import Message
from simulation.member_process import End
from stream.joining.other_shapes import IMPRESSION, OUTCOME, KnownSchemas, in_other_shapes, led_back, without_the_rest
from stream.joining.two_logs import RULE, SECOND, START, make_logs
from support.oracles.offline_join import Example, Joined, content_of, joined_at_once, joined_in_sequence

OTHER = JOIN_RULE._replace(impression_shape=IMPRESSION, outcome_shape=OUTCOME)
MOST_TURNS = 4_000


@pytest.mark.parametrize("emit", ["when_due", "on_outcome"])
@pytest.mark.parametrize("seed", range(12))
def test_crashes_change_nothing(seed: int, emit: str) -> None:
    """Each joiner fails somewhere, and its successor goes on; what is joined is what an offline join gives."""
    draw, at_once = random.Random(seed), emit == "on_outcome"
    rule = OTHER._replace(on_outcome=at_once, max_impressions=draw.choice([5, 1_000]))
    topics = (OTHER.impressions, OTHER.outcomes, JOIN_RULE.examples, DEAD_LETTERS)
    cluster, now = MemoryCluster(dict.fromkeys(topics, 1)), START / SECOND
    own = make_logs(seed, 60, heartbeats=False)
    coming = sorted(
        (
            (record.time_ms, topic, record, other)
            for topic, log, others in zip(topics, own, in_other_shapes(own), strict=False)
            for record, other in zip(log, others, strict=True)
            if "heartbeat" not in content_of(record.payload)
        ),
        key=lambda each: each[0],
        reverse=True,
    )
    # By its offset in the log of the simulation.
    originals = {}

    def start() -> JoinerProcess:
        if not coming:  # the last ones do no harm
            return JoinerProcess(cluster, "joiner", lambda: now, rule=rule, schemas=KnownSchemas())
        kinds = (Kind.ABORTABLE, Kind.CRASH)
        faults = [Fault(draw.randrange(20, 400), kind, draw.choice(list(When))) for kind in kinds]
        schemas = KnownSchemas(draw.randrange(20))
        return JoinerProcess(cluster, "joiner", lambda: now, faults, rule=rule, schemas=schemas)

    joiner, lives, last = start(), 1, False
    for _ in range(MOST_TURNS):
        now += 0.5
        while coming and coming[-1][0] <= now * SECOND:
            _, topic, record, other = coming.pop()
            log = cluster.log(topic, 0)
            originals[topic, log.end] = record
            log.append(Message(other.named, other.payload, other.time_ms))
        joiner.step()
        if joiner.ended is not None:
            joiner, lives = start(), lives + 1
        if not coming and not last:
            joiner.kill()
            joiner, last = start(), True
        ended = cluster.log(OTHER.impressions, 0).end
        if last and {each.join.position.impressions for each in joiner.loop.owned.values()} == {ended}:
            joiner.stop()
            break
    cluster.transactions.settle()
    shown, said = (cluster.log(topic, 0).committed() for topic in topics[:2])
    impressions = [originals[OTHER.impressions, each.at]._replace(at=each.at) for each in shown]
    outcomes = [originals.get((OTHER.outcomes, each.at), each)._replace(at=each.at) for each in said]
    if at_once:
        wanted = without_the_rest(Joined(joined_at_once(RULE, impressions, outcomes), [], []))
    else:
        wanted = without_the_rest(joined_in_sequence(RULE, impressions, outcomes))
    committed = cluster.log(JOIN_RULE.examples, 0).committed()
    examples = [Example(each.named, content_of(each.payload), each.time_ms) for each in committed]
    found = led_back(examples)
    if at_once:
        assert [each.key for each in found] != [each.key for each in wanted.examples]
        places = {each.key: place for place, each in enumerate(wanted.examples)}
        found.sort(key=lambda each: places[each.key])
    assert found == wanted.examples
    assert len(wanted.examples) == len(impressions)
    assert lives > 1
    assert joiner.ended is End.STOPPED
