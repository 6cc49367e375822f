"""The section `input`: which fields of a record are what."""

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from stream_apple.config.section import Number, Section
from stream_apple.core.input.input_mapping import OWN_MESSAGE, InputMapping, zone_of
from stream_apple.errors import ConfigurationError


def _listed(value: object) -> object:
    if isinstance(value, str):
        value = [name.strip() for name in value.split(",") if name.strip()]
    return tuple(value) if isinstance(value, list) else value


def _pairs(value: object) -> object:
    if isinstance(value, str):
        pairs = (pair.rpartition("=") for pair in value.strip().strip("{}").split(",") if pair.strip())
        value = {label.strip(): number.strip() for label, _, number in pairs}
    return value


def _zone(name: str) -> str:
    try:
        zone_of(name)
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(f"no time zone: {name}") from error
    return name


def _text(pattern: str, expected: str, **facts: bool) -> Any:  # noqa: ANN401  a field of pydantic's
    return Field(pattern=pattern, json_schema_extra={"expected": expected, **facts})


_A_FIELD = "the path of a field, such as 'clicked' or 'user.clicked'"
_FIELDS = "paths of fields, or patterns of them, such as ['user.zip', 'debug.*']"
_LABELS = "a table from labels as they are written to numbers, such as { yes = 1, no = 0 }"

FieldPath = Annotated[str, _text(r"^[^\x00-\x1f]{0,200}$", f"{_A_FIELD}, or nothing for none")]
FeaturesPath = Annotated[str, _text(r"^[^\x00-\x1f]{1,200}$", f"{_A_FIELD}, or '*'")]
FieldPaths = Annotated[
    tuple[Annotated[str, Field(pattern=r"^[^\x00-\x1f]{1,200}$")], ...],
    BeforeValidator(_listed),
    Field(json_schema_extra={"expected": _FIELDS}),
]
LabelMap = Annotated[dict[str, Number], BeforeValidator(_pairs), Field(json_schema_extra={"expected": _LABELS})]
Separator = Annotated[str, _text(r"^[^\x00-\x1f=]{1,3}$", "1 to 3 characters without '='", expert=True)]
ZoneName = Annotated[
    str, AfterValidator(_zone), Field(json_schema_extra={"expected": "a time zone, such as 'Europe/Berlin'"})
]


class InputSettings(Section):
    """Which fields of a record are what. Without any of these settings a record is a message as `docs/wire-format.md`
    has it; with any of them, all that is said below about fields that become features holds.
    """

    label: FieldPath = OWN_MESSAGE.label
    """The field that holds the label: a number, or true or false (1 and 0), or a text that spells one of these; null
    and absent: the example is scored, not learned. Fields within others have paths: `user.clicked`."""
    label_map: LabelMap = Field(default_factory=dict)
    """Which number each label is that is no number, as in `{ yes = 1, no = 0 }`. A label that is not in it makes a dead
    letter."""
    weight: FieldPath = OWN_MESSAGE.weight
    """The field that holds the importance weight; 1 where it is absent."""
    id: FieldPath = OWN_MESSAGE.id
    """The field that comes back in the prediction: text, an integer or bytes."""
    timestamp: FieldPath = OWN_MESSAGE.timestamp
    """The field that holds the event time: milliseconds or seconds since 1970, or ISO 8601. A record without that field
    is a dead letter. Where this setting is empty, the record's own timestamp counts."""
    features: FeaturesPath = OWN_MESSAGE.features
    """The field whose map holds the features; `*`: every field that has no role here is a feature. Numbers are numbers;
    texts, true and false are categories; null, NaN and an empty text are absent. A map is a namespace, at any depth; a
    list of texts is a set of categories, a list of numbers a namespace with the features 0, 1, 2 and so on."""
    separator: Separator = OWN_MESSAGE.separator
    """What stands between the names of a path. A field `user.zip` and the field `zip` of a map `user` are the same
    feature."""
    ignore: FieldPaths = ()
    """Fields that are no features, by their path below `features`, or by a pattern: `debug.*`."""
    categories: FieldPaths = ()
    """Fields whose numbers are categories, such as codes and identifiers."""
    numbers: FieldPaths = ()
    """Fields whose texts spell numbers, and whose true and false are 1 and 0."""
    times: FieldPaths = ()
    """Fields that hold a time, in the forms of `timestamp`: they become the categories hour, weekday and month."""
    time_zone: ZoneName = OWN_MESSAGE.time_zone
    """The zone of the hours, weekdays and months of `times`."""
    unreadable: Literal["refuse", "leave_out"] = OWN_MESSAGE.unreadable
    """What becomes of a feature that can't be read (a list of maps, infinity, a text among `numbers` that spells none):
    `refuse` makes a dead letter of its record; `leave_out` learns from the others, and counts it in
    `stream_apple_features_left_out_total`."""

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
        """Return the settings that a model depends on, without those that are as they always were."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name in InputMapping._fields
            if (value := getattr(self, name)) != getattr(OWN_MESSAGE, name)
        }
