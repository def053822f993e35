"""Results as HTML for notebooks, made of the text that they print: both say the same figures.

Whatever comes from a model, its names included, is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

# As html.escape does, whose module takes 2 ms to import for its 2,231 names of characters.
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})
# A cell ends at a bar, unless a backslash stands before it.
_CELL_END = re.compile(r"(?<!\\)\|")
# As in CommonMark, a code span ends at as many backticks as it began with.
_TOKEN = re.compile(
    r"\\(?P<escaped>[\\`*_{}\[\]<>()#+\-.!|&])"
    r"|(?P<fence>`+)(?P<code>.+?)(?P=fence)(?!`)"
    r"|\*\*(?P<bold>.+?)\*\*"
)
_MOST_ROWS = 60
"""Rows of a table that are shown; a notebook keeps all it shows in its file."""


def markdown_html(text: str) -> str:
    """A report in Markdown, of which headings, tables, lists, `code` and **bold** are known, as HTML."""
    return f"<div>{''.join(_blocks(text.splitlines()))}</div>"


def text_html(text: str) -> str:
    """A text whose first line is the verdict."""
    verdict, _, rest = text.partition("\n")
    return f"<div><p><b>{_escaped(verdict)}</b></p>{f'<pre>{_escaped(rest)}</pre>' if rest else ''}</div>"


def table_html(title: str, rows: Iterable[Sequence[object]], headers: Sequence[str] = ()) -> str:
    """A title over a table of what `str` makes of the cells; without headers the first column is one."""
    listed = list(rows)
    lines = [_row(headers, "th")] if headers else []
    for first, *others in listed[:_MOST_ROWS]:
        lines.append(f"<tr>{_cells([first], 'td' if headers else 'th')}{_cells(others, 'td')}</tr>")
    more = len(listed) - _MOST_ROWS
    tail = f"<p>and {more} more</p>" if more > 0 else ""
    return f"<div><p><b>{_escaped(title)}</b></p><table>{''.join(lines)}</table>{tail}</div>"


def _blocks(lines: Sequence[str]) -> Iterator[str]:
    """Headings, tables, lists and paragraphs."""
    at = 0
    while at < len(lines):
        line = lines[at]
        mark = "|" if line.startswith("|") else "- " if line.startswith("- ") else ""
        end = at + 1
        while mark and end < len(lines) and lines[end].startswith(mark):
            end += 1
        if mark == "|":
            yield _table(lines[at:end])
        elif mark:
            yield f"<ul>{''.join(f'<li>{_inline(item[2:])}</li>' for item in lines[at:end])}</ul>"
        elif line.startswith("#"):
            level = min(len(line) - len(line.lstrip("#")) + 2, 6)  # below the headings of the notebook itself
            yield f"<h{level}>{_inline(line.lstrip('# '))}</h{level}>"
        elif line.strip():
            yield f"<p>{_inline(line)}</p>"
        at = end


def _table(lines: Sequence[str]) -> str:
    """A table whose second line is the rule below its headers."""
    # A row begins and ends with a bar, hence an empty piece at either end.
    rows = [[cell.strip() for cell in _CELL_END.split(line)[1:-1]] for line in lines]
    head = f"<tr>{''.join(f'<th>{_inline(cell)}</th>' for cell in rows[0])}</tr>"
    body = (f"<tr>{''.join(f'<td>{_inline(cell)}</td>' for cell in row)}</tr>" for row in rows[2:])
    return f"<table>{head}{''.join(body)}</table>"


def _inline(text: str) -> str:
    """A line with what is `code` or **bold** in it; escaped characters as they are meant."""
    found, at = [], 0
    for token in _TOKEN.finditer(text):
        found.append(_escaped(text[at : token.start()]))
        if token["escaped"]:
            found.append(_escaped(token["escaped"]))
        elif token["code"]:
            # Cells are cut before code is seen, so bars are escaped even there.
            code = token["code"].replace("\\|", "|").strip()
            found.append(f"<code>{_escaped(code)}</code>")
        else:
            found.append(f"<b>{_inline(token['bold'])}</b>")
        at = token.end()
    return "".join([*found, _escaped(text[at:])])


def _escaped(text: str) -> str:
    return text.translate(_ESCAPES)


def _row(cells: Iterable[object], tag: str) -> str:
    return f"<tr>{_cells(cells, tag)}</tr>"


def _cells(cells: Iterable[object], tag: str) -> str:
    return "".join(f"<{tag}>{_escaped(str(cell))}</{tag}>" for cell in cells)
