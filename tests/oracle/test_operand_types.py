"""Types of operands are stated as the installed TensorFlow defines its ops."""

from __future__ import annotations

from scripts.op_outputs import op_definitions
from scripts.op_types import is_clear, signature, table
from thinflow.ops._operand_types import _table


def test_signatures_are_those_of_tensorflow() -> None:
    ours = _table()
    for op in op_definitions():
        if is_clear(op) and op.name in ours:
            assert ours[op.name] == tuple(signature(op).split()), op.name


def test_every_op_is_there() -> None:
    text = table(op_definitions())
    assert "N*T Tidx: ConcatV2" in text
    assert "Tparams Tindices Taxis: GatherV2" in text
