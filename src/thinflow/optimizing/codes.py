"""Whether a LiteRT model of an eight-bit graph computes what the graph does, op by op.

Rounding to eight bits makes of one code more or less in one op whatever the ops behind it make of that: two
right implementations may give answers that are far apart. So every op is run on the codes that the
interpreter made for it, and its result may be one code off, or what one code of a grid on the way comes to.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from thinflow.analysis.grids import Grid, code_type, known_grids
from thinflow.analysis.shapes import infer_shapes
from thinflow.engines._child import run_file
from thinflow.errors import VerificationError
from thinflow.interpreter import Plan
from thinflow.ir.attrs import Attr, ShapeAttr
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.types import QINT32, dtype
from thinflow.lower.tflite.coding import READERS
from thinflow.lower.tflite.convert import lower_graph
from thinflow.lower.tflite.program import to_bytes

Array = np.ndarray[Any, Any]

_TINY_SHARE = 1e-4
"""Of the elements, which may be further off: ties of measured ranges."""


def holds_codes(nodes: Iterable[Node]) -> bool:
    """Whether nodes compute with eight-bit codes."""
    return any(node.op in READERS and node.op not in ("Dequantize", "QuantizeV2") for node in nodes)


def check_codes(
    graph: Graph,
    nodes: Iterable[Node],
    inputs: Sequence[Value],
    arrays: Sequence[Array],
    timeout_seconds: float,
) -> int:
    """Run every eight-bit op of a graph in LiteRT beside the interpreter; the most codes one is off.

    Args:
        graph: shapes inferred.
        nodes: those of the model, which may be a part of the graph.
        inputs: what goes into them.
        arrays: for the inputs.
        timeout_seconds: for LiteRT, which runs in a child process.

    Raises:
        VerificationError: an op is further off than it may be.
        EngineCrashed: LiteRT crashed, or took longer.
    """
    grids = known_grids(graph)
    inside = set(nodes)
    found = {v: grid for v, grid in grids.items() if v.node in inside and _is_checked(v, grid)}
    measured = [n.inputs[0] for n in inside if n.op == "QuantizeV2" and n.output() not in grids]
    ahead = [v for v in dict.fromkeys(measured) if v.node.tensor is None and v not in inputs]
    wanted = [*found, *ahead]
    given = dict(zip(inputs, arrays, strict=True))
    made = dict(zip(wanted, Plan(graph, wanted, list(inputs)).run(given), strict=True))
    feeds = given | {v: made[v] for v in wanted if not _is_on_the_way(v)}
    cut, twins = _cut(graph, feeds)
    outputs = [cut.node(v.node.name).output(v.port) for v in found]
    fed = [twins[v] for v in feeds]
    infer_shapes(cut)
    program = lower_graph(cut, fed, outputs, specs={}).program
    (results,) = run_file(
        to_bytes(program), "litert", [list(feeds.values())], timeout_seconds=timeout_seconds
    )
    worst = 0
    for (value, grid), result in zip(found.items(), results, strict=True):
        off = np.abs(result.astype(np.int64) - made[value].astype(np.int64).reshape(result.shape))
        _judge(value, off, _allowed(value.node, grid, grids))
        worst = max(worst, int(off.max(initial=0)))
    return worst


def _is_checked(value: Value, grid: Grid) -> bool:
    is_code = grid.dtype is not QINT32 and code_type(value) is not None
    return is_code and value.node.tensor is None and value.node.op in READERS


def _is_on_the_way(value: Value) -> bool:
    """Whether a value is between two ops that may become one."""
    return value.node.op == "Requantize" and [n.op for n in value.readers] == ["QuantizedBiasAdd"]


def _cut(graph: Graph, feeds: Mapping[Value, Array]) -> tuple[Graph, dict[Value, Value]]:
    """A copy in which these values are fed to whoever reads them; and what is fed, by value of the graph."""
    cut = graph.clone()
    twins: dict[Value, Value] = {}
    for value, array in feeds.items():
        old = cut.node(value.node.name).output(value.port)
        attrs: dict[str, Attr] = {"dtype": value.dtype or dtype(array.dtype), "shape": ShapeAttr(array.shape)}
        twin = cut.add("Placeholder", name=cut.unique_name(f"{value.node.name}/given"), attrs=attrs)
        old.replace_uses(twin.output())
        twins[value] = twin.output()
    return cut, twins


def _allowed(node: Node, grid: Grid, grids: Mapping[Value, Grid]) -> int:
    """Codes that the result of an op may be off."""
    allowed = 1
    while node.op in READERS and node.inputs:
        sources = [v for v in node.inputs[:2] if code_type(v) is not None and v.node.tensor is None]
        inner = [v for v in sources if code_type(v) is QINT32 or (v in grids and _is_on_the_way(v))]
        if not inner:
            break
        if code_type(inner[0]) is not QINT32:
            allowed += math.ceil(grids[inner[0]].scale / grid.scale)
        node = inner[0].node
    return allowed


def _judge(value: Value, off: Array, allowed: int) -> None:
    if off.size and np.count_nonzero(off > allowed) > _TINY_SHARE * off.size:
        place = np.unravel_index(int(off.argmax()), off.shape)
        raise VerificationError(
            f"LiteRT's '{value.name}'{[int(i) for i in place]} is {int(off.max())} codes off the graph's,"
            f" at most {allowed} are expected",
            hint="please report this with the model; engine='reference' gives the right answer",
        )
