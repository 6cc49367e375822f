"""Logs: one event per line on stderr, JSON for machines, aligned text for people.

Events have snake_case names and carry their facts as fields. structlog and the standard library's loggers
(librdkafka's lines come that way) end in the same handler, so that no line escapes the format.
"""

import logging
import sys
from typing import Literal

import structlog
from structlog.typing import Processor

Format = Literal["auto", "json", "human"]

_SHARED: tuple[Processor, ...] = (
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.ExtraAdder(),
    structlog.processors.TimeStamper(fmt="iso", utc=True),
)


def configure(format: Format = "auto") -> None:  # noqa: A002  the word of the command line
    """Send every event to stderr; `auto` is human on a terminal and JSON elsewhere. May be called again."""
    human = format == "human" or (format == "auto" and sys.stderr.isatty())
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_SHARED,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_rendering(human=human)],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    logging.captureWarnings(capture=True)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_SHARED,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )


def _rendering(*, human: bool) -> list[Processor]:
    if human:
        return [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
    return [
        structlog.processors.ExceptionRenderer(),
        structlog.processors.JSONRenderer(default=str),
    ]
