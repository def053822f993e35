"""ATen's functions and views in programs written by hand: answers that are known, and what is refused."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

import thinflow
from tests.formats.programs import archive, meta, node, program, tensor
from thinflow.errors import UnsupportedOp

Array: TypeAlias = np.ndarray[Any, Any]
Case: TypeAlias = tuple[str, list[Array], dict[str, Any], Any]


def argument(value: Any) -> dict[str, Any]:
    """A value as PyTorch writes arguments; text that begins with x stands for an input."""
    if isinstance(value, bool):
        return {"as_bool": value}
    if isinstance(value, int):
        return {"as_int": value}
    if isinstance(value, float):
        return {"as_float": value}
    if isinstance(value, str):
        return tensor(value) if value[:1] == "x" else {"as_string": value}
    if value and isinstance(value[0], str):
        return {"as_tensors": [{"name": n} for n in value]}
    return {"as_ints": list(value)}


def loaded(folder: Path, case: Case, strides: list[int] | None = None) -> thinflow.Graph:
    op, inputs, options, results = case
    names = [f"x{n}" for n in range(len(inputs))]
    values = {n: meta(str(x.dtype), x.shape, strides) for n, x in zip(names, inputs, strict=True)}
    outs = [f"y{n}" for n in range(len(results))]
    values |= {n: meta(_kind(y), y.shape) for n, y in zip(outs, results, strict=True)}
    made = node(op, outs, **{k: argument(v) for k, v in options.items()})
    return thinflow.load(archive(folder / "net.pt2", program([made], values, outs, inputs=names)))


def _kind(y: Array) -> str:
    return "float32" if y.dtype == np.float64 else str(y.dtype)


def f(*values: Any) -> Array:
    return np.array(values, np.float32)


def i(*values: Any) -> Array:
    return np.array(values, np.int64)


X = np.arange(12, dtype=np.float32).reshape(3, 4)
NAN, INF = np.nan, np.inf
TWO: dict[str, Any] = {"self": "x0", "other": "x1"}
ONE: dict[str, Any] = {"self": "x0"}
PUT: dict[str, Any] = {**ONE, "dim": 0, "index": "x1", "src": "x2"}
ALONE = {"include_self": False}
CASES: list[Case] = [
    ("digamma.default", [f(1)], ONE, [-0.577216]),
    ("digamma.default", [f(0.0, -0.0, -1)], ONE, [-INF, INF, NAN]),
    ("lgamma.default", [f(4)], ONE, [math.log(6)]),
    ("erfinv.default", [f(0.5)], ONE, [0.476936]),
    ("special_i0.default", [f(1)], ONE, [1.266066]),
    ("special_ndtri.default", [f(0.975)], ONE, [1.959964]),
    ("xlogy.Tensor", [f(0, 2), f(0, math.e)], TWO, [0, 2]),
    ("xlogy.Scalar_Self", [f(NAN, 0)], {"self": 0, "other": "x0"}, [NAN, 0]),
    ("igamma.default", [f(0, 0, 1), f(2, 0, 0)], TWO, [1, NAN, 0]),
    ("igammac.default", [f(0, 0, 1), f(2, 0, 0)], TWO, [0, NAN, 1]),
    ("bitwise_left_shift.Tensor", [i(1, 3), i(4, 1)], TWO, i(16, 6)),
    ("bitwise_left_shift.Tensor", [i(1, 3, 5), i(64, -1, 1)], TWO, i(0, 0, 10)),
    ("bitwise_right_shift.Tensor", [i(8, -3, -9), i(64, -1, 1)], TWO, i(0, -1, -5)),
    ("__rshift__.Scalar", [np.array([255, 7], np.uint8)], {**ONE, "other": 9}, np.array([0, 0], np.uint8)),
    ("__and__.Scalar", [i(5, -2)], {**ONE, "other": 6}, i(4, 6)),
    ("bitwise_xor.Scalar_Tensor", [i(5, 1)], {"self": 3, "other": "x0"}, i(6, 2)),
    ("bitwise_not.default", [i(5, -1)], ONE, i(-6, 0)),
    ("add.Tensor", [np.array([1, 2], np.uint8)], {**ONE, "other": -2, "alpha": -1},
     np.array([3, 4], np.uint8)),
    ("eq.Scalar", [np.array([255, 44], np.uint8)], {**ONE, "other": 300}, np.array([False, True])),
    ("remainder.Scalar_Tensor", [f(3, -3)], {"self": 7, "other": "x0"}, [1, -2]),
    ("exp2.default", [f(3, -1)], ONE, [8, 0.5]),
    ("deg2rad.default", [f(180)], ONE, [math.pi]),
    ("rad2deg.default", [f(math.pi)], ONE, [180]),
    ("frac.default", [f(1.25, -1.25)], ONE, [0.25, -0.25]),
    ("round.decimals", [f(1.234, -55.5)], {**ONE, "decimals": 2}, [1.23, -55.5]),
    ("round.decimals", [f(1234, 55)], {**ONE, "decimals": -2}, [1200, 100]),
    ("sinc.default", [f(0, 0.5)], ONE, [1, 2 / math.pi]),
    ("logit.default", [f(0.5, 0)], {**ONE, "eps": 0.1}, [0, math.log(1 / 9)]),
    ("special_entr.default", [f(0, 1, -1)], ONE, [0, 0, -INF]),
    ("nan_to_num.default", [f(NAN, INF, 2)], {**ONE, "nan": 7.0, "posinf": 9.0}, [7, 9, 2]),
    ("isfinite.default", [f(1, INF, NAN)], ONE, np.array([True, False, False])),
    ("isposinf.default", [f(-INF, INF, 0)], ONE, np.array([False, True, False])),
    ("isneginf.default", [i(1, 2)], ONE, np.array([False, False])),
    ("signbit.default", [f(-0.0, 0, -2)], ONE, np.array([True, False, True])),
    ("copysign.Tensor", [f(1, -2), f(-0.0, 3)], TWO, [-1, 2]),
    ("hypot.default", [f(3e30, 0, INF, NAN), f(4e30, 0, 1, -INF)], TWO, [5e30, 0, INF, INF]),
    ("logaddexp.default", [f(0, INF, -INF), f(0, INF, 1)], TWO, [math.log(2), INF, 1]),
    ("logaddexp2.default", [f(3, 2), f(3, 2)], TWO, [4, 3]),
    ("heaviside.default", [f(-1, 0, 2), f(5, 6, 7)], {"self": "x0", "values": "x1"}, [0, 6, 1]),
    ("ldexp.Tensor", [f(3, 1), f(2, -1)], TWO, [12, 0.5]),
    ("isclose.default", [f(1, INF, NAN), f(1.0001, INF, NAN)], {**TWO, "rtol": 1e-3},
     np.array([True, True, False])),
    ("isclose.default", [np.array([0, 9], np.uint8), np.array([1, 4], np.uint8)], {**TWO, "atol": 1.5},
     np.array([True, False])),
    ("isclose.default", [np.array([True, True]), np.array([True, False])], TWO, np.array([True, False])),
    ("allclose.default", [f(1, NAN), f(1, NAN)], {**TWO, "equal_nan": True}, np.array(True)),
    ("isin.Tensor_Tensor", [i([1, 2], [3, 4]), i(2, 3)],
     {"elements": "x0", "test_elements": "x1", "invert": True}, np.array([[True, False], [False, True]])),
    ("as_strided.default", [X], {**ONE, "size": [2, 3], "stride": [5, 1], "storage_offset": 1},
     [[1, 2, 3], [6, 7, 8]]),
    ("diagonal.default", [X], {**ONE, "offset": 1}, [1, 6, 11]),
    ("diagonal.default", [X[None]], {**ONE, "offset": -1, "dim1": 1, "dim2": 2}, [[4, 9]]),
    ("diagonal.default", [X], {**ONE, "dim1": 1, "dim2": 0, "offset": 1}, [4, 9]),
    ("linalg_diagonal.default", [X[None]], {"A": "x0", "offset": 1}, [[1, 6, 11]]),
    ("diag_embed.default", [f(1, 2)], {**ONE, "offset": -1}, [[0, 0, 0], [1, 0, 0], [0, 2, 0]]),
    ("diag_embed.default", [f([1, 2])], {**ONE, "offset": 1, "dim1": 0, "dim2": 2},
     np.diag(f(1, 2), 1)[:, None]),
    ("diag_embed.default", [f(1, np.inf)], ONE, [[1, 0], [0, np.inf]]),
    ("trace.default", [X], ONE, 15),
    ("eye.m", [f(1)], {"n": 2, "m": 3}, np.eye(2, 3)),
    ("tril_indices.default", [f(1)], {"row": 2, "col": 2}, i([0, 1, 1], [0, 0, 1])),
    ("unfold.default", [f(1, 2, 3, 4)], {**ONE, "dimension": 0, "size": 2, "step": 2}, [[1, 2], [3, 4]]),
    ("unfold.default", [X], {**ONE, "dimension": 0, "size": 2, "step": 1},
     np.stack([X[:2].T, X[1:].T])),
    ("im2col.default", [X[None, None, :2, :3]],
     {**ONE, "kernel_size": [2, 2], "dilation": [1, 1], "padding": [0, 0], "stride": [1, 1]},
     [[[0, 1], [1, 2], [4, 5], [5, 6]]]),
    ("im2col.default", [X[None, :2, :2]],
     {**ONE, "kernel_size": [2, 2], "dilation": [1, 1], "padding": [0, 0], "stride": [1, 1]},
     [[0], [1], [4], [5]]),
    ("col2im.default", [f([1], [2], [3], [4])],
     {**ONE, "output_size": [2, 2], "kernel_size": [2, 2], "dilation": [1, 1], "padding": [0, 0],
      "stride": [1, 1]}, [[[1, 2], [3, 4]]]),
    ("outer.default", [np.array([1, 2]), f(0.5, -0.25)], {"self": "x0", "vec2": "x1"},
     [[0.5, -0.25], [1, -0.5]]),
    ("addcmul.default", [np.array([1, 2]), f(0.5, -0.25), np.array([3, 2])],
     {"self": "x0", "tensor1": "x1", "tensor2": "x2"}, [2.5, 1.5]),
    ("addcdiv.default", [np.array([1, 2]), f(0.5, -0.25), np.array([4, 2])],
     {"self": "x0", "tensor1": "x1", "tensor2": "x2"}, [1.125, 1.875]),
    ("col2im.default", [np.arange(1, 9, dtype=np.float32).reshape(1, 4, 2)],
     {**ONE, "output_size": [2, 3], "kernel_size": [2, 2], "dilation": [1, 1], "padding": [0, 0],
      "stride": [1, 1]}, [[[[1, 5, 4], [5, 13, 8]]]]),
    ("fliplr.default", [X], ONE, X[:, ::-1]),
    ("rot90.default", [X], {**ONE, "k": 1, "dims": [0, 1]}, np.rot90(X)),
    ("rot90.default", [X], {**ONE, "k": 3, "dims": [0, 1]}, np.rot90(X, 3)),
    ("hstack.default", [f(1), f(2, 3)], {"tensors": ["x0", "x1"]}, [1, 2, 3]),
    ("vstack.default", [f(1, 2), f([3, 4])], {"tensors": ["x0", "x1"]}, [[1, 2], [3, 4]]),
    ("dstack.default", [f(1, 2), f(3, 4)], {"tensors": ["x0", "x1"]}, [[[1, 3], [2, 4]]]),
    ("column_stack.default", [f(1, 2), f(3, 4)], {"tensors": ["x0", "x1"]}, [[1, 3], [2, 4]]),
    ("tensor_split.sections", [f(1, 2, 3)], {**ONE, "sections": 2}, [f(1, 2), f(3)]),
    ("tensor_split.indices", [f(1, 2, 3)], {**ONE, "indices": [1]}, [f(1), f(2, 3)]),
    ("tensor_split.indices", [f(1, 2, 3)], {**ONE, "indices": [2, 1]}, [f(1, 2), f(), f(2, 3)]),
    ("take_along_dim.default", [X, i([3, 0])], {**ONE, "indices": "x1", "dim": -1}, X[:, [3, 0]]),
    ("take_along_dim.default", [X[:1], i([0, 1, 2, 3], [3, 2, 1, 0])], {**ONE, "indices": "x1", "dim": 1},
     [[0, 1, 2, 3], [3, 2, 1, 0]]),
    ("take.default", [X, i(-1, 5)], {**ONE, "index": "x1"}, [11, 5]),
    ("take_along_dim.default", [X[:2], i([3], [0])], {**ONE, "indices": "x1", "dim": 1}, [[3], [4]]),
    ("_cdist_forward.default", [f([0, 0], [1, 1]), f([3, 4])], {"x1": "x0", "x2": "x1", "p": 2.0},
     [[5], [13**0.5]]),
    ("_pdist_forward.default", [f([0, 0], [3, 4], [0, 1])], {**ONE, "p": 1.0}, [7, 1, 6]),
    ("_pdist_forward.default", [np.zeros((2, 0), np.float32)], {**ONE, "p": INF}, [0]),
    ("pairwise_distance.default", [f([0, 0]), f([3, 4])], {"x1": "x0", "x2": "x1", "eps": 0.0}, [5]),
    ("_embedding_bag.default", [X, i(0, 2, 1), i(0, 2)],
     {"weight": "x0", "indices": "x1", "offsets": "x2", "mode": 0}, [X[0] + X[2], X[1]]),
    ("_embedding_bag.default", [X, i(0, 2, 1), i(0, 2, 3)],
     {"weight": "x0", "indices": "x1", "offsets": "x2", "mode": 1}, [(X[0] + X[2]) / 2, X[1], 0 * X[0]]),
    ("_embedding_bag.default", [-X, i(0, 2, 1), i(0, 2)],
     {"weight": "x0", "indices": "x1", "offsets": "x2", "mode": 2}, [-X[0], -X[1]]),
    ("_embedding_bag.default", [f([INF], [2], [NAN]), i(0, 1, 1, 2), i(0, 1, 3)],
     {"weight": "x0", "indices": "x1", "offsets": "x2", "mode": 0}, [[INF], [4], [NAN]]),
    ("linalg_inv_ex.default", [f([2, 0], [0, 4])], {"A": "x0"}, [[0.5, 0], [0, 0.25]]),
    ("linalg_cholesky_ex.default", [f([4, 2], [2, 2])], {**ONE, "upper": True}, [[2, 1], [0, 1]]),
    ("linalg_det.default", [f([2, 1], [0, 4])], {"A": "x0"}, 8),
    ("linalg_solve.default", [f([2, 0], [0, 4]), f([2], [4])], {"A": "x0", "B": "x1"}, [[1], [1]]),
    ("linalg_solve_triangular.default", [f([2, 0], [1, 1]), f([2], [3])],
     {"self": "x0", "B": "x1", "upper": False}, [[1], [2]]),
    ("kron.default", [f(1, 2), f([1, 3])], TWO, [[1, 3, 2, 6]]),
    ("block_diag.default", [f([1]), f([2, 3])], {"tensors": ["x0", "x1"]}, [[1, 0, 0], [0, 2, 3]]),
    ("cartesian_prod.default", [f(1, 2), f(3, 4)], {"tensors": ["x0", "x1"]},
     [[1, 3], [1, 4], [2, 3], [2, 4]]),
    ("median.dim", [f([3, 1, 2, 9])], {**ONE, "dim": 1}, [2]),
    ("median.default", [f(3, 1, 2, 9)], ONE, 2),
    ("kthvalue.default", [f(3, 1, 2)], {**ONE, "k": 3, "keepdim": True}, [3]),
    ("quantile.scalar", [f(4, 0, 2)], {**ONE, "q": 0.25}, 1),
    ("quantile.scalar", [f([4, 0, 2])], {**ONE, "q": 0.3, "dim": 1, "interpolation": "higher"}, [2]),
    ("cummax.default", [f(1, 3, 2, 4, 0, 5)], {**ONE, "dim": 0}, [1, 3, 3, 4, 4, 5]),
    ("cummin.default", [i([3], [1], [2])], {**ONE, "dim": 0}, i([3], [1], [1])),
    ("bucketize.Tensor", [f(0, 1, NAN), f(1, 2)], {**ONE, "boundaries": "x1"}, i(0, 0, 2)),
    ("searchsorted.Tensor", [f([1, 2], [0, 0]), f([1], [0])],
     {"sorted_sequence": "x0", "self": "x1", "right": True}, i([1], [2])),
    ("count_nonzero.default", [f([0, 1], [2, 3])], {**ONE, "dim": 1}, i(1, 2)),
    ("aminmax.default", [f(3, 1)], ONE, 1),
    ("scatter_reduce.two", [f(5, 7), i(0, 0), f(1, 3)], PUT | {"reduce": "mean"} | ALONE,
     [2, 7]),
    ("scatter_reduce.two", [i(5, 7), i(0, 0), i(1, 4)], PUT | {"reduce": "mean"}, i(3, 7)),
    ("scatter_reduce.two", [f(5, 7), i(0, 0), f(1, 3)], PUT | {"reduce": "amax"} | ALONE,
     [3, 7]),
    ("index_add.default", [f(5, 7), i(1, 1), f(1, 2)], {**ONE, "dim": 0, "index": "x1",
     "source": "x2", "alpha": 2}, [5, 13]),
    ("index_fill.int_Scalar", [f(1, 2, 3), i(-1)], {**ONE, "dim": 0, "index": "x1", "value": 9}, [1, 2, 9]),
    ("roll.default", [f([1, 2], [3, 4])], {**ONE, "shifts": [1]}, [[4, 1], [2, 3]]),
    ("repeat_interleave.self_int", [f(1, 2)], {**ONE, "repeats": 2}, [1, 1, 2, 2]),
    ("trapezoid.dx", [f(1, 3, 5)], {"y": "x0"}, 6),
    ("trapezoid.x", [f(1, 3, 5), f(0, 1, 3)], {"y": "x0", "x": "x1"}, 10),
    ("diff.default", [i(1, 4, 9)], {**ONE, "n": 2}, i(2)),
    ("logcumsumexp.default", [f(0, 0)], {**ONE, "dim": 0}, [0, math.log(2)]),
    ("vdot.default", [f(1, 2), f(3, 4)], TWO, 11),
    ("bilinear.default", [f([1, 2]), f([3]), f([[1], [1]])],
     {"input1": "x0", "input2": "x1", "weight": "x2"}, [[9]]),
    ("_trilinear.default", [f([1, 2]), f([[1], [1]]), f([3])],
     {"i1": "x0", "i2": "x1", "i3": "x2", "expand1": [1, 3], "expand2": [0], "expand3": [1, 2],
      "sumdim": [2, 3]}, [[9]]),
    ("_trilinear.default", [f(1, 2), f(3, 4), f([5, 6], [7, 8])],
     {"i1": "x0", "i2": "x1", "i3": "x2", "expand1": [1], "expand2": [0], "expand3": [],
      "sumdim": [1], "unroll_dim": 0}, [39, 106]),
    ("rrelu.default", [f(-3, 4)], {**ONE, "lower": 0.25, "upper": 0.75}, [-1.5, 4]),
    ("rrelu_with_noise_functional.default", [f(-3, 4), f(0, 0)],
     {**ONE, "noise": "x1", "lower": 0.25, "upper": 0.75, "training": False}, [-1.5, 4]),
    ("scaled_dot_product_attention.default", [f([[[0]], [[0]]]), f([[[1], [5]]]), f([[[2], [4]]])],
     {"query": "x0", "key": "x1", "value": "x2", "enable_gqa": True}, [[[[3]], [[3]]]]),
    ("avg_pool2d.default", [f([[1, 2], [3, 4]])], {**ONE, "kernel_size": [2, 2], "divisor_override": 5},
     [[[2]]]),
    ("_upsample_bilinear2d_aa.default", [f([[[0, 1, 2, 3]]])],
     {**ONE, "output_size": [1, 2], "align_corners": False}, [[[[5 / 7, 16 / 7]]]]),
    ("affine_grid_generator.default", [f([[1, 0, 0], [0, 1, 0]])],
     {"theta": "x0", "size": [1, 1, 1, 2], "align_corners": False}, [[[[-0.5, 0], [0.5, 0]]]]),
]  # fmt: skip


def results_of(wanted: Any) -> list[Array]:
    """What a case expects: one array, or several of different shapes."""
    if isinstance(wanted, list) and all(isinstance(w, np.ndarray) for w in wanted):
        several: list[Array] = wanted
        if len({w.shape for w in several}) > 1:
            return several
    # Lists are of real numbers.
    return [wanted if isinstance(wanted, np.ndarray) else np.asarray(wanted, np.float32)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_answers(tmp_path: Path, case: Case) -> None:
    op, inputs, options, wanted = case
    expected = results_of(wanted)
    graph = loaded(tmp_path, (op, inputs, options, expected))
    feed = {f"x{n}": x for n, x in enumerate(inputs)}
    got = thinflow.Session(graph, engine="reference").run([v.name for v in graph.outputs], feed)
    for mine, theirs in zip(got, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


def test_places_of_maxima_that_only_who_runs_it_reads(tmp_path: Path) -> None:
    values = {"x": meta("float32", [1, 2, 2]), "y": meta("float32", [1, 1, 2]), "z": meta("int64", [1, 1, 2])}
    made = node(
        "max_pool2d_with_indices.default", ["y", "z"], self=tensor("x"), kernel_size={"as_ints": [2, 1]}
    )
    graph = thinflow.load(archive(tmp_path / "net.pt2", program([made], values, ["z"])))
    x = np.array([[[1, 5], [3, 4]]], np.float32)
    (z,) = thinflow.Session(graph, engine="reference").run(None, {"x": x})
    assert z.tolist() == [[[2, 1]]]


def test_places_in_memory_are_those_of_a_tensor_that_fills_it(tmp_path: Path) -> None:
    case: Case = ("as_strided.default", [X], {**ONE, "size": [2], "stride": [1]}, [np.asarray(X[:2, 0])])
    # Its rows lie beside each other: the second element in memory is that below the first.
    session = thinflow.Session(loaded(tmp_path, case, strides=[1, 3]), engine="reference")
    assert session.run(None, {"x0": X})[0].tolist() == X[:2, 0].tolist()
    with pytest.raises(UnsupportedOp, match="of which its operand is a part") as caught:
        loaded(tmp_path, case, strides=[8, 2])
    # A copy would have other neighbours: no such advice.
    assert "contiguous" not in caught.value.hint
    far: Case = ("as_strided.default", [X], {**ONE, "size": [2], "stride": [12]}, [np.asarray(X[0, :2])])
    with pytest.raises(UnsupportedOp, match="it reads beyond the 12 elements of its operand"):
        loaded(tmp_path, far)


Step: TypeAlias = tuple[str, dict[str, Any], str, list[int]]


def chained(folder: Path, x: Array, *steps: Step, everywhere: bool = False) -> Array:
    """What ops in a row make of an input, by the interpreter and, if asked for, by LiteRT and ONNX Runtime.

    Args:
        folder: where files go.
        x: the input.
        steps: an op with its options, the type of what it gives, and the size. It reads the one before it.
        everywhere: whether by the other runtimes, too.
    """
    values, nodes = {"x0": meta(str(x.dtype), x.shape)}, []
    for n, (op, options, kind, size) in enumerate(steps):
        values[f"x{n + 1}"] = meta(kind, size)
        given = {k: argument(v) for k, v in ({"self": f"x{n}"} | options).items()}
        nodes.append(node(op, [f"x{n + 1}"], **given))
    path = archive(folder / "net.pt2", program(nodes, values, [f"x{len(steps)}"], inputs=["x0"]))
    (y,) = thinflow.Session(path, engine="reference").run(None, {"x0": x})
    for kind, engine in (("tflite", "litert"), ("onnx", "onnxruntime")) if everywhere else ():
        thinflow.convert(path, folder / f"net.{kind}")
        session = thinflow.Session(folder / f"net.{kind}", engine=engine)
        (other,) = session.run(None, dict.fromkeys(session.inputs, x))
        np.testing.assert_allclose(other, y, rtol=1e-4, atol=1e-5)
    return y


SOUND = np.sin(np.arange(20, dtype=np.float32) ** 1.3).reshape(2, 10)


def pairs(z: Any) -> Any:
    return np.stack([z.real, z.imag], -1)


def test_complex_numbers_are_pairs_where_a_target_has_none(tmp_path: Path) -> None:
    z = SOUND.reshape(2, 5, 2)
    turned = chained(
        tmp_path, z, ("view_as_complex.default", {}, "complex64", [2, 5]),
        ("mul.Tensor", {"other": "x1"}, "complex64", [2, 5]),
        ("view_as_real.default", {}, "float32", [2, 5, 2]), everywhere=True,
    )  # fmt: skip
    w = z[..., 0] + 1j * z[..., 1]
    np.testing.assert_allclose(turned, pairs(w * w), atol=1e-5)


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_fourier_transforms(tmp_path: Path, norm: str) -> None:
    there = ("fft_rfft2.default", {"s": [2, 8], "norm": norm}, "complex64", [2, 5])
    found = chained(tmp_path, SOUND, there, ("view_as_real.default", {}, "float32", [2, 5, 2]))
    np.testing.assert_allclose(found, pairs(np.fft.rfft2(SOUND, s=(2, 8), norm=norm)), atol=1e-5)
    back = ("fft_irfft.default", {"n": 9, "dim": 1, "norm": norm}, "float32", [2, 9])
    found = chained(tmp_path, SOUND, there, back)
    z = np.fft.rfft2(SOUND, s=(2, 8), norm=norm)
    np.testing.assert_allclose(found, np.fft.irfft(z, 9, norm=norm), atol=1e-5)


def test_core_transforms(tmp_path: Path) -> None:
    """Normalization by nothing there, by the count on the way back."""
    steps = (
        ("_fft_r2c.default", {"dim": [0, 1], "normalization": 0, "onesided": False}, "complex64", [2, 10]),
        ("_fft_c2c.default", {"dim": [0], "normalization": 2, "forward": False}, "complex64", [2, 10]),
    )
    found = chained(tmp_path, SOUND, *steps, ("abs.default", {}, "float32", [2, 10]))
    np.testing.assert_allclose(found, np.abs(np.fft.fft(SOUND, axis=1)), atol=1e-5)


def test_short_times_and_back(tmp_path: Path) -> None:
    steps = (
        ("stft.default", {"n_fft": 4, "hop_length": 2, "return_complex": True}, "complex64", [2, 3, 4]),
        ("istft.default", {"n_fft": 4, "hop_length": 2, "center": False}, "float32", [2, 10]),
    )
    np.testing.assert_allclose(chained(tmp_path, SOUND, *steps, everywhere=True), SOUND, atol=1e-5)


@pytest.mark.parametrize("name", ["hann", "hamming", "blackman", "bartlett"])
def test_windows(tmp_path: Path, name: str) -> None:
    made = node(f"{name}_window.default", ["w"], window_length={"as_int": 4})
    total = node("add.Tensor", ["y"], self=tensor("x"), other=tensor("w"))
    values = dict.fromkeys("xwy", meta("float32", [4]))
    graph = thinflow.load(archive(tmp_path / "net.pt2", program([made, total], values, ["y"])))
    (y,) = thinflow.Session(graph, engine="reference").run(["y"], {"x": np.zeros(4, np.float32)})
    assert y[1] == pytest.approx(y[3])
    assert y[2] == pytest.approx(1)


def test_complex_numbers_of_halves_are_refused_by_name(tmp_path: Path) -> None:
    values = {"x": meta("float32", [4]), "y": {**meta("float32", [3]), "dtype": 9}}
    made = node("_fft_r2c.default", ["y"], self=tensor("x"))
    with pytest.raises(UnsupportedOp, match=r"complex ones of float16"):
        thinflow.load(archive(tmp_path / "net.pt2", program([made], values, ["y"])))
