"""The frame of a page without scripts. It includes its style sheet, and its policy lets it load nothing."""

from __future__ import annotations

import base64
import hashlib
from html import escape

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src {hash}">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<h1>{title}</h1>
{body}
</body>
</html>
"""
_STYLE = "body { font: 16px/1.5 sans-serif; max-width: 50rem; margin: 2rem auto; padding: 0 1rem }\n"


def plain_page(title: str, body: str, style: str = "") -> str:
    """A page.

    Args:
        title: any text.
        body: HTML, in which every text is escaped. The policy forbids `style` attributes.
        style: CSS in addition to that of all such pages.

    Example:
        >>> "<h1>a &lt; b</h1>" in plain_page("a < b", "<p>It is.</p>")
        True
    """
    style = _STYLE + style
    return _PAGE.format(title=escape(title), body=body, style=style, hash=source_hash(style))


def source_hash(source: str) -> str:
    """The hash of a script or a style sheet in a Content-Security-Policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"
