"""`stream-apple demo`: everything at once, to look at."""

import json
import signal
import sys
from types import FrameType
from typing import NoReturn

import click
from rich.console import Console

from stream_apple.demo.screen import LineScreen, LiveScreen, NoScreen, Screen, summary
from stream_apple.demo.session import Session
from stream_apple.demo.view import faults
from stream_apple.demo.visitor import Nobody, Person, Visitor, has_desktop
from stream_apple.demo.worker import WorkerEndedError


@click.command()
@click.option("--examples", type=click.IntRange(min=1000), default=200_000, show_default=True, help="How many to send.")
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as one JSON object, and nothing else.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Of the worker's status page.  [default: any]")
@click.option("--no-browser", is_flag=True, help="Don't open the status page in the desktop's browser.")
def command(examples: int, port: int, *, as_json: bool, no_browser: bool) -> None:
    """Run everything on a cluster inside this process: nothing to install.

    A made-up click stream goes through a real worker, `stream-apple run`; its progressive loss is drawn beside that
    of a linear model, and the worker's status page opens where there is a desktop. Takes half a minute, the first time
    longer; on a terminal, the page stays until Enter is pressed. Nothing is left behind.

    Exits with 1 if an example was not answered exactly once, or apple was not better than linear; with the
    worker's exit code if it ends early.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    console = Console(stderr=as_json)
    try:
        with _screen(console, as_json=as_json) as screen:
            visitor = _visitor(as_json=as_json, opens=not no_browser)
            report = Session(examples, port, screen, visitor).run()
    except WorkerEndedError as error:
        click.echo(f"stream-apple: {error}", err=True)
        sys.exit(error.exit_code)
    found = faults(report)
    if as_json:
        click.echo(json.dumps(report.outcome._asdict()))
    elif not found:
        console.print(summary(report))
    for fault in found:
        click.echo(f"stream-apple: {fault}", err=True)
    if found:
        sys.exit(1)


def _screen(console: Console, *, as_json: bool) -> Screen:
    # Braille needs UTF-8; a terminal that can't show it gets lines.
    if console.is_terminal and console.encoding.startswith("utf"):
        return LiveScreen(console)
    return NoScreen() if as_json else LineScreen(console)


def _visitor(*, as_json: bool, opens: bool) -> Visitor:
    # Without a keyboard there is nobody to say that they have seen enough.
    if as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return Nobody()
    return Person(opens=opens and has_desktop())


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    """End through every `with`, so that the worker is stopped."""
    sys.exit(128 + number)
