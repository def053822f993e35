"""ONNX Runtime's own quantized ops against ONNX Runtime; codes may be one apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.lift.onnx.contrib import MS, Case, f, file, i8, s, u8
from tests.lift.onnx.models import agree, info, lifted, node, onnx, runtime, save
from thinflow.errors import UnsupportedOp

pytest.importorskip("onnxruntime")
X = u8(1, 4, 6, 5)
GRID = [s(0.02), s(120, np.uint8)]
OUT = [s(0.03), s(100, np.uint8)]
CASES: dict[str, Case] = {
    "QLinearLeakyRelu": ("QLinearLeakyRelu", [X], [*GRID, *OUT], {"alpha": 0.2}, 1),
    "QLinearAveragePool": ("QLinearAveragePool", [X], [*GRID, *OUT], {"kernel_shape": [2, 3]}, 1),
    "QLinearAveragePool padded": ("QLinearAveragePool", [X], [*GRID, *OUT],
                                  {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]}, 1),
    "QLinearSoftmax": ("QLinearSoftmax", [u8(3, 6)], [*GRID, s(1 / 256), s(0, np.uint8)],
                       {"axis": -1, "opset": 13}, 1),
    "QLinearSoftmax of old": ("QLinearSoftmax", [u8(2, 3, 4)], [*GRID, s(1 / 256), s(0, np.uint8)],
                              {"axis": 1, "opset": 12}, 1),
    "QLinearWhere": ("QLinearWhere", [np.array([[True], [False]]), u8(2, 3)],
                     [*GRID, u8(2, 3), s(0.01), s(7, np.uint8), *OUT], {}, 1),
    "QGemm": ("QGemm", [u8(3, 4)], [*GRID, i8(4, 5), s(0.01), s(0, np.int8),
              np.arange(5, dtype=np.int32) * 100, s(0.05), s(128, np.uint8)], {}, 1),
    "QGemm turned": ("QGemm", [u8(3, 4)], [*GRID, i8(5, 4), s(0.01), s(3, np.int8)], {"transB": 1}, 1),
    "MatMulIntegerToFloat": ("MatMulIntegerToFloat", [u8(2, 3, 4)],
                             [i8(4, 5), s(0.02), np.abs(f(5)), s(9, np.uint8), i8(5), f(5)], {}, 1),
    "DynamicQuantizeMatMul": ("DynamicQuantizeMatMul", [f(3, 4)],
                              [u8(4, 5), s(0.02), s(9, np.uint8), f(5)], {}, 1),
    "MatMulNBits": ("MatMulNBits", [f(2, 3, 40)], [u8(5, 3, 8), np.abs(f(15))],
                    {"K": 40, "N": 5, "block_size": 16, "bits": 4}, 1),
    "MatMulNBits zeros": ("MatMulNBits", [f(3, 40)], [u8(5, 3, 8), np.abs(f(15)), u8(10), None, f(5)],
                          {"K": 40, "N": 5, "block_size": 16, "bits": 4}, 1),
    "MatMulNBits eight": ("MatMulNBits", [f(3, 32)], [u8(5, 2, 16), np.abs(f(10)), u8(10)],
                          {"K": 32, "N": 5, "block_size": 16, "bits": 8}, 1),
    "QLinearAveragePool last": ("QLinearAveragePool", [X], [*GRID, *OUT],
                                {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "channels_last": 1}, 1),
    "QLinearConv": ("QLinearConv", [X], [*GRID, i8(6, 2, 3, 3), s(0.01), s(0, np.int8), *OUT,
                    np.arange(6, dtype=np.int32) * 50], {"group": 2, "pads": [1, 1, 1, 1]}, 1),
    "QLinearConv last": ("QLinearConv", [X], [*GRID, i8(6, 5, 3, 3), np.abs(f(6)) / 50, i8(6) * 0, *OUT],
                         {"channels_last": 1, "strides": [1, 2], "kernel_shape": [3, 3]}, 1),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_they_give_what_onnxruntime_gives(case: str, tmp_path: Path) -> None:
    path, feed = file(tmp_path / "m.onnx", CASES[case])
    for expected, found in zip(runtime(path, feed), lifted(path, feed), strict=True):
        assert found.dtype == expected.dtype
        if expected.dtype.kind in "iu":
            assert np.abs(found.astype(int) - expected).max() <= 1
        else:
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_a_mean_of_codes(tmp_path: Path) -> None:
    case: Case = ("QLinearReduceMean", [u8(2, 3, 4)], [*GRID, *OUT], {"axes": [1], "keepdims": 0}, 1)
    path, feed = file(tmp_path / "m.onnx", case)
    numbers = (feed["x0"].astype(np.float32) - 120) * 0.02
    expected = np.clip(np.round(numbers.mean(1) / 0.03) + 100, 0, 255)
    (found,) = lifted(path, feed)
    assert np.abs(found.astype(int) - expected).max() <= 1


@pytest.mark.parametrize("kind", ["uint8", "packed", "int4"])
@pytest.mark.parametrize("zeros", [False, True])
def test_rows_of_a_table_in_blocks(kind: str, zeros: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    tensors = {"s": np.abs(f(5, 2)), "i": np.array([[3, 0, 1], [-1, 2, 2]])}
    options = {"block_size": 16, "quantize_axis": 1, "gather_axis": 0, "bits": 8 if kind == "uint8" else 4}
    made = node("GatherBlockQuantized", ["t", "i", "s", *(["z"] if zeros else [])], ["y"], MS, **options)
    if kind == "int4":
        for name, shape in (("t", (5, 32)), ("z", (5, 2))):
            codes = rng.integers(-8, 8, shape).reshape(-1).tolist()
            tensors[name] = onnx.helper.make_tensor(name, onnx.TensorProto.INT4, shape, codes)
    else:
        each = 2 if kind == "packed" else 1
        tensors |= {"t": u8(5, 32 // each), "z": u8(5, 2 // each)}
    held = [t if n in "tz" and kind == "int4" else onnx.numpy_helper.from_array(t, n)
            for n, t in tensors.items() if n != "i" and (n != "z" or zeros)]  # fmt: skip
    graph = onnx.helper.make_graph(
        [made], "g", [info("i", tensors["i"])], [onnx.helper.make_empty_tensor_value_info("y")], held
    )
    imports = [onnx.helper.make_opsetid(d, v) for d, v in (("", 21), (MS, 1))]
    path = tmp_path / "m.onnx"
    path.write_bytes(onnx.helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString())
    agree(runtime(path, {"i": tensors["i"]}), lifted(path, {"i": tensors["i"]}))


@pytest.mark.parametrize("seed", range(6))
def test_a_recurrent_layer_quantized_as_it_runs(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng([seed, 8])
    ways, steps, inputs, units = 1 + seed % 2, *(int(n) for n in rng.integers(1, 6, 3))
    feed = {"x": f(steps, 1, inputs)}
    per_column = bool(seed % 3)
    columns = (ways, 4 * units) if per_column else (ways,)
    kind = np.int8 if seed % 4 else np.uint8
    codes = i8 if seed % 4 else u8
    constants = {
        "w": codes(ways, inputs, 4 * units), "r": codes(ways, units, 4 * units), "b": f(ways, 8 * units),
        "ws": np.abs(f(*columns)) / 100, "rs": np.abs(f(*columns)) / 100,
        "wz": np.full(columns, 0 if per_column else 3, kind),
        "rz": np.full(columns, 0 if per_column else 2, kind),
    }  # fmt: skip
    names = ["x", "w", "r", "b", "", "", "", "", "ws", "wz", "rs", "rz"]
    direction = "bidirectional" if ways == 2 else "reverse" if seed == 2 else "forward"
    made = node("DynamicQuantizeLSTM", names, ["y", "h", "c"], MS, hidden_size=units, direction=direction)
    path = save(tmp_path / "m.onnx", [made], feed, ["y", "h", "c"], constants, opset=17)
    agree(runtime(path, feed), lifted(path, feed), 1e-4)


@pytest.mark.parametrize(
    ("case", "said"),
    [
        (("MatMulNBits", [f(3, 40)], [u8(5, 2, 8), f(10)], {"K": 40, "N": 5, "block_size": 16, "bits": 4}, 1),
         "its weights are not 5 rows of 3 blocks of 16"),
        (("MatMulNBits", [f(3, 40)], [u8(5, 3, 8), f(15)], {"K": 40, "N": 5, "block_size": 16, "bits": 3}, 1),
         "its weights have 3 bits in blocks of 16"),
        (("MatMulNBits", [f(3, 40)], [u8(5, 3, 8), f(15), None, np.zeros(40, np.int32)],
          {"K": 40, "N": 5, "block_size": 16, "bits": 4}, 1), "its columns are in groups of their own"),
    ],
)  # fmt: skip
def test_what_is_refused(case: Case, said: str, tmp_path: Path) -> None:
    path, feed = file(tmp_path / "m.onnx", case)
    with pytest.raises(UnsupportedOp, match=said):
        lifted(path, feed)
