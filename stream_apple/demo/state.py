"""What a run of the demo looks like at one moment, and what its result is: facts only, no appearance."""

import math
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from stream_apple.demo.scrape import Losses, Reading

DAYS = 8
"""How many days are simulated, one epoch each; the last epoch does not end, as no later example ends it."""
NOTHING_YET = Reading(0, 0, 0, -1, (), Losses(math.nan, math.nan), Losses(math.nan, math.nan))


class CurvePoint(NamedTuple):
    """A point of the curves: mean losses of the latest, when so much was done; NaN before the first.

    own        of apple, or of the answers of `serve`
    reference  of linear, or of the best constant answer
    """

    done: int
    own: float
    reference: float


@dataclass(frozen=True, kw_only=True)
class RunView:
    """How any run stands at one moment.

    doing       one line
    total       examples, or requests, that there will be
    answered    of them, so far
    per_second  that are sent, in the latest seconds
    reading     the worker's metrics
    address     of the worker's HTTP server, empty while it is starting
    curve       one point a second or so
    """

    doing: str
    total: int
    answered: int = 0
    per_second: float = 0.0
    reading: Reading = NOTHING_YET
    address: str = ""
    curve: tuple[CurvePoint, ...] = ()


SomeView = TypeVar("SomeView", bound=RunView)


@dataclass(frozen=True, kw_only=True)
class View(RunView):
    """How a run of the demo stands at one moment.

    epochs  ended so far, of DAYS - 1 that will end
    """

    epochs: int = 0


class DemoResult(NamedTuple):
    """The result of a run, as `--json` prints it.

    predictions  different examples that have one
    ..._loss     means since the start
    epochs       how many ended
    parents      of degree >= 1, in the end
    """

    examples: int
    predictions: int
    progressive_loss: float
    linear_progressive_loss: float
    epochs: int
    parents: int


class DemoReport(NamedTuple):
    """The result of a run, and the facts that it rests on.

    repeated   predictions of examples that had one already
    reading    the worker's metrics in the end
    """

    result: DemoResult
    repeated: int
    reading: Reading

    def broken_promises(self) -> list[str]:
        """Return what a run promises and did not keep, a sentence each."""
        result, repeated, reading = self
        broken = []
        if result.predictions != result.examples or repeated or reading.learned != result.examples:
            broken.append(
                f"expected each of {result.examples} examples to be learned and answered once, found {reading.learned} "
                f"learned, {reading.rejected} rejected, {result.predictions} answered and {repeated} answers too many"
            )
        # Written so that NaN, which is no loss at all, is a fault too.
        if not result.progressive_loss < result.linear_progressive_loss:
            broken.append(
                f"expected apple's progressive loss to be below the linear model's "
                f"{result.linear_progressive_loss:.4f}, found {result.progressive_loss:.4f}: with so few examples, "
                f"epochs may be too short to learn from"
            )
        return broken
