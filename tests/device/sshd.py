"""A real sshd on this machine: keys and configurations, the client's too, lie in a folder of the test."""

from __future__ import annotations

import getpass
import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path


def missing() -> str:
    """Why there can be no sshd here; "" if there can."""
    if sshd_path() is None:
        return "sshd is not installed (Debian: openssh-server)"
    if shutil.which("ssh") is None or shutil.which("ssh-keygen") is None:
        return "OpenSSH's client is not installed"
    if os.geteuid() == 0:
        with suppress(OSError):
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    return ""


def sshd_path() -> str | None:
    return shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


@dataclass
class Sshd:
    """A server that listens.

    Attributes:
        folder: with all its files; `there` in it is the cache of the user on the device.
        port: on 127.0.0.1.
        process: the server.
    """

    folder: Path
    port: int
    process: subprocess.Popen[bytes]

    @property
    def there(self) -> Path:
        return self.folder / "there"

    @property
    def home(self) -> Path:
        """Where thinflow keeps its files there."""
        return self.there / "thinflow" / "device-1"

    @property
    def address(self) -> str:
        return f"ssh:{getpass.getuser()}@127.0.0.1:{self.port}"

    @property
    def command(self) -> str:
        """For THINFLOW_SSH."""
        return f"ssh -F {self.folder / 'client'}"

    def equip(self) -> Path:
        """The environment that a first run makes there, without a package index: its Python leads to this
        one's.
        """
        programs = self.home / f"venv-{metadata.version('ai-edge-litert')}" / "bin"
        programs.mkdir(parents=True, exist_ok=True)
        python = programs / "python"
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', "utf-8")
        python.chmod(0o755)
        (programs.parent / "ready").touch()
        return python

    def files(self) -> list[str]:
        """What lies in the folder there, without the lock."""
        found = (f.relative_to(self.home).as_posix() for f in self.home.rglob("*") if f.is_file())
        return sorted(f for f in found if not f.endswith("lock") and not f.startswith("venv-"))


@contextmanager
def serving(folder: Path, environment: Mapping[str, str] | None = None, **options: str) -> Iterator[Sshd]:
    """An sshd that lets this user in with a key.

    Args:
        folder: for its files.
        environment: variables of what runs there.
        options: further lines of its configuration.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("host", "user"):
        if not (folder / name).exists():
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    shutil.copy(folder / "user.pub", folder / "authorized")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    variables = {"XDG_CACHE_HOME": str(folder / "there"), **(environment or {})}
    # Behind the start files of the shell, which may set some of them, too.
    exports = " ".join(shlex.quote(f"{key}={value}") for key, value in variables.items())
    lines = {
        "Port": port,
        "ListenAddress": "127.0.0.1",
        "HostKey": folder / "host",
        "AuthorizedKeysFile": folder / "authorized",
        "PidFile": "none",
        "StrictModes": "no",
        "UsePAM": "no",
        "PasswordAuthentication": "no",
        "KbdInteractiveAuthentication": "no",
        "PermitRootLogin": "yes",
        "ForceCommand": f'export {exports}; eval "$SSH_ORIGINAL_COMMAND"',
        **options,
    }
    (folder / "server").write_text("".join(f"{key} {value}\n" for key, value in lines.items()))
    _client(folder, port, (folder / "host.pub").read_text())
    path = sshd_path()
    assert path is not None
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([path, "-D", "-e", "-f", folder / "server"], stderr=log)
    try:
        _await(port, process, folder)
        yield Sshd(folder, port, process)
    finally:
        process.terminate()
        process.wait(10)


def _client(folder: Path, port: int, key: str) -> None:
    """The user's configuration, and the hosts that he knows."""
    (folder / "known").write_text(f"[127.0.0.1]:{port} {key}")
    (folder / "client").write_text(
        f"Host *\n  IdentityFile {folder / 'user'}\n  IdentitiesOnly yes\n  IdentityAgent none\n"
        f"  UserKnownHostsFile {folder / 'known'}\n  GlobalKnownHostsFile none\n"
        "  StrictHostKeyChecking yes\n  UpdateHostKeys no\n"
    )


def _await(port: int, process: subprocess.Popen[bytes], folder: Path) -> None:
    end = time.monotonic() + 20
    while time.monotonic() < end and process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.02)
    raise RuntimeError(f"sshd does not listen: {(folder / 'log').read_text('utf-8', 'replace')}")
