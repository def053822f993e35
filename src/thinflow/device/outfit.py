"""Makes an environment of Python with LiteRT on a device; sent there as text, when none is there yet.

A program of one file for Python 3.9 and later, without anything else. It reads one request as a line of JSON,
tells how far it is in such lines, and ends with one that says `ready` or `error`.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from typing import Any

_ARCHITECTURES = ("x86_64", "aarch64", "arm64", "AMD64")
"""For which there are wheels of LiteRT."""
_LEAST_BYTES = 400_000_000
"""That an environment takes, with what pip needs meanwhile."""
_NETWORK = re.compile(
    r"NewConnectionError|name resolution|ConnectTimeout|Connection refused|Network is unreachable|"
    r"Max retries|ProxyError|No route to host|Could not fetch URL|Read timed out|ConnectionError"
)
_SPACE = re.compile(r"No space left|Errno 28|File too large|Errno 27|Disk quota")
_TAIL = 300


class Refused(Exception):
    """It cannot be made; args: why, and in one word what is missing."""


def tell(**answer: Any) -> None:
    """Send a line."""
    print(json.dumps(answer), flush=True)


def make(home: str, name: str, wishes: list[list[str]], least_bytes: int = _LEAST_BYTES) -> None:
    """The environment of that name in a folder, written aside and renamed when it is whole.

    Args:
        wishes: what pip is to install; the next one if the first cannot be had.

    Raises:
        Refused: it cannot be made.
    """
    target = os.path.join(home, name)
    os.makedirs(home, mode=0o700, exist_ok=True)
    with open(os.path.join(home, "outfit.lock"), "w", encoding="ascii") as lock:
        # Two that come at once: the second finds what the first has made.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(os.path.join(target, "ready")):
            return
        _require(home, least_bytes)
        # What an earlier one left that was killed, and an environment that works no longer.
        for entry in os.listdir(home):
            if entry.startswith("venv-"):
                shutil.rmtree(os.path.join(home, entry), ignore_errors=True)
        part = f"{target}.part"
        try:
            _environment(part)
            _install(part, wishes)
            with open(os.path.join(part, "ready"), "w", encoding="ascii") as file:
                file.write("\n")
            # From here on others find it, and all of it.
            os.rename(part, target)
        finally:
            shutil.rmtree(part, ignore_errors=True)


def _require(home: str, least_bytes: int) -> None:
    machine = platform.machine()
    # A 64-bit kernel may run a 32-bit system, as older ones of Raspberry Pi do: no wheel fits that.
    if machine not in _ARCHITECTURES or sys.maxsize < 2**32:
        bits = 64 if sys.maxsize > 2**32 else 32
        raise Refused(f"there is no LiteRT for its processor, {machine} with {bits} bits", "architecture")
    free = shutil.disk_usage(home).free
    if free < least_bytes:
        raise Refused(
            f"{free // 1_000_000} MB are free in {home}, {least_bytes // 1_000_000} needed", "space"
        )


def _environment(folder: str) -> None:
    tell(progress="making an environment of Python there")
    done = _run([sys.executable, "-m", "venv", folder])
    if done.returncode:
        if _SPACE.search(done.stdout):
            raise Refused(_last(done.stdout), "space")
        # Debian has the part that installs pip in a package of its own.
        raise Refused(f"its Python makes no environments: {_last(done.stdout)}", "venv")


def _install(folder: str, wishes: list[list[str]]) -> None:
    python = os.path.join(folder, "bin", "python")
    pip = [python, "-m", "pip", "install", "-q", "--no-input", "--retries", "1"]
    pip.append("--disable-pip-version-check")
    # -q leaves warnings, by which a missing network is told from a missing package.
    for wish in wishes:
        tell(progress=f"installing {' and '.join(wish)} there")
        done = _run([*pip, *wish])
        if not done.returncode:
            return
        if _SPACE.search(done.stdout):
            raise Refused(_last(done.stdout), "space")
        if _NETWORK.search(done.stdout):
            raise Refused("pip reaches no package index from there", "network")
    version = ".".join(platform.python_version_tuple()[:2])
    where = f"{platform.machine()} and Python {version}"
    if "No matching distribution" in done.stdout:
        raise Refused(f"there is no LiteRT for {where}", "architecture")
    raise Refused(f"pip installs nothing there: {_last(done.stdout)}", "pip")


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )


def _last(text: str) -> str:
    # What went wrong stands at the end.
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # pip ends with advice on itself now and then.
    lines = [line for line in lines if not line.startswith(("[notice]", "WARNING:"))] or lines
    return lines[-1][-_TAIL:] if lines else "it gives no reason"


def main() -> None:
    """Do what the line on stdin asks for."""
    os.umask(0o077)
    line = b""
    while not line.endswith(b"\n"):
        # One by one: nothing else is to be taken from there.
        byte = os.read(0, 1)
        if not byte:
            return
        line += byte
    try:
        make(**json.loads(line))
        tell(ready=True)
    except Refused as error:
        tell(error=error.args[0], kind=error.args[1])
    except OSError as error:
        kind = {28: "space", 27: "space", 122: "space"}.get(error.errno or 0, "disk")
        tell(error=f"{error.strerror}: {error.filename or ''}", kind=kind)


if __name__ == "__main__":
    main()
