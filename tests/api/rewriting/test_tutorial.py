"""The page on writing transforms does what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "write-a-transform.md"
PART = re.compile(r"<!-- (?:file: (?P<file>\S+)|try) -->\n```python\n(?P<code>.*?)```\n", re.DOTALL)


def test_tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forgotten: None) -> None:
    monkeypatch.chdir(tmp_path)
    variables: dict[str, object] = {}
    parts = list(PART.finditer(PAGE.read_text("utf-8")))
    assert len(parts) == 10
    for part in parts:
        if part["file"]:
            Path(part["file"]).write_text(part["code"], "utf-8")
        else:
            exec(compile(part["code"], "write-a-transform.md", "exec"), variables)
