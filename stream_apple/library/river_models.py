"""The learner with River's interface: an example is a map of names to values, and comes alone or in a frame.

A frame is learned row by row, so `learn_many` and `learn_one` make the same model, to the bit.
"""

import inspect
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray
from river import base

from stream_apple.core.batch import Batch
from stream_apple.learners.options import CLASSES
from stream_apple.learners.port import LearnerOptions
from stream_apple.library.cells import is_missing
from stream_apple.library.event_times import Time, milliseconds_of, span_of
from stream_apple.library.featurizer import featurizer_of_rows
from stream_apple.library.one_row import OneRow
from stream_apple.library.online import BEGINNING, OnlineLearner, probabilities_of
from stream_apple.library.parameters import mapping_of, options_of, takes_options, truth, whole_number
from stream_apple.library.tables import refuse_table
from stream_apple.library.targets import checked_classes, checked_label, checked_labels, checked_weight, checked_weights
from stream_apple.monitoring.explanation import Contribution, explain_row, heaviest
from stream_apple.monitoring.monomials import Monomial

__all__ = ["AppleClassifier", "AppleRegressor"]

_INTEGERS = (int, np.integer)  # `labels.max() + 1` is one of NumPy


class _Apple(base.Estimator):
    """What both models have in common. The learner is made when it is first needed."""

    epoch_examples: int | None
    epoch_length: str | timedelta | None
    sort_names: bool

    def __init__(self, **parameters: Any) -> None:  # noqa: ANN401  replaced by `takes_options`
        raise NotImplementedError

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self)).parameters
        # Texts are compared, as arrays have no truth.
        shown = ((name, repr(value)) for name, value in self._get_params().items())
        changed = (f"{name}={value}" for name, value in shown if value != repr(defaults[name].default))
        return f"{type(self).__name__}({', '.join(changed)})"

    def end_epoch(self) -> None:
        """End an epoch at once: features that matter are multiplied from now on."""
        self._model.online.end_epoch()

    def monomials(self, top: int = 100) -> list[Monomial]:
        """Return the `top` features and products that matter most: `pandas.DataFrame` makes a table of them."""
        return heaviest(self._model.online.learner, self._model.featurizer.names, top)

    def explain_one(self, x: Mapping[Any, Any]) -> list[Contribution]:
        """Return what each feature adds to the score of `x`, the largest in size first; they sum to the score."""
        model = self._model
        with model.online.lock:
            return explain_row(model.online.learner, model.featurizer.names, model.batch_of(x))

    @property
    def progressive_loss(self) -> float:
        """The mean loss of the predictions made before each example was learned; NaN before the first."""
        return float(self._model.online.learner.progress.report("whole").loss)

    @property
    def linear_progressive_loss(self) -> float:
        """The mean loss, likewise, of the linear predictor, which learns alongside."""
        return float(self._model.online.learner.progress.report("whole").linear_loss)

    @property
    def _model(self) -> OneRow:
        if "_learning" not in vars(self):
            with BEGINNING:
                if "_learning" not in vars(self):
                    self._learning = self._new_model()
        return self._learning

    def _new_model(self) -> OneRow:
        options = self._options()
        if self.epoch_examples is not None and self.epoch_length is not None:
            raise ValueError(
                f"epoch_examples, epoch_length: expected one of them, as an epoch ends by one, found "
                f"{self.epoch_examples!r} and {self.epoch_length!r}"
            )
        online = OnlineLearner(options, whole_number(self, "epoch_examples"), span_of(self.epoch_length))
        featurizer = featurizer_of_rows(options, mapping_of(self))
        return OneRow(online, featurizer, sort_names=truth(self, "sort_names") and not options.ngrams)

    def _options(self) -> LearnerOptions:
        raise NotImplementedError

    def _batch(self, frame: Any) -> Batch:  # noqa: ANN401  a frame of any kind
        import narwhals.stable.v2 as nw

        try:
            read = nw.from_native(frame, eager_only=True)
        except TypeError:
            refuse_table(frame, "a frame")
        return self._model.featurizer.frame(read, sort_names=self._model.sort_names)

    def _learn_rows(self, batch: Batch, times: Iterable[Time] | None) -> None:
        """Learn all rows, in order; `times` has the time of each, if epochs are spans of time."""
        self._model.online.learn(batch, None if times is None else milliseconds_of(times))


@takes_options(epoch_examples=None, epoch_length=None, sort_names=True)
class AppleRegressor(_Apple, base.MiniBatchRegressor):
    """A regressor that multiplies the features that matter while it learns.

    epoch_examples  examples of an epoch, at whose end products become features; None: epochs end after 100, 200, 400
                    ... examples; 0: only when `end_epoch` is called
    epoch_length    epochs are spans of event time instead, as a worker's: "1h", or a timedelta; `time` is needed then
    sort_names      features are taken in the order of their names, since a map of River has none. False: in the order
                    of the map; it gives the bits of a worker whose messages have this order

    All other parameters are options of the learner, by the names, defaults and bounds of the section `learner` of
    `docs/configuration.md`; `paper` has those of `learner.paper`, by name. `categories`, `numbers`, `times`, `ignore`
    and so on are settings of its section `input`, by the rules of which values become features.

    >>> from river import datasets, evaluate, metrics
    >>> from stream_apple.river import AppleRegressor
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), AppleRegressor(), metrics.MAE())  # doctest: +SKIP
    """

    def learn_one(self, x: Mapping[Any, Any], y: float, w: float = 1.0, time: Time | None = None) -> None:
        """Learn one example of importance `w`, at this time where epochs are spans of time."""
        self._model.learn(x, checked_label(y), checked_weight(w), time)

    def predict_one(self, x: Mapping[Any, Any]) -> float:
        """Return the expected label; 0 before the first example."""
        return self._model.score(x)

    def learn_many(self, X: Any, y: Any, w: Any = None, times: Iterable[Time] | None = None) -> None:  # noqa: ANN401, N803
        """Learn the rows of a frame, in order, at these times where epochs are spans of time."""
        self._learn_rows(_labelled(self._batch(X), checked_labels(y), w), times)

    def predict_many(self, X: Any) -> Any:  # noqa: ANN401, N803
        """Return the expected label of each row, as a series with the frame's index."""
        import pandas as pd

        return pd.Series(self._model.online.score(self._batch(X)).predictions, index=getattr(X, "index", None))

    def _options(self) -> LearnerOptions:
        return options_of(self, loss="squared")


@takes_options(classes=None, epoch_examples=None, epoch_length=None, sort_names=True)
class AppleClassifier(_Apple, base.MiniBatchClassifier):
    """A classifier that multiplies the features that matter while it learns.

    classes         None: labels are False and True, or 0 and 1; a list of two: the labels, the second of which is the
                    positive one; a list of more, or how many there will be at most: the labels of a softmax
    epoch_examples  examples of an epoch, at whose end products become features; None: epochs end after 100, 200, 400
                    ... examples; 0: only when `end_epoch` is called
    epoch_length    epochs are spans of event time instead, as a worker's: "1h", or a timedelta; `time` is needed then
    sort_names      features are taken in the order of their names, since a map of River has none. False: in the order
                    of the map; it gives the bits of a worker whose messages have this order

    All other parameters are options of the learner, by the names, defaults and bounds of the section `learner` of
    `docs/configuration.md`; `paper` has those of `learner.paper`, by name. `categories`, `numbers`, `times`, `ignore`
    and so on are settings of its section `input`, by the rules of which values become features.

    >>> from river import datasets, evaluate, metrics
    >>> from stream_apple.river import AppleClassifier
    >>> evaluate.progressive_val_score(datasets.Phishing(), AppleClassifier(), metrics.LogLoss())  # doctest: +SKIP
    """

    classes: int | Sequence[Any] | None

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"classes": 7}

    @property
    def _multiclass(self) -> bool:  # River asks
        return self._softmax

    def learn_one(self, x: Mapping[Any, Any], y: Hashable, w: float = 1.0, time: Time | None = None) -> None:
        """Learn one example of importance `w`, at this time where epochs are spans of time.

        ValueError for a label that is none of the classes.
        """
        model = self._model
        with model.online.lock:  # also of the labels, which are numbered as they come
            known = len(self._numbers)
            try:
                model.learn(x, self._number_of(y), checked_weight(w), time)
            except Exception:
                self._forget_from(known)
                raise

    def predict_proba_one(self, x: Mapping[Any, Any], **kwargs: Any) -> dict[Any, float]:  # noqa: ANN401, ARG002  River's
        """Return the probability of each class: of both, or, with the softmax loss, of the classes seen so far."""
        model = self._model
        if not self._softmax:
            second = model.probability(x)
            no, yes = self._labels
            return {no: 1.0 - second, yes: second}
        with model.online.lock:
            return self._of_known(model.probabilities(x)) if self._labels else {}

    def learn_many(self, X: Any, y: Any, w: Any = None, times: Iterable[Time] | None = None) -> None:  # noqa: ANN401, N803
        """Learn the rows of a frame, in order, at these times where epochs are spans of time."""
        batch = self._batch(X)
        with self._model.online.lock:
            known = len(self._numbers)
            try:
                labels = [self._number_of(label) for label in (y.to_pylist() if hasattr(y, "to_pylist") else y)]
                self._learn_rows(_labelled(batch, np.array(labels, np.float64), w), times)
            except Exception:
                self._forget_from(known)
                raise

    def predict_proba_many(self, X: Any) -> Any:  # noqa: ANN401, N803
        """Return the probability of each class for each row, as a frame with a column for each class."""
        import pandas as pd

        online, batch = self._model.online, self._batch(X)
        with online.lock:
            found: Any = probabilities_of(online.score(batch), online.options)
            if self._softmax:
                found = [self._of_known(row) if self._labels else {} for row in found]
            return pd.DataFrame(found, index=getattr(X, "index", None), columns=list(self._labels))

    def predict_many(self, X: Any) -> Any:  # noqa: ANN401, N803
        """Return the most probable class of each row, as a series; the first of equally probable ones."""
        import pandas as pd

        found = self.predict_proba_many(X)
        labels = list(found.columns)
        if not labels:
            return pd.Series([None] * len(found), index=found.index, dtype=object)
        return pd.Series([labels[at] for at in found.to_numpy().argmax(axis=1)], index=found.index)

    def _of_known(self, probabilities: NDArray[np.float64]) -> dict[Any, float]:
        """Return the probabilities, scaled to the sum 1, of the classes whose labels are known so far."""
        known = probabilities[: len(self._labels)]
        shares = known / known.sum() if known.sum() > 0.0 else np.full(len(known), 1.0 / len(known))
        return dict(zip(self._labels, shares.tolist(), strict=True))

    @property
    def _softmax(self) -> bool:
        return self.classes is not None and (isinstance(self.classes, _INTEGERS) or len(self.classes) > 2)

    @property
    def _numbers(self) -> dict[Any, float]:
        """Label -> the learner's label: -1 and 1, or the number of a class."""
        if "_known" not in vars(self):
            with BEGINNING:
                if "_known" not in vars(self):
                    self._check_classes()
                    self._known = self._first_numbers()
        return self._known

    def _first_numbers(self) -> dict[Any, float]:
        if self.classes is None:
            return {False: -1.0, True: 1.0}
        if isinstance(self.classes, _INTEGERS):
            return {}
        classes = checked_classes(self.classes)
        if self._softmax:
            return {y: float(k) for k, y in enumerate(classes)}
        return dict(zip(classes, (-1.0, 1.0), strict=True))

    def _check_classes(self) -> None:
        """Raise ValueError unless `classes` is None, a number of classes, or a list of different labels.

        A set has no order, so it would change from one process to the next which class is the positive one.
        """
        if self.classes is None:
            return
        if isinstance(self.classes, _INTEGERS) and not isinstance(self.classes, bool):
            if not CLASSES.hold(self.classes):
                raise ValueError(f"classes: expected {CLASSES}, or a list of labels, found {self.classes}")
            return
        if isinstance(self.classes, AbstractSet):
            raise ValueError(  # noqa: TRY004  a parameter of an estimator
                f"classes: expected a list of labels, in their order, found the set {self.classes!r}"
            )
        found = checked_classes(self.classes)
        if len(found) < 2 or len(set(found)) < len(found):
            raise ValueError(f"classes: expected two labels or more, each once, found {found}")

    @property
    def _labels(self) -> tuple[Any, ...]:
        return tuple(self._numbers)

    def _forget_from(self, count: int) -> None:
        """Forget the classes that came after so many, as what was to be learned of them was refused."""
        while len(self._numbers) > count:
            self._numbers.popitem()

    def _number_of(self, label: Hashable) -> float:
        """Return the learner's label; ValueError if it is no label, or new without room for a further class."""
        known = self._numbers
        try:
            found = known.get(label)
        except TypeError:
            raise ValueError(f"y: expected a label, found {label!r}") from None  # it can't be hashed
        if found is not None:
            return found
        if is_missing(label) and self._softmax:
            raise ValueError(f"y: expected a label, found {label!r}")
        if not self._softmax or not isinstance(self.classes, _INTEGERS) or len(known) >= self.classes:
            raise ValueError(
                f"y: expected one of {list(known)}, found {label!r}: AppleClassifier(classes=[...]) names the labels, "
                f"or classes=10 says how many there will be at most"
            )
        known[label] = float(len(known))
        return known[label]

    def _options(self) -> LearnerOptions:
        self._check_classes()
        if self.classes is None or not self._softmax:
            return options_of(self, loss="logistic")
        count = int(self.classes) if isinstance(self.classes, _INTEGERS) else len(self.classes)
        return options_of(self, loss="softmax", classes=count)


def _labelled(batch: Batch, labels: NDArray[np.float64], weights: Any) -> Batch:  # noqa: ANN401
    """Return the batch with labels, and weights, which are 1 if not given; ValueError if there are more or fewer."""
    given = np.ones(len(labels)) if weights is None else checked_weights("w", weights)
    if len(labels) != len(batch.labels) or len(given) != len(labels):
        raise ValueError(f"expected {len(batch.labels)} labels and weights, found {len(labels)} and {len(given)}")
    return batch._replace(labels=labels, weights=given)
