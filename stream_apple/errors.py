"""What can go wrong, and what it means for the process.

Each class has its own exit code, so that an operator (or Kubernetes) can tell them apart without reading the
log. Every message says what was expected, what was found, and where.
"""

from collections.abc import Iterator
from contextlib import contextmanager


class StreamAppleError(Exception):
    """The base of all errors that a user of stream_apple can cause or must act on."""

    exit_code = 1


class ConfigurationError(StreamAppleError):
    """A setting, or a topic or permission it names, is not as needed. Restarting does not help."""

    exit_code = 78  # EX_CONFIG of sysexits.h


class InputFileError(StreamAppleError):
    """A file of examples is not readable, or a line of it is not an example."""

    exit_code = 65  # EX_DATAERR


class GapError(StreamAppleError):
    """Records that the model must learn are gone from the topic: going on would skip them."""

    exit_code = 70


class TooManyRejectsError(StreamAppleError):
    """So many records can't be used that a producer must be broken: a person should look."""

    exit_code = 71


class ModelError(StreamAppleError):
    """Weights or loss became infinite or NaN. Nothing of that batch is published.

    `row` is the example's place in its batch.
    """

    exit_code = 72

    def __init__(self, message: str, row: int = -1) -> None:
        super().__init__(message)
        self.row = row


class SnapshotError(StreamAppleError):
    """The snapshot that a committed offset points to is damaged, incomplete, or of another format."""

    exit_code = 73


class SnapshotMissingError(SnapshotError):
    """No message of a snapshot is where the committed offset says, or not all of them are: the log goes on after it."""


class FormatError(SnapshotError):
    """Stored state has a format that this version does not read; the message says how to start over."""


class VerificationError(StreamAppleError):
    """`stream-apple verify` has found faults: outputs or a snapshot are not those of the model."""

    exit_code = 74


class UnprovedError(StreamAppleError):
    """`stream-apple verify` has found no fault, but could not compare all answers: what that takes is gone."""

    exit_code = 76


class BrokerError(StreamAppleError):
    """Kafka is unreachable for too long, or a new transaction can't mend its error."""

    exit_code = 69  # EX_UNAVAILABLE


class FencedError(BrokerError):
    """Another process has started with this worker's identity, and Kafka obeys the newer one.

    A restart would fence that one in turn.
    """

    exit_code = 75  # EX_TEMPFAIL


@contextmanager
def needs_extra(extra: str, where: str = "") -> Iterator[None]:
    """Let the extra's libraries be imported in this context; ConfigurationError if one is not installed.

    where  the beginning of its message
    """
    try:
        yield
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        raise ConfigurationError(
            f"{where}expected {library} to be installed, found none: pip install 'stream-apple[{extra}]'"
        ) from error
