"""What may reach a terminal: text in which nothing moves the cursor, changes colours or titles, or turns lines around.

Names of features, ids, names of topics and of group members, and messages of brokers are others' text: whoever can
write a record must not be able to write to the screen of who looks at it.
"""

import re

# Controls of ASCII and of ISO 6429 but tab and newline; marks that change the direction of text; separators of lines
# that are none to us; a byte order mark; and halves of characters, which no encoding can print.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def printable(text: str) -> str:
    """The text with the number of each such character in its place, as Python would write it."""
    return _UNPRINTABLE.sub(_escaped, text)


def printable_line(text: str) -> str:
    """The same for text that must stay in its place on a line: tabs, newlines and what has no width are escaped."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 1 << 8 else f"\\u{code:04x}"
