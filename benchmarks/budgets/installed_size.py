"""What `pip install thinflow` puts on the disk."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from benchmarks.bench import ROOT, Bench
from benchmarks.lines import Line, figure, judged
from benchmarks.processes import run

TITLE = "installed size of the core in an empty environment"
IN_QUICK = False
LIMIT_MB = 160


def measure(bench: Bench) -> list[Line]:
    """Site-packages of a new environment without pip, before and after."""
    folder = bench.folder / "empty"
    run([sys.executable, "-m", "venv", "--without-pip", str(folder)])
    site = next(folder.glob("lib/python*/site-packages"), folder / "Lib" / "site-packages")
    before = size_bytes(site)
    # Compiled files are left out: they are a cache, made by whoever runs it first.
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-compile"]
    run([*pip, "--target", str(site), str(ROOT)])
    size = (size_bytes(site) - before) / 1e6
    own = size_bytes(site / "thinflow") / 1e6
    biggest = sorted(((size_bytes(p) / 1e6, p.name) for p in site.iterdir() if p.is_dir()), reverse=True)[:3]
    detail = ", ".join(f"{name} {mb:.0f}" for mb, name in biggest)
    return [
        judged(TITLE, f"≤ {LIMIT_MB} MB", f"{size:.0f} MB ({detail})", size <= LIMIT_MB),
        figure("of which thinflow itself", f"{own:.1f} MB"),
    ]


def size_bytes(folder: Path) -> int:
    """Bytes of all files below a folder, links not followed."""
    total = 0
    for parent, _, files in os.walk(folder):
        total += sum(os.lstat(os.path.join(parent, f)).st_size for f in files)
    return total
