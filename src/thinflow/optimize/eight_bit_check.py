"""Numeric check of models of eight-bit graphs, op by op.

Rounding to eight bits makes of one code more or less in one op whatever the ops behind it make of that: two
right implementations may give answers that are far apart. So every op is run on the codes that the
interpreter made for it, and its result may be one code off, or what one code of a grid on the way comes to.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from thinflow.analysis.quant_params import QuantParams, infer_quant_params, params_of_range, quantized_type
from thinflow.analysis.shapes import infer_shapes
from thinflow.compare.differences import difference
from thinflow.engines._child import run_file
from thinflow.errors import VerificationError
from thinflow.interpreter import Plan
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.types import FLOAT, QINT32
from thinflow.lower.lowering import needed_nodes
from thinflow.lower.tflite.convert import lower_graph
from thinflow.lower.tflite.quantized_context import takes_quantized
from thinflow.ops import registry
from thinflow.ops.random import Random
from thinflow.tflite.writer import to_bytes
from thinflow.typing import Array

_NAMES = {"litert": "LiteRT", "onnxruntime": "ONNX Runtime"}
# A range that a run measures is rounded otherwise in another runtime; a value halfway between two quantized
# values then falls to the other side, and what reads it is off by more than one step.
_TINY_SHARE = 1e-4
"""Of the elements, which may be further off: ties of measured ranges."""


def holds_codes(nodes: Iterable[Node]) -> bool:
    """True if nodes compute with eight-bit codes."""
    return any(takes_quantized(node.op) and node.op not in ("Dequantize", "QuantizeV2") for node in nodes)


def check_codes(
    graph: Graph,
    nodes: Iterable[Node],
    inputs: Sequence[Value],
    arrays: Sequence[Array],
    timeout_seconds: float,
    *,
    engine: str = "litert",
    ends: Sequence[Value] = (),
    tolerance: float = math.inf,
) -> int:
    """Run every eight-bit op of a graph in an engine beside the interpreter; the most codes one is off.

    Args:
        graph: shapes inferred.
        nodes: those of the model, which may be a part of the graph.
        inputs: what goes into them.
        arrays: for the inputs.
        timeout_seconds: for the engine, which runs in a child process.
        engine: "litert", which computes with codes whose range is known, or "onnxruntime".
        ends: what comes out of them.
        tolerance: how far the numbers among the ends, and those that become codes, may be off, each from the
            codes before it; relative to the largest of the value.

    Raises:
        VerificationError: an op is further off than it may be.
        EngineCrashed: the engine crashed, or took longer.
    """
    # Without a limit numbers are not judged, so they need not be computed.
    question = _question(graph, set(nodes), inputs, engine, ends if tolerance < math.inf else ())
    wanted = question.wanted()
    given = dict(zip(inputs, arrays, strict=True))
    made = dict(zip(wanted, Plan(graph, wanted, list(inputs)).run(given), strict=True))
    results = _answers(graph, question, given | question.fed(made), engine, timeout_seconds)
    grids = {**question.known, **_measured_grids(question.ranges, made)}
    worst = 0
    for value in question.codes:
        result, wanted_codes = results[value].astype(np.int64), made[value].astype(np.int64)
        off = np.abs(result - wanted_codes.reshape(result.shape))
        allowed = _allowed(value.node, grids[value], grids) if value in grids else 1
        _judge(value, off, allowed, _NAMES[engine])
        worst = max(worst, int(off.max(initial=0)))
    for value in question.numbers:
        _judge_numbers(value, made[value], results[value], tolerance, _NAMES[engine])
    return worst


@dataclass(frozen=True)
class _Question:
    """The values that are compared.

    Attributes:
        codes: results of eight-bit ops.
        numbers: floats that become codes, or are given out.
        ahead: floats that become codes of a range found in each run; a rounding in them would move the range.
        ranges: codes -> the ends of their range, where a run finds it.
        known: the grids that need no run.
    """

    codes: list[Value]
    numbers: list[Value]
    ahead: list[Value]
    ranges: dict[Value, tuple[Value, Value]]
    known: Mapping[Value, QuantParams]

    def wanted(self) -> list[Value]:
        """All that the interpreter is asked for."""
        ends = (end for pair in self.ranges.values() for end in pair)
        return list(dict.fromkeys([*self.codes, *self.ahead, *ends, *self.numbers]))

    def fed(self, made: Mapping[Value, Array]) -> dict[Value, Array]:
        """The values that readers are given, as the interpreter made them."""
        ends = (end for pair in self.ranges.values() for end in pair)
        return {v: made[v] for v in (*self.codes, *self.ahead, *ends) if not _is_on_the_way(v)}


def _question(
    graph: Graph, inside: set[Node], inputs: Sequence[Value], engine: str, ends: Sequence[Value]
) -> _Question:
    known = infer_quant_params(graph)
    codes = [v for n in graph if n in inside for v in n.outputs if _is_checked(v)]
    ranges = {v: (v.node.output(1), v.node.output(2)) for v in codes if v not in known}
    # LiteRT computes ranges that a run finds in float: there are no codes to compare.
    if engine == "litert":
        codes, ranges = [v for v in codes if v in known], {}
    # A range found in the run moves with the last bit of its floats: they are fed as the interpreter has
    # them.
    measured = [n.inputs[0] for n in inside if n.op == "QuantizeV2" and n.output() not in known]
    ahead = [v for v in dict.fromkeys(measured) if v.node.tensor is None and v not in inputs]
    floats = [v for v in (*ahead, *ends) if v.dtype == FLOAT and v not in inputs] if ends else []
    begin = [*inputs, *codes, *ahead]
    numbers = [v for v in dict.fromkeys(floats) if is_repeatable(v, [b for b in begin if b is not v])]
    return _Question(codes, numbers, ahead, ranges, known)


def is_repeatable(value: Value, begin: Sequence[Value]) -> bool:
    """True if a value is the same in every run, given where it begins: no random numbers are in it."""
    definitions = (registry.find(node.op) for node in needed_nodes([value], begin))
    return not any(d is not None and issubclass(d, Random) for d in definitions)


def _answers(
    graph: Graph, question: _Question, feeds: Mapping[Value, Array], engine: str, timeout_seconds: float
) -> dict[Value, Array]:
    """The engine's results for the values that each op is fed."""
    from thinflow.optimize.layer_by_layer import cut_at

    cut, twins = cut_at(graph, feeds)
    asked = [*question.codes, *question.numbers]
    outputs = [cut.node(v.node.name).output(v.port) for v in asked]
    fed = [twins[v] for v in feeds]
    infer_shapes(cut)
    content = _lowered(cut, fed, outputs, engine)
    # One file and one run for all ops: each reads the interpreter's values, so that errors do not add up.
    (results,) = run_file(content, engine, [list(feeds.values())], timeout_seconds=timeout_seconds)
    return dict(zip(asked, results, strict=True))


def _measured_grids(
    ranges: Mapping[Value, tuple[Value, Value]], made: Mapping[Value, Array]
) -> dict[Value, QuantParams]:
    """The grids of codes whose ranges were found in a run, where there are any."""
    found = {}
    for value, (low, high) in ranges.items():
        dtype_of = quantized_type(value)
        if dtype_of is not None and made[low].size == made[high].size == 1:
            found[value] = params_of_range(float(made[low].item()), float(made[high].item()), dtype_of)
    return {value: own for value, own in found.items() if own is not None}


def _lowered(graph: Graph, inputs: Sequence[Value], outputs: Sequence[Value], engine: str) -> bytes:
    if engine == "onnxruntime":
        from thinflow.lower.onnx.convert import lower_graph as onnx_lower_graph
        from thinflow.onnx.writer import to_bytes as onnx_to_bytes

        return onnx_to_bytes(onnx_lower_graph(graph, inputs, outputs, specs={}).program)
    return to_bytes(lower_graph(graph, inputs, outputs, specs={}).program)


def _is_checked(value: Value) -> bool:
    # Sums of 32 bits are exact: whatever requantizes them is compared instead.
    is_code = quantized_type(value) not in (None, QINT32)
    return is_code and value.node.tensor is None and takes_quantized(value.node.op)


def _is_on_the_way(value: Value) -> bool:
    """True if a value is between two ops that may become one."""
    # A Requantize that a QuantizedBiasAdd alone reads is fused with it; fed in between, the fused op would
    # not be the one tested.
    return value.node.op == "Requantize" and [n.op for n in value.readers] == ["QuantizedBiasAdd"]


def _allowed(node: Node, own: QuantParams, grids: Mapping[Value, QuantParams]) -> int:
    """Codes that the result of an op may be off."""
    allowed = 1
    while takes_quantized(node.op) and node.inputs:
        sources = [v for v in node.inputs[:2] if quantized_type(v) is not None and v.node.tensor is None]
        inner = [v for v in sources if quantized_type(v) is QINT32 or (v in grids and _is_on_the_way(v))]
        if not inner:
            break
        # One step on the way comes to this many of the result's.
        # Sums are exact and add nothing; a rounding on the way is one step of a grid that may be coarser.
        if quantized_type(inner[0]) is not QINT32:
            allowed += math.ceil(grids[inner[0]].scale / own.scale)
        node = inner[0].node
    return allowed


def _judge(value: Value, off: Array, allowed: int, engine: str) -> None:
    # Of fewer than 10,000 elements none may be further off.
    if off.size and np.count_nonzero(off > allowed) > _TINY_SHARE * off.size:
        place = np.unravel_index(int(off.argmax()), off.shape)
        raise VerificationError(
            f"{engine}'s '{value.name}'{[int(i) for i in place]} is {int(off.max())} codes off the graph's,"
            f" at most {allowed} are expected",
            hint="please report this with the model; engine='reference' gives the right answer",
        )


def _judge_numbers(value: Value, expected: Array, found: Array, tolerance: float, engine: str) -> None:
    apart = difference(expected, found.reshape(expected.shape))
    if apart.relative > tolerance:
        raise VerificationError(
            f"{engine} gives {apart.after} for '{value.name}'{list(apart.index)}, the graph {apart.before}",
            hint="please report this with the model; engine='reference' gives the right answer",
        )
