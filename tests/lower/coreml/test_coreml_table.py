"""The page that tells what Core ML packages hold is as the rules are."""

from __future__ import annotations

import importlib.util
import re
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

from thinflow.lower.coreml.rules import codes

pytestmark = pytest.mark.skipif(find_spec("coremltools") is None, reason="coremltools is not installed")

DOCS = Path(__file__).resolve().parents[3] / "docs"


def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("_make_coreml_table", DOCS / "_make_coreml_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_rows_are_what_comes_of_trying() -> None:
    """A few of all: to try every op takes a minute."""
    made = maker()
    rows = dict(re.findall(r"^\| `(\S+)` \| (.+) \|$", made.PAGE.read_text("utf-8"), re.MULTILINE))
    for op in ("Relu", "MatMul", "TopKV2", "Unique", "NonMaxSuppressionV4", "Xlogy"):
        assert rows[op] == made.row(op), "python docs/_make_coreml_table.py"


def test_every_rule_is_named() -> None:
    page = maker().PAGE.read_text("utf-8").partition("## By ONNX's operators")[2]
    assert set(re.findall(r"`(\w+)`", page)) == set(codes()), "python docs/_make_coreml_table.py"
