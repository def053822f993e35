"""Android devices behind adb, on which LiteRT's benchmark_model runs models."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

from thinflow.device.android import cores, told
from thinflow.device.android.binary import abi_of
from thinflow.device.android.bridge import Bridge, choose, find_adb, listed
from thinflow.device.android.connection import AndroidConnection
from thinflow.device.android.delegates import Delegate, delegate
from thinflow.device.base import WAIT_LONGER, Connection, Settings
from thinflow.errors import EngineUnavailable, ParameterError, ThinflowError
from thinflow.errors.plain_text import one_line
from thinflow.typing import Progress

ADDRESS = "adb[:serial]"
KEYS = ("binary", "delegate", "cpus", "folder")
VARIABLE = "THINFLOW_BENCHMARK_MODEL"

_PLACE = "/data/local/tmp"
_TOOL = "benchmark_model"
_GET_ONE = (
    f"give --binary FILE, or set {VARIABLE}: LiteRT's benchmark_model for the phone, which LiteRT's pages on "
    "measuring offer ready-made"
)
_LOCK_EVERY = 0.25


@dataclass(frozen=True)
class AndroidDevice:
    """A phone, or what adb takes for one."""

    serial: str
    settings: Settings

    @property
    def name(self) -> str:
        """What tables call it: the same phone with another delegate or other cores is another row."""
        if self.settings.name:
            return self.settings.name
        how = [w for w in (self.settings.delegate, self.settings.cpus and f"cpus {self.settings.cpus}") if w]
        return ("adb" + (f":{self.serial}" if self.serial else "")) + (f" ({', '.join(how)})" if how else "")

    @contextmanager
    def connect(self, progress: Progress | None = None) -> Iterator[Connection]:
        """The phone with benchmark_model on it, in a folder of this run."""
        cores.check(self.settings.cpus)
        asked = delegate(self.settings.delegate)
        binary = _binary(self.settings)
        adb = find_adb()
        chosen = choose(listed(adb, self.settings.patience), self.serial)
        bridge = Bridge(adb, chosen.serial, self.name, self.settings.patience)
        with _alone(chosen.serial, self.name, self.settings.patience, progress):
            # Before anything is written there: a program of another processor would be sent for nothing.
            about = told.parse_facts(bridge.shell(told.FACTS).text)
            _check_abi(binary, about, self.name)
            yield from self._in_folder(bridge, about, binary, asked, progress)

    def _in_folder(
        self, bridge: Bridge, about: told.About, binary: Path, asked: Delegate, progress: Progress | None
    ) -> Iterator[Connection]:
        place = self.settings.folder.rstrip("/") or _PLACE
        folder = f"{place}/thinflow-kept" if self.settings.keep else f"{place}/thinflow-run-{token_hex(4)}"
        _make(bridge, place, folder)
        try:
            if progress is not None:
                progress(0, 1, f"{self.name}: sending benchmark_model")
            bridge.push([binary], f"{folder}/{_TOOL}")
            bridge.shell(f"chmod 755 {folder}/{_TOOL}")
            yield AndroidConnection(bridge, about, folder, asked, self.settings.cpus, progress)
        finally:
            # One that is gone has no folder to remove now: the next run does.
            with suppress(ThinflowError):
                _end(bridge, folder, self.settings.keep)


def _binary(settings: Settings) -> Path:
    given = settings.binary or os.environ.get(VARIABLE, "")
    if not given:
        raise EngineUnavailable("there is no benchmark_model to send to the phone", "adb", hint=_GET_ONE)
    if not Path(given).is_file():
        said = "--binary" if settings.binary else VARIABLE
        raise EngineUnavailable(f"{said}: no such file", given, hint=_GET_ONE)
    return Path(given)


def _check_abi(binary: Path, about: told.About, name: str) -> None:
    """Refuse a program of another processor before it is sent."""
    abi = abi_of(binary)
    if about.abis and abi not in about.abis:
        raise EngineUnavailable(
            f"it is for {abi}, and the device runs {', '.join(about.abis)}",
            f"{name}, {binary}",
            hint=f"take the benchmark_model for {about.abis[0]}",
        )


def _make(bridge: Bridge, place: str, folder: str) -> None:
    """A folder of this run's own; what runs that were killed left there is removed."""
    if not re.fullmatch(r"/[\w./-]+", place):
        raise ParameterError(f"folder '{place}' is none of the device", hint=f"give one such as {_PLACE}")
    done = bridge.shell(f"rm -rf {place}/thinflow-run-*; mkdir -p {folder} && chmod 700 {folder}")
    if done.status:
        raise EngineUnavailable(
            f"no folder can be made there: {one_line(done.text.strip() or folder)}",
            bridge.name,
            hint=f"name another one, folder = ... in thinflow.toml; {_PLACE} is open to adb",
        )


def _end(bridge: Bridge, folder: str, keep: bool) -> None:
    # Written so that the pattern does not match the shell that looks for it.
    running = folder.replace("thinflow", "[t]hinflow", 1)
    inputs = f"rm -f {folder}/*.in {folder}/*.out {folder}/*.part" if keep else f"rm -rf {folder}"
    bridge.shell(f"pkill -f '{running}/{_TOOL}'; {inputs}")


@contextmanager
def _alone(serial: str, name: str, patience: float, progress: Progress | None) -> Iterator[None]:
    """One run at a time: a phone hangs on one computer, so a file here tells others of it.

    Raises:
        EngineUnavailable: another run has it, and does not end.
    """
    import fcntl

    known = re.sub(r"[^\w.-]", "_", serial)
    path = Path(tempfile.gettempdir(), f"thinflow-adb-{os.getuid()}-{known}.lock")
    with open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "rb") as file:
        until, is_told = time.monotonic() + patience, False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() >= until:
                    raise EngineUnavailable(
                        "another run is using it",
                        name,
                        hint=f"wait for that run, or longer: {WAIT_LONGER}",
                    ) from None
            if progress is not None and not is_told:
                is_told = True
                progress(0, 1, f"{name}: another run is using it, waiting")
            time.sleep(_LOCK_EVERY)
        yield


def device(where: str, settings: Settings) -> AndroidDevice:
    """The phone of that serial number; the one that is there, if there is none."""
    cores.check(settings.cpus)
    delegate(settings.delegate)
    return AndroidDevice(where.strip(), settings)
