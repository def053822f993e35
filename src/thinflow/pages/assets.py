"""Scripts and styles that were bundled when the package was built."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from thinflow.errors import PagesUnavailable

FOLDER = Path(__file__).with_name("static")
"""Written by `scripts/build_pages.py`; not part of the repository, but of every wheel and source archive."""


@cache
def asset(name: str) -> str:
    """Text of a bundled file, such as "explorer.js".

    Raises:
        PagesUnavailable: the package was installed from sources where they could not be bundled.
    """
    try:
        return (FOLDER / name).read_text("utf-8")
    except OSError as e:
        raise PagesUnavailable(
            f"this installation came without the scripts of its pages ({name})",
            hint="install Node.js with npm, then thinflow again; a picture (-o model.svg) needs neither",
        ) from e
