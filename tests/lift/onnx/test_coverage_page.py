"""The page that tells which operators of ONNX are read is as the rules and the standard are."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from thinflow.analysis.foreign import NEWEST_OPSET

DOCS = Path(__file__).resolve().parents[3] / "docs"


@pytest.fixture(scope="module")
def made() -> ModuleType:
    spec = importlib.util.spec_from_file_location("_make_onnx_table", DOCS / "_make_onnx_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    onnx = pytest.importorskip("onnx")
    if onnx.defs.onnx_opset_version() != NEWEST_OPSET:
        pytest.skip(f"the package onnx knows another version of the standard than {NEWEST_OPSET}")
    return module


def test_the_page_is_up_to_date(made: ModuleType) -> None:
    assert made.PAGE.read_text(encoding="utf-8") == made.page(), "python docs/_make_onnx_table.py"


def test_every_operator_is_read_or_has_a_reason(made: ModuleType) -> None:
    every = {name: is_defined for ops in made.standard().values() for name, (_, is_defined) in ops.items()}
    unread = {name for name, is_defined in every.items() if made.how(name, is_defined=is_defined) == "no"}
    assert unread == set(made.REFUSED)
    assert set(made.LIMITS) <= (set(every) | made.known()) - unread


def test_own_operators_are_those_of_onnx_runtime(made: ModuleType) -> None:
    every = {name for ops in made.standard().values() for name in ops}
    # Those that ONNX Runtime keeps in the standard's domain, most of them from before version 10.
    old = {"Affine", "Crop", "ImageScaler", "ParametricSoftplus", "Scale", "ScaledTanh"}
    assert {n for n in made.known() - every if not n.startswith(made.RUNTIMES_OWN)} == {
        "SimplifiedLayerNormalization",
        *old,
    }


def test_what_a_definition_is_made_of_is_read(made: ModuleType) -> None:
    from onnx import defs

    for schema in defs.get_all_schemas():
        name = f"{schema.domain}.{schema.name}" if schema.domain else schema.name
        if schema.has_function and made.how(name, is_defined=True) == "definition":
            used = {node.op_type for node in schema.function_body.node}
            assert used <= made.known(), name
