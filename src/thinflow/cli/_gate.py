"""Escapes control characters in all that a command prints: no name from a model drives the terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from thinflow.errors.plain_text import shown

if TYPE_CHECKING:
    from collections.abc import Iterable

_NAMES = ("stdout", "stderr")


class Gate:
    """A text stream that writes control characters the way Python spells them; line breaks and tabs pass.

    Attributes:
        stream: the one behind it, for what draws on a terminal on purpose.
        width: columns that lines are folded to; None: they are not.
        called: what to say for a path: in a sentence, and in a command to paste.
    """

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.width: int | None = None
        self.called: dict[str, tuple[str, str]] = {}

    def write(self, text: str) -> int:
        # Names come from models, and a control character in one could rewrite what the terminal shows.
        safe = self.said(shown(text))
        if self.width is not None and len(safe) > self.width:
            from thinflow.cli._folding import folded

            safe = folded(safe, self.width)
        self.stream.write(safe)
        # What the caller gave, though more may have been written: others count by it.
        return len(text)

    def said(self, text: str) -> str:
        """A text with what its paths are called."""
        for path, (name, word) in self.called.items():
            if path in text:
                lines = text.split("\n")
                text = "\n".join(
                    line.replace(path, word if line.startswith(("next: ", "hint: ")) else name)
                    for line in lines
                )
        return text

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class Guarded:
    """While it lasts, what is printed goes through the gate, on stdout and stderr; those may be missing.

    What replaces a stream meanwhile stays.
    """

    def __enter__(self) -> None:
        self._before: tuple[Any, Any] = sys.stdout, sys.stderr
        self._own = [None if s is None or isinstance(s, Gate) else Gate(s) for s in self._before]
        for name, own in zip(_NAMES, self._own, strict=True):
            if own is not None:
                setattr(sys, name, own)

    def __exit__(self, *_: object) -> None:
        for name, own, before in zip(_NAMES, self._own, self._before, strict=True):
            if own is not None and getattr(sys, name) is own:
                setattr(sys, name, before)


def behind(stream: Any) -> Any:
    """The stream itself, for what draws on a terminal on purpose and cleans its texts itself."""
    return stream.stream if isinstance(stream, Gate) else stream


def fold(stream: Any, width: int | None) -> None:
    """From now on fold the lines of a stream, if it is behind a gate."""
    if isinstance(stream, Gate):
        stream.width = width
