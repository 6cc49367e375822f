"""What several commands need to declare their parameters."""

import sys
from typing import NamedTuple

import click
import pytest
from click.testing import CliRunner, Result

from stream_apple.cli import SUMMARIES, main
from stream_apple.cli.options.parameters import duration, gathered


class Size(NamedTuple):
    """Two options that belong together."""

    width: int
    height: int | None


@click.command()
@click.argument("name")
@click.option("--width", type=int, default=3, help="How wide.")
@click.option("--height", type=int, help="How high.")
@click.option("--after", callback=duration(words={"never": -1}), default="1m", help="When.")
@click.option("--every", callback=duration(least=0), help="How often.")
@gathered(size=Size)
def command(name: str, size: Size, after: int, every: int | None) -> None:
    """Print what it was given."""
    click.echo(f"{name} {size} {after} {every}")


def run(*arguments: str) -> Result:
    """Run the command in this process."""
    return CliRunner().invoke(command, arguments)


def test_a_group_has_its_options() -> None:
    """The fields' options come as one object, the others one by one; the help is the command's own."""
    assert run("a").stdout == "a Size(width=3, height=None) 60000 None\n"
    assert run("a", "--height", "5", "--width", "4").stdout == "a Size(width=4, height=5) 60000 None\n"
    assert "Print what it was given." in run("--help").stdout


def test_durations_are_milliseconds() -> None:
    """With their units, or as a word that stands for a number."""
    assert run("a", "--after", "1h30m", "--every", "0s").stdout.endswith(" 5400000 0\n")
    assert run("a", "--after", "never").stdout.endswith(" -1 None\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--after", "soon"),
            "'--after': expected a duration such as '250ms', '5m' or '1h30m', found 'soon', or 'never'",
        ),
        (("--after", "0s"), "'--after': expected a duration above 0"),
        (("--every", "5"), "'--every': expected a duration such as '250ms', '5m' or '1h30m', found '5'"),
    ],
)
def test_durations_that_are_none_are_refused(arguments: tuple[str, ...], message: str) -> None:
    """As a usage error that names the option."""
    result = run("a", *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_every_whole_number_that_can_be_typed_has_a_bound() -> None:
    """Some were counted with in C, or by a queue of Python's: a larger number ended the command with a traceback."""
    types = {
        (name, *parameter.opts): parameter.type
        for name in SUMMARIES
        for parameter in main.get_command(click.Context(main), name).params  # type: ignore[union-attr]
        if isinstance(parameter.type, click.IntRange | click.types.IntParamType)
    }
    assert len(types) > 27
    for option, kind in types.items():
        with pytest.raises(click.BadParameter, match=r"at most|is not in the range"):
            assert kind.convert(sys.maxsize + 1, None, None) is None, option
