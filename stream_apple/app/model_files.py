"""Model files: opened with the settings that stand in them, and merged into one.

Whoever merges, or only looks, needs no broker: a file has all that its model depends on.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from stream_apple.app.models import onlooker_factory
from stream_apple.config import Config
from stream_apple.core.codec.feature_names import Names
from stream_apple.core.learner.merging.merge import MergeCounts, Parents, adopt, merge
from stream_apple.core.learner.merging.mergeable import check_alike, check_mergeable, mergeable_of
from stream_apple.errors import ConfigurationError, SnapshotError
from stream_apple.runtime.lineage import STARTED_FROM, Provenance, SnapshotPointer
from stream_apple.runtime.partition_model import PartitionModel
from stream_apple.runtime.snapshots.model_file import MergedFrom, SavedModel, model_file_of, read_model_file


class OpenedModel(NamedTuple):
    """A saved model, restored, and the configuration that its file's settings make, on its topic."""

    saved: SavedModel
    config: Config
    model: PartitionModel

    def names(self) -> Names:
        """Those of its features."""
        found = Names()
        found.add(self.saved.names.items())
        return found


def open_model_file(path: Path) -> OpenedModel:
    """The model in a file; SnapshotError if the file is damaged, ConfigurationError if it can't be read."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{path}: expected a readable file, found: {error.strerror}") from error
    return opened_model(content, path)


def opened_model(content: bytes, path: Path) -> OpenedModel:
    """The model in a file of this content; errors as of `open_model_file`."""
    saved = read_model_file(content, str(path))
    try:
        config = Config.model_validate(_sections(saved))
    except ValueError as error:
        raise SnapshotError(f"{path}: expected settings of this version of stream_apple, found: {error}") from error
    config = config.model_copy(update={"topics": config.topics.model_copy(update={"examples": saved.topic})})
    start, _, gaps, skips = saved.lineage
    provenance = Provenance.of(config)
    if STARTED_FROM in saved.settings:
        settings = {**provenance.settings, STARTED_FROM: saved.settings[STARTED_FROM]}
        provenance = provenance._replace(settings=settings)
    lineage = provenance.lineage(saved.partition, start, gaps, skips)
    if lineage != saved.lineage:
        raise SnapshotError(
            f"{path}: expected model {saved.lineage.model}, found that its settings are those of {lineage.model}: "
            f"another version of stream_apple wrote it"
        )
    model = onlooker_factory(config)(saved.partition, lineage)
    try:
        saved.restore(model)
    except SnapshotError as error:
        raise SnapshotError(f"{path}: {error}") from error
    return OpenedModel(saved, config, model)


def merge_model_files(paths: Sequence[Path], target: Path, parents: Parents) -> tuple[MergeCounts, str]:
    """Write what the models in these files become, in their order; what became of monomials, and the digest.

    The file has the first one's settings, and says of what it was made. Its model has learned no example: counts,
    losses and the clock begin anew, and what an epoch's end would look at again of the latest examples.

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
    merged = merge([mergeable_of(each.model.learner) for each in opened], parents=parents)
    lineage = Provenance.of(first.config).lineage(first.saved.partition, 0)
    model = onlooker_factory(first.config)(first.saved.partition, lineage)
    adopt(model.learner, merged.model, included=True, roster_size=len(opened))
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
    content = model_file_of(model, first.saved.group, _sections(first.saved), pointer, names, made_of)
    write_model_file(target, content)
    return merged.counts, pointer.digest


def _sections(saved: SavedModel) -> dict[str, dict[str, Any]]:
    """The settings without the file that the model started from, whose content is not needed any more."""
    return {name: section for name, section in saved.settings.items() if name != STARTED_FROM}


def write_model_file(path: Path, content: bytes) -> None:
    """Write it whole, or leave what was there; ConfigurationError if it can't be written."""
    unfinished = path.with_name(f"{path.name}.unfinished")
    try:
        unfinished.write_bytes(content)
        unfinished.replace(path)
    except OSError as error:
        raise ConfigurationError(f"{path}: expected a file that can be written, found: {error.strerror}") from error
