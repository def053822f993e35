"""Turn all nodes of one op into another op, inputs and attributes as they are.

y = Mul(a, b)  ->  y = Multiply(a, b)      rename_op(old_op_name=Mul, new_op_name=Multiply)
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from thinflow.errors import ParameterError
from thinflow.ir.graph import Graph
from thinflow.rewrite.rule import Transform, transform
from thinflow.rewrite.trace import Trace


@transform("rename_op")
@dataclass(frozen=True)
class RenameOp(Transform):
    """Change the op of nodes and nothing else.

    Attributes:
        old_op_name: the op to look for.
        new_op_name: the op to write.
    """

    exact = False  # another op computes something else: that is what was asked for

    old_op_name: str
    new_op_name: str

    def __post_init__(self) -> None:
        # The form of op names; `>` stands between a namespace and the op.
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_>]*", self.new_op_name):
            raise ParameterError(f"'{self.new_op_name}' is not an op name", hint="use letters, digits and _")

    def apply(self, graph: Graph, trace: Trace) -> None:
        if self.old_op_name == self.new_op_name:
            return
        for node in graph:
            if node.op == self.old_op_name:
                trace.changed(node, f"is now {self.new_op_name}")
                node.op = self.new_op_name
