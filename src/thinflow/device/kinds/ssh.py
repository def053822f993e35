"""Machines that are reached by ssh: a Raspberry Pi, or any other Linux.

OpenSSH's own client connects, with the user's keys and configuration. One connection does for a run: a line
for the shell there finds the environment in a folder of ours and becomes the runner, which then takes the
models and answers. Only where there is no environment yet is it made, over a connection before that one.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata

from thinflow.device.base import Connection, Settings
from thinflow.device.kinds.local import BOOT, shipped
from thinflow.device.remote import PROTOCOL, NoRuntime, RunnerConnection, Talk, refusal, source
from thinflow.device.ssh_client import SshAddress, SshTalk, read_address, start
from thinflow.errors import EngineUnavailable
from thinflow.typing import Progress

ADDRESS = "ssh:[user@]host[:port]"
KEYS = ("python", "folder")
_NOISE = 200
"""Lines that a login may print before the first of ours."""
_CONNECT_SECONDS = 60.0
_OUTFIT_SECONDS = 1800.0
_INSTALL = "install it there: sudo apt install"
_HINTS = {
    "architecture": "use a 64-bit system there, or name a Python that has ai-edge-litert: python = ... in "
    "thinflow.toml",
    "network": "connect it to the network once, or name a Python that has ai-edge-litert and numpy: "
    "python = ... in thinflow.toml",
    "venv": f"{_INSTALL} python3-venv",
    "pip": "see whether pip works there, or name a Python that has ai-edge-litert: python = ... in "
    "thinflow.toml",
}


@dataclass(frozen=True)
class SshDevice:
    """A machine that is reached by ssh.

    Attributes:
        address: where it is.
        settings: how it is used.
    """

    address: SshAddress
    settings: Settings

    @property
    def name(self) -> str:
        """What tables call it."""
        return self.settings.name or str(self.address)

    @contextmanager
    def connect(self, progress: Progress | None = None) -> Iterator[Connection]:
        """The runner there; the environment for it is made if there is none."""
        if sys.platform == "win32":
            raise EngineUnavailable(
                "devices are reached from Linux and macOS", self.name, hint="run it there, or in WSL"
            )
        talk, connection = self._runner(progress)
        try:
            yield connection
        finally:
            talk.close()

    def _runner(self, progress: Progress | None) -> tuple[Talk, RunnerConnection]:
        # More than once where the environment is made, or found useless and made anew: each step is a
        # connection of its own.
        for is_first in (True, False, False):
            if progress is not None:
                progress(0, 1, f"{self.name}: connecting")
            talk = start(self.address, self._command(), self.settings.patience, self.name)
            try:
                what, home = self._greeting(talk)
                if what == "run":
                    try:
                        return talk, self._connection(talk, home, progress)
                    except NoRuntime:
                        # Its own environment works no longer, since the system's Python was renewed.
                        if self.settings.python or not is_first:
                            raise
                        self._forget(home)
                        talk.close()
                        continue
                self._outfit(talk, what, home, progress)
            except BaseException:
                talk.close()
                raise
            talk.close()
        raise EngineUnavailable("its environment was made, and is not there", self.name, hint="run it again")

    def _connection(self, talk: SshTalk, home: str, progress: Progress | None) -> RunnerConnection:
        talk.write(shipped(source()))
        return RunnerConnection(
            talk, home, keep=self.settings.keep, patience=self.settings.patience, progress=progress
        )

    def _forget(self, home: str) -> None:
        """Say that the environment is not ready."""
        command = f"rm -f {shlex.quote(f'{home}/{_environment()}/ready')}"
        talk = start(self.address, command, self.settings.patience, self.name)
        talk.process.wait(_OUTFIT_SECONDS)
        talk.close()

    def _command(self) -> str:
        """What the shell there is to do: in one line, which all shells read alike."""
        folder = self.settings.folder
        if folder.startswith("~/"):
            home = f'"$HOME"/{shlex.quote(folder[2:])}'
        else:
            home = shlex.quote(folder) if folder else '"${XDG_CACHE_HOME:-$HOME/.cache}"/thinflow'
        boot = f'-u -c "{BOOT}"'
        lines = ["umask 077", f"H={home}/device-{PROTOCOL}"]
        if self.settings.python:
            python = shlex.quote(self.settings.python)
            lines.append(
                f'if command -v {python} >/dev/null; then echo "thinflow run $H"; exec {python} {boot}; fi'
            )
        else:
            own = f'"$H/{_environment()}'
            lines.append(
                f'if [ -f {own}/ready" ] && [ -x {own}/bin/python" ]; then echo "thinflow run $H"; '
                f'exec {own}/bin/python" {boot}; fi'
            )
            lines.append(
                f'if command -v python3 >/dev/null; then echo "thinflow make $H"; exec python3 {boot}; fi'
            )
        lines.append('echo "thinflow none $H"')
        return f"exec sh -c {shlex.quote('; '.join(lines))}"

    def _greeting(self, talk: SshTalk) -> tuple[str, str]:
        """Run, make or none, and the folder there."""
        # Start files of a shell may greet whoever comes.
        for _ in range(_NOISE):
            words = talk.line(_CONNECT_SECONDS).decode("utf-8", "replace").split(" ", 2)
            if words[0] == "thinflow" and len(words) == 3:
                talk.was_connected = True
                return words[1], words[2]
        raise EngineUnavailable(
            "its shell prints too much before it does anything",
            self.name,
            hint="look into its start files",
        )

    def _outfit(self, talk: SshTalk, what: str, home: str, progress: Progress | None) -> None:
        """Make the environment.

        Raises:
            EngineUnavailable: it cannot be made.
        """
        if what == "none":
            python = self.settings.python
            raise EngineUnavailable(
                f"there is no {python} on it" if python else "there is no Python on it",
                self.name,
                hint="check `python` of the device" if python else f"{_INSTALL} python3-venv",
            )
        talk.write(shipped(source(file="outfit.py")))
        # The same version as here if there is one for it: two may be of different speed.
        wishes = [[f"ai-edge-litert=={_litert()}", "numpy"], ["ai-edge-litert", "numpy"]]
        asked = {"home": home, "name": _environment(), "wishes": wishes}
        talk.write(json.dumps(asked).encode() + b"\n")
        while "ready" not in (told := json.loads(talk.line(_OUTFIT_SECONDS))):
            if "error" in told:
                error = refusal(told, self.name)
                raise EngineUnavailable(
                    error.problem, error.where, hint=_HINTS.get(told.get("kind", ""), error.hint)
                )
            if progress is not None:
                progress(0, 1, f"{self.name}: {told.get('progress', '')}")


def _litert() -> str:
    return metadata.version("ai-edge-litert")


def _environment() -> str:
    """Of the same LiteRT as here: numbers of two versions are not to be compared."""
    return f"venv-{_litert()}"


def device(where: str, settings: Settings) -> SshDevice:
    """The machine of an address.

    Raises:
        ParameterError: it cannot be read.
    """
    return SshDevice(read_address(where), settings)
