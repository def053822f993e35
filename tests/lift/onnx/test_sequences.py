"""ONNX's sequences and optionals: resolved where what they hold is known, else refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.lift.onnx.models import TURN, agree, graph_of, helper, lifted, node, onnx, runtime, save
from thinflow.errors import UnsupportedOp

pytest.importorskip("onnxruntime")
FLOAT, BOOL = onnx.TensorProto.FLOAT, onnx.TensorProto.BOOL
RNG = np.random.default_rng(41)
X, Y, Z = (RNG.standard_normal((2, 3)).astype(np.float32) for _ in range(3))
FEED = {"x": X, "y": Y, "z": Z}
HELD = {
    n: np.array(v)
    for n, v in (("zero", 0), ("one", 1), ("last", -1), ("two", 2), ("three", 3), ("parts", [1, 2]))
}
AT_ONE = node("SequenceAt", ["s", "one"], ["a"])
THREE = node("SequenceConstruct", ["x", "y", "z"], ["s"])
JOINED = [
    helper.make_graph(
        [node("ConcatFromSequence", ["s"], ["joined"], axis=axis)],
        "branch",
        [],
        [helper.make_tensor_value_info("joined", FLOAT, None)],
    )
    for axis in (0, 1)
]
"""As TorchScript's exporter says `hstack`: vectors end to end, anything else side by side."""
CASES: dict[str, tuple[list[Any], list[str]]] = {
    "at": ([THREE, node("SequenceAt", ["s", "last"], ["a"])], ["a"]),
    "insert": (
        [THREE, node("SequenceInsert", ["s", "x", "one"], ["t"]), node("SequenceInsert", ["t", "y"], ["u"]),
         node("ConcatFromSequence", ["u"], ["a"], axis=-1), node("SequenceLength", ["u"], ["n"])], ["a", "n"],
    ),
    "insert from the end": (
        [THREE, node("SequenceInsert", ["s", "x", "last"], ["t"]),
         node("ConcatFromSequence", ["t"], ["a"], axis=0)], ["a"],
    ),
    "insert at the end": (
        [THREE, node("SequenceInsert", ["s", "x", "three"], ["t"]),
         node("ConcatFromSequence", ["t"], ["a"], axis=0)], ["a"],
    ),
    "erase": (
        [THREE, node("SequenceErase", ["s", "zero"], ["t"]), node("SequenceErase", ["t"], ["u"]),
         node("ConcatFromSequence", ["u"], ["a"], axis=0)], ["a"],
    ),
    "handed on": ([THREE, node("Identity", ["s"], ["t"]), node("SequenceAt", ["t", "one"], ["a"])], ["a"]),
    "stack": ([THREE, node("ConcatFromSequence", ["s"], ["a"], axis=1, new_axis=1)], ["a"]),
    "empty": (
        [node("SequenceEmpty", [], ["e"]), node("SequenceInsert", ["e", "z"], ["s"]),
         node("SequenceLength", ["e"], ["n"]), node("SequenceAt", ["s", "zero"], ["a"])], ["a", "n"],
    ),
    "a rank of what is handed on, which chooses": (
        [THREE, AT_ONE, node("Shape", ["a"], ["sizes"]), node("Size", ["sizes"], ["rank"]),
         node("Equal", ["rank", "one"], ["flat"]),
         node("If", ["flat"], ["b"], then_branch=JOINED[0], else_branch=JOINED[1])], ["b"],
    ),
    "slices": (
        [node("SplitToSequence", ["x"], ["s"], axis=1, keepdims=0), AT_ONE], ["a"],
    ),
    "slices kept": (
        [node("SplitToSequence", ["x"], ["s"], axis=-1), AT_ONE], ["a"],
    ),
    "pieces": (
        [node("SplitToSequence", ["x", "two"], ["s"], axis=1), AT_ONE], ["a"],
    ),
    "parts": (
        [node("SplitToSequence", ["x", "parts"], ["s"], axis=1), AT_ONE], ["a"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_is_known_is_resolved(case: str, tmp_path: Path) -> None:
    nodes, outputs = CASES[case]
    path = save(tmp_path / "m.onnx", nodes, FEED, outputs, HELD, opset=17)
    expected = runtime(path, FEED)
    agree(expected, lifted(path, FEED))
    graph = graph_of(path)
    assert not [n.op for n in graph if n.op.startswith("onnx.")]
    thinflow.save(graph, tmp_path / "o.onnx")
    agree(expected, list(thinflow.run(tmp_path / "o.onnx", FEED).values()))


def test_a_position_that_is_fed(tmp_path: Path) -> None:
    for place in (0, 2, -1):
        feed = {**FEED, "i": np.array(place)}
        path = save(tmp_path / "m.onnx", [THREE, node("SequenceAt", ["s", "i"], ["a"])], feed, ["a"])
        agree(runtime(path, feed), lifted(path, feed))


def test_a_body_for_each_item(tmp_path: Path) -> None:
    body = helper.make_graph(
        [node("Mul", ["p", "q"], ["h"]), node("Add", ["h", "z"], ["r"])], "b",
        [helper.make_tensor_value_info(n, FLOAT, None) for n in "pq"],
        [helper.make_tensor_value_info(n, FLOAT, None) for n in "rh"],
    )  # fmt: skip
    nodes = [
        node("SequenceConstruct", ["x", "y"], ["s"]),
        node("SequenceMap", ["s", "y"], ["t", "u"], body=body),
        node("ConcatFromSequence", ["t"], ["a"], axis=0),
        node("ConcatFromSequence", ["u"], ["b"], axis=0),
    ]
    path = save(tmp_path / "m.onnx", nodes, FEED, ["a", "b"], opset=17)
    agree(runtime(path, FEED), lifted(path, FEED))


def counting(extra: list[Any]) -> Any:
    """s' = s with x * i behind it."""
    nodes = [
        node("Cast", ["i"], ["f"], to=FLOAT),
        node("Mul", ["x", "f"], ["r"]),
        node("SequenceInsert", ["s", "r"], ["t"]),
        *extra,
    ]
    of = helper.make_tensor_type_proto(FLOAT, None)
    state = [helper.make_value_info(n, helper.make_sequence_type_proto(of)) for n in "st"]
    turn = [helper.make_tensor_value_info(*v) for v in TURN]
    results = [helper.make_tensor_value_info("d", BOOL, []), state[1]]
    return helper.make_graph(nodes, "b", [*turn, state[0]], results)


def test_a_loop_that_fills_a_sequence(tmp_path: Path) -> None:
    nodes = [
        node("SequenceConstruct", ["y"], ["s0"]),
        node("Loop", ["three", "", "s0"], ["s1"], body=counting([node("Identity", ["c"], ["d"])])),
        node("ConcatFromSequence", ["s1"], ["a"], axis=0),
    ]
    path = save(tmp_path / "m.onnx", nodes, FEED, ["a"], {"three": np.array(3)}, opset=17)
    agree(runtime(path, FEED), lifted(path, FEED))


def test_optionals(tmp_path: Path) -> None:
    nodes = [
        node("Optional", ["x"], ["o"]),
        node("OptionalHasElement", ["o"], ["h"]),
        node("OptionalHasElement", [""], ["n"]),
        node("OptionalHasElement", ["x"], ["t"]),
        node("OptionalGetElement", ["o"], ["g"]),
        node("OptionalGetElement", ["x"], ["k"]),
        node("Neg", ["g"], ["a"]),
        node("Abs", ["k"], ["b"]),
    ]
    path = save(tmp_path / "m.onnx", nodes, {"x": X}, ["a", "b", "h", "n", "t"], opset=18)
    agree([-X, np.abs(X), np.array(True), np.array(False), np.array(True)], lifted(path, {"x": X}))


LOOP = node("Loop", ["n", "", "s"], ["t"], body=counting([node("Identity", ["c"], ["d"])]))
REFUSED: dict[str, tuple[list[Any], list[str], str]] = {
    "output": ([THREE], ["s"], "'s' is a sequence, which TensorFlow's models do not give"),
    "reader": ([THREE, node("Neg", ["s"], ["t"])], ["t"], "Neg reads a sequence here"),
    "no sequence": ([node("SequenceLength", ["x"], ["a"])], ["a"], "known only while the model runs"),
    "no such item": ([THREE, node("SequenceAt", ["s", "seven"], ["a"])], ["a"],
                     "its position 7 is not among 3"),
    "sizes": ([node("SequenceConstruct", ["x", "w"], ["s"]), node("SequenceAt", ["s", "n"], ["a"])], ["a"],
              "its position is computed, and its items differ in size"),
    "nothing": ([node("SequenceEmpty", [], ["s"]), node("ConcatFromSequence", ["s"], ["a"], axis=0)], ["a"],
                "its sequence has no items"),
    "nothing to take": ([node("SequenceEmpty", [], ["s"]), node("SequenceErase", ["s"], ["t"]),
                         node("SequenceLength", ["t"], ["a"])], ["a"], "its sequence has no items"),
    "optional": ([node("Optional", [], ["o"], type=helper.make_tensor_type_proto(FLOAT, None)),
                  node("OptionalGetElement", ["o"], ["a"])], ["a"], "there is nothing in its optional"),
    "loop": ([THREE, LOOP, node("SequenceLength", ["t"], ["a"])], ["a"],
             "how often it iterates is not known"),
    "pieces": ([node("SplitToSequence", ["x", "zero"], ["s"]), node("SequenceLength", ["s"], ["a"])], ["a"],
               "the number of its pieces is not known"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str, tmp_path: Path) -> None:
    nodes, outputs, said = REFUSED[case]
    feed = {**FEED, "w": X[:1], "n": np.array(1)}
    path = save(tmp_path / "m.onnx", nodes, feed, outputs, {**HELD, "seven": np.array(7)}, opset=18)
    with pytest.raises(UnsupportedOp, match=said):
        lifted(path, feed)


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ([node("SplitToSequence", ["x"], ["s"]), AT_ONE], "it makes a sequence of 5000 tensors"),
        ([node("SplitToSequence", ["x", "ones"], ["s"]), AT_ONE], "it makes a sequence of 5000 tensors"),
        ([node("SequenceConstruct", ["x"], ["q"]),
          node("Loop", ["many", "", "q"], ["s"], body=counting([node("Identity", ["c"], ["d"])])), AT_ONE],
         "it carries a sequence through 5000 iterations"),
    ],
)  # fmt: skip
def test_sequences_that_are_too_long(nodes: list[Any], said: str, tmp_path: Path) -> None:
    feed = {"x": np.zeros((5000, 1), np.float32)}
    held = {**HELD, "ones": np.ones(5000, np.int64), "many": np.array(5000)}
    path = save(tmp_path / "m.onnx", nodes, feed, ["a"], held, opset=17)
    with pytest.raises(UnsupportedOp, match=said):
        lifted(path, feed)


def test_rows_that_no_iteration_gives(tmp_path: Path) -> None:
    body = counting([node("Identity", ["c"], ["d"])])
    body.output.append(helper.make_tensor_value_info("r", FLOAT, None))
    nodes = [node("SequenceConstruct", ["y"], ["q"]), node("Loop", ["zero", "", "q"], ["t", "a"], body=body)]
    path = save(tmp_path / "m.onnx", nodes, FEED, ["a"], HELD, opset=17)
    with pytest.raises(UnsupportedOp, match="it gathers what no iteration gives"):
        lifted(path, FEED)
