"""Small pieces of HTML for notebooks. Every text is escaped, nothing is loaded, and colours are those of the notebook."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

__all__ = ["block", "lines", "progress", "table"]

#: The maximum number of characters of one text, and of rows of a table.
_TEXT_MAX, _ROWS_MAX = 2000, 200

_CELL = "padding:2px 12px 2px 0;text-align:left;vertical-align:top;border:0;background:none"


def text(value: Any) -> str:
    """Returns a value as escaped text of a limited length."""
    shown = str(value)
    return html.escape(shown if len(shown) <= _TEXT_MAX else f"{shown[:_TEXT_MAX]}…", quote=True)


def progress(step: int, steps: int) -> str:
    """Returns a bar for ``step`` of ``steps``, with the numbers."""
    return f'<progress value="{int(step)}" max="{max(1, int(steps))}"></progress> {int(step)} of {int(steps)}'


def lines(found: Iterable[str]) -> str:
    """Returns lines whose indentation is kept."""
    shown = [text(line) for line in found]
    return f'<pre style="margin:4px 0;background:none;color:inherit">{chr(10).join(shown[:_ROWS_MAX])}</pre>'


def table(rows: Sequence[Sequence[Any]], head: Sequence[str] = (), *, is_html: bool = False) -> str:
    """Returns a table. With ``is_html`` the last cell of each row is HTML that the caller has escaped."""
    titles = "".join(f'<th style="{_CELL}">{text(title)}</th>' for title in head)
    body = ""
    for row in rows[:_ROWS_MAX]:
        cells = [text(cell) for cell in row]
        if is_html:
            cells[-1] = str(row[-1])
        body += "<tr>" + "".join(f'<td style="{_CELL}">{cell}</td>' for cell in cells) + "</tr>"
    more = f"<tr><td>{len(rows) - _ROWS_MAX} more</td></tr>" if len(rows) > _ROWS_MAX else ""
    return f'<table style="border-collapse:collapse;color:inherit">{f"<tr>{titles}</tr>" if titles else ""}{body}{more}</table>'


def block(title: str, *parts: str) -> str:
    """Returns parts under a title."""
    frame = "border-left:3px solid rgba(128,128,128,.6);padding:4px 12px;color:inherit"
    return f'<div style="{frame}"><strong>{text(title)}</strong>{"".join(parts)}</div>'
