"""Times of models that were stored, to compare later ones with: which machine they are of, and what was run.

Times of two machines are never compared. A model that is stored beside its times needs none of them: both run
in turns, on whatever machine it is.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from thinflow.bench.machine import Machine, this_machine
from thinflow.errors import FormatError, WriteError
from thinflow.formats.files import write_file

NAME = "thinflow-baseline.json"
_VERSION = 1
_LARGEST_BYTES = 64 << 20
_MOST_TIMES = 200
"""Of a model; more of them would not make its median surer than machines are steady."""


@dataclass(frozen=True)
class Stored:
    """The times of one model.

    Attributes:
        digest: SHA-256 of its file; "" for a folder.
        engine, threads, fed: how it was run, and with what.
        machine: fingerprint of the machine.
        cpu: of the machine, for people.
        times_ns: of runs, in their order.
        kept: file with the model itself, in the folder of the baseline; "" if it was not kept.
    """

    digest: str
    engine: str
    threads: int
    fed: str
    machine: str
    cpu: str
    times_ns: tuple[int, ...]
    kept: str = ""


def fingerprint(machine: Machine | None = None) -> str:
    """What tells machines apart whose times must not be compared: a digest of processor, system and name."""
    found = machine or this_machine()
    own = [found.cpu, str(found.cores), *found.flags, found.system, _identity()]
    return hashlib.sha256("\n".join(own).encode("utf-8", "replace")).hexdigest()[:32]


def _identity() -> str:
    """What a machine alone has: its number, else its name."""
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        try:
            if text := Path(path).read_text("ascii").strip():
                return text
        except (OSError, UnicodeDecodeError):
            continue
    return platform.node()


def digest_of(path: str) -> str:
    """SHA-256 of a file; "" for what is none."""
    if not os.path.isfile(path):
        return ""
    with open(path, "rb") as file:
        found = hashlib.sha256()
        while block := file.read(1 << 20):
            found.update(block)
        return found.hexdigest()


def thinned(times: Sequence[int]) -> tuple[int, ...]:
    """At most so many of the times as are stored, spread evenly over all."""
    # Not the first ones: a machine that warms up would look faster than it is.
    step = max(1, math.ceil(len(times) / _MOST_TIMES))
    return tuple(map(int, times[::step]))


@dataclass
class Baselines:
    """The file of stored times.

    Attributes:
        path: of the file, which need not be there.
        entries: by the path of the model from the folder of the file.
        is_new: whether times are to be stored, and not compared.
    """

    path: str
    entries: dict[str, Stored] = field(default_factory=dict)
    is_new: bool = False

    @property
    def folder(self) -> str:
        """Of the file."""
        return os.path.dirname(os.path.abspath(self.path))

    def key(self, model: str) -> str:
        """What a model is called here; "" for a graph in memory."""
        return Path(os.path.relpath(os.path.abspath(model), self.folder)).as_posix() if model else ""

    def of(self, model: str) -> Stored | None:
        """What is stored of a model; None for nothing."""
        return self.entries.get(self.key(model))

    def kept(self, model: str) -> str:
        """Path of the model that was stored with its times; "" for none."""
        found = self.of(model)
        path = os.path.join(self.folder, found.kept) if found is not None and found.kept else ""
        return path if os.path.isfile(path) else ""

    def store(self, model: str, entry: Stored, *, keep_model: bool) -> Stored:
        """Remember times, with a copy of the model if that is wanted.

        Raises:
            WriteError: the copy cannot be made.
        """
        if keep_model and os.path.isfile(model):
            folder = os.path.splitext(os.path.abspath(self.path))[0]
            name = f"{entry.digest[:12]}-{os.path.basename(model)}"
            try:
                os.makedirs(folder, exist_ok=True)
                target = os.path.join(folder, name)
                # Aside and renamed: who is interrupted leaves no half of a model under its name.
                shutil.copyfile(model, f"{target}.part")
                os.replace(f"{target}.part", target)
            except OSError as error:
                why = error.strerror or str(error)
                raise WriteError(f"the model cannot be kept there: {why}", folder) from error
            entry = replace(entry, kept=Path(os.path.relpath(target, self.folder)).as_posix())
        self.entries[self.key(model)] = entry
        return entry

    def save(self) -> int:
        """Write the file; its bytes.

        Raises:
            WriteError: it cannot be written.
        """
        models = {key: {**asdict(one), "times_ns": list(one.times_ns)} for key, one in self.entries.items()}
        text = json.dumps({"version": _VERSION, "models": dict(sorted(models.items()))}, indent=1)
        return write_file(self.path, [f"{text}\n".encode()])


def read_baselines(path: str) -> Baselines:
    """The stored times of a file; none where there is no file.

    Raises:
        FormatError: it cannot be read, or is no such file.
    """
    if not os.path.exists(path):
        return Baselines(path)
    hint = "delete it, and store times again: --update-baseline"
    try:
        if os.path.getsize(path) > _LARGEST_BYTES:
            raise FormatError("this is too large to be a file of stored times", path, hint)
        said = json.loads(Path(path).read_text("utf-8"))
        if not isinstance(said, dict) or said.get("version") != _VERSION:
            raise FormatError("this is no file of stored times, or one of another version", path, hint)
        return Baselines(path, {str(key): _stored(one) for key, one in said["models"].items()})
    except OSError as error:
        raise FormatError(f"it cannot be read: {error.strerror or error}", path, "check the path") from error
    # Of JSON, of text, and of what is missing or of another type in it.
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FormatError("this is no file of stored times", path, hint) from error


def _stored(said: Mapping[str, Any]) -> Stored:
    times = tuple(int(t) for t in said["times_ns"])
    if not times or min(times) <= 0:
        raise ValueError("no times")
    texts = {name: str(said[name]) for name in ("digest", "engine", "fed", "machine", "cpu", "kept")}
    # A place outside of the folder is nothing that this program wrote.
    kept = Path(texts["kept"])
    if kept.is_absolute() or ".." in kept.parts:
        raise ValueError("a model outside of the folder")
    return Stored(**texts, threads=int(said["threads"]), times_ns=times)
