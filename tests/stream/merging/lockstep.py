"""What merging has to come to: models in one process that wait for each other at every boundary, without a loop."""

from collections.abc import Mapping, Sequence

from support.records import HOUR, START, FakeRecord

from stream_apple.learners.apple.merging.merge import adopt, merge
from stream_apple.records.message.example import Example, encode_example
from stream_apple.stream.model.partition_model import ModelSettings, PartitionModel
from stream_apple.stream.positions.lineage import Provenance

_WEIGHTS = {"a": 1.0, "b": -1.5, "c": 0.5, "d": 2.0}


def hourly(partition: int, counts: Sequence[int], first: int = 0) -> list[FakeRecord]:
    """So many examples in each hour, of a sum with a product in it; other partitions have others."""
    records: list[FakeRecord] = []
    for hour, count in enumerate(counts):
        for number in range(count):
            at = first + len(records)
            draw = (7 * at + 3 * partition) % 11
            features = {name: ((draw + 3 * place) % 5 - 2) / 2 for place, name in enumerate(_WEIGHTS)}
            features = {name: value for name, value in features.items() if value}
            label = sum(_WEIGHTS[name] * value for name, value in features.items())
            label += 3 * features.get("a", 0.0) * features.get("d", 0.0)
            payload = encode_example(Example(label, 1.0, None, features))
            time_ms = START + hour * HOUR + number * HOUR // max(count, 1)
            records.append(FakeRecord(partition, at, payload, time_ms, b"%d-%d" % (partition, at)))
    return records


class Lockstep:
    """Models of all partitions, and what they answer."""

    def __init__(
        self, provenance: Provenance, settings: ModelSettings, given: Mapping[int, Sequence[FakeRecord]]
    ) -> None:
        assert provenance.merging is not None
        self._parents = provenance.merging.parents
        topic, decoder = provenance.topics.examples, settings.decoder()
        self.models = {
            number: PartitionModel(topic, number, provenance.lineage(number, 0), settings, decoder) for number in given
        }
        self.answers: dict[int, list[bytes]] = {number: [] for number in given}
        self.merges = 0
        self._given = given

    def learn(self) -> "Lockstep":
        """All of it: everybody who comes to a boundary waits until all have come to the same one."""
        for model in self.models.values():
            self._learn(model)
        while all(model.held is not None for model in self.models.values()):
            rounds = {model.held.round for model in self.models.values() if model.held is not None}
            assert len(rounds) == 1
            merged = merge([model.learner for model in self.models.values()], parents=self._parents).model
            self.merges += 1
            for model in self.models.values():
                adopt(model.learner, merged)
                assert model.rounds is not None
                model.rounds.go_on()
            for model in self.models.values():
                self._learn(model)
        assert all(model.held is None for model in self.models.values())
        return self

    def _learn(self, model: PartitionModel) -> None:
        records = [record for record in self._given[model.partition] if record.at >= model.next_offset]
        for _, result in model.process_in_turn(list(records)):
            self.answers[model.partition] += result.predictions
