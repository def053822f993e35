"""The page that tells which layers of Keras are read is as the functions are."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

from thinflow.keras.registry import registry

DOCS = Path(__file__).resolve().parents[2] / "docs"


def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("_make_keras_table", DOCS / "_make_keras_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date() -> None:
    made = maker()
    assert made.PAGE.read_text(encoding="utf-8") == made.page(), "python docs/_make_keras_table.py"


def test_a_layer_is_read_or_refused() -> None:
    made = maker()
    assert not set(made.REFUSED) & set(registry().layers)
    assert set(made.LIMITS) <= set(registry().layers)
