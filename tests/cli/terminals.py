"""Running commands at a terminal of a given width, as a user sees them."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import thinflow

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def in_terminal(args: list[str], folder: Path, columns: int = 80, **environment: str) -> tuple[int, str]:
    """Exit code and what stands on stdout; stderr goes into a pipe, and is not told."""
    code, out, _ = at_terminal(args, folder, columns, stderr_too=False, **environment)
    return code, out


def at_terminal(
    args: list[str], folder: Path, columns: int = 80, *, stderr_too: bool = True, **environment: str
) -> tuple[int, str, str]:
    """Exit code, stdout, and raw what a terminal of stderr got, with its control sequences."""
    screen, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    told, told_end = pty.openpty() if stderr_too else (None, subprocess.PIPE)
    if told is not None:
        fcntl.ioctl(told_end, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "thinflow", *args],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=end,
        stderr=told_end,
        env={
            **{k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")},
            "PYTHONPATH": str(Path(thinflow.__file__).parents[1]),
            "TERM": "xterm",
            **environment,
        },
    )
    os.close(end)
    if told is not None:
        os.close(told_end)
    from threading import Thread

    raw: list[str] = []
    reader = Thread(target=lambda: raw.append(_all_of(told) if told is not None else _piped(process)))
    reader.start()
    out = _all_of(screen)
    reader.join()
    return process.wait(), _CONTROL.sub("", out).replace("\r\n", "\n"), raw[0]


def _piped(process: subprocess.Popen[bytes]) -> str:
    assert process.stderr is not None
    with process.stderr as stream:
        return stream.read().decode("utf-8", "replace")


def _all_of(screen: int) -> str:
    found = b""
    try:
        while chunk := os.read(screen, 65536):
            found += chunk
    except OSError:  # nobody writes to it any more
        pass
    finally:
        os.close(screen)
    return found.decode("utf-8", "replace")
