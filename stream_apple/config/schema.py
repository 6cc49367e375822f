"""The settings: name, type, default, bounds, and below each one what it does.

The names are a contract with users, manifests and dashboards. `reference.py` makes `docs/configuration.md` from this
file.
"""

from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, PlainSerializer, model_validator

from stream_apple.config.duration import DAY, FOREVER, HOUR, MINUTE, SECOND, Duration, Patience, format_duration
from stream_apple.config.input_settings import FieldPath, InputSettings, LabelMap
from stream_apple.config.learner_settings import LearnerSettings, field_of
from stream_apple.config.passed_through import DEFAULTS, KafkaProperties, RegistryProperties
from stream_apple.config.secrets import shown
from stream_apple.config.section import LISTED, Integer, Number, Section, expected_as, text_field, when_text
from stream_apple.learners.losses import Loss
from stream_apple.learners.options import SYSTEMS, IntegerBounds
from stream_apple.records.mapping import OWN_MESSAGE, InputMapping


def _places(names: tuple[str, ...]) -> frozenset[tuple[int, int]]:
    pairs = (name.split("@") for name in names)
    return frozenset((int(partition), int(offset)) for partition, offset in pairs)


# Kafka makes directories of topics' names, and writes these four itself.
_NO_TOPICS = {".", "..", "__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"}


def _free_topic(name: str) -> str:
    if name in _NO_TOPICS:
        raise ValueError("a name that Kafka refuses")
    return name


TopicName = Annotated[
    str,
    text_field(
        r"^[a-zA-Z0-9._-]{1,249}$",
        "a topic name (1 to 249 of a-z A-Z 0-9 . _ -, but not '.', '..' or a topic of Kafka's own)",
    ),
    AfterValidator(_free_topic),
]
_NAME = "a name of 1 to 200 of a-z A-Z 0-9 . _ -"
_NAME_OR_NOTHING = r"^[a-zA-Z0-9._-]{0,200}$"
Identifier = Annotated[str, text_field(r"^[a-zA-Z0-9._-]{1,200}$", _NAME)]
WorkerName = Annotated[str, text_field(_NAME_OR_NOTHING, f"{_NAME}, or nothing for an automatic one")]
ModelName = Annotated[str, text_field(_NAME_OR_NOTHING, f"{_NAME}, or nothing for that of the group")]
_Place = Annotated[str, Field(pattern=r"^[0-9]+@[0-9]+$")]
GapNames = Annotated[
    tuple[_Place, ...], LISTED, expected_as("gaps as partition@first-missing-offset, such as '3@12345'")
]
SkipNames = Annotated[tuple[_Place, ...], LISTED, expected_as("records as partition@offset, such as '3@12345'")]
FileName = Annotated[
    str, text_field(r"^[^\x00-\x1f]*$", "the path of a file, without control characters, or nothing for none")
]
HostName = Annotated[str, text_field(r"^[a-zA-Z0-9.:_-]+$", "a host name or address to listen on")]

LARGEST_PORT = 65_535

# In milliseconds; `stream-apple evaluate` has the same.
EPOCH_LENGTH = IntegerBounds(SECOND, 366 * DAY)
MAX_AHEAD = IntegerBounds(1, 3660 * DAY)


class TopicSettings(Section):
    """The four topics, partition p of each belonging to partition p of `examples`, and a fifth for merging."""

    examples: TopicName = "examples"
    """The topic from which examples are read. Its name is part of every model's identity."""
    predictions: TopicName = "predictions"
    """The topic to which predictions are written. It has as many partitions as the examples topic."""
    dead_letters: TopicName = "dead-letters"
    """The topic to which records that can't be used are written, with the reason in their headers. It may have any
    number of partitions."""
    models: TopicName = "models"
    """The compacted topic that keeps snapshots of the models. It has as many partitions as the examples topic."""
    merges: TopicName = "merges"
    """The topic that keeps merged models, and records which partition went on with which. It has one partition, and
    keeps records as long as `examples` does. Only `merge.mode = "average"` needs it."""

    def names(self, *, merging: bool) -> list[str]:
        """Return the names of the topics that are used."""
        used = [self.examples, self.predictions, self.dead_letters, self.models]
        return [*used, self.merges] if merging else used

    @model_validator(mode="after")
    def _are_different(self) -> Self:
        _check_different(self.names(merging=False), "four")
        return self


def _check_different(names: list[str], count: str) -> None:
    # Kafka's metrics have "_" for ".", so it refuses to create a topic whose name differs in nothing else.
    if len({name.replace(".", "_") for name in names}) < len(names):
        raise ValueError(f"expected {count} different topics ('.' counts as '_'), found {', '.join(names)}")


class WorkerSettings(Section):
    """One process of the consumer group."""

    group: Identifier = "stream-apple"
    """The consumer group (`group.id`), whose workers share the partitions. Another group has models of its own."""
    id: WorkerName = ""
    """This worker's name in the group, different for every worker and the same after every restart: `group.instance.id`
    and `transactional.id` derive from it. Empty: the machine's name and the lowest number that no other worker of the
    group has on this machine, such as `host-0`, which a restart gets again. Set it where machines of one group share a
    name, or change theirs, as containers do. Of two processes with one id, on one machine the second is refused; on
    different machines the second takes over and ends the first."""
    commit_interval: Duration = Field(default=500, ge=10, le=30 * SECOND)
    """How long a transaction stays open before it is committed. Readers see its predictions only then; a shorter
    interval costs more commits."""
    commit_records: Integer = Field(
        default=50_000, ge=1, le=10_000_000, json_schema_extra={"unit": "records", "expert": True}
    )
    """A transaction is also committed after this many predictions and dead letters."""
    snapshot_interval: Duration = Field(default=5 * MINUTE, ge=SECOND, le=DAY)
    """The longest time between two snapshots of a model that learns. After a crash, as much of the log is replayed.
    Once an epoch has ended, a tenth of this time is enough."""
    fetch_records: Integer = Field(
        default=1_000, ge=1, le=100_000, json_schema_extra={"unit": "records", "expert": True}
    )
    """The most records that the loop takes from Kafka's client at once. Results do not depend on it."""
    threads: Integer = Field(default=0, ge=0, le=256)
    """How many threads learn, each on one partition at a time. 0: as many as the process has cores, by the limit of its
    cgroup. Results do not depend on it."""
    on_stop: Literal["stay", "leave"] = "stay"
    """What happens to this worker's partitions after SIGTERM: `stay` keeps them for its restart; `leave` hands them to
    others at once."""
    accept_gap: GapNames = ()
    """The gaps in the input that this group's models may leave out. The error of exit code 70 names the gap."""

    skip: SkipNames = ()
    """The records that this group's models leave out, because each would end the worker. Such a record becomes a dead
    letter with the reason `skipped`, and is neither decoded nor learned. Its name may go once it is answered."""
    from_model: FileName = ""
    """The model file, of `inspect --save` or `merge` and with the same `[learner]`, from which every partition's model
    starts. Empty: models start from nothing. Set it for a new group that must predict well from its first record on.
    Its content, not its name, is part of the model: as long as the group lives, keep it unchanged where all workers and
    commands find it. See `docs/merging-models.md`."""

    @property
    def transactional_id(self) -> str:
        """The transactional id, the same after every restart: a successor aborts what was left open."""
        # The whole cluster shares these ids: without the group, two deployments would fence each other.
        return f"{self.group}-{self.id}"

    @property
    def accepted_gaps(self) -> frozenset[tuple[int, int]]:
        """The gaps that may be left out of a model, each as (partition, first missing offset)."""
        return _places(self.accept_gap)

    @property
    def skipped_records(self) -> frozenset[tuple[int, int]]:
        """The records that are to be left out, each as (partition, offset)."""
        return _places(self.skip)


class EpochSettings(Section):
    """Spans of event time after which the model grows."""

    length: Duration = Field(default=HOUR, ge=EPOCH_LENGTH.low, le=EPOCH_LENGTH.high)
    """How much event time passes before the model grows again. Event time is the records' timestamps, or what
    `input.timestamp` names."""
    max_ahead: Duration = Field(default=7 * DAY, ge=MAX_AHEAD.low, le=MAX_AHEAD.high)
    """How far a timestamp may lie ahead of the highest one of its partition so far. A record further ahead is a dead
    letter, unless more than three in a row agree; many that agree can put the clock right, ahead or back: see
    `docs/wire-format.md`."""


class MergingSettings(Section):
    """Whether, and when, the models of all partitions become one."""

    mode: Literal["off", "average"] = "off"
    """Whether partitions share one model. `off`: each partition has its own, which has learned its records alone.
    `average`: at the end of each round the models of all partitions are averaged, each weight by how much it has
    learned, and all go on with the result; while partitions wait for it, they answer no record. Use it if records are
    spread over partitions by chance, and each partition sees too few: the loss of four partitions of one planted stream
    was .463 in a pass, .557 if each learned alone, and .442 in a single partition. Don't use it if each partition is a
    world of its own. To set it, or to change `every` or `parents`, begin a new `worker.group`; it needs the topic
    `topics.merges`."""
    every: Integer = Field(default=1, ge=1, le=1_000_000, json_schema_extra={"unit": "epochs"})
    """How many epochs a round has. At its end each partition waits for the merged model; one whose worker does not
    merge writes a snapshot before, and its worker reads the result."""
    parents: Literal["votes", "union"] = "votes"
    """Which monomials become parents of all, of those that partitions have chosen since the last merge. `votes`: as
    many as one partition chooses, and first those that most have chosen. `union`: all of them, as in the paper;
    examples then have as many more features."""
    patience: Patience = Field(default=10 * SECOND, ge=SECOND // 10)
    """How long the worker that merges waits, after the first contribution, for others. A partition that comes later is
    left out of that merge, and merges its own model with the result. Partitions without records are not waited for.
    `forever`: it waits for every partition; then what is learned depends on the records alone, but a partition without
    records stops all others."""
    max_hold: Duration = Field(default=MINUTE, ge=SECOND, le=HOUR)
    """How long a partition waits for the merged model before it goes on alone. At least `patience`; if that is
    `forever`, it never does."""

    @model_validator(mode="after")
    def _is_patient_enough(self) -> Self:
        if self.max_hold < self.patience < FOREVER:
            raise ValueError(
                f"expected a patience of at most max_hold, or 'forever', found patience "
                f"{format_duration(self.patience)} and max_hold {format_duration(self.max_hold)}"
            )
        return self


LabelOrNone = Annotated[
    Annotated[float, Field(ge=-1e18, le=1e18, allow_inf_nan=False)] | None,
    when_text(lambda text: None if text == "none" else float(text)),
    PlainSerializer(lambda label: "none" if label is None else label),
    expected_as("a number from -1e+18 to 1e+18, or 'none'"),
]


class JoinSettings(Section):
    """How `stream-apple join` makes examples of impressions, and of the outcomes that come later.

    Its process follows `[worker]`, but for the group and for what is about models: snapshots, threads, skips, a start.
    """

    impressions: TopicName = "impressions"
    """The topic from which impressions are read: examples with an `id` and without a label, in the shape that `[input]`
    describes. It has as many partitions as `topics.examples`."""
    outcomes: TopicName = "outcomes"
    """The topic from which outcomes are read: maps with the `id` of an impression, a `label` and perhaps a `weight`, in
    the partition that has the impression's number. The joiner also writes its heartbeats there."""
    dead_letters: TopicName = "join-dead-letters"
    """The topic to which impressions and outcomes that can't be used are written, with the reason in their headers."""
    group: Identifier = "stream-apple-join"
    """The consumer group, whose joiners share the partitions. Another group joins everything anew."""
    wait: Duration = Field(default=HOUR, ge=SECOND, le=30 * DAY)
    """How long after an impression its outcomes count. Every example is delayed by this time, for which outcomes are
    kept in memory. Both topics must keep records for longer."""
    tolerance: Duration = Field(default=MINUTE, ge=1, le=DAY)
    """How far the clocks of producers may differ, and how late a record may reach its topic. An impression is joined
    when `wait` and this have passed."""
    default_label: LabelOrNone = None
    """The label of an impression without an outcome, such as -1 if outcomes are clicks. `none`: it becomes no example,
    unless it has a label of its own."""
    several: Literal["first", "last", "sum", "max"] = "last"
    """Which outcome counts if an impression has several: the `first` or the `last` by their times, or the one with the
    largest label (`max`), each with its weight. `sum`, for labels that are amounts: the label is the sum of all, the
    weight that of the last."""
    emit: Literal["when_due", "on_outcome"] = "when_due"
    """When an impression that has an outcome becomes an example. `when_due`: after `wait`, in order with all others.
    `on_outcome`: as soon as its outcome is there, which biases what is learned ([what that
    costs](late-labels.md#positives-at-once)); it needs `several = "first"`."""
    max_impressions: Integer = Field(default=200_000, ge=1, le=1_000_000_000, json_schema_extra={"unit": "impressions"})
    """How many impressions of a partition `on_outcome` keeps in memory, each some 900 bytes and its record. If more are
    waiting, their outcomes are seen when there is room; none is forgotten."""
    max_outcomes: Integer = Field(default=2_000_000, ge=1, le=1_000_000_000, json_schema_extra={"unit": "outcomes"})
    """How many outcomes of a partition are kept in memory, some 250 bytes each. If `wait` has more, the partition
    stands still, and says so; none is forgotten."""

    outcome_id: FieldPath = ""
    """The field of an outcome that holds the id of its impression. Empty: the one that `input.id` names."""
    outcome_label: FieldPath = ""
    """The field of an outcome that holds the label. Empty: the one that `input.label` names."""
    outcome_label_map: LabelMap = Field(default_factory=dict)
    """The numbers of outcomes' labels that are no numbers, as in `{ click = 1, skip = -1 }`. Empty: those of
    `input.label_map`."""
    outcome_weight: FieldPath = ""
    """The field of an outcome that holds the weight. Empty: the one that `input.weight` names."""
    outcome_timestamp: FieldPath = ""
    """The field of an outcome that holds its time, in the forms of `input.timestamp`. Empty: its record's timestamp
    counts. The time of an impression is that of `input.timestamp`."""

    @property
    def topics(self) -> list[str]:
        """Return the names of the topics that only a joiner uses."""
        return [self.impressions, self.outcomes, self.dead_letters]


class HttpSettings(Section):
    """Where a worker offers its metrics, health and status page over HTTP."""

    host: HostName = "0.0.0.0"  # noqa: S104  Prometheus and the kubelet come from outside the pod
    """The address on which the worker listens. `::` is all addresses of IPv6 and IPv4."""
    port: Integer = Field(default=9400, ge=0, le=LARGEST_PORT)
    """The port on which the worker listens; the event `started` names it. If this is not set, it is the first free one
    from 9400 to 9499, so that several workers on a machine need no settings. A port that is set must be free, or the
    worker ends. 0: any free one."""

    @property
    def ports(self) -> range:
        """The ports to try, of which the first free one is taken."""
        most = 1 if "port" in self.model_fields_set else 100
        return range(self.port, min(self.port + most, LARGEST_PORT + 1))

    def address(self, port: int | None = None) -> str:
        """Return the address of the status page for a browser on this machine; `port` is what 0 has become."""
        return _local_address(self.host, self.port if port is None else port)


def _local_address(host: str, port: int) -> str:
    """Return the address for clients on this machine of what listens on `host`."""
    host = "localhost" if host in {"0.0.0.0", "::"} else host  # noqa: S104  an address to recognise
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


class ServeSettings(Section):
    """How `stream-apple serve` answers over HTTP, by replicas of the models. Workers use none of these settings."""

    name: ModelName = ""
    """The name of the model in addresses, `/v1/models/NAME:predict`. Empty: `worker.group`. With a name of its own the
    model can come from another group, and clients need not know: see `docs/comparing-models.md`."""
    follow: Literal["log", "snapshots"] = Field(default="log")
    """How a replica keeps up. `log`: it learns each example as soon as the group has committed its prediction, and is
    behind by about `worker.commit_interval`. `snapshots`: it loads the group's snapshots, which costs next to nothing,
    but it is behind by up to `worker.snapshot_interval`."""
    host: HostName = Field(default="0.0.0.0")  # noqa: S104  clients are elsewhere
    """The address on which the server listens. `::` is all addresses of IPv6 and IPv4."""
    port: Integer = Field(default=8080, ge=0, le=LARGEST_PORT)
    """The port on which the server listens. 0: any free one, which the event `serving` names."""
    max_body_bytes: Integer = Field(default=4_000_000, ge=1_000, le=1_000_000_000, json_schema_extra={"unit": "bytes"})
    """The largest body of a request. A larger one is answered with status 413."""
    max_pending_body_bytes: Integer = Field(
        default=64_000_000, ge=65_536, le=100_000_000_000, json_schema_extra={"unit": "bytes"}
    )
    """The memory for the bodies of all requests that are being read or answered, each of which takes at least 64 KiB. A
    request for which there is no room is answered with status 503 and `Retry-After`. At least `max_body_bytes`."""
    max_instances: Integer = Field(default=1_000, ge=1, le=100_000, json_schema_extra={"unit": "instances"})
    """The most instances of a request. More are answered with status 413. All instances of a request are scored in one
    go, and other requests wait."""
    max_lag: Duration = Field(default=10 * SECOND, ge=SECOND // 10, le=DAY)
    """How far a replica may be behind and still be ready: it is not if the group committed something longer ago that
    the replica has not learned. With `follow = "snapshots"` a replica that has a model is ready."""

    @model_validator(mode="after")
    def _has_room_for_a_body(self) -> Self:
        if self.max_pending_body_bytes < self.max_body_bytes:
            raise ValueError(
                f"expected max_pending_body_bytes of at least max_body_bytes, found {self.max_pending_body_bytes} and "
                f"{self.max_body_bytes}"
            )
        return self

    def address(self, port: int | None = None) -> str:
        """Return the address for clients on this machine; `port` is what 0 has become."""
        return _local_address(self.host, self.port if port is None else port)


class OutputSettings(Section):
    """What a prediction tells, and in which format."""

    format: Literal["msgpack", "json", "avro"] = "msgpack"
    """The format of predictions: `msgpack`; `json`, for sinks and SQL engines; `avro` in Confluent's framing. `avro`
    needs the section `registry`, where its schema is registered as that of `topics.predictions`."""
    probabilities: Literal["one", "all"] = "one"
    """Which probabilities a prediction has. `one`: that of label 1 (logistic loss) or of the predicted class (softmax),
    as `probability`. `all`: with softmax also those of all classes, in the order of their labels, as `probabilities`.
    """

    def probabilities_with(self, loss: Loss) -> Literal["none", "one", "all"]:
        """Return which probabilities predictions of models with this loss have."""
        if loss.real_valued:
            return "none"
        return self.probabilities if loss.multiclass else "one"

    def identity(self, loss: Loss) -> dict[str, str]:
        """Return what the bytes of predictions depend on."""
        return {"format": self.format, "probabilities": self.probabilities_with(loss)}


class LimitSettings(Section):
    """What one example, and a run of bad ones, may cost."""

    max_features: Integer = Field(default=4096, ge=1, le=65536, json_schema_extra={"unit": "features"})
    """The most features of an example as it arrives, without n-grams. An example with more is a dead letter."""
    max_features_per_example: Integer = field_of(SYSTEMS["apple"].declared["max_features_per_example"])
    """The most features of an example with products and n-grams; expansion stops there. At least `max_features`; with
    `learner.ngrams` at least that times the number of features in the longest n-gram."""
    max_record_bytes: Integer = Field(default=1_000_000, ge=1, le=100_000_000, json_schema_extra={"unit": "bytes"})
    """The largest value of a record. A record with a larger one is a dead letter. The bounds of all outputs follow from
    it."""
    max_weight: Number = Field(default=1e6, gt=0, le=1e12)
    """The largest importance weight of an example. An example with a larger one is a dead letter."""
    min_label: Number = Field(default=-1e9, ge=-1e18, le=1e18)
    """The smallest label, below `max_label`. An example with a smaller one is a dead letter."""
    max_label: Number = Field(default=1e9, ge=-1e18, le=1e18)
    """The largest label. An example with a larger one is a dead letter."""
    max_reject_share: Number = Field(default=0.5, gt=0, le=1)
    """The largest share of dead letters among a partition's last 10,000 records, from its first 1,000 on. Above it the
    worker stops with exit code 71."""
    max_consecutive_rejects: Integer = Field(default=1000, ge=1, json_schema_extra={"unit": "records"})
    """The most dead letters of a partition in a row. After more the worker stops with exit code 71."""

    @model_validator(mode="after")
    def _are_consistent(self) -> Self:
        if self.min_label >= self.max_label:
            raise ValueError(
                f"expected min_label below max_label, found min_label {self.min_label:g} and "
                f"max_label {self.max_label:g}"
            )
        if self.max_features_per_example < self.max_features:
            raise ValueError(
                f"expected max_features_per_example of at least max_features, found "
                f"{self.max_features_per_example} and {self.max_features}"
            )
        return self


class Config(Section):
    """All settings of a process. Durations are whole milliseconds."""

    kafka: KafkaProperties = Field(default_factory=DEFAULTS.copy)
    topics: TopicSettings = TopicSettings()
    worker: WorkerSettings = WorkerSettings()
    input: InputSettings = InputSettings()
    registry: RegistryProperties = Field(default_factory=dict)
    learner: LearnerSettings = LearnerSettings()
    epochs: EpochSettings = EpochSettings()
    output: OutputSettings = OutputSettings()
    merge: MergingSettings = MergingSettings()
    join: JoinSettings = JoinSettings()
    http: HttpSettings = HttpSettings()
    serve: ServeSettings = ServeSettings()
    limits: LimitSettings = LimitSettings()

    def with_worker(self, **changes: str | tuple[str, ...]) -> Self:
        """Return the settings with these of the section `worker` in place of its own."""
        return self.model_copy(update={"worker": self.worker.model_copy(update=changes)})

    @property
    def merging(self) -> bool:
        """Whether the models of all partitions become one now and then."""
        return self.merge.mode != "off"

    @property
    def served_as(self) -> str:
        """The name under which replicas answer."""
        return self.serve.name or self.worker.group

    @property
    def joining(self) -> bool:
        """Whether anything is said of what is joined."""
        return "join" in self.model_fields_set

    @model_validator(mode="before")
    @classmethod
    def _fit_for_merging(cls, given: Any) -> Any:  # noqa: ANN401  pydantic checks it afterwards
        """Where models are merged, the learner is by default one that can be."""
        if not isinstance(given, dict):
            return given
        merge, learner = given.get("merge"), given.get("learner", {})
        mode = merge.get("mode", "off") if isinstance(merge, dict) else getattr(merge, "mode", "off")
        merged = mode != "off" and isinstance(learner, dict) and learner.get("system", "apple") == "apple"
        return given | {"learner": {"mergeable": True} | learner} if merged else given

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        longest = self.learner.options().longest_ngram
        most, needed = self.limits.max_features_per_example, longest * self.limits.max_features
        if longest > 1 and most < needed:
            raise ValueError(
                f"learner.ngrams, limits.max_features, limits.max_features_per_example: expected room for the n-grams "
                f"of any example, max_features_per_example of at least {longest} * max_features = {needed}, "
                f"found {most}"
            )
        if self.output.format == "avro" and not self.registry:
            raise ValueError(
                "output.format, registry.url: expected the address of a registry for predictions in Avro, found none"
            )
        if self.merging:
            if because := self.learner.options().why_not_merged:
                raise ValueError(f"merge.mode = {self.merge.mode}: {because}")
            _check_different(self.topics.names(merging=True), "five")
        self._check_labels("input.label_map", self.input.label_map.values())
        if self.joining:
            self.check_join()
        return self

    def _check_labels(self, setting: str, labels: Iterable[float]) -> None:
        """Raise ValueError for a label of which workers would make a dead letter, as their loss knows no such label."""
        options = self.learner.options()
        known = options.objective.known_labels(options.classes)
        if known is None:
            return  # a joiner need not know the limits of its workers
        allowed, expected = known
        for label in labels:
            if label not in allowed:
                raise ValueError(f"{setting}: expected {expected} with learner.loss = {options.loss}, found {label:g}")

    @property
    def impression_shape(self) -> InputMapping | None:
        """Which fields of an impression are what; None if it is a message of the product's own."""
        return self.input.mapping() or (OWN_MESSAGE if self.registry else None)

    @property
    def outcome_shape(self) -> InputMapping | None:
        """Which fields of an outcome are what; None if it has the names of the product's own."""
        own, join = self.input, self.join
        found = InputMapping(
            label=join.outcome_label or own.label,
            weight=join.outcome_weight or own.weight,
            id=join.outcome_id or own.id,
            timestamp=join.outcome_timestamp,
            label_map=join.outcome_label_map or own.label_map,
            separator=own.separator,
        )
        return found if found != OWN_MESSAGE or self.registry else None

    def check_join(self) -> None:
        """Raise ValueError if [join] does not fit the other sections, whether or not anything is said of it."""
        names = [*self.topics.names(merging=self.merging), *self.join.topics]
        _check_different(names, f"{len(names)}")
        if self.join.group == self.worker.group:
            raise ValueError(
                f"join.group, worker.group: expected two groups, as members of one share its partitions and fence "
                f"those of their name, found {self.join.group!r} twice"
            )
        shape, default = self.outcome_shape or OWN_MESSAGE, self.join.default_label
        for name, path, use in (
            ("input.id", self.input.id, "by which impressions and outcomes are matched"),
            ("input.label", self.input.label, "where the label of an outcome is put"),
            ("input.weight", self.input.weight or not shape.weight, "where the weight of an outcome is put"),
        ):
            if not path:
                raise ValueError(f"{name}: expected the path of a field, {use} ([join]), found none")
        paths = [path for path in (shape.id, shape.label, shape.weight, shape.timestamp) if path]
        twice = next((path for path in paths if paths.count(path) > 1), None)
        if twice is not None:
            raise ValueError(
                f"join.outcome_id, outcome_label, outcome_weight, outcome_timestamp: expected another field for each, "
                f"found {twice!r} twice"
            )
        if self.join.emit == "on_outcome" and self.join.several != "first":
            raise ValueError(
                f"join.emit, join.several: expected several = first with emit = on_outcome, which can't take back what "
                f"it has sent when a further outcome comes, found {self.join.several}"
            )
        if self.join.several == "sum" and not (loss := self.learner.options().objective).real_valued:
            raise ValueError(
                f"join.several: expected first, last or max with learner.loss = {loss.name}, whose labels are "
                f"no amounts, found sum"
            )
        self._check_labels("join.outcome_label_map", self.join.outcome_label_map.values())
        self._check_labels("join.default_label", () if default is None else (default,))
        known = self.input.label_map
        if known and default is not None and default not in known.values():
            raise ValueError(
                f"join.default_label: expected a number of input.label_map, one of "
                f"{', '.join(f'{number:g}' for number in known.values())}, or none, found {default:g}"
            )

    def model_settings(self) -> dict[str, dict[str, Any]]:
        """Return the settings that the model depends on: a snapshot made with others can't be continued."""
        settings: dict[str, dict[str, Any]] = self.model_dump(
            include={"epochs": True, "limits": True},
            exclude={"limits": {"max_reject_share", "max_consecutive_rejects"}},
        )
        return settings | {
            "learner": self.learner.identity(),
            "input": self.input.identity() | {"registry": bool(self.registry)},
            "output": self.output.identity(self.learner.options().objective),
        }

    def redacted(self) -> dict[str, dict[str, Any]]:
        """Return all settings in JSON types for a log, durations as text, secrets as `***`."""
        settings: dict[str, dict[str, Any]] = self.model_dump(mode="json")
        for section in ("kafka", "registry"):
            settings[section] = {name: shown(name, value) for name, value in settings[section].items()}
        return settings
