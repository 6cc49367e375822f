"""Makes the settings of models, and factories of models, from the configuration."""

import sys

from stream_apple.adapters.registry.schema_registry import registry_of
from stream_apple.config import Config
from stream_apple.core.batch import Limits
from stream_apple.learners.merging_port import Mergeable, check_mergeable
from stream_apple.records.message.decode import Decoder
from stream_apple.records.message.prediction_formats import PredictionFormat, avro_schema
from stream_apple.stream.model.partition_model import ModelFactory, ModelSettings, PartitionModel
from stream_apple.stream.model.reject_counter import RejectLimits

_ANY_REJECTS = RejectLimits(sys.maxsize, 1.0)


def settings_of(config: Config) -> ModelSettings:
    """Return the settings of models; ConfigurationError if they are to be merged, but can't be with these options."""
    limits = config.limits
    options = config.learner.options(limits.max_features_per_example)
    if config.merging:
        check_mergeable(options)
    registry = registry_of(config)
    predictions = PredictionFormat(config.output.probabilities_with(options.objective), config.output.format)
    if registry is not None and config.output.format == "avro":
        subject = f"{config.topics.predictions}-value"
        predictions = predictions._replace(schema=lambda: registry.registered(subject, avro_schema()))
    return ModelSettings(
        options,
        Limits(
            max_features=limits.max_features,
            max_record_bytes=limits.max_record_bytes,
            max_weight=limits.max_weight,
            min_label=limits.min_label,
            max_label=limits.max_label,
            binary=options.objective.binary,
            classes=options.classes,
        ),
        epoch_length_ms=config.epochs.length,
        max_ahead_ms=config.epochs.max_ahead,
        reject_limits=RejectLimits(limits.max_consecutive_rejects, limits.max_reject_share),
        merge_every=config.merge.every if config.merging else 0,
        mapping=config.input.mapping(),
        schemas=registry,
        predictions=predictions,
    )


def model_factory(topic: str, settings: ModelSettings, decoder: Decoder) -> ModelFactory:
    """Return a factory of models of these settings, on partitions of `topic`, that have learned nothing."""
    return lambda partition, lineage: PartitionModel(topic, partition, lineage, settings, decoder)


def onlooker_factory(config: Config, start: Mergeable | None = None) -> ModelFactory:
    """Return a factory of models for commands that only read: they accept any share of rejects, and skip digests.

    Only a worker judges how many rejects are too many, and that setting may have changed since.

    start  what models start from; needed by a caller that begins models, and does not only restore them
    """
    settings = settings_of(config)._replace(reject_limits=_ANY_REJECTS, start=start, each_digest=False)
    return model_factory(config.topics.examples, settings, settings.decoder())
