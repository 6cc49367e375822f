"""What a run of the loop looks like at one moment, and what its result is: facts only, no appearance."""

from dataclasses import dataclass
from typing import NamedTuple

from stream_apple.demo.loop.judging import NO_JUDGEMENT, Judgement
from stream_apple.demo.state import RunView


class Latency(NamedTuple):
    """Holds how long answers took, as the site saw them, in milliseconds; zeros before the first."""

    median_ms: float
    p99_ms: float


NO_LATENCY = Latency(0.0, 0.0)


@dataclass(frozen=True, kw_only=True)
class LoopView(RunView):
    """Says how a run of the loop stands at one moment.

    asked           requests so far
    undecided       impressions of which it is not known yet what came of them
    clicks_to_come  among them, those that were clicked and whose outcome is not published
    examples        that were learned, and their prediction read
    """

    asked: int = 0
    undecided: int = 0
    clicks_to_come: int = 0
    examples: int = 0
    latency: Latency = NO_LATENCY
    recent: Judgement = NO_JUDGEMENT


class LoopResult(NamedTuple):
    """Holds the result of a run, as `--json` prints it.

    answered         requests that `serve` answered: all but the first, before there was a model
    clicks           of all impressions
    labelled         examples that have a click, by the joiner's count
    examples         that were learned
    last_third...    of the answers to the last third of requests
    """

    requests: int
    answered: int
    clicks: int
    labelled: int
    examples: int
    latency_median_ms: float
    latency_p99_ms: float
    last_third_unanswered: int
    last_third_loss: float
    last_third_constant_loss: float


class LoopReport(NamedTuple):
    """Holds the result of a run, and the facts that it rests on.

    predictions  different examples that have one
    repeated     predictions of examples that had one already
    """

    result: LoopResult
    predictions: int
    repeated: int

    def broken_promises(self) -> list[str]:
        """Return what a run promises and did not keep, a sentence each."""
        result, predictions, repeated = self
        broken = []
        if not result.examples == predictions == result.requests or repeated:
            broken.append(
                f"expected each of {result.requests} impressions to become one example that is learned once, found "
                f"{result.examples} learned, {predictions} predicted and {repeated} predicted again"
            )
        if result.labelled != result.clicks:
            broken.append(
                f"expected {result.clicks} examples with a click, as many as there were clicks, found "
                f"{result.labelled}: an outcome that reaches its topic too late joins nothing"
            )
        if result.last_third_unanswered:
            broken.append(
                f"expected an answer to each of the last third of requests, found "
                f"{result.last_third_unanswered} without"
            )
        # Written so that NaN, which is no loss at all, is a fault too.
        if not result.last_third_loss < result.last_third_constant_loss:
            broken.append(
                f"expected the loss of the last third of answers to be below the best constant's "
                f"{result.last_third_constant_loss:.4f}, found {result.last_third_loss:.4f}: with so few requests, "
                f"there may be too little to learn from"
            )
        return broken
