"""Where commands print their tables, and text of others as it may be printed."""

from rich.console import Console

_WIDTH_OF_A_FILE = 200  # wide enough that no cell is broken in a log or a pipe


def table_console() -> Console:
    """Standard output, as wide as the terminal that it is, or else wide enough for every table."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _WIDTH_OF_A_FILE
    return console


def printable(text: str) -> str:
    """The text without what would steer a terminal or turn a line around: such signs become escapes, as in Python."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)
