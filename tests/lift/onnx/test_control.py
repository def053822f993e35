"""ONNX's If, Loop and Scan against ONNX Runtime, in the interpreter and in the files that are written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.lift.onnx.models import TURN, agree, graph_of, helper, lifted, node, onnx, runtime, save
from thinflow.errors import UnsupportedOp

pytest.importorskip("onnxruntime")
FLOAT, INT64, BOOL = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL
X = np.random.default_rng(8).standard_normal((3, 4)).astype(np.float32)


def body(nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
    made = [[helper.make_tensor_value_info(*v) for v in values] for values in (inputs, outputs)]
    return helper.make_graph(list(nodes), "body", *made)


def test_a_branch_reads_values_and_constants_from_outside(tmp_path: Path) -> None:
    yes = body([node("ReduceSum", ["h", "axes"], ["a"], keepdims=0), node("Neg", ["x"], ["b"])], [],
               [("a", FLOAT, [3]), ("b", FLOAT, [3, 4])])  # fmt: skip
    no = body([node("ReduceMax", ["x", "axes"], ["a"], keepdims=0), node("Abs", ["h"], ["b"])], [],
              [("a", FLOAT, [3]), ("b", FLOAT, [3, 4])])  # fmt: skip
    nodes = [node("Mul", ["x", "x"], ["h"]), node("If", ["p"], ["y", "z"], then_branch=yes, else_branch=no)]
    for choice in (True, False):
        feed = {"x": X, "p": np.array(choice)}
        path = save(tmp_path / "m.onnx", nodes, feed, ["z", "y"], {"axes": np.array([1])})
        expected = runtime(path, feed)
        agree(expected, lifted(path, feed))
        for name in ("o.tflite", "o.onnx"):
            thinflow.save(graph_of(path), tmp_path / name)
            agree(expected, list(thinflow.run(tmp_path / name, feed).values()))


def test_a_branch_that_sizes_choose_is_the_only_one(tmp_path: Path) -> None:
    yes = body([node("Squeeze", ["x", "axis"], ["a"])], [], [("a", FLOAT, None)])
    no = body([node("Identity", ["x"], ["a"])], [], [("a", FLOAT, None)])
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "axis"], ["n"]),
        node("Equal", ["n", "axis"], ["p"]),
        node("If", ["p"], ["y"], then_branch=yes, else_branch=no),
    ]
    path = save(tmp_path / "m.onnx", nodes, {"x": X[:, :1]}, ["y"], {"axis": np.array([1])})
    agree(runtime(path, {"x": X[:, :1]}), lifted(path, {"x": X[:, :1]}))
    assert "StatelessIf" not in {n.op for n in graph_of(path)}


def test_branches_in_branches(tmp_path: Path) -> None:
    inner = [body([node(op, ["x"], ["a"])], [], [("a", FLOAT, [3, 4])]) for op in ("Neg", "Exp")]
    deep = node("If", ["q"], ["b"], then_branch=inner[0], else_branch=inner[1])
    outer = [
        body([deep], [], [("b", FLOAT, [3, 4])]),
        body([node("Abs", ["x"], ["b"])], [], [("b", FLOAT, [3, 4])]),
    ]
    made = node("If", ["p"], ["y"], then_branch=outer[0], else_branch=outer[1])
    for p in (True, False):
        for q in (True, False):
            feed = {"x": X, "p": np.array([p]), "q": np.array(q)}
            path = save(tmp_path / "m.onnx", [made], feed, ["y"])
            agree(runtime(path, feed), lifted(path, feed))


def counted(extra: Sequence[Any] = (), condition: Any = None, state: Any = (3, 4)) -> Any:
    """s' = s * k + i, and it gives s and the sum of x."""
    nodes = [
        node("Cast", ["i"], ["f"], to=FLOAT),
        node("Mul", ["s", "k"], ["h"]),
        node("Add", ["h", "f"], ["t"]),
        node("ReduceSum", ["x"], ["u"], keepdims=0),
        node("Add", ["u", "f"], ["r"]),
        condition or node("Identity", ["c"], ["d"]),
        *extra,
    ]
    return body(nodes, [*TURN, ("s", FLOAT, state)],
                [("d", BOOL, []), ("t", FLOAT, state), ("s2", FLOAT, state), ("r", FLOAT, [])])  # fmt: skip


@pytest.mark.parametrize("turns", [0, 1, 4])
@pytest.mark.parametrize("is_fed", [True, False])
def test_a_loop_of_so_many_iterations(turns: int, is_fed: bool, tmp_path: Path) -> None:
    made = node("Loop", ["n", "", "x"], ["y", "all", "sums"], body=counted([node("Identity", ["s"], ["s2"])]))
    constants = {"k": np.array(0.5, np.float32)}
    feed = {"x": X}
    (feed if is_fed else constants)["n"] = np.array(turns)
    path = save(tmp_path / "m.onnx", [made], feed, ["y", "all", "sums"], constants)
    expected = runtime(path, feed)
    agree(expected, lifted(path, feed))
    if turns:
        for name in ("o.tflite", "o.onnx"):
            thinflow.save(graph_of(path), tmp_path / name)
            agree(expected, list(thinflow.run(tmp_path / name, feed).values()))


@pytest.mark.parametrize("limit", [2, 50, None])
@pytest.mark.parametrize("start", [True, False])
def test_a_loop_until_its_condition_is_false(limit: int | None, start: bool, tmp_path: Path) -> None:
    below = node("Less", ["f", "k2"], ["d"])
    made = counted([node("Identity", ["s"], ["s2"])], below)
    feed: dict[str, np.ndarray] = {"x": X, "g": np.array(start)}
    if limit is not None:
        feed["n"] = np.array(limit)
    loop = node("Loop", ["" if limit is None else "n", "g", "x"], ["y", "all", "sums"], body=made)
    constants = {"k": np.array(0.5, np.float32), "k2": np.array(5, np.float32)}
    path = save(tmp_path / "m.onnx", [loop], feed, ["y", "all", "sums"], constants)
    expected = runtime(path, feed)
    agree(expected, lifted(path, feed))
    if start:
        for name in ("o.tflite", "o.onnx"):
            thinflow.save(graph_of(path), tmp_path / name)
            agree(expected, list(thinflow.run(tmp_path / name, feed).values()))


def test_a_state_that_grows(tmp_path: Path) -> None:
    made = body(
        [node("Concat", ["s", "x"], ["t"], axis=0), node("Identity", ["c"], ["d"])],
        [*TURN, ("s", FLOAT, [None, 4])],
        [("d", BOOL, []), ("t", FLOAT, [None, 4])],
    )
    feed = {"x": X, "n": np.array(3)}
    path = save(tmp_path / "m.onnx", [node("Loop", ["n", "", "x"], ["y"], body=made)], feed, ["y"])
    agree(runtime(path, feed), lifted(path, feed))


def test_rows_of_unknown_sizes_are_refused(tmp_path: Path) -> None:
    made = body(
        [node("Slice", ["x", "zero", "i1"], ["t"]), node("Unsqueeze", ["i", "zero"], ["i1"]),
         node("Less", ["i", "four"], ["d"])][::-1],
        TURN, [("d", BOOL, []), ("t", FLOAT, [None, 4])],
    )  # fmt: skip
    made.node.reverse()
    made.node.sort(key=lambda n: n.op_type == "Slice")
    feed = {"x": X, "n": np.array(3)}
    constants = {"zero": np.array([0]), "four": np.array(2)}
    path = save(
        tmp_path / "m.onnx",
        [
            node(
                "Loop",
                [
                    "n",
                    "",
                ],
                ["y"],
                body=made,
            )
        ],
        feed,
        ["y"],
        constants,
    )
    with pytest.raises(
        UnsupportedOp, match="the shape of what it gathers iteration by iteration is not known"
    ):
        lifted(path, feed)


@pytest.mark.parametrize("seed", range(10))
def test_random_scans(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng([seed, 77])
    steps, a, b = (int(n) for n in rng.integers(1, 5, 3))
    x, y = (rng.standard_normal((steps, *sizes)).astype(np.float32) for sizes in ((a, b), (b,)))
    s = rng.standard_normal((a, b)).astype(np.float32)
    made = body(
        [node("Add", ["p", "q"], ["h"]), node("Mul", ["s", "k"], ["m"]), node("Add", ["h", "m"], ["t"]),
         node("ReduceMax", ["t"], ["r"], keepdims=0), node("Identity", ["t"], ["all"])],
        [("s", FLOAT, [a, b]), ("p", FLOAT, [a, b]), ("q", FLOAT, [b])],
        [("t", FLOAT, [a, b]), ("all", FLOAT, [a, b]), ("r", FLOAT, [])],
    )  # fmt: skip
    axes = [int(rng.integers(-3, 3)), int(rng.integers(-2, 2))]
    feed = {"s": s, "x": np.moveaxis(x, 0, axes[0]), "y": np.moveaxis(y, 0, axes[1])}
    options: dict[str, Any] = {"scan_input_axes": axes}
    if rng.random() < 0.6:
        options["scan_input_directions"] = [int(n) for n in rng.integers(0, 2, 2)]
    if rng.random() < 0.6:
        options["scan_output_directions"] = [int(n) for n in rng.integers(0, 2, 2)]
    if rng.random() < 0.6:
        options["scan_output_axes"] = [int(rng.integers(-3, 3)), 0]
    scan = node("Scan", ["s", "x", "y"], ["end", "all", "r"], body=made, num_scan_inputs=2, **options)
    path = save(tmp_path / "m.onnx", [scan], feed, ["end", "all", "r"], {"k": np.array(0.5, np.float32)})
    expected = runtime(path, feed)
    agree(expected, lifted(path, feed))
    for name in ("o.tflite", "o.onnx"):
        thinflow.save(graph_of(path), tmp_path / name)
        agree(expected, list(thinflow.run(tmp_path / name, feed).values()))


def test_a_scan_without_a_state(tmp_path: Path) -> None:
    made = body([node("Exp", ["p"], ["r"])], [("p", FLOAT, [4])], [("r", FLOAT, [4])])
    path = save(
        tmp_path / "m.onnx", [node("Scan", ["x"], ["y"], body=made, num_scan_inputs=1)], {"x": X}, ["y"]
    )
    agree(runtime(path, {"x": X}), lifted(path, {"x": X}))


@pytest.mark.parametrize(
    ("options", "version", "said"),
    [
        ({"num_scan_inputs": 3}, 20, "it states 3 operands to go along, it has 1 operands"),
        (
            {"num_scan_inputs": 1, "scan_input_axes": [0, 1]},
            20,
            "'scan_input_axes' has 2 numbers, 1 are needed",
        ),
    ],
)
def test_scans_that_are_refused(options: dict[str, Any], version: int, said: str, tmp_path: Path) -> None:
    made = body([node("Exp", ["p"], ["r"])], [("p", FLOAT, [4])], [("r", FLOAT, [4])])
    path = save(
        tmp_path / "m.onnx",
        [node("Scan", ["x"], ["y"], body=made, **options)],
        {"x": X},
        ["y"],
        opset=version,
    )
    with pytest.raises(UnsupportedOp, match=said):
        lifted(path, {"x": X})


@pytest.mark.parametrize("turned", [0, 1])
def test_scans_of_version_8(turned: int, tmp_path: Path) -> None:
    """A batch of sequences [batch,steps,...], each by itself."""
    made = body(
        [node("Add", ["s", "p"], ["t"]), node("Identity", ["t"], ["r"])],
        [("s", FLOAT, [2]), ("p", FLOAT, [2])],
        [("t", FLOAT, [2]), ("r", FLOAT, [2])],
    )
    rng = np.random.default_rng(13)
    feed = {n: rng.standard_normal(z).astype(np.float32) for n, z in (("s", (3, 2)), ("x", (3, 4, 2)))}
    scan = node("Scan", ["", "s", "x"], ["end", "all"], body=made, num_scan_inputs=1, directions=[turned])
    path = save(tmp_path / "m.onnx", [scan], feed, ["end", "all"], opset=8)
    agree(runtime(path, feed), lifted(path, feed))


def test_scans_of_version_8_that_are_refused(tmp_path: Path) -> None:
    made = body([node("Exp", ["p"], ["r"])], [("p", FLOAT, [4])], [("r", FLOAT, [4])])
    for names, x, said in (
        (["n", "x"], np.zeros((2, 3, 4), np.float32), "its sequences have lengths of their own"),
        (["", "x"], np.zeros((99, 3, 4), np.float32), "it has a batch of 99 sequences"),
    ):
        feed = {"x": x, "n": np.array([1, 2])}
        scan = node("Scan", names, ["y"], body=made, num_scan_inputs=1)
        path = save(tmp_path / "m.onnx", [scan], feed, ["y"], opset=8)
        with pytest.raises(UnsupportedOp, match=said):
            lifted(path, feed)


def test_branches_of_two_types_are_refused(tmp_path: Path) -> None:
    yes = body([node("Cast", ["x"], ["a"], to=INT64)], [], [("a", INT64, [3, 4])])
    no = body([node("Neg", ["x"], ["a"])], [], [("a", FLOAT, [3, 4])])
    made = node("If", ["p"], ["y"], then_branch=yes, else_branch=no)
    feed = {"x": X, "p": np.array(True)}
    path = save(tmp_path / "m.onnx", [made], feed, ["y"])
    with pytest.raises(UnsupportedOp, match="its branches give different types"):
        lifted(path, feed)


def test_layers_behind_a_branch_of_unknown_rank(tmp_path: Path) -> None:
    """A branch that squeezes, which only the run decides: what reads it says of what rank it is."""
    rng = np.random.default_rng(9)
    weights = {"k": rng.standard_normal((3, 4, 2)).astype(np.float32), "axis": np.array([0])}
    yes = body([node("Squeeze", ["x", "axis"], ["a"])], [], [("a", FLOAT, None)])
    no = body([node("Identity", ["x"], ["a"])], [], [("a", FLOAT, None)])
    nodes = [
        node("If", ["p"], ["h"], then_branch=yes, else_branch=no),
        node("Unsqueeze", ["h", "axis"], ["t"]),
        node("Conv", ["t", "k"], ["y"]),
    ]
    feed = {"x": rng.standard_normal((1, 4, 5)).astype(np.float32), "p": np.array(True)}
    path = save(tmp_path / "m.onnx", nodes, feed, ["y"], weights)
    expected = runtime(path, feed)
    agree(expected, lifted(path, feed))
    for name in ("o.tflite", "o.onnx"):
        thinflow.save(graph_of(path), tmp_path / name)
        agree(expected, list(thinflow.run(tmp_path / name, feed).values()))


def test_a_recurrent_layer_and_a_sum_of_parts_behind_a_branch_of_unknown_rank(tmp_path: Path) -> None:
    rng = np.random.default_rng(10)
    weights = {n: rng.standard_normal((1, 12, k)).astype(np.float32) for n, k in (("w", 3), ("r", 3))}
    yes = body([node("Squeeze", ["x", "axis"], ["a"])], [], [("a", FLOAT, None)])
    no = body([node("Identity", ["x"], ["a"])], [], [("a", FLOAT, None)])
    nodes = [
        node("If", ["p"], ["h"], then_branch=yes, else_branch=no),
        node("Unsqueeze", ["h", "axis"], ["t"]),
        node("LSTM", ["t", "w", "r", "", "", "t"], ["y", "e"], hidden_size=3),
        node("Concat", ["e", "t"], ["z"], axis=0),
    ]
    feed = {"x": rng.standard_normal((1, 1, 3)).astype(np.float32), "p": np.array(True)}
    path = save(tmp_path / "m.onnx", nodes, feed, ["y", "z"], {**weights, "axis": np.array([0])}, opset=17)
    agree(runtime(path, feed), lifted(path, feed))


def test_codes_in_a_loop_that_are_read_on_two_grids(tmp_path: Path) -> None:
    """What is written on one grid means other numbers on another; codes made of codes go with these."""
    constants = {"fine": np.float32(0.02), "coarse": np.float32(0.05), "zero": np.int8(0)}
    steps = [
        node("DequantizeLinear", ["s", "fine", "zero"], ["state"]),
        node("DequantizeLinear", ["q", "fine", "zero"], ["given"]),
        node("Add", ["state", "given"], ["sum"]),
        node("QuantizeLinear", ["sum", "fine", "zero"], ["next"]),
        node("DequantizeLinear", ["next", "coarse", "zero"], ["read"]),
        node("QuantizeLinear", ["read", "coarse", "zero"], ["again"]),
        node("Identity", ["again"], ["out"]),
    ]
    codes = [
        [(name, onnx.TensorProto.INT8, [4]) for name in names] for names in (("s", "q"), ("next", "out"))
    ]
    nodes = [
        node("QuantizeLinear", ["x", "fine", "zero"], ["codes"]),
        node("Scan", ["start", "codes"], ["end", "all"], body=body(steps, *codes), num_scan_inputs=1),
        node("DequantizeLinear", ["all", "coarse", "zero"], ["y"]),
    ]
    constants["start"] = np.zeros(4, np.int8)
    path = save(tmp_path / "m.onnx", nodes, {"x": X}, ["y"], {k: np.asarray(v) for k, v in constants.items()})
    expected = runtime(path, {"x": X})
    agree(expected, lifted(path, {"x": X}))
    thinflow.save(graph_of(path), tmp_path / "o.tflite")
    agree(expected, list(thinflow.run(tmp_path / "o.tflite", {"x": X}).values()))
