"""HTML for notebooks. Styles are inline, because notebooks do not load style sheets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

_PRE = "margin:0;line-height:1.3;white-space:pre;overflow-x:auto"
_COLOURS = {
    "comment": "#6a737d",
    "string": "#22863a",
    "decorator": "#6f42c1",
    "keyword": "#d73a49",
    "dialect": "#005cc5",
    "number": "#b08800",
}
_TOKENS = re.compile(
    r"""(?P<comment>\#[^\n]*)
      | (?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
      | (?P<decorator>@[\w.]+)
      | (?P<keyword>\b(?:class|def|with|for|in|if|else|while|return|import|from|as|None|True|False|and|or|not|lambda)\b)
      | (?P<dialect>\b[IRT](?:\.\w+)+)
      | (?P<number>\b\d[\w.]*)""",
    re.VERBOSE,
)
_FUNCTION = re.compile(r"^(?=(?P<indent> *)@(?:R\.function|T\.prim_func))", re.MULTILINE)
_NAME = re.compile(r"^ *def (\w+)", re.MULTILINE)
_LINES = {"+": "#e6ffed", "-": "#ffeef0", "@": "#f1f8ff"}
_LEVELS = {"error": "#cb2431", "warning": "#b08800", "remark": "#005cc5", "missed": "#6f42c1", "matched": "#22863a"}


def preformatted(text: str) -> str:
    """Returns text verbatim, in a fixed-width font."""
    return f'<pre style="{_PRE}">{escape(text)}</pre>'


def highlighted(text: str) -> str:
    """Returns TVMScript with colours."""
    out, end = [], 0
    for token in _TOKENS.finditer(text):
        colour = _COLOURS[token.lastgroup or ""]
        out += [escape(text[end : token.start()]), f'<span style="color:{colour}">{escape(token.group())}</span>']
        end = token.end()
    return "".join([*out, escape(text[end:])])


def script(text: str) -> str:
    """Returns TVMScript with colours. Several functions are foldable, and only `main` is open at first."""
    begins = [match.start() for match in _FUNCTION.finditer(text)]
    if len(begins) < 2:
        return f'<pre style="{_PRE}">{highlighted(text)}</pre>'
    ends = [*begins[1:], len(text)]
    parts = [f'<pre style="{_PRE}">{highlighted(text[: begins[0]].rstrip())}</pre>']
    for begin, end in zip(begins, ends, strict=True):
        function = text[begin:end].rstrip()
        found = _NAME.search(function)
        name = found.group(1) if found else ""
        summary = f"{name} ({function.count(chr(10)) + 1} lines)"
        inner = f'<pre style="{_PRE}">{highlighted(function)}</pre>'
        parts.append(folded(summary, inner, name == "main"))
    return f"<div>{''.join(parts)}</div>"


def folded(summary: str, inner: str, is_open: bool) -> str:
    """Returns a foldable element under a summary line."""
    return f"<details{' open' if is_open else ''}><summary><code>{escape(summary)}</code></summary>{inner}</details>"


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Returns a table; leading spaces of cells are kept."""
    style = "text-align:left;white-space:pre-wrap"
    head = "".join(f'<th style="{style}">{escape(each)}</th>' for each in heads)
    body = "".join(
        "<tr>" + "".join(f'<td style="{style}">{escape(str(cell))}</td>' for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def diff(text: str) -> str:
    """Returns a unified diff with coloured lines."""
    lines = []
    for line in text.splitlines():
        colour = None if line.startswith(("+++", "---")) else _LINES.get(line[:1])
        style = f' style="background:{colour}"' if colour else ""
        lines.append(f"<div{style}>{escape(line) or '&nbsp;'}</div>")
    return f'<pre style="{_PRE}">{"".join(lines)}</pre>'


def diagnostic(level: str, text: str) -> str:
    """Returns a diagnostic, with a bar in the colour of its level."""
    colour = _LEVELS.get(level, "#6a737d")
    return f'<pre style="{_PRE};border-left:4px solid {colour};padding-left:8px">{escape(text)}</pre>'
