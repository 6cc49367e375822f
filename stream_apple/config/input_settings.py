"""The section `input`: which fields of a record are what."""

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from stream_apple.config.section import LISTED, Number, Section, expected_as, text_field, when_text
from stream_apple.errors import ConfigurationError
from stream_apple.records.mapping import OWN_MESSAGE, InputMapping, zone_of


def _pairs(text: str) -> dict[str, str]:
    pairs = [pair.rpartition("=") for pair in text.strip().strip("{}").split(",") if pair.strip()]
    named = {label.strip(): number.strip() for label, _, number in pairs}
    if len(named) < len(pairs):
        raise ValueError("each label once")
    return named


def _zone(name: str) -> str:
    try:
        zone_of(name)
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(f"no time zone: {name}") from error
    return name


_A_FIELD = "the path of a field, such as 'clicked' or 'user.clicked'"

FieldPath = Annotated[str, text_field(r"^[^\x00-\x1f]{0,200}$", f"{_A_FIELD}, or nothing for none")]
FeaturesPath = Annotated[str, text_field(r"^[^\x00-\x1f]{1,200}$", f"{_A_FIELD}, or '*'")]
FieldPaths = Annotated[
    tuple[Annotated[str, Field(pattern=r"^[^\x00-\x1f]{1,200}$")], ...],
    LISTED,
    expected_as("paths of fields, or patterns of them, such as ['user.zip', 'debug.*']"),
]
LabelMap = Annotated[
    dict[str, Number],
    when_text(_pairs),
    expected_as("a table from labels as they are written to numbers, each label once, such as { yes = 1, no = 0 }"),
]
Separator = Annotated[str, text_field(r"^[^\x00-\x1f=]{1,3}$", "1 to 3 characters without '='", expert=True)]
ZoneName = Annotated[str, AfterValidator(_zone), expected_as("a time zone, such as 'Europe/Berlin'")]


class InputSettings(Section):
    """Which field of a record is the label, the id and so on, and what becomes of the others. If none of these settings
    is set, a record is a message as in `docs/wire-format.md`; if any is, all that follows about features holds.
    """

    label: FieldPath = OWN_MESSAGE.label
    """The field that holds the label: a number, true or false (1 and 0), or a text that spells one of these. If it is
    null or absent, the example is scored, and not learned. A field within another one has a path: `user.clicked`."""
    label_map: LabelMap = Field(default_factory=dict)
    """The numbers of labels that are no numbers, as in `{ yes = 1, no = 0 }`. A record whose label is not in it is a
    dead letter."""
    weight: FieldPath = OWN_MESSAGE.weight
    """The field that holds the importance weight. Where it is absent, the weight is 1."""
    id: FieldPath = OWN_MESSAGE.id
    """The field whose value comes back in the prediction: text, an integer or bytes."""
    timestamp: FieldPath = OWN_MESSAGE.timestamp
    """The field that holds the event time: ISO 8601, RFC 2822, or a number of seconds, milliseconds, microseconds, or
    nanoseconds since 1970. A record without it is a dead letter. Empty: Kafka's timestamp of the record counts."""
    features: FeaturesPath = OWN_MESSAGE.features
    """The field whose map holds the features. `*`: every field that has no role here is a feature. Numbers stay
    numbers; texts, true and false become categories; null, NaN and an empty text mean that the feature is absent. A map
    is a namespace, at any depth. A list of texts is a set of categories; a list of numbers is a namespace with the
    features 0, 1, 2 and so on."""
    separator: Separator = OWN_MESSAGE.separator
    """The text between the names of a path. A field `user.zip` and the field `zip` of a map `user` are the same
    feature."""
    ignore: FieldPaths = ()
    """The fields that are no features, by their path below `features`, or by a pattern: `*_id`. A path stands for all
    that lies below it, too."""
    categories: FieldPaths = ()
    """The fields whose numbers are categories, such as codes and identifiers."""
    numbers: FieldPaths = ()
    """The fields whose texts spell numbers, and whose true and false are the numbers 1 and 0."""
    times: FieldPaths = ()
    """The fields that hold a time, in the forms of `timestamp`. Each becomes the categories hour, weekday and month.
    A time of day, such as 10:30, has an hour alone. The field of `timestamp` may be among them."""
    time_zone: ZoneName = OWN_MESSAGE.time_zone
    """The time zone of the hours, weekdays and months of `times`."""
    unreadable: Literal["refuse", "leave_out"] = OWN_MESSAGE.unreadable
    """What happens to a record with a feature that can't be read (a list of maps, infinity, a text among `numbers` that
    spells none). `refuse`: it is a dead letter. `leave_out`: its other features are learned, and
    `stream_apple_features_left_out_total` counts it."""

    @model_validator(mode="after")
    def _have_one_role_each(self) -> Self:
        paths = [path for path in (self.label, self.weight, self.id, self.timestamp, self.features) if path]
        twice = next((path for path in paths if paths.count(path) > 1), None)
        if twice is not None:
            raise ValueError(
                f"expected another field for each of label, weight, id, timestamp and features, found {twice!r} twice"
            )
        return self

    def mapping(self) -> InputMapping | None:
        """Return the mapping; None if records are messages of the product's own."""
        found = InputMapping(**{name: getattr(self, name) for name in InputMapping._fields})
        return None if found == OWN_MESSAGE else found

    def check_own_messages(self, instead: str) -> None:
        """Raise ConfigurationError if workers would not read messages of the product's own, which a command sends.

        instead  what the user can do about it
        """
        if self.mapping() is not None:
            raise ConfigurationError(
                "expected no section `input`: what is sent here are messages of the product's own, which a worker with "
                f"such a mapping does not read; {instead}"
            )

    def identity(self) -> dict[str, Any]:
        """Return the settings that a model depends on, in JSON types."""
        return {
            name: list(value) if isinstance(value := getattr(self, name), tuple) else value
            for name in InputMapping._fields
        }
