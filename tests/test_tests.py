"""The tests themselves: what several modules share lies in modules of its own."""

from __future__ import annotations

import ast
from pathlib import Path

HERE = Path(__file__).parent


def test_no_test_module_imports_from_another() -> None:
    """Helpers are found by the name of what they know, and no test runs twice by being imported."""
    found = [
        f"{file.relative_to(HERE)}:{node.lineno} imports from {node.module}"
        for file in sorted(HERE.rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and _is_test_module(node.module or "")
    ]
    assert found == []


def _is_test_module(name: str) -> bool:
    first, _, last = name.partition(".")[0], "", name.rpartition(".")[2]
    return first == "tests" and last.startswith("test_")
