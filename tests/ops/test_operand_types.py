"""Attributes that repeat the types and numbers of an op's inputs."""

from __future__ import annotations

from thinflow.ir.types import BOOL, FLOAT, INT32, INT64
from thinflow.ops._operand_types import operand_types


def test_each_input_names_its_attribute() -> None:
    assert operand_types("GatherV2", [FLOAT, INT64, INT32]) == {
        "Tparams": FLOAT,
        "Tindices": INT64,
        "Taxis": INT32,
    }


def test_inputs_of_a_fixed_type_have_none() -> None:
    assert operand_types("LogicalAnd", [BOOL, BOOL]) == {}
    assert operand_types("SelectV2", [BOOL, FLOAT, FLOAT]) == {"T": FLOAT}


def test_an_unknown_type_is_left_out() -> None:
    assert operand_types("GatherV2", [None, INT64, None]) == {"Tindices": INT64}
    # Inputs that share an attribute have one type.
    assert operand_types("AddV2", [None, FLOAT]) == {"T": FLOAT}


def test_lists_of_one_type_are_counted() -> None:
    assert operand_types("ConcatV2", [FLOAT, FLOAT, FLOAT, INT32]) == {"N": 3, "T": FLOAT, "Tidx": INT32}
    # Two lists of the same length.
    assert operand_types("DynamicStitch", [INT32, INT32, FLOAT, FLOAT]) == {"N": 2, "T": FLOAT}


def test_lists_of_any_types() -> None:
    assert operand_types("If", [BOOL, FLOAT, INT64]) == {"Tcond": BOOL, "Tin": (FLOAT, INT64)}
    assert operand_types("If", [BOOL, FLOAT, None]) == {"Tcond": BOOL}
    assert operand_types("StatelessWhile", []) == {"T": ()}


def test_ops_that_tensorflow_does_not_have() -> None:
    assert operand_types("LiteRTVariable", [FLOAT]) is None


def test_too_few_inputs() -> None:
    assert operand_types("ConcatV2", []) == {"N": 0}
