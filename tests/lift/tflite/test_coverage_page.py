"""The page that tells which operators of LiteRT are read is as the rules are."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

from thinflow.lift.rules import rules
from thinflow.tflite import schema

DOCS = Path(__file__).resolve().parents[3] / "docs"


def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("_make_litert_table", DOCS / "_make_litert_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date() -> None:
    made = maker()
    assert made.PAGE.read_text(encoding="utf-8") == made.page(), "python docs/_make_litert_table.py"


def test_every_operator_is_read_or_has_a_reason() -> None:
    made = maker()
    unread = {name for name in schema.OP_CODES if f"tfl.{name}" not in rules()}
    assert unread == set(made.REFUSED)
    assert set(made.LIMITS) <= set(schema.OP_CODES) - unread
