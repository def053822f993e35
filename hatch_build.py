"""Build hook, before the package is packed or installed for editing: bundles the scripts of the pages, and
writes the manual pages from the parsers.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class BundlePages(BuildHookInterface):  # type: ignore[type-arg]
    """Without Node.js the package is built all the same; its pages then say what is missing."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        path = Path(self.root) / "scripts" / "build_pages.py"
        spec = importlib.util.spec_from_file_location("build_pages", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        if problem := module.build():
            self.app.display_warning(problem)
        if self.target_name == "wheel":
            build_data["shared_data"].update(self._manual_pages())

    def _manual_pages(self) -> dict[str, str]:
        """The pages, and where they go below the prefix."""
        source = str(Path(self.root) / "src")
        sys.path.insert(0, source)
        try:
            # The command line's own modules need nothing that is not installed yet.
            write_pages = importlib.import_module("thinflow.cli._manual").write_pages
            paths = write_pages(str(Path(self.root) / "build" / "man"))
        finally:
            sys.path.remove(source)
        return {path: f"share/man/man1/{Path(path).name}" for path in paths}
