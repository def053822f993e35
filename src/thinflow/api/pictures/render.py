"""Letting Graphviz draw, where it is installed: as a program, or inside the package pygraphviz."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys

_PROGRAM = "dot"
_PACKAGE = "pygraphviz"
_TIMEOUT_SECONDS = 120

# In a process of its own: it can be stopped, and takes nobody with it.
_DRAW = """
import sys, pygraphviz
graph = pygraphviz.AGraph(string=sys.stdin.buffer.read().decode())
sys.stdout.buffer.write(graph.draw(format=sys.argv[1], prog="dot"))
"""


def available() -> bool:
    """Whether Graphviz's `dot` is on the path, or the package is there."""
    return _command("svg") is not None


def render(text: str, kind: str) -> bytes | None:
    """What Graphviz makes of DOT text; None if it fails or takes too long.

    Args:
        text: the picture.
        kind: "svg" or "png".
    """
    command = _command(kind)
    if command is None:
        return None
    try:
        done = subprocess.run(
            command,
            input=text.encode(),
            capture_output=True,
            timeout=_TIMEOUT_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout or None


def _command(kind: str) -> list[str] | None:
    """What reads DOT text and writes a picture; None if nothing does."""
    program = shutil.which(_PROGRAM)
    if program is not None:
        return [program, f"-T{kind}"]
    if importlib.util.find_spec(_PACKAGE) is not None:
        return [sys.executable, "-c", _DRAW, kind]
    return None
