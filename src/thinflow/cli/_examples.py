"""Examples at the end of help, in lines that fit a terminal and can be pasted as they stand."""

from __future__ import annotations

import re

COMMENT = re.compile(r"\s+# ")
WIDTH = 80
_QUOTED = re.compile(r"""'[^']*'|"(?:\\.|[^"\\])*\"|[^\s'"]+|['"]""")
_GOES_ON = " \\"


def laid_out(examples: str, width: int = WIDTH) -> str:
    """An `EXAMPLES` text with what is too long for a line put on several.

    A comment goes above its command, and a command goes on behind a backslash, as a shell reads it.
    """
    lines: list[str] = []
    for line in examples.strip("\n").splitlines():
        lines += [line] if len(line) <= width else _several(line, width)
    return "\n".join(lines)


def _several(line: str, width: int) -> list[str]:
    indent = line[: len(line) - len(line.lstrip())]
    command, *comment = COMMENT.split(line.strip(), maxsplit=1)
    told = [f"{indent}# {text}" for text in comment]
    return told + folded_command(command, indent, width)


def folded_command(command: str, indent: str = "", width: int = WIDTH) -> list[str]:
    """A command in lines that end in a backslash but for the last, broken between its words only."""
    lines, line = list[str](), indent
    for word in _words(command):
        longer = f"{line} {word}" if line.strip() else f"{line}{word}"
        if len(longer) > width - len(_GOES_ON) and line.strip():
            lines.append(f"{line}{_GOES_ON}")
            longer = f"{indent}  {word}"
        line = longer
    return [*lines, line]


def _words(command: str) -> list[str]:
    """The words of a command as they are written; a flag and its value are one."""
    words: list[str] = []
    end = -1
    for found in _QUOTED.finditer(command):
        # Quotes may stand in the middle of a word.
        if found.start() == end:
            words[-1] += found[0]
        elif words and words[-1].startswith("-") and " " not in words[-1] and not found[0].startswith("-"):
            words[-1] += f" {found[0]}"
        else:
            words.append(found[0])
        end = found.end()
    return words
