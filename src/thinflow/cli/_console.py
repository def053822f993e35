"""Console output: progress on stderr, plain tables and readable numbers for stdout."""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from thinflow.cli._gate import behind
from thinflow.errors.plain_text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rich.progress import Progress

    Tell = Callable[[int, int, str], None]

# Drawing costs more than many a step that it tells of.
_REDRAW_SECONDS = 0.1
_SHOWN_AFTER = 1.0
"""Seconds from the start of a command in which nothing is told of what it uses: most is done by then."""


class _Bar:
    """One progress bar, drawn from the first call on and gone after the last."""

    def __init__(self) -> None:
        self.live: Progress | None = None
        self.drawn_at = 0.0

    def __call__(self, done: int, total: int, label: str) -> None:
        if done >= total:
            self.clear()
            return
        now = time.monotonic()
        if self.live is not None and now - self.drawn_at < _REDRAW_SECONDS:
            return
        self.drawn_at = now
        if self.live is None:
            self.live = self._start()
        (task,) = self.live.task_ids
        self.live.update(task, completed=done, total=total, description=one_line(label), refresh=True)

    def _start(self) -> Progress:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        live = Progress(
            TextColumn("{task.description}", markup=False),  # labels are names from the model
            BarColumn(),
            TextColumn("{task.completed}/{task.total}"),
            TimeRemainingColumn(),
            console=Console(file=behind(sys.stderr)),
            # No thread of rich's own, which would wake up in the middle of what is measured.
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,  # rich would send what is printed meanwhile to stderr
            redirect_stderr=False,
        )
        live.add_task("")
        live.start()
        return live

    def clear(self) -> None:
        if self.live is not None:
            self.live.stop()
            self.live = None


_bar = _Bar()


class _Below:
    """Tells of what a command uses, such as reading a graph, while the command has nothing to tell itself."""

    def __init__(self, draw: Tell) -> None:
        self._draw = draw
        self._next_at = time.monotonic() + _SHOWN_AFTER
        self._is_drawn = self._is_taken = False

    def above(self, done: int, total: int, label: str) -> None:
        """Draw a step of the command's own."""
        # Until it ends nothing else is drawn: two steps in one line would flicker.
        self._is_taken, self._is_drawn = done < total, False
        self._draw(done, total, label)

    def __call__(self, done: int, total: int, label: str) -> None:
        if done >= total:
            # The end of what was never drawn is no news.
            if self._is_drawn:
                self._is_drawn = False
                self._draw(done, total, label)
        elif not self._is_taken and (now := time.monotonic()) >= self._next_at:
            self._next_at, self._is_drawn = now + _REDRAW_SECONDS, True
            self._draw(done, total, label)


_below: _Below | None = None


@contextmanager
def telling() -> Iterator[None]:
    """Have what a command uses told as it is counted; see `thinflow.progress`."""
    global _below
    draw = _place()
    if draw is None:
        yield
        return
    from thinflow.progress import watched

    _below = _Below(draw)
    try:
        with watched(_below):
            yield
    finally:
        _below = None


def progress() -> Tell | None:
    """A `(done, total, label)` callback that draws a bar on stderr; None where nobody would see it.

    It draws when stderr is a terminal, or FORCE_COLOR is set. With NO_COLOR, and in a dumb terminal, it
    writes a plain line now and then, without control sequences.
    """
    return _place() if _below is None else _below.above


def _place() -> Tell | None:
    if sys.stderr is None or not (sys.stderr.isatty() or os.environ.get("FORCE_COLOR")):
        return None
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        from thinflow.api.progress import plain_bar

        return plain_bar(sys.stderr) if sys.stderr.isatty() else None
    return _bar


def clear_progress() -> None:
    """Remove the bar and show the cursor again; harmless when there is none."""
    _bar.clear()


def terminal_width() -> int | None:
    """Columns of the terminal that stdout is; None where it goes to a file or another program."""
    if sys.stdout is None or not sys.stdout.isatty():
        return None
    # As in shutil, which is not imported for this: see `_parser`.
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given):
        return int(given)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    except (OSError, ValueError):
        return None


def print_lines(lines: Iterable[str], file: Any = None) -> None:
    """Print texts, a line each: a line break in a name does not begin one."""
    for line in lines:
        print(one_line(line), file=file)


def print_table(rows: Iterable[Sequence[object]], headers: Sequence[str] = ()) -> None:
    """Print aligned columns on stdout, two spaces apart; columns of numbers are right-aligned.

    Args:
        rows: one sequence of cells per line; None prints as "-".
        headers: titles, one per column; empty for a table without titles.
    """
    body = [["-" if cell is None else one_line(str(cell)) for cell in row] for row in rows]
    table = [list(headers), *body] if headers else body
    columns = max(map(len, table), default=0)
    for line in table:
        line.extend([""] * (columns - len(line)))
    widths = [max(len(line[i]) for line in table) for i in range(columns)]
    # By the body alone: titles are words.
    right = [all(_is_numeric(line[i]) for line in body) for i in range(columns)]
    for line in table:
        cells = (
            c.rjust(w) if numeric else c.ljust(w) for c, w, numeric in zip(line, widths, right, strict=True)
        )
        print("  ".join(cells).rstrip())


def _is_numeric(cell: str) -> bool:
    """A number, with or without a unit behind it; blanks and dashes may stand among numbers."""
    return cell in ("", "-") or cell.lstrip("+-~<>= ")[:1].isdigit()


def human_bytes(size_bytes: float) -> str:
    """A size in decimal units, three digits: 1_234_567 -> "1.23 MB"."""
    return _scaled(size_bytes, (" B", " kB", " MB", " GB", " TB"))


def human_count(count: float) -> str:
    """A count in thousands, millions, ..., three digits: 3_500_000_000 -> "3.50 G"."""
    return _scaled(count, ("", " k", " M", " G", " T"))


def _scaled(number: float, units: Sequence[str]) -> str:
    if abs(number) < 999.5:
        return f"{number:g}{units[0]}" if number == int(number) else f"{number:.3g}{units[0]}"
    power = 0
    while abs(number) >= 999.5 and power < len(units) - 1:  # 999.5 would round to a fourth digit
        number /= 1000
        power += 1
    digits = 2 if abs(number) < 9.995 else 1 if abs(number) < 99.95 else 0
    return f"{number:.{digits}f}{units[power]}"


@contextmanager
def log_on_stderr() -> Iterator[None]:
    """Show what is logged and otherwise passed over, such as the traceback of a rule that raised."""
    import logging

    logger, handler = logging.getLogger("thinflow"), logging.StreamHandler()
    level = logger.level
    logger.setLevel(logging.DEBUG)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
