"""HTML for notebooks."""

from __future__ import annotations

from html import escape


def preformatted(text: str) -> str:
    """A text as it is, in a fixed font."""
    return f"<pre>{escape(text)}</pre>"
