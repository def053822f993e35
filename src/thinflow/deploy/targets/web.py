"""The browser: a page on LiteRT.js, which npm builds."""

from __future__ import annotations

import html
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from thinflow.deploy.contract import Contract
from thinflow.deploy.end_types import require_types
from thinflow.deploy.targets import Target, target
from thinflow.deploy.tools import called, require_tool
from thinflow.errors import EngineUnavailable

LITERTJS, ESBUILD = "2.5.3", "0.28.2"
"""Versions on npm that the page was built and run with."""
TYPES = ("float32", "int32", "uint8")
"""Of inputs and outputs that LiteRT.js can hand over; inside the model every type may occur."""
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


@target
class Web(Target):
    """A web page on LiteRT.js, built by npm, that runs the model in the browser."""

    name = "web"
    assets = "public"
    built = ("node_modules", "dist", "package-lock.json")
    has_open_batch = False

    def check(self, contract: Contract) -> None:
        """Raises UnsupportedOp where LiteRT.js cannot hand over what goes in or comes out."""
        require_types(contract, TYPES, f"LiteRT.js {LITERTJS}")

    def values(self, contract: Contract) -> Mapping[str, str]:
        return {
            "title_html": html.escape(contract.title),
            "package": contract.name.replace("_", "-"),
            "litertjs": LITERTJS,
            "esbuild": ESBUILD,
            "origin": contract.test.origin,
        }

    def test(self, folder: Path) -> str:
        """Install what the page needs from npm, build it, and run it in a browser without a window."""
        # Both are asked for before anything is fetched, as `npm test` would only find out at the end.
        npm = require_tool("npm", "install Node.js 18 or later, which brings npm")
        if not os.environ.get("CHROME") and not any(map(shutil.which, _BROWSERS)):
            raise EngineUnavailable(
                "the self-test needs a Chromium or Chrome, and none is here",
                hint="install one (Debian: apt-get install chromium), or name it in the variable CHROME",
            )
        # Installing takes longer than all else, and versions are pinned: what is there is what would come.
        if not (folder / "node_modules").is_dir():
            called([npm, "install", "--no-audit", "--no-fund", "--no-package-lock"], folder, "npm install")
        called([npm, "run", "build"], folder, "npm run build")
        return called([npm, "test"], folder, "npm test")
