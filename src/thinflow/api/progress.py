"""A bar for what takes long, as text: in a notebook it overwrites itself, in a terminal its line."""

from __future__ import annotations

import os
import sys
import time
from typing import Any, TextIO

from thinflow.errors.plain_text import one_line
from thinflow.typing import Progress

_SHOWN_AFTER = 1.0
"""Seconds before anything is drawn: what is done by then needs no bar."""
_REDRAW = 0.2
_LINES_EVERY = 5.0
"""Seconds between the lines of a terminal that cannot take one back."""
_CELLS = 20


class ProgressBar:
    """Draws how far it is and how long it takes yet; called with (done, total, label).

    Args:
        place: where it is drawn; see `progress_bar`.
    """

    def __init__(self, place: _Notebook | _Line | _Lines) -> None:
        self.place = place
        self._first: float | None = None
        self._begun = 0.0
        self._total = self._done = 0
        self._drawn = 0.0

    def __call__(self, done: int, total: int, label: str) -> None:
        now = time.monotonic()
        if self._first is None:
            self._first = now
        # What counts to another end, or from the beginning again, takes a time of its own.
        if total != self._total or done < self._done or not self._begun:
            self._begun, self._total = now, total
        self._done = done
        if done >= total:
            self.close()
        elif now - self._first >= _SHOWN_AFTER and now - self._drawn >= self.place.every:
            self._drawn = now
            self.place.draw(text_of(done, total, label, now - self._begun))

    def close(self) -> None:
        """Take it away."""
        self.place.clear()
        self._first, self._begun = None, 0.0


def progress_bar() -> Progress:
    """A bar for the `progress` of any function: `thinflow.optimize(..., progress=thinflow.progress_bar())`.

    In a Jupyter notebook it is a line of output that overwrites itself; in a terminal a line on standard
    error. Elsewhere, and for what is done within a second, nothing is shown.
    """
    if shell := _notebook():
        return ProgressBar(_Notebook(shell))
    return ProgressBar(_terminal_place(sys.stderr))


def text_of(done: int, total: int, label: str, seconds: float) -> str:
    """`calibrate  █████░░░░░  12/40, 9 s left`.

    Args:
        done, total: how far it is.
        label: what is being done.
        seconds: that it took so far.
    """
    filled = _CELLS * done // max(total, 1)
    bar = "█" * filled + "░" * (_CELLS - filled)
    left = f", {time_text(seconds / done * (total - done))} left" if done > 0 else ""
    return f"{one_line(label)}  {bar}  {done}/{total}{left}"


def time_text(seconds: float) -> str:
    """`9 s`, `2 min 5 s`, `1 h 20 min`."""
    whole = max(round(seconds), 1)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def _notebook() -> Any:
    """IPython's display module, if a notebook is what runs; it is never imported for this."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    # A terminal's IPython has no kernel, and a line there is as good as anywhere.
    return None if shell is None or not hasattr(shell, "kernel") else sys.modules.get("IPython.display")


def _cell() -> object:
    """The number of the cell that runs in a notebook."""
    return getattr(sys.modules["IPython"].get_ipython(), "execution_count", None)


def _terminal_place(stream: TextIO | None) -> _Line | _Lines:
    """A line that overwrites itself, where a terminal can do that."""
    if stream is None or not stream.isatty():
        return _Lines(None)
    return _Lines(stream) if os.environ.get("TERM") == "dumb" else _Line(stream)


class _Notebook:
    """An output of the cell, updated in its place: one for all that runs in a cell, as each leaves a line."""

    every = _REDRAW

    def __init__(self, display: Any) -> None:
        self.display = display
        self.handle: Any = None
        self.cell: object = None
        self.is_drawn = False

    def draw(self, text: str) -> None:
        shown, cell = {"text/plain": text}, _cell()
        if self.handle is None or cell != self.cell:
            self.handle, self.cell = self.display.display(shown, raw=True, display_id=True), cell
        else:
            self.handle.update(shown, raw=True)
        self.is_drawn = True

    def clear(self) -> None:
        if self.is_drawn:
            self.handle.update({"text/plain": ""}, raw=True)
            self.is_drawn = False


class _Line:
    """The line that the cursor is in."""

    every = _REDRAW

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.width = 0

    def draw(self, text: str) -> None:
        try:
            columns = os.get_terminal_size(self.stream.fileno()).columns or 80
        except (OSError, ValueError):
            columns = 80
        # In the last column the cursor would go on to the next line.
        shown = text[: columns - 1]
        print(f"\r{shown:{self.width}}", end="", file=self.stream, flush=True)
        self.width = len(shown)

    def clear(self) -> None:
        if self.width:
            print(f"\r{'':{self.width}}\r", end="", file=self.stream, flush=True)
            self.width = 0


class _Lines:
    """A line now and then, for what cannot take one back; without a stream nothing."""

    every = _LINES_EVERY

    def __init__(self, stream: TextIO | None) -> None:
        self.stream = stream

    def draw(self, text: str) -> None:
        if self.stream is not None:
            # Nothing but ASCII: what knows no control sequences may know no blocks.
            print(text.replace("█", "#").replace("░", "."), file=self.stream, flush=True)

    def clear(self) -> None:
        """Lines stay."""


def plain_bar(stream: TextIO) -> ProgressBar:
    """A bar of lines, for a terminal whose user wants no control sequences."""
    return ProgressBar(_Lines(stream))
