"""Profiles of devices: the tables `[device.NAME]` of the nearest thinflow.toml.

    [device.pi]
    address = "ssh:pi@raspberrypi.local"
    threads = [1, 4]
    python = "/home/pi/litert/bin/python"     # default: an environment of our own
    folder = "/mnt/ssd/thinflow"              # where files are kept there

`--device pi` is that device then. The file is looked for from the working folder up.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from thinflow.device.base import Settings
from thinflow.errors import ParameterError
from thinflow.settings.project import nearest_project
from thinflow.settings.table import Table

_TEXTS = {
    "address": "ssh:pi@raspberrypi.local",
    "python": "/usr/bin/python3",
    "folder": "~/models",
    "binary": "benchmark_model",
    "delegate": "xnnpack",
    "cpus": "4-7",
}
_KEYS = (*_TEXTS, "threads", "patience", "keep")


class Profile(NamedTuple):
    """A device that a project has named.

    Attributes:
        address: of the device.
        settings: how it is used.
    """

    address: str
    settings: Settings


def profile_names() -> list[str]:
    """The devices that the nearest thinflow.toml names.

    Raises:
        FormatError, ParameterError: the file cannot be read, or has no tables there.
    """
    table = nearest_project().table("device")
    return [] if table is None else list(table.values)


def find_profile(name: str) -> Profile | None:
    """The device of that name in the nearest thinflow.toml; None if it has none.

    Raises:
        FormatError, ParameterError: the file cannot be read, or something in the table cannot be; with its
            path.
    """
    devices = nearest_project().table("device")
    table = None if devices is None else devices.inner(name)
    return None if table is None else _read(name, table)


def _read(name: str, table: Table) -> Profile:
    table.require_only(_KEYS)
    texts = {key: table.text(key, example) or "" for key, example in _TEXTS.items()}
    address = texts.pop("address")
    if not address:
        raise table.error(f"[{table.name}] has no address", 'write address = "ssh:pi@raspberrypi.local"')
    if texts["binary"]:
        # As it stands in the file, so from there.
        texts["binary"] = str(Path(table.path).parent / Path(texts["binary"]).expanduser())
    # A board that is slow to answer may be given more time once for all.
    patience = table.number("patience", "600")
    return Profile(
        address,
        Settings(
            name=name,
            threads=_threads(table),
            keep=bool(table.flag("keep")),
            patience=Settings.patience if patience is None else float(patience),
            **texts,
        ),
    )


def _threads(table: Table) -> tuple[int, ...]:
    # One number or a list of them; true would be a number for Python.
    found = table.values.get("threads", [])
    counts = found if isinstance(found, list) else [found]
    whole = [n for n in counts if isinstance(n, int) and not isinstance(n, bool) and 0 < n < 1000]
    if len(whole) != len(counts):
        raise ParameterError("'threads' is no number of threads", table.path, "write threads = [1, 4]")
    return tuple(whole)
