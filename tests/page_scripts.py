"""For tests of pages: what is inside of them, whether their scripts are built, and what happens without."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from thinflow.pages import assets

BUILT = pytest.mark.skipif(
    not assets.FOLDER.is_dir(), reason="the scripts are not built: python scripts/build_pages.py says why"
)

PAGE = {"report.html"} if assets.FOLDER.is_dir() else set[str]()
"""What the main job writes for people to look at."""


def without_scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the package had been installed where they cannot be bundled, for the rest of the test."""

    def none(name: str) -> str:
        # A new function in place of the cached one, so that nothing of it is kept for other tests.
        return assets.asset.__wrapped__(name)

    monkeypatch.setattr(assets, "FOLDER", Path("there", "is", "no", "such", "folder"))
    monkeypatch.setattr("thinflow.pages.shell.asset", none)


def unpacked(text: str) -> Any:
    """The data that `thinflow.pages.shell.packed` made a text of."""
    return json.loads(gzip.decompress(base64.b64decode(text)))
