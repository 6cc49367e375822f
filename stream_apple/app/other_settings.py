"""Finds the settings of a stored model that differ from those of a configuration.

A model's fingerprint is a digest over its settings: it shows that they differ, but not how. The snapshot says which
options the learner had. For the other settings, combinations are tried until the fingerprint matches: with the default
instead of the configured value, and for the length of an epoch with the length that the model's clock suggests. Of
[input], one setting at a time is tried, or all of them together; of [output] all values.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple, get_args

from stream_apple.config import Config, EpochSettings, LearnerSettings, LimitSettings, OutputSettings
from stream_apple.config.duration import DAY, HOUR, MINUTE, SECOND, format_duration
from stream_apple.config.input_settings import InputSettings
from stream_apple.config.section import Section
from stream_apple.core.event_time import EpochClock
from stream_apple.stream.positions.lineage import STARTED_FROM, Lineage, Provenance
from stream_apple.stream.snapshots.blocks import unpacked
from stream_apple.stream.snapshots.codec import StoredManifest

_FEATURES = "max_features_per_example"


class _Difference(NamedTuple):
    """A setting with its value in the model, and in the configuration."""

    name: str
    stored: object
    configured: object

    def __str__(self) -> str:
        stored, here = (
            "nothing"
            if value is None
            else format_duration(value)
            if self.name.startswith("epochs.") and isinstance(value, int)
            else repr(value)
            for value in (self.stored, self.configured)
        )
        return f"{self.name} is {stored} in the model and {here} here"


_Way = tuple[Any, list[_Difference]]
"""A section as it may have been, and in what that differs from the one that is configured."""


def differing_settings(config: Config, partition: int, stored: Lineage, manifest: StoredManifest) -> str:
    """Return a text with each setting that differs and both values, and with a note if others can't be found out.

    stored    the model's lineage, by its committed offset's metadata
    manifest  of its snapshot
    """
    provenance = Provenance.of(config)
    try:
        features = int(manifest.options[_FEATURES])
        learner = LearnerSettings.of(manifest.options)
    except (ValueError, TypeError, LookupError, AttributeError):
        return "the options of its learner can't be read from its snapshot"
    limits = config.limits.model_copy(update={_FEATURES: features})
    found = [*_differences("learner", learner, config.learner), *_differences("limits", limits, config.limits)]
    ways = _ways(config, provenance, limits, manifest)
    for way in sorted(product(*ways.values()), key=lambda way: sum(len(differences) for _, differences in way)):
        sections = dict(zip(ways, (section for section, _ in way), strict=True))
        started = sections.pop(STARTED_FROM)
        settings = config.model_copy(update={"learner": learner, **sections}).model_settings() | started
        made = provenance._replace(settings=settings).lineage(partition, stored.start, stored.gaps, stored.skips)
        if made.model == stored.model:
            return ", ".join(map(str, [*found, *(each for _, differences in way for each in differences)]))
    rest = (
        "settings of [epochs], [limits], [input], [registry] or [output], or worker.from_model, that its snapshot does "
        "not tell"
    )
    return ", ".join([*map(str, found), rest])


def _ways(
    config: Config, provenance: Provenance, limits: LimitSettings, manifest: StoredManifest
) -> dict[str, list[_Way]]:
    """Return for each section, and for the file to start from, what it may have been when the model was made."""
    epochs = {name: [default] for name, default in EpochSettings()}
    epochs["length"] += _lengths(manifest)
    of_model = {name: [default] for name, default in LimitSettings() if name in provenance.settings["limits"]}
    starts: list[_Way] = [({}, [])]
    if STARTED_FROM in provenance.settings:
        starts = [
            ({STARTED_FROM: provenance.settings[STARTED_FROM]}, []),
            ({}, [_Difference("worker.from_model", None, config.worker.from_model)]),
        ]
    own, default = InputSettings(), InputSettings().identity()
    mapped = {name: value for name, value in config.input.identity().items() if value != default[name]}
    inputs: list[_Way] = [(config.input, [])]
    for name, value in mapped.items():
        changed = config.input.model_copy(update={name: getattr(own, name)})
        inputs.append((changed, [_Difference(f"input.{name}", getattr(own, name), value)]))
    if len(mapped) > 1:
        inputs.append((own, [_Difference("input", None, mapped)]))
    has, other = ("set", None) if config.registry else (None, "set")
    registry = {"url": other} if other else {}
    return {
        "epochs": _variants("epochs", config.epochs, epochs),
        "limits": _variants("limits", limits, of_model | {_FEATURES: []}),
        STARTED_FROM: starts,
        "input": inputs,
        "registry": [(config.registry, []), (registry, [_Difference("registry.url", other, has)])],
        "output": _variants(
            "output",
            config.output,
            {name: get_args(each.annotation) for name, each in OutputSettings.model_fields.items()},
        ),
    }


def _variants(name: str, configured: Section, values: Mapping[str, Sequence[object]]) -> list[_Way]:
    """Return a section with each combination of what is configured and these values of its settings."""
    choices = (dict.fromkeys((getattr(configured, key), *others)) for key, others in values.items())
    sections = [configured.model_copy(update=dict(zip(values, each, strict=True))) for each in product(*choices)]
    return [(section, _differences(name, section, configured)) for section in sections]


def _differences(name: str, stored: Section, configured: Section) -> list[_Difference]:
    found: list[_Difference] = []
    for key in type(configured).model_fields:
        values = getattr(stored, key), getattr(configured, key)
        if all(isinstance(each, Section) for each in values):
            found += _differences(f"{name}.{key}", *values)
        elif values[0] != values[1]:
            found.append(_Difference(f"{name}.{key}", *values))
    return found


def _lengths(manifest: StoredManifest) -> list[int]:
    """Return the roundest length of an epoch, in ms, that agrees with the model's clock and epoch, if there is one."""
    clock = EpochClock(1, 1)
    state = unpacked(manifest.arrays).get("clock")
    if state is None or state.shape != clock.state.shape or state.dtype != clock.state.dtype:
        return []
    clock.state[:] = state
    if clock.epoch <= 0 or clock.watermark_ms <= 0:
        return []
    # The epoch is the clock divided by the length, rounded down.
    low, high = clock.watermark_ms // (clock.epoch + 1) + 1, clock.watermark_ms // clock.epoch
    for unit in (DAY, HOUR, MINUTE, SECOND):
        if 0 < (length := high // unit * unit) >= low:
            return [length]
    return []
