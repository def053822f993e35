"""Inner tensors of files: whatever is asked for, LiteRT answers, and does not crash."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.lower.c.c_networks import Layers
from thinflow import formats
from thinflow.engines._inner_tensors import litert_tensors
from thinflow.ir.types import dtype
from thinflow.tflite.model import Operator, Program, Subgraph, Tensor
from thinflow.tflite.writer import to_bytes


def test_the_handle_of_a_variable_is_left_out(tmp_path: Path) -> None:
    net = Layers(1, 4, kind="float")
    x, first = net.last, net.constant("first", np.float32([[1, 2, 3, 4]]))
    options = {"container": "", "shared_name": "stream/states"}
    inner, outer = (Tensor("handle", (), dtype("resource"), None, None) for _ in range(2))
    value, total = (Tensor(name, (1, 4), dtype("float"), None, None) for name in ("value", "total"))
    opened = Operator("VAR_HANDLE", [], [inner], options)
    init = Subgraph([], [], [opened, Operator("ASSIGN_VARIABLE", [inner, first], [])])
    net.block.operators += [
        Operator("CALL_ONCE", [], [], {"init_subgraph_index": 1}),
        Operator("VAR_HANDLE", [], [outer], options),
        Operator("READ_VARIABLE", [outer], [value]),
        Operator("ADD", [value, x], [total]),
        Operator("ASSIGN_VARIABLE", [outer, total], []),
    ]
    net.block.outputs[:] = [total]
    path = tmp_path / "counting.tflite"
    path.write_bytes(to_bytes(Program([net.block, init])))
    graph = formats.load(path)
    found = litert_tensors(graph, ["handle", "value", "total"], {x.name: np.ones((1, 4), np.float32)})
    assert found.keys() == {"value", "total"}
    np.testing.assert_array_equal(found["value"], [[1, 2, 3, 4]])
