"""Checks that an output topic holds exactly what a model had to publish: each answer once, in order, to the byte.

Expected answers and found messages are both in the order of the input, so they are compared as they come, and memory
does not grow with the topic. `answer_log.py` decides which messages are answers.
"""

from collections.abc import Sequence

from stream_apple.records.message.prediction_formats import decode_prediction
from stream_apple.stream.log.columns import keys_of, timestamps_of, values_of
from stream_apple.stream.log.ports import Header, Record
from stream_apple.stream.model.dead_letters import header_list, without_message
from stream_apple.stream.verification.answer_log import AnswerLog, FoundAnswer
from stream_apple.stream.verification.partition_report import Published
from stream_apple.stream.walk.answers import Answer, Answers
from stream_apple.stream.walk.faults import Kind

_AT_ONCE = 256  # answers that are compared in columns; if they differ, they are compared one by one
_REMEMBERED = 100_000  # missing answers that may still come, out of order
_LOG_APPEND_TIME = 2  # the type of a timestamp that the broker has set
_NOW = 0  # the timestamp that a client replaces by the time of day


class OutputCheck:
    """Compares the expected answers of a model with an output log.

    first  offset of the first example whose answer is compared

    matched     answers that were found at their place; those that differ are also faults
    behind_gap  answers with an earlier fingerprint, behind a gap: the state that gave them is gone, so they are counted
    gone        answers from before the first message that retention has left
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

    def published(self, expected: int) -> Published:
        """Return the counts, given how many answers the model had to give."""
        earlier = self.behind_gap + self._log.before_gap
        return Published(expected, self.matched, earlier, self.gone, self._log.foreign)

    def expect_all(self, answers: Answers) -> None:
        """Compare the next answers, in the order of the examples, with the published ones.

        As long as the log has exactly these messages, to the byte, they are compared in columns.
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
        """Return how many of the next messages are the answers with these values; 0 if one of them may differ."""
        found = self._log.ahead(len(values))
        examples = examples[: len(found)]
        if not found or values_of(found) != list(values[: len(found)]) or keys_of(found) != keys_of(examples):
            return 0
        if (timestamps_of(found) != timestamps_of(examples)).any():
            return 0
        # Headers must not be asked for twice. So the first message with headers, and those after it, are left.
        return next((number for number, record in enumerate(found) if header_list(record)), len(found))

    def expect(self, answer: Answer) -> None:
        """Compare the next answer, in the order of the examples, with the published one."""
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
        """End the comparison: answers that are left in the log are extra, and those that did not come are missing."""
        while (found := self._log.peek()) is not None:
            self._stray(found)
        for example in list(self._absent):
            self._miss(example)
        self._log.judge_undecided()

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
    if headers != answer.headers and not _alike(headers, answer.headers):
        found.append(f"expected headers {answer.headers}, found {headers}")
    return found


def _alike(found: list[Header], expected: list[Header]) -> bool:
    """Whether these may be the expected headers of a dead letter, as this version or an older one has written them."""
    return bool(expected) and without_message(found) == without_message(expected)


def _shown(value: bytes | None, most: int = 200) -> str:
    """Return a value as readable text: a prediction as a map, else the first bytes."""
    if value is None:
        return "none"
    try:
        text = str(decode_prediction(value))
    except ValueError:
        text = repr(value[: most // 2])
    return text if len(text) <= most else f"{text[:most]}... ({len(value)} bytes)"
