"""The learner with scikit-learn's interface: `AppleClassifier` and `AppleRegressor`.

`partial_fit` learns a stream, in the order given, with the bits of `evaluate` and of a worker. `fit` learns a set, see
`example_sets.py`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from stream_apple.core.batch import Batch
from stream_apple.learners.losses import LOGISTIC, SOFTMAX
from stream_apple.learners.options import CLASSES
from stream_apple.learners.port import LearnerOptions
from stream_apple.learners.scores import Scores
from stream_apple.library.cells import field_name, unmasked
from stream_apple.library.example_sets import as_set, in_scale
from stream_apple.library.featurizer import Featurizer, featurizer_of_rows
from stream_apple.library.online import BEGINNING, OnlineLearner, probabilities_of
from stream_apple.library.parameters import mapping_of, options_of, takes_options, truth, whole_number
from stream_apple.library.tables import are_numbers, array_of, check_rows, maps_of, rows_of_maps
from stream_apple.library.targets import checked_classes, checked_labels, checked_weights, classes_in
from stream_apple.monitoring.explanation import Contribution, explain_row, heaviest
from stream_apple.monitoring.monomials import Monomial

__all__ = ["AppleClassifier", "AppleRegressor"]

_OWN = {"epoch_examples": None, "passes": None, "shuffle": True, "random_state": None}
_ENOUGH = 5_000  # examples after which a second pass over a set would add little; see `passes`
_MOST_PASSES, _MOST_OF_MIXTURE = 20, 2  # a mixture learns fast, and more passes over splines would overfit


class _Apple(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """What both estimators have in common: rows become a batch, which is learned or scored."""

    epoch_examples: int | None
    passes: int | None
    shuffle: bool
    random_state: Any
    _columns: tuple[str, ...] | range | None = None
    """What columns are called by the model: a range of an array, which has no names; None of maps."""

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401  scikit-learn's
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags

    @property
    def n_parents_(self) -> int:
        """How many features and products are parents, which are multiplied with features."""
        check_is_fitted(self)
        return int(self._online.learner.census().parents[1:].sum())

    @property
    def progressive_loss_(self) -> float:
        """The mean loss of the predictions made before each example was learned."""
        check_is_fitted(self)
        return float(self._online.learner.progress.report("whole").loss)

    @property
    def linear_progressive_loss_(self) -> float:
        """The mean loss, likewise, of the linear predictor, which learns alongside."""
        check_is_fitted(self)
        return float(self._online.learner.progress.report("whole").linear_loss)

    def monomials(self, top: int = 100) -> list[Monomial]:
        """Return the `top` features and products that matter most: `pandas.DataFrame` makes a table of them."""
        check_is_fitted(self)
        return heaviest(self._online.learner, self._featurizer.names, top)

    def explain(self, X: Any) -> list[Contribution]:  # noqa: ANN401, N803  scikit-learn's
        """Return what each feature adds to the score of the only row of X, or of a map; they sum to the score.

        With more than two classes the score is that of the most probable class: the logarithm of its probability, less
        the mean of these logarithms. ValueError unless X has one row.
        """
        check_is_fitted(self)
        batch = self._rows([X] if isinstance(X, Mapping) else X, self._featurizer, reset=False)
        if len(batch.labels) != 1:
            raise ValueError(f"X: expected one row, found {len(batch.labels)}")
        with self._online.lock:
            return explain_row(self._online.learner, self._featurizer.names, batch)

    def end_epoch(self) -> Self:
        """End an epoch at once: features that matter are multiplied from now on."""
        check_is_fitted(self)
        self._online.end_epoch()
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return "_online" in vars(self)

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Let the model stay as it was if what is done in the block fails: a refused `fit` replaces no good model."""
        before = vars(self).copy()
        try:
            yield
        except BaseException:
            self.__dict__ = before
            raise

    def _begin(self, X: Any, y: NDArray[Any], options: LearnerOptions) -> Batch:  # noqa: ANN401, N803  scikit-learn's
        """Begin again with a new learner; return its first rows, X, of which y are the labels."""
        featurizer = featurizer_of_rows(options, mapping_of(self))
        batch = self._rows(X, featurizer, reset=True)
        check_consistent_length(batch.labels, y)
        self._featurizer, self._online = featurizer, OnlineLearner(options, whole_number(self, "epoch_examples"))
        return batch

    def _next_rows(self, X: Any, y: NDArray[Any], begin: Callable[[], Batch]) -> Batch:  # noqa: ANN401, N803  scikit-learn's
        """Return X, of which y are the labels, as further rows; as the first ones, which `begin` returns, if it is."""
        with BEGINNING:
            if not self.__sklearn_is_fitted__():
                return begin()
        batch = self._rows(X, self._featurizer, reset=False)
        check_consistent_length(batch.labels, y)
        return batch

    def _target(self, y: Any) -> NDArray[Any]:  # noqa: ANN401
        """Return the labels as a column; ValueError if there are none."""
        if y is None:
            raise ValueError(f"{type(self).__name__}: requires y to be passed, but the target y is None")
        labels: NDArray[Any] = column_or_1d(_as_array(y), warn=True)
        return labels

    def _rows(self, X: Any, featurizer: Featurizer, *, reset: bool) -> Batch:  # noqa: ANN401, N803  scikit-learn's
        """Return X as rows of a batch; sets or checks `n_features_in_` and `feature_names_in_`.

        A column has the name of the first table's column in its place: scikit-learn lets an array follow a frame, and
        what was learned of a name would be of no use for a number.
        """
        X = unmasked(X)  # noqa: N806
        maps = rows_of_maps(X)
        if maps is not None:
            if reset:  # the columns of a table that was learned before are no more
                self._columns = None
                for name in {"n_features_in_", "feature_names_in_"} & vars(self).keys():
                    delattr(self, name)
            return featurizer.maps(maps)
        frame = None if sparse.issparse(X) else _frame_of(X)
        if frame is not None:
            validate_data(self, X, reset=reset, skip_check_array=True)
            _check_some(frame.shape)
            own = tuple(map(field_name, frame.columns))
            if reset:
                self._columns = own
            known = self._columns is None or set(own) == set(self._columns)
            return featurizer.frame(frame, own if known else self._columns)
        names = None if reset or isinstance(self._columns, range) else self._columns
        cells = X if isinstance(X, np.ndarray) or sparse.issparse(X) else array_of(X)
        if sparse.issparse(X):
            rows = validate_data(
                self, X, reset=reset, accept_sparse="csr", ensure_all_finite="allow-nan", dtype=_FLOATS
            )
            batch = featurizer.matrix(rows, names)
        elif not _holds_numbers(cells, names):
            check_rows(cells)
            validate_data(self, cells, reset=reset, skip_check_array=True)
            _check_some(cells.shape)
            batch = featurizer.maps(maps_of(cells, names))
        else:
            cells = validate_data(self, X, reset=reset, ensure_all_finite="allow-nan", dtype=_FLOATS)
            batch = featurizer.array(cells, names)
        if reset:
            self._columns = range(self.n_features_in_)
        return batch

    def _learn_rows(self, batch: Batch, labels: NDArray[np.float64], weights: NDArray[np.float64]) -> None:
        self._online.learn(batch._replace(labels=labels, weights=weights))

    def _learn_set(self, batch: Batch, labels: NDArray[np.float64], sample_weight: Any) -> None:  # noqa: ANN401
        """Learn the examples as a set, or as a stream if `shuffle` is False."""
        weights = _weights(sample_weight, labels)
        if sample_weight is not None and not weights.any():
            raise ValueError("sample_weight: expected an example of a weight above 0, found that all weights are zero")
        shuffle = truth(self, "shuffle")
        batch = batch._replace(labels=labels, weights=in_scale(weights))
        seed = 0 if self.random_state is None else int(check_random_state(self.random_state).randint(1 << 31))
        number, passes, in_order = 0, 1, bool(self._online.options.ngrams)
        while number < passes:
            ordered = as_set(batch, seed + number, ordered=in_order) if shuffle else batch
            passes = self._passes(len(ordered.labels))
            self._online.learn(ordered)
            number += 1

    def _passes(self, examples: int) -> int:
        """Return how often `fit` learns so many examples."""
        if self.passes is None:
            most = _MOST_OF_MIXTURE if self._online.learner.options.mixed else _MOST_PASSES
            return max(1, min(most, -(-_ENOUGH // max(1, examples))))
        return whole_number(self, "passes", 1) or 1

    def _scored(self, X: Any) -> Scores:  # noqa: ANN401, N803  scikit-learn's
        check_is_fitted(self)
        return self._online.score(self._rows(X, self._featurizer, reset=False))


_FLOATS = (np.float64, np.float32)


@takes_options(loss="auto", **_OWN)
class AppleClassifier(ClassifierMixin, _Apple):  # type: ignore[misc]  # scikit-learn has no types
    """A classifier that learns online, and multiplies the features that matter while it learns.

    loss            "logistic" for two classes, "softmax" for any number; "auto": whichever fits the labels
    epoch_examples  examples of an epoch, at whose end products become features; None: epochs end after 100, 200, 400
                    ... examples; 0: only when `end_epoch` is called
    passes          how often `fit` learns each example; None: once, but fewer than 5,000 twice, or up to 20 times
                    without a mixture
    shuffle         `fit` takes the examples as a set: neither their order nor how equal ones are put together matters.
                    False: as a stream, in the order given, as `partial_fit` does
    random_state    seed of the order in which `fit` learns a set; None: the same order at each call

    All other parameters are options of the learner, with the names, defaults and bounds of the section `learner` of
    `docs/configuration.md`: `method`, `bits`, `learning_rate`, `discretise` ...
    `paper` has those of the section `learner.paper`, which need `mixture=False`, as in `{"selection": "ssm"}`.

    `categories`, `numbers`, `times`, `ignore` and so on are settings of the section `input`, whose rules say what cells
    become: numbers are numbers; texts, booleans and categories are categories; missing cells are absent.
    """

    loss: str

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: ANN401, N803  scikit-learn's
        """Learn the examples from the beginning; X is an array, a sparse matrix, a frame or a list of maps."""
        with self._all_or_nothing():
            y = self._checked(y)
            batch = self._begin_classes(X, y, np.unique(y))
            self._learn_set(batch, self._labels(y), sample_weight)
        return self

    def partial_fit(
        self,
        X: Any,  # noqa: ANN401, N803  scikit-learn's
        y: Any,  # noqa: ANN401
        classes: Any = None,  # noqa: ANN401
        sample_weight: Any = None,  # noqa: ANN401
    ) -> Self:
        """Learn further examples, in their order. The first call needs `classes`, all that there will be."""
        y = self._checked(y)
        weights = _weights(sample_weight, y)
        named = None if classes is None else _unique(classes)
        batch = self._next_rows(X, y, lambda: self._begin_classes(X, y, named))
        if named is not None and not np.array_equal(named, self.classes_):
            raise ValueError(f"classes: expected those of the first call, {self.classes_}, found {classes}")
        self._learn_rows(batch, self._labels(y), weights)
        return self

    def decision_function(self, X: Any) -> NDArray[np.float64]:  # noqa: ANN401, N803  scikit-learn's
        """Return the log-odds of the second class, float64[n]; with more classes log-probabilities, float64[n, k]."""
        scores = self._scored(X)
        if not self._online.options.classes:
            return scores.predictions
        found: NDArray[np.float64] = np.log(np.maximum(scores.all_probabilities, np.finfo(np.float64).tiny))
        return found[:, 1] - found[:, 0] if len(self.classes_) == 2 else found

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: ANN401, N803  scikit-learn's
        """Return the probability of each class, float64[n, k], in the order of `classes_`."""
        return probabilities_of(self._scored(X), self._online.options)

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: ANN401, N803  scikit-learn's
        """Return the most probable class of each row."""
        scores = self._scored(X)
        if self._online.options.classes:
            found: NDArray[Any] = self.classes_[scores.predictions.astype(np.int64)]
        else:
            found = self.classes_[(scores.predictions > 0.0).astype(np.int64)]
        return found

    def _checked(self, y: Any) -> NDArray[Any]:  # noqa: ANN401
        labels: NDArray[Any] = classes_in(self._target(y))
        check_classification_targets(labels)
        return labels

    def _begin_classes(self, X: Any, y: NDArray[Any], classes: NDArray[Any] | None) -> Batch:  # noqa: ANN401, N803  scikit-learn's
        """Begin again, as `_begin` does, with a learner of these classes, which are all that there will be."""
        if classes is None:
            raise ValueError("classes: expected all classes at the first call of partial_fit, found None")
        options = self._options(classes)
        _places(y, classes)  # before anything is begun
        batch = self._begin(X, y, options)
        self.classes_ = classes
        return batch

    def _options(self, classes: NDArray[Any]) -> LearnerOptions:
        """Return the learner's options for these classes; ValueError for fewer than two."""
        if len(classes) < 2:
            found = f"one class: {classes.tolist()}" if len(classes) else "no labels"
            raise ValueError(f"y: expected labels of at least 2 classes, found {found}")
        if len(classes) > CLASSES.high:
            raise ValueError(f"y: expected labels of at most {CLASSES.high:,} classes, found {len(classes):,}")
        fitting = LOGISTIC if len(classes) == 2 else SOFTMAX
        chosen = {"auto": fitting, LOGISTIC.name: LOGISTIC, SOFTMAX.name: SOFTMAX}.get(self.loss)
        if chosen is None:
            raise ValueError(f"loss: expected 'auto', 'logistic' or 'softmax', found {self.loss!r}")
        if chosen.binary and len(classes) > 2:
            raise ValueError(f"loss: expected 'softmax' for {len(classes)} classes, found 'logistic'")
        return options_of(self, loss=chosen.name, classes=len(classes) if chosen.multiclass else 0)

    def _labels(self, y: NDArray[Any]) -> NDArray[np.float64]:
        """Return labels as the learner has them: -1 and 1, or the numbers of classes."""
        places = _places(y, self.classes_)
        return places.astype(np.float64) if self._online.options.classes else np.where(places == 1, 1.0, -1.0)


@takes_options(**_OWN)
class AppleRegressor(RegressorMixin, _Apple):  # type: ignore[misc]  # scikit-learn has no types
    """A regressor that learns online, and multiplies the features that matter while it learns.

    It has the parameters of `AppleClassifier` but `loss`, which is always the squared loss. A prediction is never
    outside the range of 0 and the labels learned.
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: ANN401, N803  scikit-learn's
        """Learn the examples from the beginning; X is an array, a sparse matrix, a frame or a list of maps."""
        with self._all_or_nothing():
            y = self._checked(y)
            self._learn_set(self._begin(X, y, options_of(self, loss="squared")), y, sample_weight)
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: ANN401, N803  scikit-learn's
        """Learn further examples, in their order."""
        y = self._checked(y)
        weights = _weights(sample_weight, y)
        batch = self._next_rows(X, y, lambda: self._begin(X, y, options_of(self, loss="squared")))
        self._learn_rows(batch, y, weights)
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:  # noqa: ANN401, N803  scikit-learn's
        """Return the expected label of each row, float64[n]."""
        return self._scored(X).predictions

    def _checked(self, y: Any) -> NDArray[np.float64]:  # noqa: ANN401
        return checked_labels(self._target(y))


def _weights(sample_weight: Any, labels: NDArray[np.float64]) -> NDArray[np.float64]:  # noqa: ANN401
    """Return weights of examples, float64[n], of 1 if none are given; ValueError for wrong ones, and for more or fewer.

    scikit-learn's own check refuses weights that are all zero, as those of a part of a stream may be.
    """
    given: Any = np.asarray(1.0 if sample_weight is None else _as_array(sample_weight))
    weights = checked_weights("sample_weight", given if given.ndim else np.full(len(labels), given))
    if len(weights) != len(labels):
        raise ValueError(f"sample_weight: expected {len(labels)} weights, one for each row, found {len(weights)}")
    return weights


def _places(y: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.intp]:
    """Return the number of each label's class, int[n]; ValueError for labels that are none of the classes."""
    places = np.searchsorted(classes, y)
    wrong = classes[np.minimum(places, len(classes) - 1)] != y
    if wrong.any():
        raise ValueError(f"y: expected classes among {classes.tolist()}, found {np.unique(y[wrong]).tolist()}")
    return places


def _unique(classes: Any) -> NDArray[Any]:  # noqa: ANN401
    """Return the classes that the user has named, each once, in their order."""
    labels = checked_classes(classes)
    cells = np.empty(len(labels), object)
    cells[:] = labels
    classes_in(cells)
    found: NDArray[Any] = np.unique(np.asarray(labels))
    return found


def _as_array(column: Any) -> Any:  # noqa: ANN401
    """Return a series of any kind of frame as an array, and a masked array without its mask."""
    library = type(column).__module__.partition(".")[0]
    if library == "pyarrow":
        return np.asarray(column)  # its own `to_numpy` refuses to copy, which texts and truths need
    return column.to_numpy() if library == "polars" else unmasked(column)


def _frame_of(X: Any) -> Any:  # noqa: ANN401, N803
    """Return a frame of narwhals, if X is a frame of any kind, else None."""
    if isinstance(X, np.ndarray | list | tuple) or not hasattr(X, "columns"):
        return None
    import narwhals.stable.v2 as nw

    frame = nw.from_native(X, eager_only=True, pass_through=True)
    return frame if isinstance(frame, nw.DataFrame) else None


def _holds_numbers(cells: NDArray[Any], names: Sequence[str] | None) -> bool:
    """Return whether cells are numbers; truths are in an array, and under the names of a frame they are categories."""
    return are_numbers(cells) and (names is None or cells.dtype.kind != "b")


def _check_some(shape: tuple[int, ...]) -> None:
    """Raise ValueError for a table without rows or columns, in scikit-learn's words."""
    if shape[0] < 1:
        raise ValueError(f"Found array with 0 sample(s) (shape={shape}) while a minimum of 1 is required.")
    if shape[1] < 1:
        raise ValueError(f"Found array with 0 feature(s) (shape={shape}) while a minimum of 1 is required.")
