"""Programs that build and run what was made: compilers, package managers, emulators."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from thinflow.errors import EngineUnavailable, VerificationError

LONGEST_SECONDS = 900
_SHOWN_LINES = 4


def require_tool(name: str, hint: str) -> str:
    """The path of a program.

    Raises:
        EngineUnavailable: it is not here.
    """
    found = shutil.which(name)
    if found is None:
        raise EngineUnavailable(f"the self-test needs {name}, which is not here", hint=hint)
    return found


def called(
    command: Sequence[str | os.PathLike[str]],
    folder: Path,
    what: str,
    *,
    env: Mapping[str, str] | None = None,
    seconds: float = LONGEST_SECONDS,
) -> str:
    """What a program prints, that is called in a folder.

    Args:
        what: it does, for messages: "cmake --build build".
        env: variables beyond those of this process.

    Raises:
        VerificationError: it ends with another code than 0, or takes too long; its last lines are told.
        EngineUnavailable: it cannot be started.
    """
    try:
        done = subprocess.run(
            [os.fspath(word) for word in command],
            cwd=folder,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired as e:
        raise VerificationError(f"`{what}` took longer than {seconds:g} s and was ended", str(folder)) from e
    except OSError as e:
        raise EngineUnavailable(f"`{what}` cannot be started: {e.strerror or e}", str(folder)) from e
    printed = done.stdout.decode("utf-8", "replace")
    if done.returncode:
        last = " / ".join(line.strip() for line in printed.strip().splitlines()[-_SHOWN_LINES:])
        raise VerificationError(
            f"`{what}` ended with code {done.returncode}: {last}",
            str(folder),
            f"see all: cd {folder}; {what}",
        )
    return printed


def python() -> str:
    """The interpreter that runs this."""
    return sys.executable
