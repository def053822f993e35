"""Training ops of graphs that cannot run before they are taken out; the others are in the golden texts."""

from __future__ import annotations

import numpy as np

from tests.library import constant, function, graph_of, node
from tests.transforms.golden import trimmed
from tests.transforms.support import apply, reasons, step
from thinflow.interpreter import Plan
from thinflow.ir.text import graph_text
from thinflow.ir.types import BOOL, FLOAT


def test_an_output_that_never_runs() -> None:
    before = """
        x = Placeholder() {dtype=float, shape=shape[2]}
        false = Const() {value=bool[]{False}}
        s = Switch(x, false) {T=float}
        y = Neg(s:1) {T=float}
        z = Neg(s) {T=float}
        inputs: x
        outputs: z, y
    """
    _, report = step(before, "remove_training_ops")
    assert report.changes == 0
    assert reasons(report) == {
        "s": "'y' is asked for by name, and never runs",
    }


def test_calls_of_one_branch() -> None:
    before = """
        x = Placeholder() {dtype=float, shape=shape[2]}
        false = Const() {value=bool[]{False}}
        nine = Const() {value=int32[]{9}}
        a = If(false, x) {Tcond=bool, Tin=[float], Tout=[float], then_branch=@train, else_branch=@infer}
        b = StatelessCase(nine, a) {Tin=[float], Tout=[float], branches=[@train,@infer], _note=1}
        y = Relu(b) {T=float}
        inputs: x
        outputs: y
    """
    after = apply(before, "remove_training_ops").graph
    wanted = """
        x = Placeholder() {dtype=float, shape=shape[2]}
        false = Const() {value=bool[]{False}}
        nine = Const() {value=int32[]{9}}
        a = StatefulPartitionedCall(x) {Tin=[float], Tout=[float], f=@infer}
        b = PartitionedCall(a) {Tin=[float], Tout=[float], _note=1, f=@infer}
        y = Relu(b) {T=float}
        inputs: x
        outputs: y
    """
    assert trimmed(graph_text(after)) == trimmed(wanted.strip())
    assert apply(after, "remove_training_ops").changes == 0


def test_a_queue_that_one_node_fills() -> None:
    before = """
        x = Placeholder() {dtype=float, shape=shape[2]}
        i = Placeholder() {dtype=int32, shape=shape[]}
        queue = FIFOQueueV2() {component_types=[float,int32], capacity=3}
        fill = QueueEnqueueV2(queue, x, i) {Tcomponents=[float,int32]}
        size = QueueSizeV2(queue)
        close = QueueCloseV2(queue)
        closed = QueueIsClosedV2(queue)
        take = QueueDequeueV2(queue) {component_types=[float,int32]}
        f = Cast(take:1) {SrcT=int32, DstT=float}
        y = AddV2(take, f) {T=float}
        inputs: x, i
        outputs: y
    """
    after = apply(before, "remove_training_ops").graph
    wanted = """
        x = Placeholder() {dtype=float, shape=shape[2]}
        i = Placeholder() {dtype=int32, shape=shape[]}
        f = Cast(i) {DstT=float, SrcT=int32}
        y = AddV2(x, f) {T=float}
        inputs: x, i
        outputs: y
    """
    assert trimmed(graph_text(after)) == trimmed(wanted.strip())
    assert apply(after, "remove_training_ops").changes == 0


def test_queues_that_have_to_stay() -> None:
    before = """
        x = Placeholder() {dtype=float, shape=shape[2]}
        queue = FIFOQueueV2() {component_types=[float], capacity=3}
        fill = QueueEnqueueV2(queue, x) {Tcomponents=[float]}
        fill2 = QueueEnqueueV2(queue, x) {Tcomponents=[float]}
        take = QueueDequeueV2(queue) {component_types=[float]}
        two = Const() {value=int32[]{2}}
        other = FIFOQueueV2() {component_types=[float], capacity=3}
        fill3 = QueueEnqueueV2(other, x) {Tcomponents=[float]}
        many = QueueDequeueManyV2(other, two) {component_types=[float]}
        y = AddV2(take, many) {T=float}
        inputs: x
        outputs: y
    """
    _, report = step(before, "remove_training_ops")
    assert report.changes == 0
    assert reasons(report) == {
        "queue": "2 nodes put single elements in and 1 take them out, not 1 and 1",
        "other": "'many' (QueueDequeueManyV2) uses the queue",
    }


def test_a_branch_of_functions_with_a_constant_condition() -> None:
    train = function("train", {"x": FLOAT}, [node("y", "Neg", "x", T=FLOAT)], {"r": "y:y:0"})
    infer = function("infer", {"x": FLOAT}, [node("y", "Square", "x", T=FLOAT)], {"r": "y:y:0"})
    call = node("y", "StatelessIf", "d", "x", Tcond=BOOL, Tin=(FLOAT,), Tout=(FLOAT,),
                then_branch="@train", else_branch="@infer")  # fmt: skip
    false = node("f", "Const", dtype=BOOL, value="tensor { dtype: 10 tensor_shape { } bool_val: false }")
    default = node("d", "PlaceholderWithDefault", "f", dtype=BOOL, shape="shape { }")
    graph = graph_of([constant("x", [1.0, 3.0]), false, default, call], [train, infer])
    graph.outputs = [graph.value("y")]
    pipeline = "remove_training_ops inline_partitionedcall strip_unused_nodes"
    after = apply(graph, pipeline).graph
    assert not after.functions
    assert [n.op for n in after] == ["Const", "Square", "Identity"]
    (found,) = Plan(after, after.outputs, []).run({})
    np.testing.assert_array_equal(found, [1.0, 9.0])
