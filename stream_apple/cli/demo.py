"""`stream-apple demo`: everything at once, to look at."""

import json
import signal
import sys
from typing import NoReturn

import click
from rich.console import Console

from stream_apple.cli.output import PrintableConsole, say
from stream_apple.config.schema import LARGEST_PORT
from stream_apple.demo.screen import LineScreen, LiveScreen, NullScreen, Screen, summary
from stream_apple.demo.session import Session
from stream_apple.demo.state import broken_promises
from stream_apple.demo.viewer import NullViewer, TerminalViewer, Viewer, has_desktop
from stream_apple.demo.worker import WorkerEndedError
from stream_apple.signals import STOPPING, Signals


@click.command()
@click.option("--examples", type=click.IntRange(min=1000), default=200_000, show_default=True, help="How many to send.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object, and nothing else.")
@click.option(
    "--port", type=click.IntRange(0, LARGEST_PORT), default=0, help="Of the worker's status page.  [default: any]"
)
@click.option("--no-browser", is_flag=True, help="Don't open the status page in the desktop's browser.")
def command(examples: int, port: int, *, as_json: bool, no_browser: bool) -> None:
    """Run everything on a cluster inside this process: nothing to install.

    A made-up click stream goes through a real worker, `stream-apple run`; its progressive loss is drawn beside that
    of a linear model, and the worker's status page opens where there is a desktop. Takes half a minute, the first time
    longer; on a terminal, the page stays until Enter is pressed. Nothing is left behind.

    Exits with 1 if an example was not answered exactly once, or apple was not better than linear; with the
    worker's exit code if it ends early.
    """
    signals = Signals(caught=(*STOPPING, signal.SIGHUP))
    signals.call(lambda: _end(signals))
    console = PrintableConsole(stderr=as_json)
    try:
        with signals, _screen(console, as_json=as_json) as screen:
            viewer = _viewer(as_json=as_json, opens=not no_browser)
            report = Session(examples, port, screen, viewer).run()
    except WorkerEndedError as error:
        say(f"stream-apple: {error}", err=True)
        sys.exit(error.exit_code)
    broken = broken_promises(report)
    if as_json:
        say(json.dumps(report.result._asdict()))
    elif not broken:
        console.print(summary(report))
    for promise in broken:
        say(f"stream-apple: {promise}", err=True)
    if broken:
        sys.exit(1)


def _screen(console: Console, *, as_json: bool) -> Screen:
    # Braille needs UTF-8; a terminal that can't show it gets lines.
    if console.is_terminal and console.encoding.startswith("utf"):
        return LiveScreen(console)
    return NullScreen() if as_json else LineScreen(console)


def _viewer(*, as_json: bool, opens: bool) -> Viewer:
    # Without a keyboard there is nobody to say that they have seen enough.
    if as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return NullViewer()
    return TerminalViewer(opens=opens and has_desktop())


def _end(signals: Signals) -> NoReturn:
    """Exit by an exception, so that every `with` is left and the worker is stopped."""
    if signals.received is signal.SIGINT:
        raise KeyboardInterrupt  # a viewer who is waited for may answer with it
    sys.exit(signals.exit_code)
