"""One run of a study: what defines it, the key under which it is kept, and what it showed."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal, NamedTuple, Self

from stream_apple.learners.apple.options import LossName, Options
from study.methods import METHODS

Problem = Literal["binary", "regression"]
Purpose = Literal["error", "timing"]


class Task(NamedTuple):
    """One run of one method on one set.

    alpha   None for methods without a grid
    epochs  0 for methods to which it does not matter when epochs end
    """

    purpose: Purpose
    data_set: str
    method: str
    alpha: float | None
    rate: float
    seed: int
    epochs: int
    bits: int
    loss: LossName

    def options(self) -> Options:
        """Return the options of the learner; Vowpal Wabbit gets loss, bits and learning rate, too."""
        given: dict[str, Any] = {"loss": self.loss, "bits": self.bits, "learning_rate": self.rate}
        if self.alpha is not None:
            given["alpha"] = self.alpha
        return Options(**{**given, **METHODS[self.method].overrides})

    def key(self, data_digest: str, versions: Mapping[str, str]) -> str:
        """Return 16 hex digits that depend on everything on which the run's result depends.

        data_digest  of the prepared set
        versions     of the programs that learn
        """
        method = METHODS[self.method]
        parts = [self._asdict(), asdict(self.options()), method.arguments, data_digest, dict(versions)]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


class LossesSoFar(NamedTuple):
    """The mean losses of all training examples so far; never NaN.

    linear_loss  None if no linear predictor learns alongside
    """

    examples: int
    loss: float
    linear_loss: float | None


class Measures(NamedTuple):
    """What a run showed; None where a method has no such figure, or where it failed.

    progressive_error  share of wrong signs before learning; None if there are not just two labels
    tested_per_example  with a picky method, how many products of an example are tested and not learned
    seconds  of learning and scoring; with Vowpal Wabbit, of its whole process without the start of Python
    ends     the losses at the end of each epoch
    failure  why there is no result
    """

    progressive_loss: float | None = None
    linear_progressive_loss: float | None = None
    test_loss: float | None = None
    test_error: float | None = None
    features_per_example: float | None = None
    parents: int | None = None
    seconds: float | None = None
    ends: Sequence[LossesSoFar] = ()
    failure: str | None = None
    progressive_error: float | None = None
    tested_per_example: float | None = None

    def error(self, problem: Problem) -> float | None:
        """Return the paper's test error: the share of wrong signs, or the mean squared error."""
        return self.test_error if problem == "binary" else self.test_loss

    def error_before_learning(self, problem: Problem) -> float | None:
        """Return the progressive error: the share of wrong signs, or the mean squared error."""
        return self.progressive_error if problem == "binary" else self.progressive_loss

    def to_json(self) -> dict[str, Any]:
        """Return the measures as a map for JSON."""
        return {**self._asdict(), "ends": [list(end) for end in self.ends]}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """Return the measures in a map of `to_json`; TypeError or KeyError for any other map."""
        return cls(**{**found, "ends": tuple(LossesSoFar(*end) for end in found["ends"])})
