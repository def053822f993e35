"""Calls of `adb`: commands on a device, files to it and back, and what its errors mean."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from thinflow.device.base import WAIT_LONGER, DeviceLost
from thinflow.errors import EngineUnavailable, closest
from thinflow.errors.plain_text import one_line

_MARK = "thinflow-exit:"
_ENDED = re.compile(rf"{_MARK}(\d+)\s*\Z")
_SDKS = ("ANDROID_HOME", "ANDROID_SDK_ROOT")
_INSTALL = (
    "install Android's platform tools (the package `adb` of Debian and Ubuntu, `android-platform-tools` of "
    "Homebrew), or put their folder on PATH"
)
_AUTHORIZE = "unlock its screen, and allow this computer to debug it; `adb devices` then says `device`"
_REPLUG = "plug it in again, or `adb reconnect offline`; `adb devices` has to say `device`"
_STATES = {
    "unauthorized": ("it does not know this computer yet", _AUTHORIZE),
    "authorizing": ("it does not know this computer yet", _AUTHORIZE),
    "offline": ("it is offline", _REPLUG),
    "connecting": ("it is not ready yet", "run it again in a moment"),
    "no permissions": (
        "this user may not open its USB port",
        "add udev rules for it, as the package android-sdk-platform-tools-common does, or join group plugdev",
    ),
    "recovery": ("it runs its recovery system", "start Android: `adb reboot`"),
    "sideload": ("it runs its recovery system", "start Android: `adb reboot`"),
    "bootloader": ("it is in its boot loader", "start Android: `fastboot reboot`"),
}
_GONE = (
    ("unauthorized", *_STATES["unauthorized"]),
    ("offline", "it went offline", _REPLUG),
    ("no devices", "it is gone", "plug it in again, and run it again"),
    ("not found", "it is gone", "plug it in again, and run it again"),
    ("closed", "the connection to it ended", "plug it in again, and run it again"),
    ("protocol fault", "the connection to it ended", "plug it in again, and run it again"),
)
_NO_SPACE = "no space left on device"


@dataclass(frozen=True)
class Listed:
    """A line of `adb devices -l`.

    Attributes:
        serial: its name for adb.
        state: "device" if it is ready.
        model: as the device calls itself; "" if it does not.
    """

    serial: str
    state: str
    model: str


@dataclass(frozen=True)
class Done:
    """A command on a device that ended.

    Attributes:
        status: its exit code.
        text: what it printed, on both streams.
    """

    status: int
    text: str


def find_adb() -> str:
    """The path of `adb`.

    Raises:
        EngineUnavailable: there is none.
    """
    folders = [os.path.join(os.environ[name], "platform-tools") for name in _SDKS if os.environ.get(name)]
    found = shutil.which("adb") or shutil.which("adb", path=os.pathsep.join(folders))
    if found is None:
        raise EngineUnavailable("adb is not installed", "adb", hint=_INSTALL)
    return found


def listed(adb: str, seconds: float) -> list[Listed]:
    """The devices that adb knows.

    Raises:
        EngineUnavailable: it does not answer.
    """
    try:
        done = subprocess.run(
            [adb, "devices", "-l"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise EngineUnavailable(
            "adb does not answer", "adb", hint="start its server anew: `adb kill-server`"
        ) from error
    if done.returncode:
        said = one_line(done.stderr.strip()) or f"exit code {done.returncode}"
        raise EngineUnavailable(
            f"adb lists no devices: {said}", "adb", hint="start its server anew: `adb kill-server`"
        )
    return [found for line in done.stdout.splitlines() if (found := _listed(line)) is not None]


def _listed(line: str) -> Listed | None:
    # Around the list stand a title, and news of adb's server as it is started.
    words = line.split()
    if len(words) < 2 or line.startswith(("*", "List of devices")):
        return None
    serial, state = words[:2]
    if state == "no" and words[2:3] == ["permissions"]:
        return Listed(serial, "no permissions", "")
    model = next((w.partition(":")[2] for w in words[2:] if w.startswith("model:")), "")
    return Listed(serial, state, model.replace("_", " "))


def choose(devices: Sequence[Listed], serial: str) -> Listed:
    """The device of that serial number, or the one that is there.

    Raises:
        EngineUnavailable: there is none, it is not ready, or there are several.
    """
    if serial:
        fitting = [d for d in devices if d.serial == serial]
        if not fitting:
            known = ", ".join(d.serial for d in devices)
            raise EngineUnavailable(
                "adb knows no such device",
                f"adb:{serial}",
                hint=closest(serial, [d.serial for d in devices])
                or (f"there are: {known}" if known else "plug it in, and switch USB debugging on"),
            )
    else:
        # One that is ready is meant, whatever else hangs on a wire.
        fitting = [d for d in devices if d.state == "device"] or list(devices)
    if not fitting:
        raise EngineUnavailable(
            "no device is connected",
            "adb",
            hint="plug one in, and switch USB debugging on in its developer options; `adb devices` lists it",
        )
    if len(fitting) > 1:
        names = ", ".join(f"adb:{d.serial}" + (f" ({d.model})" if d.model else "") for d in fitting)
        raise EngineUnavailable(
            f"{len(fitting)} devices are connected", "adb", hint=f"say which: --device {names}"
        )
    (found,) = fitting
    if found.state != "device":
        problem, hint = _STATES.get(found.state, (f"adb says `{found.state}` of it", _REPLUG))
        raise EngineUnavailable(problem, f"adb:{found.serial}", hint=hint)
    return found


class Bridge:
    """A device behind adb.

    Args:
        adb: path of the program.
        serial: of the device.
        name: of the device, for messages.
        patience: seconds that a command may take, and a file each megabyte of it.
    """

    def __init__(self, adb: str, serial: str, name: str, patience: float) -> None:
        self.adb, self.serial, self.name, self.patience = adb, serial, name, patience

    def shell(self, script: str, seconds: float = 0.0) -> Done:
        """Run commands of its shell.

        Args:
            seconds: that they are known to take, besides what an answer takes.

        Raises:
            DeviceLost: it is gone, or did not answer in time.
        """
        # Older devices do not tell the exit code; and its line says that the output is all there.
        whole = f"{{\n{script}\n}} 2>&1; echo {_MARK}$?"
        code, out, err = self._call(["shell", whole], seconds)
        text = out.replace("\r\n", "\n")
        ended = _ENDED.search(text)
        if ended is None:
            raise self._lost(err or text, code)
        return Done(int(ended[1]), text[: ended.start()])

    def push(self, files: Sequence[str | Path], place: str) -> None:
        """Send files into a folder there, or one file to a path.

        Raises:
            DeviceLost: it is gone.
            EngineUnavailable: it does not take them.
        """
        self._transfer(["push", *map(str, files), place], files)

    def pull(self, paths: Sequence[str], folder: str | Path) -> None:
        """Fetch files into a folder here; errors as for `push`."""
        self._transfer(["pull", *paths, str(folder)], ())

    def _transfer(self, command: Sequence[str], files: Sequence[str | Path]) -> None:
        size = sum(os.path.getsize(f) for f in files)
        code, out, err = self._call(command, size / 1e6 * 10)
        if code == 0:
            return
        said = one_line((err.strip() or out.strip()).splitlines()[-1] if err.strip() or out.strip() else "")
        if _NO_SPACE in (out + err).lower():
            raise EngineUnavailable(
                "there is no space left on the device",
                self.name,
                hint="make room there: `adb shell df /data` tells how much there is",
            )
        # adb's own words around a failed copy are no word about the device.
        if "failed to copy" in (out + err) and not _is_gone(out + err):
            raise EngineUnavailable(
                f"a file cannot be sent: {said}" if command[0] == "push" else f"a file cannot be had: {said}",
                self.name,
                hint="check the folder that files are kept in there: folder = ... in thinflow.toml",
            )
        raise self._lost(out + err, code)

    def _call(self, command: Sequence[str], seconds: float) -> tuple[int, str, str]:
        # Apart from this terminal: Ctrl-C there is for us, and what lies on the device is put away.
        with subprocess.Popen(
            [self.adb, "-s", self.serial, *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        ) as process:
            try:
                out, err = process.communicate(timeout=seconds + self.patience)
            except subprocess.TimeoutExpired:
                raise DeviceLost(
                    "it did not answer in time",
                    self.name,
                    hint=f"see what keeps it busy, or wait longer: {WAIT_LONGER}",
                ) from None
            finally:
                process.kill()
        return process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace")

    def _lost(self, said: str, code: int) -> DeviceLost:
        # The first that fits: "device unauthorized" also says what it was not found to be.
        lowered = said.lower()
        for words, problem, hint in _GONE:
            if words in lowered:
                return DeviceLost(problem, self.name, hint=hint)
        lines = [line for line in said.splitlines() if line.strip()]
        told = f": {one_line(lines[-1].strip())}" if lines else ""
        return DeviceLost(
            f"adb ended with exit code {code}{told}",
            self.name,
            hint="look after the device, and run it again",
        )


def _is_gone(said: str) -> bool:
    return any(words in said.lower() for words in ("offline", "no devices", "device '", "closed"))
