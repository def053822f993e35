"""What `pip install thinflow` puts on the disk."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.bench import ROOT, Bench
from benchmarks.lines import Line, figure, judged
from benchmarks.processes import run

TITLE = "installed size of the core in an empty environment"
IN_QUICK = False
LIMIT_MB = 160
EXTRAS, EXTRAS_LIMIT_MB = "onnx,keras", 340
"""What reads and proves models of other formats, and its limit together with the core."""


def measure(bench: Bench) -> Iterator[Line]:
    size, detail, site = installed(bench.folder / "empty", str(ROOT))
    yield judged(TITLE, f"≤ {LIMIT_MB} MB", f"{size:.0f} MB ({detail})", size <= LIMIT_MB)
    yield figure("of which thinflow itself", f"{size_bytes(site / 'thinflow') / 1e6:.1f} MB")
    size, detail, _ = installed(bench.folder / "extras", f"{ROOT}[{EXTRAS}]")
    what = f"installed size with the extras {EXTRAS.replace(',', ' and ')}"
    yield judged(what, f"≤ {EXTRAS_LIMIT_MB} MB", f"{size:.0f} MB ({detail})", size <= EXTRAS_LIMIT_MB)


def installed(folder: Path, what: str) -> tuple[float, str, Path]:
    """MB that a package adds to a new environment without pip, the largest of it, and where it is."""
    run([sys.executable, "-m", "venv", "--without-pip", str(folder)])
    site = next(folder.glob("lib/python*/site-packages"), folder / "Lib" / "site-packages")
    before = size_bytes(site)
    # Compiled files are left out: they are a cache, made by whoever runs it first.
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-compile"]
    run([*pip, "--target", str(site), what])
    biggest = sorted(((size_bytes(p) / 1e6, p.name) for p in site.iterdir() if p.is_dir()), reverse=True)[:3]
    return (size_bytes(site) - before) / 1e6, ", ".join(f"{name} {mb:.0f}" for mb, name in biggest), site


def size_bytes(folder: Path) -> int:
    """Bytes of all files below a folder, links not followed."""
    total = 0
    for parent, _, files in os.walk(folder):
        total += sum(os.lstat(os.path.join(parent, f)).st_size for f in files)
    return total
