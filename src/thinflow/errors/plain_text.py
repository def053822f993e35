"""Text from a model as a terminal, a table or a page may show it: names are the file's, files are hostile.

A terminal obeys what is no letter: ESC starts commands that clear the screen, rename the window or answer in
the user's name, and the marks of right-to-left text show a line in another order than it has. Such characters
are shown as Python would write them: "\\x1b".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_FORMATS = (
    *(0x00AD, 0x061C, 0x180E, 0x200B, 0x200E, 0x200F),
    *range(0x2028, 0x202F),  # line and paragraph separators, embeddings and overrides of direction
    *range(0x2060, 0x2070),  # invisible operators, isolates of direction
    0xFEFF,
    *range(0xFFF9, 0xFFFC),
    *range(0xE0000, 0xE0080),  # tags, which spell invisible words
)
"""Format characters that hide or reorder what is shown. The two joiners are left, as scripts need them."""


def _escaped(code: int) -> str:
    return chr(code).encode("unicode_escape").decode()


_IN_LINES = {code: _escaped(code) for code in (*range(9), *range(10, 32), *range(0x7F, 0xA0), *_FORMATS)}
_IN_TEXTS = {code: text for code, text in _IN_LINES.items() if code != ord("\n")}


def shown(text: str) -> str:
    """The text without what commands a terminal; its line breaks and tabs stay."""
    return text if text.isprintable() else text.translate(_IN_TEXTS)


def one_line(text: str) -> str:
    """The text without what commands a terminal, in one line: a name cannot begin a line of its own.

    Tabs stay.
    """
    return text if text.isprintable() else text.translate(_IN_LINES)


def csv_cell(text: str) -> str:
    """The text as a cell that no spreadsheet takes for a formula: `=`, `+`, `-`, `@` get a quote in front.

    Numbers stay as they are.
    """
    plain = one_line(text)
    return f"'{plain}" if plain[:1] in {"=", "+", "-", "@"} and not _is_number(plain) else plain


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


_MARKDOWN = str.maketrans({c: f"\\{c}" for c in "\\`<|"})


def markdown(text: str) -> str:
    """The text for a Markdown page or a cell of a table in it: no HTML, link, code or further cell."""
    return one_line(text).translate(_MARKDOWN).replace("](", "]\\(").replace("][", "]\\[")


def markdown_code(text: str) -> str:
    """The text as code in a Markdown page or table, whatever marks are in it."""
    plain = one_line(text).replace("|", "\\|")
    fence = "`"
    while fence in plain:
        fence += "`"
    return f"`{plain}`" if fence == "`" else f"{fence} {plain} {fence}"


_LONGEST_FILE_NAME = 180
"""Bytes; file systems take 255, and a suffix is to come."""
_RESERVED = {"CON", "PRN", "AUX", "NUL", *(f"{port}{n}" for port in ("COM", "LPT") for n in range(1, 10))}
"""What Windows takes for a device, whatever the suffix."""


def file_name(name: str, slash: str = "_") -> str:
    """A name as that of a file, without a suffix, that stays in its folder on every system.

    Args:
        name: of a node or an output, where "/" is usual.
        slash: what stands for that.
    """
    plain = "".join("_" if c in '<>:"\\|?*' or not c.isprintable() else c for c in name)
    plain = plain.replace("/", slash)
    if plain.startswith("."):
        plain = f"_{plain[1:]}"
    plain = plain.encode("utf-8", "replace")[:_LONGEST_FILE_NAME].decode("utf-8", "ignore").rstrip(". ")
    return f"_{plain}" if not plain or plain.partition(".")[0].upper() in _RESERVED else plain


def file_names(names: Iterable[str], slash: str = "_") -> dict[str, str]:
    """Name -> `file_name` of it, each distinct, also where letters of both cases count as the same."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        wished = unique = file_name(name, slash)
        count = 0
        while unique.lower() in taken:
            count += 1
            unique = f"{wished}_{count}"
        taken.add(unique.lower())
        found[name] = unique
    return found


def first_line(error: Exception) -> str:
    """The first line of another library's complaint, without the full stop."""
    return str(error).partition("\n")[0].rstrip(". ") or "no reason given"
