"""Zephyr: an application with the network as a module."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import ClassVar

from thinflow.deploy.c_target import CTarget
from thinflow.deploy.targets import target
from thinflow.deploy.tools import called
from thinflow.errors import EngineUnavailable

_BOARD = "mps2/an385"
"""A Cortex-M3 that Zephyr runs in QEMU."""


@target
class Zephyr(CTarget):
    """A Zephyr application with the network as a module."""

    name = "zephyr"
    templates: ClassVar[tuple[str, ...]] = ("c", "zephyr")
    assets = "assets"
    built: ClassVar[tuple[str, ...]] = ("build", "twister-out")
    layout = "zephyr"
    network = "network"
    cpu = "cortex-m3"
    limit: ClassVar[str] = (
        "not built here: in the tests of thinflow such applications run beside signatures of Zephyr; none was"
        " ever built with Zephyr itself or run on a board: `west twister` does that"
    )

    def test(self, folder: Path) -> str:
        """Build the application with Zephyr and run its self-test in QEMU."""
        west = shutil.which("west")
        if west is None or not os.environ.get("ZEPHYR_BASE"):
            what = "west" if west is None else "Zephyr in ZEPHYR_BASE"
            raise EngineUnavailable(
                f"the self-test needs {what}, which is not here",
                hint="docs.zephyrproject.org has how to install it; then see the folder's README",
            )
        words = ["twister", "-T", ".", "-p", _BOARD, "--inline-logs"]
        return called([west, *words], folder, " ".join(["west", *words]))

    def next(self, folder: str) -> str:
        return f"cd {folder} && west twister -T . -p {_BOARD} --inline-logs"
