"""A folder with Debian's Python for 64-bit Arm, LiteRT's and numpy's wheels, and what QEMU needs to run them.

    python -m benchmarks arm_root [--folder build/arm]

Nothing is installed: apt downloads the packages of the other architecture with lists and a state of its own,
so neither root nor `dpkg --add-architecture` is needed, and pip downloads wheels without looking at this
machine. The versions are those of LiteRT and numpy here, so that the processor is all that differs.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from benchmarks.bench import ROOT

FOLDER = ROOT / "build" / "arm"
PLAYER = "qemu-aarch64"
_PACKAGES = ("python3", "libstdc++6")
_WHEELS = ("ai-edge-litert", "numpy")
_PLATFORMS = ("manylinux_2_28_aarch64", "manylinux_2_27_aarch64", "manylinux2014_aarch64")
_TIMEOUT = 600
_APT = """APT::Architecture "arm64";
APT::Architectures {{ "arm64"; }};
APT::Install-Recommends "0";
Dir::State "{0}";
Dir::State::status "{0}/status";
Dir::State::lists "{0}/lists";
Dir::Cache "{0}/cache";
Debug::NoLocking "1";
"""


class NotMade(Exception):
    """The folder cannot be made here; why."""


def system(folder: Path = FOLDER) -> Path:
    """The root of the file system of the other processor."""
    return folder / "system"


def site(folder: Path = FOLDER) -> Path:
    """What its Python finds packages in."""
    return folder / "site"


def python(folder: Path = FOLDER) -> Path:
    """Its interpreter.

    Raises:
        NotMade: there is none, or this machine cannot run it.
    """
    if shutil.which(PLAYER) is None:
        raise NotMade(f"{PLAYER} not found")
    found = sorted((system(folder) / "usr" / "bin").glob("python3.[0-9]*[0-9]"))
    if not found or not (folder / "made").exists():
        raise NotMade("no Python for Arm; `python -m benchmarks arm_root` makes it")
    return found[0]


def make(folder: Path = FOLDER) -> Path:
    """Make it where it is not there; the interpreter.

    Raises:
        NotMade: a tool is missing, or a download failed.
    """
    if not (folder / "made").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        _unpack_packages(folder)
        _unpack_wheels(folder)
        (folder / "made").touch()
    return python(folder)


def _unpack_packages(folder: Path) -> None:
    state = folder / "apt"
    for part in ("lists/partial", "cache/archives/partial"):
        (state / part).mkdir(parents=True)
    (state / "status").touch()  # nothing is installed there: all that Python needs is wanted
    settings = state / "apt.conf"
    settings.write_text(_APT.format(state), "utf-8")
    told = {**os.environ, "APT_CONFIG": str(settings), "LC_ALL": "C"}
    _run(["apt-get", "-qq", "update"], told)
    _run(["apt-get", "-qq", "-y", "--download-only", "install", *_PACKAGES], told)
    system(folder).mkdir()
    packages = sorted((state / "cache" / "archives").glob("*.deb"))
    if not packages:
        raise NotMade("apt-get has no packages for arm64 in its sources")
    for package in packages:
        _run(["dpkg-deb", "-x", str(package), str(system(folder))], told)
    shutil.rmtree(state)


def _unpack_wheels(folder: Path) -> None:
    (interpreter,) = (system(folder) / "usr" / "bin").glob("python3.[0-9]*[0-9]")
    version = interpreter.name.removeprefix("python")
    wheels = folder / "wheels"
    wanted = [f"{name}=={metadata.version(name)}" for name in _WHEELS]
    platforms = [flag for name in _PLATFORMS for flag in ("--platform", name)]
    _run(
        [
            *(sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps"),
            *("--only-binary=:all:", "--python-version", version, *platforms, "--dest", str(wheels), *wanted),
        ],
        dict(os.environ),
    )
    for wheel in wheels.glob("*.whl"):
        with zipfile.ZipFile(wheel) as packed:
            packed.extractall(site(folder))
    shutil.rmtree(wheels)


def _run(command: Sequence[str], environment: dict[str, str]) -> None:
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise NotMade(f"{command[0]}: {error}") from error
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if re.match(r"E: |ERROR: |error", line)]
        last = said or done.stderr.splitlines() or [f"exit code {done.returncode}"]
        raise NotMade(f"{Path(command[0]).name}: {last[-1]}")


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks arm_root", description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where (default build/arm)")
    folder = parser.parse_args(argv).folder.resolve()
    try:
        print(make(folder))
    except NotMade as error:
        print(f"not made: {error}", file=sys.stderr)
        return 1
    return 0
