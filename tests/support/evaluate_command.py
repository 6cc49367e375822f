"""The command `evaluate` in this process."""

from click.testing import CliRunner, Result

from stream_apple.cli.evaluate import command


def evaluate(*arguments: object) -> Result:
    """Run the command."""
    return CliRunner().invoke(command, list(map(str, arguments)))
