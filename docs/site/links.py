"""A hook of the site: links that lead out of `docs` become plain names, as the site has no such pages."""

import re

_OUTWARD = re.compile(r"\[([^\]]+)\]\((?:\.\./)+[^)]*\)")


def on_page_markdown(markdown: str, page: object, **_: object) -> str:
    """Return the page's text with the text of such links in their place. Called by MkDocs for each page."""
    if str(getattr(getattr(page, "file", None), "src_uri", "")).startswith("api/"):
        return markdown
    return _OUTWARD.sub(r"\1", markdown)
