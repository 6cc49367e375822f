"""The settings, their defaults and bounds. The names are a contract with users, manifests and dashboards."""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from stream_apple.config.duration import DAY, HOUR, MINUTE, SECOND, Duration
from stream_apple.config.kafka import DEFAULTS, KafkaProperties
from stream_apple.config.secrets import shown


def _integer_from_text(value: object) -> object:
    return int(value) if isinstance(value, str) else value


def _number_from_text(value: object) -> object:
    return float(value) if isinstance(value, str) else value


def _names_of_gaps(value: object) -> object:
    if isinstance(value, str):
        value = [name.strip() for name in value.split(",") if name.strip()]
    return tuple(value) if isinstance(value, list) else value


# The environment and mounted files hold text only, so a number may come as text; nothing else is converted.
Integer = Annotated[int, BeforeValidator(_integer_from_text)]
Number = Annotated[float, BeforeValidator(_number_from_text), Field(allow_inf_nan=False)]

TopicName = Annotated[
    str,
    Field(
        pattern=r"^[a-zA-Z0-9._-]{1,249}$",
        json_schema_extra={"expected": "a topic name (1 to 249 of a-z A-Z 0-9 . _ -)"},
    ),
]
Identifier = Annotated[
    str,
    Field(
        pattern=r"^[a-zA-Z0-9._-]{1,200}$",
        json_schema_extra={"expected": "a name of 1 to 200 of a-z A-Z 0-9 . _ -"},
    ),
]
GapNames = Annotated[
    tuple[Annotated[str, Field(pattern=r"^[0-9]+@[0-9]+$")], ...],
    BeforeValidator(_names_of_gaps),
    Field(json_schema_extra={"expected": "gaps as partition@first-missing-offset, such as '3@12345'"}),
]
HostName = Annotated[
    str,
    Field(pattern=r"^[a-zA-Z0-9.:_-]+$", json_schema_extra={"expected": "a host name or address to listen on"}),
]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class TopicSettings(_Section):
    """The four topics; partition p of each belongs to partition p of `examples`."""

    examples: TopicName = "examples"
    predictions: TopicName = "predictions"
    dead_letters: TopicName = "dead-letters"
    models: TopicName = "models"

    @model_validator(mode="after")
    def _are_different(self) -> Self:
        names = list(self.model_dump().values())
        if len(set(names)) < len(names):
            raise ValueError(f"expected four different topics, found {', '.join(names)}")
        return self


class WorkerSettings(_Section):
    """One process of the consumer group."""

    group: Identifier = "stream-apple"
    id: Identifier = "worker-0"
    commit_interval: Duration = Field(default=500, ge=10, le=30 * SECOND)
    commit_records: Integer = Field(default=50_000, ge=1, le=10_000_000)
    snapshot_interval: Duration = Field(default=5 * MINUTE, ge=SECOND, le=DAY)
    fetch_records: Integer = Field(default=1_000, ge=1, le=100_000)
    on_stop: Literal["stay", "leave"] = "stay"
    accept_gap: GapNames = ()

    @property
    def transactional_id(self) -> str:
        """The same after every restart, so that a successor aborts what its predecessor left open."""
        # The whole cluster shares these ids: without the group, two deployments would fence each other.
        return f"{self.group}-{self.id}"

    @property
    def accepted_gaps(self) -> frozenset[tuple[int, int]]:
        """(partition, first missing offset) of each gap that may be left out of a model."""
        pairs = (name.split("@") for name in self.accept_gap)
        return frozenset((int(partition), int(offset)) for partition, offset in pairs)


class LearnerSettings(_Section):
    """What is learned, and how fast."""

    method: Literal["apple", "linear", "quadratic", "cubic"] = "apple"
    loss: Literal["squared", "logistic"] = "squared"
    bits: Integer = Field(default=18, ge=8, le=30)
    alpha: Number = Field(default=1.0, gt=0, le=2)
    learning_rate: Number = Field(default=0.5, gt=0, le=1000)


class EpochSettings(_Section):
    """Spans of event time after which the model grows."""

    length: Duration = Field(default=HOUR, ge=SECOND, le=366 * DAY)
    max_ahead: Duration = Field(
        default=7 * DAY,
        ge=1,
        le=3660 * DAY,
        description="how far past its partition's clock a timestamp may lie",
    )


class HttpSettings(_Section):
    """Where metrics, health and the status page are served."""

    host: HostName = "0.0.0.0"  # noqa: S104  Prometheus and the kubelet come from outside the pod
    port: Integer = Field(default=9400, ge=0, le=65535, description="0 = any free port")


class LimitSettings(_Section):
    """What one example, and a run of bad ones, may cost."""

    max_features: Integer = Field(default=4096, ge=1, le=65536, description="base features of an example")
    max_features_per_example: Integer = Field(default=65536, ge=1, le=1 << 24, description="after expansion")
    max_record_bytes: Integer = Field(default=1_000_000, ge=1, le=100_000_000)
    max_weight: Number = Field(default=1e6, gt=0)
    min_label: Number = -1e9
    max_label: Number = 1e9
    max_reject_share: Number = Field(default=0.5, gt=0, le=1)
    max_consecutive_rejects: Integer = Field(default=1000, ge=1)

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


class Config(_Section):
    """All settings of a process. Durations are whole milliseconds."""

    kafka: KafkaProperties = Field(default_factory=DEFAULTS.copy)
    topics: TopicSettings = TopicSettings()
    worker: WorkerSettings = WorkerSettings()
    learner: LearnerSettings = LearnerSettings()
    epochs: EpochSettings = EpochSettings()
    http: HttpSettings = HttpSettings()
    limits: LimitSettings = LimitSettings()

    def model_settings(self) -> dict[str, dict[str, Any]]:
        """The settings that the learned model depends on: a snapshot made with others can't be continued."""
        return self.model_dump(
            include={"learner": True, "epochs": True, "limits": True},
            exclude={"limits": {"max_reject_share", "max_consecutive_rejects"}},
        )

    def redacted(self) -> dict[str, dict[str, Any]]:
        """All settings in JSON types for a log, durations as text, secrets as `***`."""
        settings: dict[str, dict[str, Any]] = self.model_dump(mode="json")
        settings["kafka"] = {name: shown(name, value) for name, value in settings["kafka"].items()}
        return settings
