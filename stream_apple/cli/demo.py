"""`stream-apple demo`: runs everything on a cluster inside this process, and shows it."""

import json
import signal
import sys
from typing import NoReturn

import click
from rich.console import Console

from stream_apple.cli.options.parameters import WholeNumber
from stream_apple.cli.output import PrintableConsole, say
from stream_apple.config.schema import LARGEST_PORT
from stream_apple.demo.child import ChildEndedError
from stream_apple.demo.loop.looks import loop_line, loop_picture, loop_summary
from stream_apple.demo.loop.loop_report import LoopReport
from stream_apple.demo.loop.loop_session import LoopSession
from stream_apple.demo.picture import line, picture, summary
from stream_apple.demo.screen import screen_of
from stream_apple.demo.session import Session
from stream_apple.demo.state import DemoReport
from stream_apple.demo.viewer import Viewer, has_desktop
from stream_apple.signals import STOPPING, Signals

_EXAMPLES, _REQUESTS = 200_000, 20_000


@click.command()
@click.option(
    "--examples",
    type=WholeNumber(1000),
    help=f"How many examples to send; with --loop, how many requests.  [default: {_EXAMPLES}; {_REQUESTS} with --loop]",
)
@click.option(
    "--loop", is_flag=True, help="With `serve` and `join`: labels come after the answers (docs/closed-loop.md)."
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object, and nothing else.")
@click.option(
    "--port", type=click.IntRange(0, LARGEST_PORT), default=0, help="Port of the status page.  [default: any]"
)
@click.option("--no-browser", is_flag=True, help="Don't open the status page in the desktop's browser.")
def command(examples: int | None, port: int, *, loop: bool, as_json: bool, no_browser: bool) -> None:
    """Run everything on a cluster inside this process: nothing to install.

    A made-up click stream goes through a real worker, `stream-apple run`. Its progressive loss is drawn beside that of
    a linear model, and the worker's status page opens if there is a desktop. The demo takes half a minute, and longer
    the first time; on a terminal, the page stays until Enter is pressed. Nothing is left behind.

    With --loop, a site asks `stream-apple serve` over HTTP, clicks come seconds later, `stream-apple join` makes
    examples of both, and the answers get better. This takes a minute and a half.

    Exits with 1 if an example was not answered exactly once, or if the loss was not below that of the linear model
    (with --loop: of a constant answer); with a process's exit code if that ends early.
    """
    signals = Signals(caught=(*STOPPING, signal.SIGHUP))
    signals.call(lambda: _end(signals))
    console = PrintableConsole(stderr=as_json)
    # The page stays until Enter is pressed, which takes a keyboard.
    attended = not as_json and sys.stdin.isatty() and sys.stdout.isatty()
    viewer = Viewer(opens=attended and not no_browser and has_desktop(), waits=attended)
    try:
        with signals:
            report = _run(examples, port, console, viewer, loop=loop, quiet=as_json)
    except ChildEndedError as error:
        say(f"stream-apple: {error}", err=True)
        sys.exit(error.exit_code)
    broken = report.broken_promises()
    if as_json:
        say(json.dumps(report.result._asdict()))
    elif not broken:
        console.print(loop_summary(report) if isinstance(report, LoopReport) else summary(report))
    for promise in broken:
        say(f"stream-apple: {promise}", err=True)
    if broken:
        sys.exit(1)


def _run(
    count: int | None, port: int, console: Console, viewer: Viewer, *, loop: bool, quiet: bool
) -> DemoReport | LoopReport:
    if not loop:
        with screen_of(console, picture, line, quiet=quiet) as screen:
            return Session(count or _EXAMPLES, port, screen, viewer).run()
    with screen_of(console, loop_picture, loop_line, quiet=quiet) as loop_screen:
        return LoopSession(count or _REQUESTS, port, loop_screen, viewer).run()


def _end(signals: Signals) -> NoReturn:
    """Exit by an exception, so that every `with` is left and the worker is stopped."""
    if signals.received is signal.SIGINT:
        raise KeyboardInterrupt  # while the page is shown, Ctrl-C ends the wait, as Enter does
    sys.exit(signals.exit_code)
