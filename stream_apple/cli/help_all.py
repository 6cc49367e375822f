"""The option `--help-all`, which also shows the options that few need, and that `--help` hides."""

from copy import copy

import click

from stream_apple.cli.output import say


def _show_all(context: click.Context, _parameter: click.Parameter, value: bool) -> None:  # noqa: FBT001
    if value:
        shown = copy(context.command)
        shown.params = [copy(parameter) for parameter in shown.params]
        for parameter in shown.params:
            if isinstance(parameter, click.Option):
                parameter.hidden = False
        say(shown.get_help(context))
        context.exit()


help_all = click.option(
    "--help-all",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_all,
    help="Show this message with the options that few need, and exit.",
)
"""Decorates a command that has hidden options."""
