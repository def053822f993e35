"""Parts of the explorer's script that need no browser, by the test runner of Node.js."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

PAGES = Path(__file__).resolve().parents[2] / "pages"
BUNDLER = PAGES / "node_modules" / ".bin" / "esbuild"


def test_units(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None or not BUNDLER.exists():
        pytest.skip("the scripts of the pages are not built: python scripts/build_pages.py says why")
    bundle = tmp_path / "explorer.test.mjs"
    flags = ["--bundle", "--platform=node", "--format=esm", "--log-level=warning", f"--outfile={bundle}"]
    subprocess.run([str(BUNDLER), str(PAGES / "tests" / "explorer.test.ts"), *flags], check=True, timeout=60)
    done = subprocess.run([node, "--test", str(bundle)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-6000:]
    assert "# pass 17" in done.stdout
