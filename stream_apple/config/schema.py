"""The settings: name, type, default, bounds, and below each one what it does.

The names are a contract with users, manifests and dashboards. `reference.py` makes `docs/configuration.md` from this
file. A setting that was not in version 0.1.0 says since when it is there: `json_schema_extra={"since": "0.2.0"}`.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, model_validator

from stream_apple.config.duration import DAY, FOREVER, HOUR, MINUTE, SECOND, Duration, Patience, format_duration
from stream_apple.config.input_settings import FieldPath, InputSettings, LabelMap, listed
from stream_apple.config.learner_settings import LearnerSettings, field_of
from stream_apple.config.passed_through import DEFAULTS, KafkaProperties, RegistryProperties
from stream_apple.config.secrets import shown
from stream_apple.config.section import Integer, Number, Section
from stream_apple.core.input.input_mapping import OWN_MESSAGE, InputMapping
from stream_apple.core.learner.options import DECLARED, IntegerBounds, mergeable, why_not_merged


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
    Field(
        pattern=r"^[a-zA-Z0-9._-]{1,249}$",
        json_schema_extra={
            "expected": "a topic name (1 to 249 of a-z A-Z 0-9 . _ -, but not '.', '..' or a topic of Kafka's own)"
        },
    ),
    AfterValidator(_free_topic),
]
Identifier = Annotated[
    str,
    Field(
        pattern=r"^[a-zA-Z0-9._-]{1,200}$",
        json_schema_extra={"expected": "a name of 1 to 200 of a-z A-Z 0-9 . _ -"},
    ),
]
WorkerName = Annotated[
    str,
    Field(
        pattern=r"^[a-zA-Z0-9._-]{0,200}$",
        json_schema_extra={"expected": "a name of 1 to 200 of a-z A-Z 0-9 . _ -, or nothing for an automatic one"},
    ),
]
ModelName = Annotated[
    str,
    Field(
        pattern=r"^[a-zA-Z0-9._-]{0,200}$",
        json_schema_extra={"expected": "a name of 1 to 200 of a-z A-Z 0-9 . _ -, or nothing for that of the group"},
    ),
]
GapNames = Annotated[
    tuple[Annotated[str, Field(pattern=r"^[0-9]+@[0-9]+$")], ...],
    BeforeValidator(listed),
    Field(json_schema_extra={"expected": "gaps as partition@first-missing-offset, such as '3@12345'"}),
]
SkipNames = Annotated[
    tuple[Annotated[str, Field(pattern=r"^[0-9]+@[0-9]+$")], ...],
    BeforeValidator(listed),
    Field(json_schema_extra={"expected": "records as partition@offset, such as '3@12345'"}),
]
FileName = Annotated[
    str,
    Field(
        pattern=r"^[^\x00-\x1f]*$",
        json_schema_extra={"expected": "the path of a file, without control characters, or nothing for none"},
    ),
]
HostName = Annotated[
    str,
    Field(pattern=r"^[a-zA-Z0-9.:_-]+$", json_schema_extra={"expected": "a host name or address to listen on"}),
]


LARGEST_PORT = 65_535

# In milliseconds; `stream-apple evaluate` has the same.
EPOCH_LENGTH = IntegerBounds(SECOND, 366 * DAY)
MAX_AHEAD = IntegerBounds(1, 3660 * DAY)


class TopicSettings(Section):
    """The four topics, partition p of each belonging to partition p of `examples`, and a fifth for merging."""

    examples: TopicName = "examples"
    """Where examples are read from. Its name is part of every model's identity."""
    predictions: TopicName = "predictions"
    """Where predictions go: as many partitions as the examples topic."""
    dead_letters: TopicName = "dead-letters"
    """Where records go that can't be used, with the reason in their headers."""
    models: TopicName = "models"
    """Where snapshots of the models are kept: compacted, as many partitions as the examples topic."""
    merges: TopicName = "merges"
    """Where merged models are kept, and which partition went on with which: one partition, records for as long as those
    of `examples`. It is there, and is looked at, only where `merge.mode` says so."""

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
    """The consumer group, `group.id`: its workers share the partitions. Another group is another set of models."""
    id: WorkerName = ""
    """This worker's name in the group, the same after every restart and different for every worker:
    `group.instance.id` and `transactional.id` derive from it. Nothing for an automatic one: the machine's name and the
    lowest number that no worker of the group has on this machine, `host-0` first, so that a restart has the same again.
    Set it where machines of one group share a name, or change theirs, as containers do. Of two processes with one id on
    a machine the second is refused; on different machines it takes over, and ends the first."""
    commit_interval: Duration = Field(default=500, ge=10, le=30 * SECOND)
    """A transaction is committed when it has been open for so long: readers wait until then for its predictions."""
    commit_records: Integer = Field(
        default=50_000, ge=1, le=10_000_000, json_schema_extra={"unit": "records", "expert": True}
    )
    """A transaction also ends after this many predictions and dead letters."""
    snapshot_interval: Duration = Field(default=5 * MINUTE, ge=SECOND, le=DAY)
    """The longest time between two snapshots of a model that learns: a crash costs the replay of so long.
    A tenth of it is enough after the end of an epoch."""
    fetch_records: Integer = Field(
        default=1_000, ge=1, le=100_000, json_schema_extra={"unit": "records", "expert": True}
    )
    """Most records that the loop takes from Kafka's client at once. Results do not depend on it."""
    threads: Integer = Field(default=0, ge=0, le=256)
    """Threads that learn, each a partition at a time; 0 for as many as the process has cores, by its cgroup's limit.
    Results do not depend on it."""
    on_stop: Literal["stay", "leave"] = "stay"
    """After SIGTERM, `stay` keeps the partitions for this worker's restart; `leave` hands them to others at once."""
    accept_gap: GapNames = ()
    """Gaps in the input that this group's models may leave out, by name. The error of exit code 70 has the name."""

    skip: SkipNames = ()
    """Records that this group's models leave out, by name, each until it is answered: for one that ends the worker. It
    becomes a dead letter with the reason `skipped`, neither decoded nor learned."""
    from_model: FileName = ""
    """A model file that every partition's model starts from, instead of from nothing: of `inspect --save`, or of
    `merge`, with the same `[learner]`. For a new group that is to predict well from its first record on. What the file
    holds is part of the model, whatever its name: keep it, unchanged, where all workers and commands find it, for as
    long as the group lives. See `docs/merging-models.md`."""

    def named(self, name: str) -> Self:
        """Return these settings with `name` as the id."""
        return self.model_copy(update={"id": name})

    def of_group(self, group: str) -> Self:
        """Return these settings for a member of another group."""
        return self.model_copy(update={"group": group})

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
    """The span of event time after which the model grows. Event time is the records' timestamps."""
    max_ahead: Duration = Field(default=7 * DAY, ge=MAX_AHEAD.low, le=MAX_AHEAD.high)
    """How far clocks may differ. A timestamp further past the highest one of its partition so far is a dead letter,
    unless more than three in a row agree; many can put the clock right, ahead or back: see `docs/wire-format.md`."""


class MergingSettings(Section):
    """How the models of all partitions become one model now and then."""

    mode: Literal["off", "average"] = "off"
    """`off`: each partition has a model of its own, which has learned its records alone. `average`: at the end of each
    round all partitions' models are merged, each weight by how much it has learned, and all go on with what comes of
    it; while they wait for it, no record of theirs is answered. For a stream that is spread over partitions by chance,
    where each sees too little: four partitions of one planted stream lost .463 in a pass, instead of .557 alone and
    .442 as one. Not where each partition is a world of its own. Setting it, or changing `every` or `parents`, needs a
    new `worker.group`; it needs the topic `topics.merges`."""
    every: Integer = Field(default=1, ge=1, le=1_000_000, json_schema_extra={"unit": "epochs"})
    """Epochs of a round. Each costs a partition two snapshots written and one read, and a wait."""
    parents: Literal["votes", "union"] = "votes"
    """Which of the monomials that partitions have chosen as parents since the last merge become parents of all:
    `votes`, as many as one partition chooses, those first that most have chosen; `union`, all of them, as in the paper,
    for as many features an example more."""
    patience: Patience = Field(default=10 * SECOND, ge=SECOND // 10)
    """So long the worker that merges waits for further contributions after the first; who comes later is left out of
    that merge, and goes on with both its own and what the others have. Partitions without records are not waited for.
    `forever` waits for every partition: then what is learned depends on the records alone, and a partition without
    records stops all others."""
    max_hold: Duration = Field(default=MINUTE, ge=SECOND, le=HOUR)
    """After so long without a merged model a partition goes on alone. At least `patience`; with `forever`, never."""

    @model_validator(mode="after")
    def _is_patient_enough(self) -> Self:
        if self.max_hold < self.patience < FOREVER:
            raise ValueError(
                f"expected a patience of at most max_hold, or 'forever', found patience "
                f"{format_duration(self.patience)} and max_hold {format_duration(self.max_hold)}"
            )
        return self


def _label_or_none(value: object) -> object:
    return None if value == "none" else float(value) if isinstance(value, str) else value


LabelOrNone = Annotated[
    Annotated[float, Field(ge=-1e18, le=1e18, allow_inf_nan=False)] | None,
    BeforeValidator(_label_or_none),
    PlainSerializer(lambda label: "none" if label is None else label),
    Field(json_schema_extra={"expected": "a number from -1e+18 to 1e+18, or 'none'"}),
]


class JoinSettings(Section):
    """What `stream-apple join` makes examples of: impressions, and the outcomes that come later.

    Its process is otherwise as `[worker]` says, but for the group.
    """

    impressions: TopicName = "impressions"
    """Where impressions are read from: examples with an `id`, and without a label, in the shape that `[input]` says. As
    many partitions as `topics.examples`."""
    outcomes: TopicName = "outcomes"
    """Where outcomes are read from: maps with the `id` of an impression, a `label` and perhaps a `weight`, in the
    partition of the impression's number. The joiner writes its heartbeats there, too."""
    dead_letters: TopicName = "join-dead-letters"
    """Where records of both go that can't be used, with the reason in their headers."""
    group: Identifier = "stream-apple-join"
    """The consumer group: its joiners share the partitions. Another group joins everything anew."""
    wait: Duration = Field(default=HOUR, ge=SECOND, le=30 * DAY)
    """So long after an impression its outcomes count. Every example comes so much later than its impression, and the
    outcomes of so long are in memory. Both topics must keep records for longer."""
    tolerance: Duration = Field(default=MINUTE, ge=1, le=DAY)
    """How far the clocks of producers may lie apart, and how late a record may reach its topic: an impression is joined
    when its `wait` and this have gone by."""
    default_label: LabelOrNone = None
    """The label of an impression without an outcome, such as -1 where outcomes are clicks. `none`: it makes no example,
    unless it has a label of its own."""
    several: Literal["first", "last", "sum", "max"] = "last"
    """Which of several outcomes of one impression counts, by their times: label and weight of the `first` or the
    `last`, or of that with the largest label; or the `sum` of the labels, with the weight of the last."""
    emit: Literal["when_due", "on_outcome"] = "when_due"
    """When an impression with an outcome becomes an example. `when_due`: after `wait`, as all others, in their order.
    `on_outcome`: as soon as its outcome is there, which biases what is learned
    ([what that costs](late-labels.md#positives-at-once)); needs `several` to be `first`."""
    max_impressions: Integer = Field(default=200_000, ge=1, le=1_000_000_000, json_schema_extra={"unit": "impressions"})
    """Impressions of a partition that `on_outcome` has in memory, some 900 bytes each and the record. Of more, the
    outcomes are seen when there is room; none is forgotten."""
    max_outcomes: Integer = Field(default=2_000_000, ge=1, le=1_000_000_000, json_schema_extra={"unit": "outcomes"})
    """Outcomes of a partition that are held in memory, some 250 bytes each. If the `wait` has more, the partition
    stands still, and says so; none is forgotten."""

    outcome_id: FieldPath = ""
    """The field of an outcome that holds the id of its impression; nothing: that of `input.id`."""
    outcome_label: FieldPath = ""
    """The field of an outcome that holds the label; nothing: that of `input.label`."""
    outcome_label_map: LabelMap = Field(default_factory=dict)
    """Which number each label of an outcome is that is no number, as in `{ click = 1, skip = -1 }`; empty: those of
    `input.label_map`."""
    outcome_weight: FieldPath = ""
    """The field of an outcome that holds the weight; nothing: that of `input.weight`."""
    outcome_timestamp: FieldPath = ""
    """The field of an outcome that holds its time, in the forms of `input.timestamp`; nothing: its record's timestamp
    counts. The time of an impression is that of `input.timestamp`."""

    @property
    def topics(self) -> list[str]:
        """Return the names of the topics that only a joiner uses."""
        return [self.impressions, self.outcomes, self.dead_letters]


class HttpSettings(Section):
    """Where metrics, health and the status page are served."""

    host: HostName = "0.0.0.0"  # noqa: S104  Prometheus and the kubelet come from outside the pod
    """The address to listen on; `::` is all addresses of IPv6 and IPv4."""
    port: Integer = Field(default=9400, ge=0, le=LARGEST_PORT)
    """The port to listen on; 0 is any free one. If none is set, the first free one of the hundred from 9400 on, so that
    several workers of a machine need no settings; one that is set is taken or refused. The event `started` names it."""

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
    """Replicas of the models that answer over HTTP: what `stream-apple serve` does. Workers look at none of it."""

    name: ModelName = ""
    """The name of the model in addresses, `/v1/models/NAME:predict`; nothing for `worker.group`. With a name, another
    group can take over and nobody who asks has to know: see `docs/comparing-models.md`."""
    follow: Literal["log", "snapshots"] = Field(default="log")
    """`log`: a replica learns each example as soon as the group has committed its prediction, and is behind by about
    `worker.commit_interval`. `snapshots`: it takes over the group's snapshots, and costs next to nothing, but is behind
    by up to `worker.snapshot_interval`."""
    host: HostName = Field(default="0.0.0.0")  # noqa: S104  clients are elsewhere
    """The address to listen on; `::` is all addresses of IPv6 and IPv4."""
    port: Integer = Field(default=8080, ge=0, le=LARGEST_PORT)
    """The port to listen on; 0 is any free one, which the event `serving` names."""
    max_body_bytes: Integer = Field(default=4_000_000, ge=1_000, le=1_000_000_000, json_schema_extra={"unit": "bytes"})
    """The largest body of a request; a larger one is answered with status 413."""
    max_instances: Integer = Field(default=1_000, ge=1, le=100_000, json_schema_extra={"unit": "instances"})
    """Most instances of a request; more are answered with status 413. They are scored in one go, and others wait."""
    max_lag: Duration = Field(default=10 * SECOND, ge=SECOND // 10, le=DAY)
    """A replica is ready while there is nothing that the group has committed longer ago and the replica has not
    learned."""

    def address(self, port: int | None = None) -> str:
        """Return the address for clients on this machine; `port` is what 0 has become."""
        return _local_address(self.host, self.port if port is None else port)


class OutputSettings(Section):
    """What a prediction tells, and in which format."""

    format: Literal["msgpack", "json", "avro"] = "msgpack"
    """The format of predictions: `msgpack`; `json`, for sinks and SQL engines; `avro` in Confluent's framing, which
    needs the section `registry`: there its schema is registered as that of `topics.predictions`."""
    probabilities: Literal["classes", "one", "all"] = "one"
    """`one`: a prediction has `probability`, that of label 1 (logistic loss) or of the class that it names (softmax).
    `all`: with softmax, `probabilities` besides, those of all classes in the order of their labels. `classes`: with
    softmax alone, as before there was this setting; a model of then goes on with it."""

    def told(self, loss: str) -> Literal["none", "one", "all"]:
        """Return which probabilities predictions of models with this loss have."""
        if loss == "softmax":
            return "all" if self.probabilities == "all" else "one"
        return "none" if loss == "squared" or self.probabilities == "classes" else "one"

    def identity(self, loss: str) -> dict[str, str]:
        """Return what the bytes of predictions depend on, without what is as it always was."""
        first, told = {"softmax": "one"}.get(loss, "none"), self.told(loss)
        found = {} if self.format == "msgpack" else {"format": str(self.format)}
        return found if told == first else found | {"probabilities": told}


class LimitSettings(Section):
    """What one example, and a run of bad ones, may cost."""

    max_features: Integer = Field(default=4096, ge=1, le=65536, json_schema_extra={"unit": "features"})
    """Features that an example may have as it arrives, without n-grams; more make it a dead letter."""
    max_features_per_example: Integer = field_of(DECLARED["max_features_per_example"])
    """Features of an example after expansion, which stops there. At least `max_features`; with `learner.ngrams`, as
    many times that as the longest n-gram has features."""
    max_record_bytes: Integer = Field(default=1_000_000, ge=1, le=100_000_000, json_schema_extra={"unit": "bytes"})
    """The largest value of a record; a larger one is a dead letter. The bounds of all outputs follow from it."""
    max_weight: Number = Field(default=1e6, gt=0, le=1e12)
    """The largest importance weight of an example; a larger one makes it a dead letter."""
    min_label: Number = Field(default=-1e9, ge=-1e18, le=1e18)
    """The smallest label; a smaller one makes a dead letter. Below `max_label`."""
    max_label: Number = Field(default=1e9, ge=-1e18, le=1e18)
    """The largest label; a larger one makes a dead letter."""
    max_reject_share: Number = Field(default=0.5, gt=0, le=1)
    """The worker stops with exit code 71 when more of a partition's last 10,000 records than this are dead letters."""
    max_consecutive_rejects: Integer = Field(default=1000, ge=1, json_schema_extra={"unit": "records"})
    """The worker stops with exit code 71 when more records of a partition than this, in a row, are dead letters."""

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
        """Where models are merged, the learner's defaults are those of models that can be."""
        if not isinstance(given, dict):
            return given
        merge, learner = given.get("merge"), given.get("learner", {})
        mode = merge.get("mode", "off") if isinstance(merge, dict) else getattr(merge, "mode", "off")
        return given | {"learner": mergeable(learner)} if mode != "off" and isinstance(learner, dict) else given

    @model_validator(mode="after")
    def _have_room(self) -> Self:
        longest = self.learner.options().longest_ngram
        most, needed = self.limits.max_features_per_example, longest * self.limits.max_features
        if longest > 1 and most < needed:
            raise ValueError(
                f"learner.ngrams, limits.max_features, limits.max_features_per_example: expected room for the n-grams "
                f"of any example, max_features_per_example of at least {longest} * max_features = {needed}, "
                f"found {most}"
            )
        return self

    @model_validator(mode="after")
    def _has_a_registry(self) -> Self:
        if self.output.format == "avro" and not self.registry:
            raise ValueError(
                "output.format, registry.url: expected the address of a registry for predictions in Avro, found none"
            )
        return self

    @model_validator(mode="after")
    def _can_be_merged(self) -> Self:
        if self.merging and (because := why_not_merged(self.learner.options())):
            raise ValueError(f"merge.mode = {self.merge.mode}, learner: {because}")
        return self

    @model_validator(mode="after")
    def _topics_are_different(self) -> Self:
        if self.merging:
            _check_different(self.topics.names(merging=True), "five")
        if self.joining:
            names = [*self.topics.names(merging=self.merging), *self.join.topics]
            _check_different(names, f"{len(names)}")
        return self

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

    @model_validator(mode="after")
    def _can_be_joined(self) -> Self:
        if not self.joining:
            return self
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
        known = self.input.label_map
        if known and default is not None and default not in known.values():
            raise ValueError(
                f"join.default_label: expected a number of input.label_map, one of "
                f"{', '.join(f'{number:g}' for number in known.values())}, or none, found {default:g}"
            )
        return self

    def model_settings(self) -> dict[str, dict[str, Any]]:
        """Return the settings that the model depends on: a snapshot made with others can't be continued."""
        settings: dict[str, dict[str, Any]] = self.model_dump(
            include={"epochs": True, "limits": True},
            exclude={"limits": {"max_reject_share", "max_consecutive_rejects"}},
        )
        mapped = self.input.identity() | ({"registry": True} if self.registry else {})
        others = {"input": mapped, "output": self.output.identity(self.learner.loss)}
        found = {"learner": self.learner.identity()} | settings
        return found | {section: identity for section, identity in others.items() if identity}

    def redacted(self) -> dict[str, dict[str, Any]]:
        """Return all settings in JSON types for a log, durations as text, secrets as `***`."""
        settings: dict[str, dict[str, Any]] = self.model_dump(mode="json")
        for section in ("kafka", "registry"):
            settings[section] = {name: shown(name, value) for name, value in settings[section].items()}
        return settings
