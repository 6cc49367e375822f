"""Models that learned elsewhere, in a worker or by `merge`: read from files or from Kafka, and used in Python.

Rows are read as the model's worker reads them, so their scores equal the worker's, to the bit.
"""

import threading
from collections.abc import Mapping, Sequence
from contextlib import closing
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from stream_apple.adapters.kafka.log_reader import KafkaLogs
from stream_apple.app.inspect import Inspected, to_file
from stream_apple.app.model_factories import settings_of
from stream_apple.app.model_files import open_model_file
from stream_apple.app.model_sources import sources_of
from stream_apple.config import Config, load
from stream_apple.core.batch import Batch
from stream_apple.errors import ConfigurationError
from stream_apple.learners.scores import Scores
from stream_apple.library.cells import unmasked
from stream_apple.library.featurizer import ROW, Featurizer
from stream_apple.library.online import check_lengths, probabilities_of
from stream_apple.library.tables import are_numbers, array_of, check_rows, maps_of, refuse_table, rows_of_maps
from stream_apple.monitoring.explanation import Contribution, explain_row, heaviest
from stream_apple.monitoring.inspection import view_model
from stream_apple.monitoring.monomials import Monomial
from stream_apple.monitoring.name_search import newest_names
from stream_apple.records.message.feature_names import Names
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.positions.lineage import SnapshotPointer
from stream_apple.stream.walk.moment import Moment
from stream_apple.stream.walk.rebuilding import rebuild

_SHOWN = 1000  # how many monomials' names are looked for in the newest records


class AsOf(NamedTuple):
    """Which model it is: that of a partition, after it had learned all records before `offset`.

    digest  32 hex digits: models with equal digests are equal, to the bit
    """

    topic: str
    partition: int
    offset: int
    digest: str


def load_model(source: str | Path | Config, partition: int | None = None, offset: int | None = None) -> "LearnedModel":
    """Return a model that a worker has learned.

    source     a file that `stream-apple inspect --save` or `stream-apple merge` has written; or the configuration of
               the worker, as a TOML file or a `Config`: then the model is read from Kafka
    partition  the partition whose model is wanted; needed with a configuration
    offset     the model as it was after it had learned all records before this one; None: as in its newest snapshot

    ConfigurationError if there is no such model, SnapshotError if it is damaged, GapError if records are gone that are
    needed to learn it again, BrokerError if Kafka does not answer.
    """
    partition, offset = _whole("partition", partition), _whole("offset", offset)
    if not isinstance(source, Config):
        if not isinstance(source, str | PathLike):
            raise ConfigurationError(f"expected the path of a file, or a Config, found {source!r}")
        path = Path(source)
        if path.suffix != ".toml":
            if partition is not None or offset is not None:
                raise ConfigurationError(
                    f"{path}: expected neither partition nor offset for a file, which holds one model"
                )
            opened = open_model_file(path)
            return LearnedModel(opened.model, opened.config, opened.names(), opened.saved.pointer)
        source = load(path)
    if partition is None:
        raise ConfigurationError("partition: expected the number of a partition, whose model it is, found None")
    model, pointer, names = read_from_kafka(source, partition, offset)
    return LearnedModel(model, source, names, pointer)


def read_from_kafka(config: Config, number: int, offset: int | None) -> tuple[PartitionModel, SnapshotPointer, Names]:
    """Return the model of a partition before `offset`, the pointer to its snapshot, and the names of its features.

    offset  None: the newest snapshot; else the model is learned again up to there, and the pointer names no snapshot

    Errors are those of `load_model`.
    """
    with closing(KafkaLogs(config)) as logs, closing(sources_of(config, logs)) as sources:
        committed = logs.committed_of(number)
        stored = sources.newest(number, committed)
        if offset is None:
            if stored.model is None or stored.metadata.snapshot is None:
                raise ConfigurationError(
                    f"expected a snapshot of group {config.worker.group} of partition {number}, found none: one is "
                    f"taken every worker.snapshot_interval, and when a worker stops; an offset has the model learned "
                    f"again"
                )
            model, pointer = stored.model, stored.metadata.snapshot
        else:
            model = rebuild(sources, stored, committed, Moment(number, offset))
            pointer = SnapshotPointer(model.next_offset, -1, -1, model.digest())
        names = newest_names(logs, model, committed.offset, settings_of(config).decoder(), _SHOWN)
    return model, pointer, names


def _whole(name: str, number: object) -> int | None:
    """Return the number; ConfigurationError unless it is None or a whole number from 0 on."""
    if number is None:
        return None
    if isinstance(number, bool) or not isinstance(number, SupportsIndex) or (found := number.__index__()) < 0:
        raise ConfigurationError(f"{name}: expected a whole number from 0 on, found {number!r}")
    return found


class LearnedModel:
    """A model as it was at one offset, which predicts and explains; it learns nothing more."""

    def __init__(self, model: PartitionModel, config: Config, names: Names, pointer: SnapshotPointer) -> None:
        self._model = model
        self._config = config
        self._names = names
        self._pointer = pointer
        self._lock = threading.Lock()  # scoring writes to the learner's scratch
        learner, mapping = model.learner, config.input.mapping()
        self.options = learner.options
        self.as_of = AsOf(model.topic, model.partition, model.next_offset, pointer.digest)
        self._featurizer = Featurizer(
            learner.options.wanted_columns(),
            mapping or ROW,
            own_message=mapping is None,
            names=names,
            limits=settings_of(config).limits,
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a LearnedModel can't be pickled or copied: save(path) writes it, and load_model(path) reads it"
        )

    def __repr__(self) -> str:
        topic, partition, offset, digest = self.as_of
        return f"<LearnedModel of {topic}-{partition} at offset {offset}, {self.options.method}, {digest[:8]}>"

    @property
    def digest(self) -> str:
        """A hash, 32 hex digits, of all that scores depend on, computed anew; it equals that of `as_of`."""
        return self._model.digest()

    def predict(self, X: Any) -> NDArray[np.float64]:  # noqa: ANN401, N803
        """Return what a worker would publish as `prediction` of each row, float64[n].

        That is the expected label (squared loss), the log-odds of label 1 (logistic), or the number of a class.

        X  a frame, a list of maps, an array or a sparse matrix; a map holds what a message has as `features`
        """
        return self._scored(X).predictions

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: ANN401, N803
        """Return the probability of each label: float64[n, 2], of -1 (or 0) and 1; of k classes float64[n, k]."""
        if self.options.objective.real_valued:
            raise ValueError(f"expected a model of classes, found one with loss {self.options.loss!r}")
        return probabilities_of(self._scored(X), self.options)

    def monomials(self, top: int = 100) -> list[Monomial]:
        """Return the `top` features that matter most, the heaviest first: `pandas.DataFrame` makes a table of them."""
        return heaviest(self._model.learner, self._names, top)

    def explain(self, x: Any, label: float | None = None) -> list[Contribution]:  # noqa: ANN401
        """Return what each feature adds to the score of one row, the largest in size first; they sum to the score.

        x      a map, or a table of one row
        label  for a model of classes: the class whose score is explained, by default the most probable one. A score is
               the logarithm of the class's probability, less the mean of these logarithms

        ValueError unless there is one row.
        """
        batch = self._batch(x)
        if len(batch.labels) != 1:
            raise ValueError(f"expected one row, found {len(batch.labels)}")
        with self._lock:
            return explain_row(self._model.learner, self._names, batch, label)

    def facts(self, top: int = 10) -> dict[str, Any]:
        """Return what `stream-apple inspect --json` says about the model."""
        return view_model(self._model, self._names, top, self._pointer).facts(top)

    def save(self, path: str | Path) -> None:
        """Write the model to a file for `load_model`, `inspect` and `merge`; ConfigurationError if that fails."""
        view = view_model(self._model, self._names, 1, self._pointer)
        pointer = self._pointer._replace(at=self._model.next_offset, digest=self._model.digest())
        to_file(Path(path), self._config, Inspected(self._model, view, self._names, pointer))

    def _scored(self, X: Any) -> Scores:  # noqa: ANN401, N803
        batch = self._batch(X)
        scores = Scores.empty(len(batch.labels), self.options.classes)
        with self._lock:
            self._model.learner.score_rows(batch, 0, len(batch.labels), scores)
        return scores

    def _batch(self, X: Any) -> Batch:  # noqa: ANN401, N803
        """Return X as rows; ValueError for a row of which the worker would make a dead letter."""
        batch = self._rows(X)
        check_lengths(batch, self._config.limits.max_features, "limits.max_features")
        return batch

    def _rows(self, X: Any) -> Batch:  # noqa: ANN401, N803
        X = unmasked(X)  # noqa: N806
        maps = [X] if isinstance(X, Mapping) else rows_of_maps(X)
        if isinstance(X, Sequence) and not X:
            maps = []
        if maps is not None:
            return self._featurizer.maps(maps)
        if isinstance(X, Sequence | np.ndarray):
            return self._array(array_of(X) if isinstance(X, Sequence) else X)
        if hasattr(X, "tocsr"):
            check_rows(X)
            return self._featurizer.matrix(X.tocsr())
        import narwhals.stable.v2 as nw

        try:
            frame = nw.from_native(X, eager_only=True)
        except TypeError:
            refuse_table(X)
        return self._featurizer.frame(frame)

    def _array(self, cells: NDArray[Any]) -> Batch:
        check_rows(cells)
        return self._featurizer.array(cells) if are_numbers(cells) else self._featurizer.maps(maps_of(cells))
