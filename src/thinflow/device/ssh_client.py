"""OpenSSH's own client: the command, and what its complaints mean."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
from dataclasses import dataclass
from typing import IO

from thinflow.device.base import DeviceLost
from thinflow.device.remote import Talk
from thinflow.errors import EngineUnavailable, ParameterError

COMMAND = "THINFLOW_SSH"
"""Variable of the environment with the command to use instead of `ssh`, with options of its own."""

_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.%-]*|[0-9A-Fa-f:.]+(%[A-Za-z0-9]+)?")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]*")
_OPTIONS = {
    # Nobody is there to answer: no passwords, and no questions about keys.
    "BatchMode": "yes",
    "ConnectTimeout": "15",
    # A connection of the user's that is open already is used; none is left behind.
    "ControlMaster": "no",
    "ClearAllForwardings": "yes",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "LogLevel": "ERROR",
    "PermitLocalCommand": "no",
    "RemoteCommand": "none",
    "RequestTTY": "no",
    # A device that was switched off is noticed within half a minute.
    "ServerAliveInterval": "10",
    "ServerAliveCountMax": "3",
}


@dataclass(frozen=True)
class SshAddress:
    """Where to connect to.

    Attributes:
        user, port: "" and 0 for what the configuration of ssh says.
    """

    host: str
    user: str = ""
    port: int = 0

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        user = f"{self.user}@" if self.user else ""
        return f"ssh:{user}{host}{f':{self.port}' if self.port else ''}"

    @property
    def typed(self) -> str:
        """As one would type it behind `ssh`."""
        port = f"-p {self.port} " if self.port else ""
        return f"{port}{f'{self.user}@' if self.user else ''}{self.host}"

    @property
    def known_as(self) -> str:
        """Its name in the file of known hosts."""
        return f"'[{self.host}]:{self.port}'" if self.port not in (0, 22) else self.host


def read_address(text: str) -> SshAddress:
    """`[user@]host[:port]`, where an address of IPv6 stands in brackets if a port follows.

    Raises:
        ParameterError: it cannot be read.
    """
    # The last one, as names of users at some companies have one themselves.
    user, at, rest = text.rpartition("@")
    host, port = rest, ""
    if rest.startswith("["):
        host, bracket, behind = rest[1:].partition("]")
        port = behind.removeprefix(":") if bracket else "?"
    elif rest.count(":") == 1:
        host, _, port = rest.partition(":")
        port = port or "?"
    # Not as an option: a host that begins with a dash would be one for ssh.
    sound = _HOST.fullmatch(host) and (not at or _USER.fullmatch(user))
    if not sound or (port and not (port.isdecimal() and 0 < int(port) < 65536)):
        raise ParameterError(f"'ssh:{text}' is no address", hint="write ssh:pi@board or ssh:pi@board:2222")
    return SshAddress(host, user, int(port or 0))


def start(address: SshAddress, command: str, patience: float, name: str) -> SshTalk:
    """A command on a device, begun.

    Args:
        command: for the shell there.

    Raises:
        EngineUnavailable: there is no ssh on this machine.
    """
    client = shlex.split(os.environ.get(COMMAND, "")) or ["ssh"]
    options = [part for key, value in _OPTIONS.items() for part in ("-o", f"{key}={value}")]
    options += ["-l", address.user] if address.user else []
    options += ["-p", str(address.port)] if address.port else []
    # A file and not a pipe: nobody reads it until something has gone wrong.
    complaints = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the talk
    try:
        process = subprocess.Popen(
            [*client, *options, "--", address.host, command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            # Apart from this terminal: Ctrl-C there is for us, and what was measured is kept.
            start_new_session=True,
        )
    except OSError as error:
        complaints.close()
        raise EngineUnavailable(
            f"'{client[0]}' does not start: {error.strerror}",
            name,
            hint=f"install OpenSSH's client, or say in {COMMAND} where it is",
        ) from error
    return SshTalk(process, name, patience, address, complaints)


class SshTalk(Talk):
    """Requests and answers over ssh, which says itself what is wrong."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        name: str,
        patience: float,
        address: SshAddress,
        complaints: IO[bytes],
    ) -> None:
        super().__init__(process, name, patience)
        self.address, self._complaints = address, complaints
        self.was_connected = False

    def _lost(self) -> DeviceLost:
        # The pipe ends before the process does.
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            return super()._lost()
        self._complaints.seek(0)
        text = self._complaints.read().decode("utf-8", "replace")
        problem, hint = explained(text, self.process.returncode, self.address, self.was_connected)
        return DeviceLost(problem, self.name, hint=hint)

    def close(self) -> None:
        super().close()
        self._complaints.close()


_OLD_PYTHON, _CUT = 9, 8
_CHATTER = re.compile(r"(INFO|WARNING): |[IW]\d{4} ")
"""What LiteRT says there while all is well, on the stream on which ssh complains here."""
_BY_HAND = "see whether you get there by hand: ssh {typed}"
_COMPLAINTS = (
    (
        r"IDENTIFICATION HAS CHANGED|host key for .* has changed",
        "its host key is not the one that is known: another machine may answer in its place",
        "if the device was set up anew, forget the old key: ssh-keygen -R {known}, then ssh {typed}",
    ),
    (
        r"Host key verification failed|No .* host key is known",
        "its host key is not known here",
        "connect once by hand and check the key: ssh {typed}",
    ),
    (
        r"Permission denied|Too many authentication failures|no mutual signature",
        "it does not let you in with your keys",
        "put your key there, as passwords are not asked for: ssh-copy-id {typed}",
    ),
    (
        r"UNPROTECTED PRIVATE KEY|bad permissions",
        "ssh refuses your key, since others can read it",
        "take that away from them: chmod 600 on the file of the key",
    ),
    (r"Could not resolve hostname", "no host of that name is known", "check the name, or give its address"),
    (
        r"Connection refused",
        "it answers, but not to ssh",
        "start its ssh server, or check the port: ssh {typed}",
    ),
    (
        r"timed out|No route to host|unreachable|Timeout, server",
        "it cannot be reached",
        "see that it is switched on and in this network: " + _BY_HAND,
    ),
)


def explained(text: str, code: int, address: SshAddress, was_connected: bool) -> tuple[str, str]:
    """What went wrong, and the next step.

    Args:
        text: what ssh wrote.
        code: how it ended: 255 of its own accord, else as the command there did.
        was_connected: whether anything had been answered before.
    """
    known = {"typed": address.typed, "known": address.known_as}
    if code == _OLD_PYTHON:
        return "its Python is older than 3.9", "name a newer one: python = ... in thinflow.toml"
    for pattern, problem, hint in _COMPLAINTS:
        if re.search(pattern, text):
            return problem, hint.format(**known)
    lines = [line.strip() for line in text.splitlines() if not _CHATTER.match(line)]
    last = next((line for line in reversed(lines) if line), "")
    told = f": {last[:200]}" if last else ""
    if was_connected or code == _CUT:
        return f"the connection ended in the middle{told}", "look after the device, and run it again"
    return f"ssh did not get there{told}", _BY_HAND.format(**known)
