"""The page that tells which operators C has is as the forms are."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

from thinflow.lower.c.forms import codes
from thinflow.tflite import schema

DOCS = Path(__file__).resolve().parents[3] / "docs"


def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("_make_c_table", DOCS / "_make_c_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date() -> None:
    made = maker()
    assert made.PAGE.read_text(encoding="utf-8") == made.page(), "python docs/_make_c_table.py"


def test_every_operator_has_a_form_or_a_reason() -> None:
    made = maker()
    builtin = {name for name in schema.OP_CODES if not name.startswith("STABLEHLO")}
    assert builtin - set(codes()) == {*made.ELSEWHERE, *made.MISSING}
