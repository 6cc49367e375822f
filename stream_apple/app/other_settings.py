"""Finds the settings of a stored model that differ from those of a configuration.

A model's fingerprint is a digest over its settings: it shows that they differ, but not how. The snapshot says which
options the learner had. For the other settings, combinations are tried until the fingerprint matches: with the default
in place of the configured value, and for the length of an epoch with the length that the model's clock suggests. Of
[input], one setting at a time is tried, or none of them at all; of [output] all there are.
"""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, NamedTuple, get_args

from stream_apple.config import Config, EpochSettings, LearnerSettings, LimitSettings, OutputSettings
from stream_apple.config.duration import DAY, HOUR, MINUTE, SECOND, format_duration
from stream_apple.config.section import Section
from stream_apple.core.event_time import EpochClock
from stream_apple.core.input.input_mapping import OWN_MESSAGE
from stream_apple.core.learner.options import DECLARED, FIRST
from stream_apple.stream.positions.lineage import STARTED_FROM, Lineage, Provenance
from stream_apple.stream.snapshots.blocks import unpacked
from stream_apple.stream.snapshots.codec import StoredManifest

_Settings = dict[str, Any]
_FEATURES, _PENDING = "max_features_per_example", "pending_labels"
_FIRST = {name: value for name, value in FIRST.items() if DECLARED[name].default is None}
"""The values of the time before an option existed, of those whose default depends on other options."""
_INPUT, _REGISTRY = "input", "registry"
"""A section of a model's settings, and its entry that says that a schema registry is asked."""


_SHOWN = {STARTED_FROM: "worker.from_model", f"{_INPUT}.{_REGISTRY}": "registry.url"}
"""What is called otherwise among a model's settings -> its name in the configuration."""


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


def differing_settings(config: Config, partition: int, stored: Lineage, manifest: StoredManifest) -> str:
    """Return a text with each setting that differs and both values, and with a note if others can't be found out.

    stored    the model's lineage, by its committed offset's metadata
    manifest  of its snapshot
    """
    provenance = Provenance.of(config)
    try:
        features = int(manifest.options[_FEATURES])
        named = {name: value for name, value in manifest.options.items() if name in LearnerSettings.model_fields}
        # An option that the manifest lacks has the value of the time before it existed, not today's default.
        learner = LearnerSettings.model_validate(_FIRST | named)
        if learner.options().mixed:  # others are named without it if it is the default
            learner = LearnerSettings.model_validate(_FIRST | {_PENDING: FIRST[_PENDING]} | named)
    except (ValueError, TypeError, LookupError, AttributeError):
        return "the options of its learner can't be told: a newer version of stream_apple has made it"
    found = [_Difference(f"learner.{name}", *both) for name, both in _differing(learner, config.learner)]
    if features != config.limits.max_features_per_example:
        found.append(_Difference(f"limits.{_FEATURES}", features, config.limits.max_features_per_example))
    for others, output in product(_others(config, provenance, manifest), _outputs(config)):
        settings: _Settings = {_INPUT: {}, **provenance.settings, "learner": learner.identity()}
        settings["limits"] = settings["limits"] | {_FEATURES: features}
        settings["output"] = output.identity(learner.loss)
        for difference in others:
            section, _, key = difference.name.partition(".")
            if section == _INPUT:
                settings[section] = _input_made_with(settings[section], difference)
            else:
                settings[section] = settings[section] | {key: difference.stored} if key else difference.stored
        settings = {name: value for name, value in settings.items() if value not in (None, {})}
        made = provenance._replace(settings=settings).lineage(partition, stored.start, stored.gaps, stored.skips)
        if made.model == stored.model:
            shown = [each._replace(name=_SHOWN.get(each.name, each.name)) for each in others]
            shown += [_Difference(f"output.{name}", *both) for name, both in _differing(output, config.output)]
            return ", ".join(map(str, [*found, *shown]))
    rest = (
        "settings of [epochs], [limits], [input], [registry] or [output], or worker.from_model, that its snapshot does "
        "not tell"
    )
    return ", ".join([*map(str, found), rest])


def _others(config: Config, provenance: Provenance, manifest: StoredManifest) -> Iterator[list[_Difference]]:
    """Yield each combination of differences that the other settings may have, those with the fewest first."""
    choices = [
        [_Difference(f"{section}.{key}", value, here) for value in dict.fromkeys((here, default, *more))]
        for section, defaults, clock in (
            ("epochs", EpochSettings(), _lengths(manifest)),
            ("limits", LimitSettings(), {}),
        )
        for key, here in provenance.settings[section].items()
        if key != _FEATURES
        for default, more in [(getattr(defaults, key), clock.get(key, []))]
    ]
    if STARTED_FROM in provenance.settings:
        here = config.worker.from_model
        choices.append([_Difference(STARTED_FROM, here, here), _Difference(STARTED_FROM, None, here)])
    mapped = provenance.settings.get(_INPUT, {})
    names = [name for name in mapped if name != _REGISTRY]
    alone = [_Difference(f"{_INPUT}.{name}", getattr(OWN_MESSAGE, name), mapped[name]) for name in names]
    configured = {name: mapped[name] for name in names}
    whole = [_Difference(_INPUT, None, configured)] if len(names) > 1 else []
    choices.append([_Difference(_INPUT, configured, configured), *alone, *whole])
    has, other = ("set", None) if mapped.get(_REGISTRY) else (None, "set")
    choices.append([_Difference(f"{_INPUT}.{_REGISTRY}", has, has), _Difference(f"{_INPUT}.{_REGISTRY}", other, has)])
    ways = [[each for each in way if each.stored != each.configured] for way in product(*choices)]
    yield from sorted(ways, key=len)


def _outputs(config: Config) -> list[OutputSettings]:
    """Return each section [output] that there may be, those with the fewest differences first."""
    names = OutputSettings.model_fields
    values = [get_args(each.annotation) for each in names.values()]
    every = [OutputSettings.model_validate(dict(zip(names, way, strict=True))) for way in product(*values)]
    return sorted(every, key=lambda each: len(_differing(each, config.output)))


def _differing(stored: Section, configured: Section) -> list[tuple[str, tuple[object, object]]]:
    """Return name and both values of each setting that differs."""
    both = {name: (getattr(stored, name), getattr(configured, name)) for name in type(configured).model_fields}
    return [(name, values) for name, values in both.items() if values[0] != values[1]]


def _input_made_with(configured: Mapping[str, Any], difference: _Difference) -> _Settings:
    """Return the section [input] of a model's settings, which has no defaults, with this difference."""
    key = difference.name.removeprefix(f"{_INPUT}.")
    if key == _REGISTRY and difference.stored:
        return {**configured, _REGISTRY: True}
    gone = {name for name in configured if name != _REGISTRY} if key == _INPUT else {key}
    return {name: value for name, value in configured.items() if name not in gone}


def _lengths(manifest: StoredManifest) -> Mapping[str, list[int]]:
    """Return the roundest length of an epoch, in ms, that agrees with the model's clock and epoch, if there is one."""
    clock = EpochClock(1, 1)
    state = unpacked(manifest.arrays).get("clock")
    if state is None or state.shape != clock.state.shape or state.dtype != clock.state.dtype:
        return {}
    clock.state[:] = state
    if clock.epoch <= 0 or clock.watermark_ms <= 0:
        return {}
    # The epoch is the clock divided by the length, rounded down.
    low, high = clock.watermark_ms // (clock.epoch + 1) + 1, clock.watermark_ms // clock.epoch
    for unit in (DAY, HOUR, MINUTE, SECOND):
        if 0 < (length := high // unit * unit) >= low:
            return {"length": [length]}
    return {}
