"""One run of a study: what defines it, the key under which it is kept, and what it showed."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal, NamedTuple, Self

from stream_apple.core.learner.options import Loss, Options
from stream_apple.study.methods import METHODS

Problem = Literal["binary", "regression"]
Purpose = Literal["error", "timing"]


class Task(NamedTuple):
    """One run of one method on one set.

    alpha   None for methods without a grid
    epochs  0 for methods that do not grow: for these it does not matter when epochs end
    """

    purpose: Purpose
    data_set: str
    method: str
    alpha: float | None
    rate: float
    seed: int
    epochs: int
    bits: int
    loss: Loss

    def options(self) -> Options:
        """The options of the learner; Vowpal Wabbit has in common with it what is named here."""
        given: dict[str, Any] = {"loss": self.loss, "bits": self.bits, "learning_rate": self.rate}
        if self.alpha is not None:
            given["alpha"] = self.alpha
        return Options(**{**given, **METHODS[self.method].overrides})

    def key(self, data_digest: str, versions: Mapping[str, str]) -> str:
        """16 hex digits that name the run with all that its result depends on.

        data_digest  of the set as it is learned
        versions     of whatever learns
        """
        method = METHODS[self.method]
        parts = [self._asdict(), asdict(self.options()), method.arguments, data_digest, dict(versions)]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


class LossesSoFar(NamedTuple):
    """The mean losses of all training examples so far, which are never NaN; None where nothing was labelled."""

    examples: int
    loss: float
    linear_loss: float | None


class Measures(NamedTuple):
    """What a run showed; None where a method does not tell, or where it failed.

    progressive_error  share of wrong signs before learning; None where there are not just two labels
    tested_per_example  products that are tested, and not learned, with a picky method
    seconds  of learning and scoring; with Vowpal Wabbit, of its whole process but for the start of Python
    ends     at the end of each epoch
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
        """The paper's test error: share of wrong signs, or mean squared error."""
        return self.test_error if problem == "binary" else self.test_loss

    def error_before_learning(self, problem: Problem) -> float | None:
        """The progressive error: share of wrong signs, or mean squared error."""
        return self.progressive_error if problem == "binary" else self.progressive_loss

    def to_json(self) -> dict[str, Any]:
        """Make a map of it that JSON can hold."""
        return {**self._asdict(), "ends": [list(end) for end in self.ends]}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """Read such a map; TypeError or KeyError if it is none."""
        return cls(**{**found, "ends": tuple(LossesSoFar(*end) for end in found["ends"])})
