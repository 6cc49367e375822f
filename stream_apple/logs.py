"""Logs: one event per line on stderr, JSON for machines, aligned text for people.

Events have snake_case names and carry their facts as fields; `deploy/events.md` has the table of them all. structlog
and the standard library's loggers (librdkafka's lines come that way) end in the same handler, and so does what would
end the process or a thread with a traceback: no line escapes the format.
"""

import logging
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from io import StringIO
from types import TracebackType
from typing import Any, Literal, TextIO

from stream_apple.terminal import printable


@contextmanager
def _without(name: str) -> Iterator[None]:
    """Where a library is imported that would use this one, if it were there."""
    found = sys.modules.get(name)
    if found is None:
        sys.modules[name] = None  # type: ignore[assignment]  # what makes an import fail
    try:
        yield
    finally:
        if found is None:
            del sys.modules[name]


# rich is for tracebacks that are never shown here, and takes 30 ms of every start: whoever logs before imports this.
with _without("rich"):
    import structlog
    from structlog.typing import EventDict, Processor

get_logger = structlog.get_logger
"""structlog's own."""

LogFormat = Literal["auto", "json", "human"]
Sentence = Callable[[Mapping[str, Any]], str]
"""Makes a line for people of an event's fields."""

_OURS = frozenset({"level", "logger", "timestamp"})


def configure(
    format: LogFormat = "auto",  # noqa: A002  the word of the command line
    facts: Mapping[str, str] | None = None,
    conceal: Callable[[str], str] = str,
    sentences: Mapping[str, Sentence] | None = None,
) -> None:
    """Send every event to stderr; `auto` is human on a terminal and JSON elsewhere. May be called again.

    facts      fields that every line has, such as who writes it
    conceal    takes text, and gives what of it may be shown
    sentences  for people: events that are told in a sentence instead of by name and fields
    """
    human = is_human(format)
    shared = _shared(facts or {})
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *_rendering(conceal, sentences or {}, human=human),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    logging.captureWarnings(capture=True)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )


def is_human(format: LogFormat) -> bool:  # noqa: A002  the word of the command line
    """Whether this format is for people, here and now."""
    return format == "human" or (format == "auto" and sys.stderr.isatty())


def catch_crashes() -> None:
    """From now on, an exception that nobody catches is one event, `crashed`, in this process and its threads."""
    sys.excepthook = _crashed
    threading.excepthook = lambda failed: _crashed(
        failed.exc_type, failed.exc_value, failed.exc_traceback, thread=failed.thread.name if failed.thread else ""
    )
    sys.unraisablehook = lambda failed: _crashed(
        failed.exc_type, failed.exc_value, failed.exc_traceback, thread=repr(failed.object)
    )


def _crashed(
    kind: type[BaseException],
    error: BaseException | None,
    traceback: TracebackType | None,
    thread: str = "main",
) -> None:
    if not issubclass(kind, KeyboardInterrupt | SystemExit):
        log = structlog.get_logger(__name__)
        log.critical("crashed", thread=thread, exc_info=(kind, error or kind(), traceback))


def _shared(facts: Mapping[str, str]) -> list[Processor]:
    def with_facts(_logger: object, _method: str, event: EventDict) -> EventDict:
        # Not a context variable: librdkafka's lines and crashes come from threads that would not have it.
        return {**facts, **event}

    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        _timestamp,
        with_facts,
    ]


def _timestamp(_logger: object, _method: str, event: EventDict) -> EventDict:
    event["timestamp"] = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return event


def _rendering(conceal: Callable[[str], str], sentences: Mapping[str, Sentence], *, human: bool) -> list[Processor]:
    if human:

        def in_a_sentence(_logger: object, _method: str, event: EventDict) -> EventDict:
            try:
                told = sentences[event["event"]](event)
            except (KeyError, TypeError):  # none is made for it, or another's line has its name and not its fields
                return event
            return {"timestamp": event["timestamp"], "level": event["level"], "event": told}

        # The renderer's own choice would print the local variables of every frame: records, and passwords.
        renderer = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=_write_traceback)
        return [in_a_sentence, _printable_values, renderer, lambda _logger, _method, line: conceal(str(line))]

    def conceal_values(_logger: object, _method: str, event: EventDict) -> EventDict:
        # Before rendering: a secret may look like a part of the format, and the line must stay JSON.
        return {name: value if name in _OURS else _concealed(value, conceal) for name, value in event.items()}

    return [
        structlog.processors.ExceptionRenderer(),
        conceal_values,
        structlog.processors.JSONRenderer(),
    ]


def _printable_values(_logger: object, _method: str, event: EventDict) -> EventDict:
    # What is no text is written as Python writes it, which is printable.
    return {name: printable(value) if isinstance(value, str) else value for name, value in event.items()}


def _write_traceback(out: TextIO, failure: structlog.typing.ExcInfo) -> None:
    plain = StringIO()
    structlog.dev.plain_traceback(plain, failure)
    out.write(printable(plain.getvalue()))


def _concealed(value: object, conceal: Callable[[str], str]) -> object:
    """JSON types as they are, anything else as text; all text concealed."""
    if isinstance(value, dict):
        return {str(key): _concealed(each, conceal) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_concealed(each, conceal) for each in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    return conceal(str(value))
