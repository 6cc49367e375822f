"""An extension of the site's reference: the aligned lists of our docstrings become lists of HTML.

name   what it is, over as many lines as that takes,
each indented
"""

import re
from typing import Any

import griffe

_ITEM = re.compile(r"^(\w[\w.]*(?:, \w[\w.]*)*) {2,}(\S.*)$")


class AlignedLists(griffe.Extension):
    """Rewrites each docstring when it is read."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:  # noqa: ANN401  griffe's signature
        """Called by griffe for each module, class and function."""
        if obj.docstring is not None:
            obj.docstring.value = as_lists(obj.docstring.value)


def as_lists(text: str) -> str:
    """Return a docstring with a list of Markdown for each aligned one."""
    lines: list[str] = []
    within = False
    for line in text.splitlines():
        item = _ITEM.match(line)
        if item is not None:
            if not within and lines and lines[-1]:
                lines.append("")
            lines.append(f"- `{item[1]}`: {item[2]}")
            within = True
        elif within and line.startswith("   "):
            lines.append(f"  {line.strip()}")
        else:
            within = False
            lines.append(line)
    return "\n".join(lines)
