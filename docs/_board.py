"""A board for the pages that speak of one: this machine, behind an sshd of its own, as raspberrypi.local."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MARK = "<!-- board -->"
"""Stands in pages whose commands reach a board."""
HOST = "raspberrypi.local"

# Nobody is called pi here: whoever runs this logs in.
_SSH = """#!{python} -IS
import os, sys
words = sys.argv[1:]
if "-l" in words:
    at = words.index("-l")
    del words[at : at + 2]
os.execv({ssh!r}, [{ssh!r}, "-F", {config!r}, *(word.removeprefix("pi@") for word in words)])
"""


def _sshd() -> Any:
    """tests/device/sshd.py, which is in no package."""
    spec = importlib.util.spec_from_file_location("board_sshd", ROOT / "tests" / "device" / "sshd.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # dataclasses look there
    spec.loader.exec_module(module)
    return module


def missing() -> str:
    """Why there can be no board here; "" if there can."""
    found: str = _sshd().missing()
    return found


@contextmanager
def board(folder: Path, programs: Path) -> Iterator[None]:
    """A board that `ssh` reaches, as long as this lasts.

    Args:
        folder: for the files of the sshd.
        programs: where to put the `ssh` that knows the way.
    """
    with _sshd().serving(folder) as server:
        server.equip()
        config = folder / "way"
        name = f"Host {HOST}\n  HostName 127.0.0.1\n  Port {server.port}\n"
        alias = f"  HostKeyAlias [127.0.0.1]:{server.port}\n"
        config.write_text(name + alias + (folder / "client").read_text())
        script = programs / "ssh"
        script.write_text(
            _SSH.format(python=sys.executable, ssh=shutil.which("ssh"), config=str(config)), "utf-8"
        )
        script.chmod(0o755)
        yield
