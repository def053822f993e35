"""Takes docs/pictures/web.png from a page of `thinflow deploy --target web` that npm
built, in a headless Chromium.

    python docs/_make_web_picture.py

Needs npm, and what _make_pictures.py needs.
"""

from __future__ import annotations

import http.server
import subprocess
import tempfile
import threading
from functools import partial
from pathlib import Path

import numpy as np
from _make_pictures import PICTURES, browser, small_png

import thinflow
from thinflow import zoo
from thinflow.deploy.sample import png_bytes

_SHOWN = 2
"""Of the test images."""
_LEVEL = 255 / 16
"""Their levels are 0 to 16, those of a picture 0 to 255."""


def made(folder: Path) -> Path:
    """The page, built, and the picture that it is asked about beside it."""
    zoo.write("digits", folder / "digits.pb")
    image = np.asarray(zoo.test_set("digits")["image"][_SHOWN])
    (folder / "digit.png").write_bytes(png_bytes(np.round(_LEVEL * image).astype(np.uint8)))
    app = thinflow.deploy(
        folder / "digits.pb", folder / "app", "web", scaling=thinflow.Scaling(mean=0.0, std=_LEVEL)
    )
    for command in (
        ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock"],
        ["npm", "run", "build"],
    ):
        subprocess.run(command, cwd=app.path, check=True, stdout=subprocess.DEVNULL)
    return Path(app.path, "dist")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="thinflow-pictures-") as scratch, browser() as opened:
        page_folder = made(Path(scratch))
        handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(page_folder))
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            page = opened.new_page(viewport={"width": 900, "height": 560})
            page.goto(f"http://127.0.0.1:{server.server_address[1]}/")
            page.locator("#state.ready").wait_for()
            page.set_input_files("#file", str(Path(scratch, "digit.png")))
            page.locator("#answer table").wait_for()
            page.click("#selftest")
            page.locator("#state", has_text="passed").wait_for()
            content = small_png(page.screenshot())
            server.shutdown()
    (PICTURES / "web.png").write_bytes(content)
    print(f"took web.png: {len(content) / 1000:.0f} kB")


if __name__ == "__main__":
    main()
