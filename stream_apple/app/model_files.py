"""Model files: opened with the settings that they contain, and merged into one.

This needs no broker, as a file has all that its model depends on.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from stream_apple.app.model_factories import onlooker_factory, settings_of
from stream_apple.app.other_settings import differing_settings
from stream_apple.config import Config, config_of
from stream_apple.config.memory import check_models_fit, memory_limit
from stream_apple.errors import ConfigurationError, ModelError, SnapshotError
from stream_apple.learners.merging_port import MergeCounts, Parents, check_alike, check_mergeable
from stream_apple.learners.port import LearnerOptions
from stream_apple.learners.state import check_finite
from stream_apple.learners.systems import merging_of, ngrams_of
from stream_apple.records.message.feature_names import Names
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.positions.lineage import STARTED_FROM, Provenance, SnapshotPointer, started_from
from stream_apple.stream.snapshots.codec import read_stored_manifest
from stream_apple.stream.snapshots.model_file import MergedFrom, SavedModel, model_file_of, read_model_file
from stream_apple.untrusted import UnreadableFileError, read_file
from stream_apple.whole_files import whole_file


class OpenedModel(NamedTuple):
    """A saved model, restored, and the configuration that its file's settings and topic make."""

    saved: SavedModel
    config: Config
    model: PartitionModel

    def names(self) -> Names:
        """Return the names of the model's features, by key."""
        found = Names(ngrams=ngrams_of(self.model.learner.options))
        found.add(self.saved.names.items())
        return found


def open_model_file(path: Path) -> OpenedModel:
    """Return the model in a file; SnapshotError if the file is damaged, ConfigurationError if it can't be read."""
    return opened_model(read_model_bytes(path), path)


def read_model_bytes(path: Path) -> bytes:
    """Return the content of a file, which has to fit into memory; ConfigurationError if it can't be read."""
    limit = memory_limit()
    try:
        return read_file(path, sys.maxsize if limit is None else limit.bytes)
    except UnreadableFileError as error:
        raise ConfigurationError(str(error)) from error


def opened_model(content: bytes, path: Path, expected: LearnerOptions | None = None) -> OpenedModel:
    """Return the model in a file of this content; it raises what `open_model_file` does.

    expected  the options that the model must have; ValueError, before memory is taken for it, if it has others
    """
    saved = read_model_file(content, str(path))
    try:
        config = config_of(saved.settings.sections(), str(path))
        options = settings_of(config).options
    except (ConfigurationError, ValueError) as error:
        raise SnapshotError(f"{path}: expected settings of this version of stream_apple: {error}") from error
    if expected is not None:
        check_alike([expected, options])
    check_models_fit(options, 1)
    config = config.model_copy(update={"topics": config.topics.model_copy(update={"examples": saved.topic})})
    start, _, gaps, skips = saved.lineage
    provenance = Provenance.of(config)
    settings = {**provenance.settings, "input": {**provenance.settings["input"], "registry": saved.settings.registry}}
    if saved.settings.from_model is not None:
        settings[STARTED_FROM] = started_from(saved.settings.from_model.sha256)
    lineage = provenance._replace(settings=settings).lineage(saved.partition, start, gaps, skips)
    if lineage != saved.lineage:
        raise SnapshotError(
            f"{path}: expected the settings of model {saved.lineage.model}, found those of {lineage.model}: they were "
            f"changed in the file, or another version of stream_apple wrote it{_told(config, saved)}"
        )
    model = onlooker_factory(config)(saved.partition, lineage)
    try:
        saved.restore(model)
        check_finite(model.learner.state.rows)
    except (SnapshotError, ModelError) as error:
        raise SnapshotError(f"{path}: {error}") from error
    return OpenedModel(saved, config, model)


def _told(config: Config, saved: SavedModel) -> str:
    """Return a text that says which settings of a file are not its model's; "" if that can't be found out."""
    try:
        manifest = read_stored_manifest(saved.messages[-1] if saved.messages else None)
    except SnapshotError:
        return ""
    return f": {differing_settings(config, saved.partition, saved.lineage, manifest)}"


def merge_model_files(paths: Sequence[Path], target: Path, parents: Parents) -> tuple[MergeCounts, str]:
    """Merge the models in these files, in their order, to `target`; return the counts of monomials, and its digest.

    The new file has the settings of the first, and names the models that it was made of. Its model has learned no
    example: counts, losses and the clock begin anew, and the examples that an epoch's end looks at again are left out.
    ConfigurationError for models of different options, for those that can't be merged, and for files that can't be
    read or written; SnapshotError for damaged ones.
    """
    opened = [open_model_file(path) for path in paths]
    first = opened[0]
    for path, each in zip(paths, opened, strict=True):
        check_mergeable(each.model.learner.options)
        try:
            check_alike([first.model.learner.options, each.model.learner.options])
        except ValueError as error:
            raise ConfigurationError(f"{paths[0]} and {path}: {error}") from error
    merging = merging_of(first.model.learner.options)
    merged = merging.merge([each.model.learner for each in opened], parents=parents)
    lineage = Provenance.of(first.config).lineage(first.saved.partition, 0)
    model = onlooker_factory(first.config)(first.saved.partition, lineage)
    merging.adopt(model.learner, merged.model)
    names = Names()
    for each in opened:
        names.add(each.saved.names.items())
    made_of = tuple(
        MergedFrom(
            saved.group, saved.topic, saved.partition, saved.lineage.model, saved.pointer.at, saved.pointer.digest
        )
        for saved in (each.saved for each in opened)
    )
    pointer = SnapshotPointer(0, -1, -1, model.digest())
    # The merged model has neither started from the first one's file nor read records with a schema.
    settings = {**first.saved.settings.sections(), "registry": False}
    content = model_file_of(model, first.saved.group, settings, pointer, names, made_of)
    write_model_file(target, content)
    return merged.counts, pointer.digest


def write_model_file(path: Path, content: bytes) -> None:
    """Write the whole file, or leave the old one; ConfigurationError if it can't be written."""
    with whole_file(path) as unfinished:
        unfinished.write_bytes(content)
