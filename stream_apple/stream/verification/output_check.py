"""Whether an output topic holds exactly what a model had to publish: each answer once, in order, to the byte.

Expected answers and found messages are both in the order of the input, so that they are merged as they come: memory
does not grow with the topic. Which messages are answers is for `answer_log.py` to say.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgpack

from stream_apple.core.codec.prediction_formats import decode_prediction
from stream_apple.stream.log.columns import keys_of, timestamps_of, values_of
from stream_apple.stream.log.ports import Header, Record
from stream_apple.stream.model.dead_letters import header_list, present_form
from stream_apple.stream.verification.answer_log import AnswerLog, FoundAnswer
from stream_apple.stream.verification.faults import Kind

_AT_ONCE = 256  # answers compared in columns; if one of so many is not as expected, each is looked at
_REMEMBERED = 100_000  # absent answers that may still come, out of order
_LOG_APPEND_TIME = 2  # the type of a timestamp that the broker has put in the producer's place
_NOW = 0  # the timestamp that a client replaces by the time of day


class Answer(NamedTuple):
    """What had to be published about the example at offset `example` by the model with fingerprint `model`."""

    model: str
    example: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: list[Header]


class Answers(NamedTuple):
    """Predictions that one model had to give, in the order of the examples, which have their keys and times."""

    model: str
    examples: Sequence[Record]
    values: Sequence[bytes]


class OutputCheck:
    """The answers of a model to examples, held against an output log.

    first  offset of the first example in question

    matched  answers found at their place; those that differ are faults besides
    behind_gap  answers under an earlier fingerprint, behind a gap: what made them is gone, so they are only counted
    gone     answers from before the first message that retention has left
    """

    def __init__(self, log: AnswerLog, first: int) -> None:
        self.matched = 0
        self.behind_gap = 0
        self.gone = 0
        self._log = log
        self._truncated = log.output.low > 0
        self._seen = False
        self._oldest = 0
        self._last = first - 1
        self._absent: dict[int, None] = {}

    @property
    def earlier(self) -> int:
        """Answers to examples in a gap, or behind it, that were given before it came to be: they are only counted."""
        return self.behind_gap + self._log.before_gap

    @property
    def foreign(self) -> int:
        """Return how many messages of other groups were found."""
        return self._log.foreign

    def leave_out(self, examples: range) -> None:
        """Leave out the answers to these examples, of which nothing is known."""
        self._log.leave_out(examples)

    def expect_all(self, answers: Answers) -> None:
        """Hold the next answers, in the order of the examples, against what was published.

        Where the log goes on with just these messages, to the byte, nothing more needs to be known of them.
        """
        done, model = 0, answers.model
        while done < len(answers.values):
            examples, values = answers.examples[done : done + _AT_ONCE], answers.values[done : done + _AT_ONCE]
            equal = self._equal(examples, values)
            if equal:
                self._log.skip_ahead(equal)
                self._seen, self._last = True, examples[equal - 1].offset()
                self._oldest = max(self._oldest, self._log.age_of(model))
                self.matched += equal
            else:
                for record, value in zip(examples, values, strict=True):
                    self.expect(Answer(model, record.offset(), record.key(), value, record.timestamp()[1], []))
            done += equal or len(values)

    def _equal(self, examples: Sequence[Record], values: Sequence[bytes]) -> int:
        """How many of the next messages are the answers with these values, or 0 if some of them may not be."""
        found = self._log.ahead(len(values))
        examples = examples[: len(found)]
        if not found or values_of(found) != list(values[: len(found)]) or keys_of(found) != keys_of(examples):
            return 0
        if (timestamps_of(found) != timestamps_of(examples)).any():
            return 0
        # Headers must not be asked for twice: those behind the first that has any are left for another look.
        return next((number for number, record in enumerate(found) if header_list(record)), len(found))

    def expect(self, answer: Answer) -> None:
        """Hold the next answer, in the order of the examples, against what was published."""
        found = self._log.peek()
        while found is not None and found.example < answer.example:
            self._stray(found)
            found = self._log.peek()
        if found is not None and found.example == answer.example:
            self._judge(found, answer)
        elif self._truncated and not self._seen:
            self.gone += 1
        else:
            self._absent[answer.example] = None
            if len(self._absent) > _REMEMBERED:
                self._miss(next(iter(self._absent)))
        self._last = answer.example

    def finish(self) -> None:
        """There are no further answers: what is left in the log is too much, and what did not come is missing."""
        while (found := self._log.peek()) is not None:
            self._stray(found)
        for example in list(self._absent):
            self._miss(example)
        self._log.finish()

    def _stray(self, found: FoundAnswer) -> None:
        self._take()
        example = found.example
        if example in self._absent:
            del self._absent[example]
            self._fault(Kind.OUT_OF_ORDER, found, f"expected it before the answer to example {self._last}")
        elif example > self._last:
            self._fault(Kind.EXTRA, found, "expected no such answer to this example")
        else:
            self._fault(Kind.DUPLICATED, found, "expected no further answer to this example")

    def _judge(self, found: FoundAnswer, answer: Answer) -> None:
        self._take()
        if self._oldest <= found.age < self._log.age_of(answer.model):
            self.behind_gap += 1
            return
        self._oldest = max(self._oldest, found.age)
        self.matched += 1
        differing = _differences(found.record, answer)
        if differing:
            self._fault(Kind.DIFFERENT, found, "; ".join(differing))

    def _take(self) -> None:
        self._log.skip()
        self._seen = True

    def _miss(self, example: int) -> None:
        del self._absent[example]
        self._log.fault(Kind.MISSING, None, example, "expected an answer to this example, found none")

    def _fault(self, kind: Kind, found: FoundAnswer, text: str) -> None:
        self._log.fault(kind, found.record.offset(), found.example, text)


def _differences(record: Record, answer: Answer) -> list[str]:
    found = []
    if record.key() != answer.key:
        found.append(f"expected key {answer.key!r}, found {record.key()!r}")
    if record.value() != answer.value:
        found.append(f"expected value {_shown(answer.value)}, found {_shown(record.value())}")
    kind, timestamp_ms = record.timestamp()
    if answer.timestamp_ms not in {timestamp_ms, _NOW} and kind != _LOG_APPEND_TIME:
        found.append(f"expected timestamp {answer.timestamp_ms}, found {timestamp_ms}")
    headers = header_list(record)
    if headers != answer.headers and present_form(headers) != answer.headers:
        found.append(f"expected headers {answer.headers}, found {headers}")
    return found


def _shown(value: bytes | None, most: int = 200) -> str:
    """A value as people can compare it: the first bytes, and a map as such."""
    if value is None:
        return "none"
    try:
        text = str(decode_prediction(value))
    except (ValueError, TypeError, KeyError, RecursionError, msgpack.UnpackException):
        text = repr(value[: most // 2])
    return text if len(text) <= most else f"{text[:most]}... ({len(value)} bytes)"
