"""Bundles the scripts of the pages: pages/**/*.ts -> src/thinflow/pages/static.

    python scripts/build_pages.py            # if a source changed since the last time
    python scripts/build_pages.py --check    # types, too

Needs Node.js with npm and a registry of its packages. Without them it says so and changes nothing.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "pages"
OUTPUT = ROOT / "src" / "thinflow" / "pages" / "static"
_STAMP = "sources.sha256"
_SECONDS = 300
"""For npm, which without a network waits long before it gives up."""


def build() -> str:
    """Bundle what changed; the reason why not, or nothing.

    The bundles are written aside first: who opens a page meanwhile finds the old ones or the new ones.
    """
    stamp = digest()
    if (OUTPUT / _STAMP).is_file() and (OUTPUT / _STAMP).read_text() == stamp:
        return ""
    if problem := install():
        return problem
    with tempfile.TemporaryDirectory(dir=OUTPUT.parent) as folder:
        if problem := _run(["node", "build.mjs", folder]):
            return problem
        (Path(folder) / _STAMP).write_text(stamp)
        OUTPUT.mkdir(exist_ok=True)
        names = [file.name for file in Path(folder).iterdir()]
        # The stamp last: it says that all others are there.
        for name in sorted(names, key=lambda name: (name == _STAMP, name)):
            os.replace(Path(folder) / name, OUTPUT / name)
    for file in OUTPUT.iterdir():
        if file.name not in names:
            file.unlink()
    return ""


def install() -> str:
    """Install the packages of the lock file, unless they are there; the reason why not, or nothing."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        return "the scripts of the pages were not bundled: install Node.js with npm"
    lock = hashlib.sha256((SOURCES / "package-lock.json").read_bytes()).hexdigest()
    mark = SOURCES / "node_modules" / ".lock.sha256"
    if mark.is_file() and mark.read_text() == lock:
        return ""
    if problem := _run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]):
        return problem
    mark.write_text(lock)
    return ""


def check() -> str:
    """Errors of the types; nothing if there are none."""
    return install() or _run(["npx", "--no-install", "tsc", "--noEmit"])


def digest() -> str:
    """Over names and bytes of everything that the bundles are made of."""
    found = hashlib.sha256()
    for file in sorted(SOURCES.rglob("*")):
        if "node_modules" not in file.parts and file.is_file():
            found.update(file.relative_to(SOURCES).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return found.hexdigest()


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(command, cwd=SOURCES, capture_output=True, text=True, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as e:
        return f"the scripts of the pages were not bundled: {command[0]}: {e}"
    if done.returncode == 0:
        return ""
    said = "\n".join(f"{done.stdout}\n{done.stderr}".strip().splitlines()[-20:])
    return f"the scripts of the pages were not bundled: {' '.join(command)} failed:\n{said}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="check types, too")
    args = parser.parse_args()
    problems = [problem for problem in (build(), check() if args.check else "") if problem]
    print("\n".join(problems), end="\n" if problems else "", file=sys.stderr)
    # Where Node.js is missing there is nothing to check, which is no mistake of the sources.
    return 0 if shutil.which("npm") is None else int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
