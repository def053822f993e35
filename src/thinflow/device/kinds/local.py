"""This machine as a device: measured by the same runner as others, for a table with them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from thinflow.device.base import Connection, Settings
from thinflow.device.remote import RunnerConnection, Talk, source
from thinflow.errors import EngineUnavailable, ParameterError
from thinflow.typing import Progress

ADDRESS = "local"
KEYS = ("python",)

BOOT = (
    "import os,sys;sys.version_info<(3,9) and sys.exit(9);"
    "r=lambda n,b=bytes():b if len(b)==n else r(n,b+(os.read(0,n-len(b)) or sys.exit(8)));"
    "exec(r(int(r(8))))"
)
"""A program that reads another from stdin, behind its length in eight digits, and becomes it."""
TOO_OLD = 9
"""How it ends where Python is older than the runner's."""


def shipped(program: bytes) -> bytes:
    """What BOOT reads."""
    return b"%08d" % len(program) + program


@dataclass(frozen=True)
class LocalDevice:
    """This machine."""

    settings: Settings

    @property
    def name(self) -> str:
        """What tables call it."""
        return self.settings.name or "local"

    @contextmanager
    def connect(self, progress: Progress | None = None) -> Iterator[Connection]:
        """The runner, in a process of its own."""
        if sys.platform == "win32":
            raise EngineUnavailable(
                "this machine is no device on Windows",
                self.name,
                hint="leave --device out: it is measured so",
            )
        command = [self.settings.python or sys.executable, "-u", "-c", BOOT]
        try:
            # Apart from this terminal: Ctrl-C there is for us, and what was measured is kept.
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            raise EngineUnavailable(
                f"{command[0]} does not start: {error.strerror}",
                self.name,
                hint="check `python` of the device",
            ) from error
        talk = Talk(process, self.name, self.settings.patience)
        try:
            talk.write(shipped(source()))
            yield RunnerConnection(talk, patience=self.settings.patience, progress=progress)
        finally:
            talk.close()


def device(where: str, settings: Settings) -> LocalDevice:
    """This machine.

    Raises:
        ParameterError: something stands behind the name.
    """
    # There is but one of it.
    if where:
        raise ParameterError(f"'local:{where}' is no device", hint="write local, for this machine")
    return LocalDevice(settings)
