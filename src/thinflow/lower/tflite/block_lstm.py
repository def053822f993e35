"""BlockLSTM, an LSTM over a whole sequence in one op, as a loop of steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.attrs import Attr
from thinflow.ir.function import ARGUMENT, Function
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.types import FLOAT, INT32, VARIANT, DType
from thinflow.lower.control import FlowLowering
from thinflow.lower.rules import calls
from thinflow.lower.tflite.builder import Builder, ints, require, shape_of
from thinflow.lower.tflite.listed import Listed, Slot, items_of
from thinflow.lower.tflite.program import Tensor

_NAMES = ("i", "cs", "f", "o", "ci", "co", "h")
_CS, _H = 1, 6
_KEPT = ("forget_bias", "cell_clip", "use_peephole")
_DEFAULTS: dict[str, dict[str, Attr]] = {"BlockLSTMV2": {"cell_clip": 0.0}}


@calls("BlockLSTM", "BlockLSTMV2", to="tflite")
def block_lstm(run: FlowLowering, node: Node, slots: list[Slot]) -> list[Slot]:
    """A loop of LSTMBlockCells that collects what is read."""
    read = [v.port for v in node.outputs if v.uses or v.is_graph_output or v in run.wanted]
    # Nobody reads anything: one list all the same, that of h, for the loop to have something to collect.
    ports = read or [6]
    condition, body, first = _loop_of(run.builder, node, slots, ports)
    last = run.turned(condition, body, first)
    # The first three are the counter, the cell state and the output of the last
    # step; behind the lists x follows.
    found = dict(zip(ports, last[3:], strict=False))
    nothing = UnsupportedOp("nobody reads it")
    spare = run.builder.refuse(nothing, 7)
    return [
        items_of(run.builder, slot) if isinstance(slot := found.get(port), Listed) else spare[port]
        for port in range(7)
    ]


def _loop_of(
    b: Builder, node: Node, slots: Sequence[Slot], ports: Sequence[int]
) -> tuple[Function, Function, list[Slot]]:
    """The condition and the body of a loop, and what goes into it.

    Args:
        slots: seq_len_max, x [time,batch,inputs], cs, h, w, wci, wcf, wco, b.
        ports: the outputs to collect; lists of them are the fourth and following results of the loop.

    Raises:
        UnsupportedOp: the number of steps is not known.
    """
    length, x, cs, h, *weights = (s for s in slots if isinstance(s, Tensor))
    require(len(weights) == 5, "one of its inputs is a list")
    steps, batch, _ = shape_of(x, "x", 3)
    (limit,) = ints(length, "the number of steps")
    if steps is None or limit < 0:
        raise UnsupportedOp("the number of steps is not known", hint="give the shapes of the inputs")
    units = shape_of(h, "the state", 2)[1]
    if node.op == "BlockLSTMV2":
        weights[0], weights[4] = _reordered(b, weights[0]), _reordered(b, weights[4])
    # As long as x, filled with zeros: what lies behind seq_len_max stays 0, as in the op.
    lists = [Listed(steps, FLOAT, (batch, units)) for _ in ports]
    # x and the weights are variables that no turn changes; what a body reads has to come in as an argument.
    first: list[Slot] = [b.const(np.int32(0), "time"), cs, h, *lists, x, *weights]
    return _condition(node, len(first), len(lists), min(limit, steps)), _body(node, ports), first


def _reordered(b: Builder, weights: Tensor) -> Tensor:
    """Gates in the order of LSTMBlockCell: i, ci, f, o from V2's i, f, ci, o [...,4*units]."""
    require(weights.is_constant, "its weights are computed while the model runs")
    i, f, ci, o = np.split(np.asarray(weights.array()), 4, -1)
    return b.const(np.concatenate([i, ci, f, o], -1), "weights", weights.dtype)


def _started(lists: int) -> tuple[Graph, list[Value]]:
    """A graph with arguments t, cs, h, the lists, x, w, wci, wcf, wco, b."""
    graph = Graph()
    kinds: list[DType] = [INT32, FLOAT, FLOAT, *[VARIANT] * lists, *[FLOAT] * 6]
    return graph, [
        graph.add(ARGUMENT, name=f"argument{n}", attrs={"T": kind}).output() for n, kind in enumerate(kinds)
    ]


def _condition(node: Node, count: int, lists: int, steps: int) -> Function:
    graph, arguments = _started(lists)
    assert len(arguments) == count
    limit = graph.constant(np.array(steps, np.int32), "steps")
    going_on = graph.add("Less", [arguments[0], limit], "going_on", attrs={"T": INT32})
    return Function(f"{node.name}/condition", graph, arguments, [going_on.output()])


def _body(node: Node, ports: Sequence[int]) -> Function:
    graph, arguments = _started(len(ports))
    t, cs, h, *rest = arguments
    lists, (x, *weights) = rest[: len(ports)], rest[len(ports) :]
    axis, one = graph.constant(np.array(0, np.int32), "axis"), graph.constant(np.array(1, np.int32), "one")
    now = graph.add("GatherV2", [x, t, axis], "now", attrs={"Tparams": FLOAT}).output()
    attrs = _DEFAULTS.get(node.op, {}) | {k: v for k, v in node.attrs.items() if k in _KEPT}
    if node.op == "BlockLSTMV2":
        # V2 has no such attribute and adds nothing; the cell's default is 1.
        attrs["forget_bias"] = 0.0
    cell = graph.add("LSTMBlockCell", [now, cs, h, *weights], "cell", attrs={"T": FLOAT, **attrs})
    following = graph.add("AddV2", [t, one], "following", attrs={"T": INT32}).output()
    kept = [
        graph.add("TensorListSetItem", [values, t, cell.output(port)], f"kept_{_NAMES[port]}").output()
        for port, values in zip(ports, lists, strict=True)
    ]
    results = [following, cell.output(_CS), cell.output(_H), *kept, x, *weights]
    return Function(f"{node.name}/body", graph, arguments, results)
