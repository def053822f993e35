"""Keras 3's operations on tensors: answers that are known, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

import thinflow
from tests.keras.written import dense, functional, layer, node, sequential, source, write_h5, write_keras

Array: TypeAlias = np.ndarray[Any, Any]
Case: TypeAlias = tuple[str, list[Array], list[Any] | None, dict[str, Any], Any]
ROWS = np.arange(6, dtype=np.float32).reshape(2, 3)


def tensor(name: str) -> dict[str, Any]:
    return {"class_name": "__keras_tensor__", "config": {"keras_history": [name, 0, 0]}}


def model(path: Path, kind: str, inputs: list[Array], args: list[Any], **options: Any) -> Path:
    """A model of one operation; arguments that are whole numbers in a tuple stand for inputs."""

    def given(item: Any) -> Any:
        if isinstance(item, tuple):
            return tensor(f"x{item[0]}")
        return [given(n) for n in item] if isinstance(item, list) else item

    call = options.pop("kwargs", {})
    layers: list[dict[str, Any]] = [
        {
            "class_name": "InputLayer",
            "module": "keras.layers",
            "name": f"x{n}",
            "inbound_nodes": [],
            "config": {"name": f"x{n}", "batch_shape": list(x.shape), "dtype": str(x.dtype)},
        }
        for n, x in enumerate(inputs)
    ]
    layers.append(
        {
            "class_name": kind,
            "module": "keras.src.ops.numpy",
            "name": "y",
            "config": {"name": "y", **options},
            "inbound_nodes": [{"args": given(args), "kwargs": {k: given(v) for k, v in call.items()}}],
        }
    )
    config = {
        "name": "net",
        "layers": layers,
        "input_layers": [[f"x{n}", 0, 0] for n in range(len(inputs))],
        "output_layers": [["y", 0, 0]],
    }
    whole = {"class_name": "Functional", "module": "keras.src.models.functional", "config": config}
    return write_keras(path / "net.keras", whole, {}, "3.15.0")


def loaded(folder: Path, case: Case) -> thinflow.Graph:
    kind, inputs, args, options, _ = case
    args = [(n,) for n in range(len(inputs))] if args is None else args
    return thinflow.load(model(folder, kind, inputs, args, **options))


def f(*values: Any) -> Array:
    return np.array(values, np.float32)


def i(*values: Any) -> Array:
    return np.array(values, np.int32)


HEADS = np.eye(2, dtype=np.float32).reshape(1, 2, 1, 2)
E = float(np.exp(1))

CASES: list[Case] = [
    ("LayerNorm", [f([1, 3], [2, 2])], None, {"epsilon": 0.0001}, [[-1, 1], [0, 0]]),
    ("LayerNorm", [f([1, 3]), f(2, 3), f(1, 0)], None, {"axis": [-1], "epsilon": 1e-6}, [[-1, 3]]),
    ("RMSNorm", [f([3, 4])], None, {"epsilon": 1e-9}, [[3 / 12.5**0.5, 4 / 12.5**0.5]]),
    ("DotProductAttention", [HEADS] * 3, None, {"is_causal": True, "kwargs": {"scale": 1.0}},
     [[[[1, 0]], [[1 / (1 + E), E / (1 + E)]]]]),
    ("ConvTranspose", [f([[1], [2]]), np.ones((2, 1, 1), np.float32)], None, {"padding": "valid"},
     [[[1], [3], [2]]]),
    ("Slice", [ROWS], [(0,), [0, 1]], {"shape": [2, 2]}, [[1, 2], [4, 5]]),
    ("SliceUpdate", [ROWS, f([9, 9]), i(1)[0]], [(0,), [(2,), 5], (1,)], {}, [[0, 1, 2], [3, 9, 9]]),
    ("Scatter", [i([1], [3]), f(7, 8)], None, {"shape": [5]}, [0, 7, 0, 8, 0]),
    ("ScatterUpdate", [f(1, 2, 3), i([1], [1]), f(5, 6)], None, {"reduction": "add"}, [1, 13, 3]),
    ("UnravelIndex", [i(5, 3)], None, {"shape": [2, 3]}, [1, 1]),
    ("Digitize", [f(-1, 0.5, 9)], [(0,), [0, 1, 2]], {}, [0, 1, 3]),
    ("SearchSorted", [f(1, 2, 2, 3), f(2, 0)], None, {"side": "right"}, [3, 0]),
    ("IsIn", [i([1, 2], [3, 4]), i(2, 3)], None, {"invert": True}, [[True, False], [False, True]]),
    ("ArraySplit", [f(1, 2, 3)], None, {"indices_or_sections": 2}, [1, 2]),
    ("Hsplit", [ROWS], None, {"indices_or_sections": 3}, [[0], [3]]),
    ("Rot90", [ROWS], None, {"k": 1, "axes": [0, 1]}, [[2, 5], [1, 4], [0, 3]]),
    ("Rearrange", [ROWS], [(0,), "a b -> (b a)"], {}, [0, 3, 1, 4, 2, 5]),
    ("Roll", [ROWS], None, {"shift": 1, "axis": None}, [[5, 0, 1], [2, 3, 4]]),
    ("BitwiseAnd", [i(6), i(3)], None, {}, [2]),
    ("BitwiseInvert", [i(0)], None, {}, [-1]),
    ("RightShift", [i(-8), i(1)], None, {}, [-4]),
    ("Signbit", [f(-0.0, 0.0, -1)], None, {}, [True, False, True]),
    ("View", [i([1, 2])], None, {"dtype": "uint8"}, [[1, 0, 0, 0, 2, 0, 0, 0]]),
    ("Ldexp", [f(3, 0), i(2, 200)], None, {}, [12, 0]),
    ("Nextafter", [f(1), f(2)], None, {}, [1]),
    ("Cbrt", [f(-8, 27)], None, {}, [-2, 3]),
    ("Logaddexp2", [f(3, np.inf), f(3, np.inf)], None, {}, [4, np.inf]),
    ("Logaddexp", [f(0), f(0)], None, {}, [np.log(2)]),
    ("Fmax", [f(1, np.nan, np.nan), f(np.nan, 2, np.nan)], None, {}, [1, 2, np.nan]),
    ("Fmod", [i(-7), i(3)], None, {}, [-1]),
    ("I0", [f(0, 1)], None, {}, [1, 1.266066]),
    ("Erfinv", [f(0.5)], None, {}, [0.476936]),
    ("AllClose", [f(1, np.nan), f(1, np.nan)], None, {"equal_nan": True}, True),
    ("PSNR", [f(0, 0), f(1, 1)], None, {"max_val": 10.0}, 20),
    ("BinaryCrossentropy", [f(1), f(0)], None, {"from_logits": True}, [np.log(2)]),
    ("CategoricalCrossentropy", [f([0, 1]), f([0.2, 0.2])], None, {}, [np.log(2)]),
    ("Full", [f(7)], None, {"shape": [2, 1], "dtype": "int32"}, [[7], [7]]),
    ("Linspace", [f(0), f(1)], None, {"num": 3, "axis": -1}, [[0, 0.5, 1]]),
    ("Geomspace", [f(-1)[0], f(-8)[0]], None, {"num": 4}, [-1, -2, -4, -8]),
    ("Meshgrid", [f(1, 2), f(3, 4, 5)], None, {}, [[1, 2]] * 3),
    ("Ndim", [ROWS], None, {}, 2),
    ("Diagonal", [ROWS], None, {"offset": 1}, [1, 5]),
    ("Trace", [ROWS], None, {"offset": -1}, 3),
    ("Diag", [f(1, 2)], None, {"k": 1}, [[0, 1, 0], [0, 0, 2], [0, 0, 0]]),
    ("Tensordot", [ROWS, ROWS], None, {"axes": [[0], [0]]}, ROWS.T @ ROWS),
    ("Inner", [ROWS, ROWS], None, {}, ROWS @ ROWS.T),
    ("Vdot", [ROWS, ROWS], None, {}, 55),
    ("Dot", [ROWS, f(1, 2, 3)], None, {}, [8, 26]),
    ("Matmul", [np.full((1, 1), 100, np.int8)] * 2, None, {}, [[10000]]),
    ("Kron", [f(1, 2), f([1, 3])], None, {}, [[1, 3, 2, 6]]),
    ("Cross", [f(1, 0, 0), f(0, 1, 0)], None, {"axisa": -1, "axisb": -1, "axisc": -1}, [0, 0, 1]),
    ("Cross", [f(1, 0), f(0, 1)], None, {"axisa": -1, "axisb": -1, "axisc": -1}, 1),
    ("Correlate", [f(1, 2, 3), f(1, 1)], None, {"mode": "same"}, [1, 3, 5]),
    ("Corrcoef", [f([1, 2], [2, 1])], None, {}, [[1, -1], [-1, 1]]),
    ("CDist", [f([0, 0]), f([3, 4])], None, {}, [[5]]),
    ("Solve", [f([2, 0], [0, 4]), f(2, 4)], None, {}, [1, 1]),
    ("SolveTriangular", [f([2, 0], [1, 1]), f([2], [3])], None, {"lower": True}, [[1], [2]]),
    ("CholeskyInverse", [f([2, 0], [0, 1])], None, {}, [[0.25, 0], [0, 1]]),
    ("Cholesky", [f([4, 2], [2, 2])], None, {"upper": True}, [[2, 1], [0, 1]]),
    ("Logdet", [f([2, 0], [0, 2])], None, {}, np.log(4)),
    ("MatrixRank", [f([1, 2], [2, 4])], None, {}, 1),
    ("Pinv", [f([1, 0], [0, 0])], None, {}, [[1, 0], [0, 0]]),
    ("LuFactor", [f([0, 1], [2, 0])], None, {}, [[2, 0], [0, 1]]),
    ("Median", [f(4, 1, 3, 2)], None, {"axis": None}, 2.5),
    ("Percentile", [ROWS], [(0,), [0, 50]], {"axis": 1, "method": "lower"}, [[0, 3], [1, 4]]),
    ("Quantile", [f(1, np.nan)], [(0,), 0.5], {}, np.nan),
    ("Nanmax", [f([np.nan, 1], [np.nan, np.nan])], None, {"axis": 1}, [1, np.nan]),
    ("Nanmean", [f(np.nan, 1, 3)], None, {}, 2),
    ("Nanstd", [f(np.nan, 1, 3)], None, {}, 1),
    ("Nancumsum", [f(1, np.nan, 3)], None, {"axis": 0}, [1, 1, 4]),
    ("Nanargmin", [f([np.nan, 2, 1], [np.nan] * 3)], None, {"axis": 1}, [2, -1]),
    ("Norm", [f([1, -2], [3, 4])], None, {"ord": 1, "axis": [0, 1]}, 6),
    ("Norm", [f(3, -4)], None, {"ord": float("inf"), "axis": [0]}, 4),
    ("Trapezoid", [f(1, 3)], None, {"x": [0, 2]}, 4),
    ("Vander", [i(2, 3)], None, {"N": 3}, [[4, 2, 1], [9, 3, 1]]),
    ("Var", [i(1, 2)], None, {}, 0.25),
    ("Sum", [np.array([200, 100], np.uint8)], None, {}, 300),
    ("Max", [f(1, 2)], None, {"initial": 5}, 5),
    ("FFT", [f(1, 0), f(0, 0)], [[(0,), (1,)]], {}, [1, 1]),
    ("RFFT", [f(1, 2)], None, {"fft_length": 4}, [3, 1, -1]),
    ("IRFFT", [f(3, 1, -1), f(0, -2, 0)], [[(0,), (1,)]], {}, [1, 2, 0, 0]),
    ("ExtractSequences", [f(1, 2, 3)], None, {"sequence_length": 2, "sequence_stride": 1}, [[1, 2], [2, 3]]),
    ("STFT", [f(1, 1, 1, 1)], None,
     {"sequence_length": 2, "sequence_stride": 2, "fft_length": 2, "window": None, "center": False},
     [[2, 0], [2, 0]]),
    ("ExtractPatches", [ROWS[None, :, :, None]], None, {"size": 2, "strides": 1},
     [[[[0, 1, 3, 4], [1, 2, 4, 5]]]]),
    ("PadImages", [ROWS[:, :, None]], None,
     {"top_padding": 0, "target_height": 3, "left_padding": 1, "right_padding": 0},
     [[[0], [0], [1], [2]], [[0], [3], [4], [5]], [[0]] * 4]),
    ("CropImages", [ROWS[:, :, None]], None,
     {"top_cropping": 1, "bottom_cropping": 0, "left_cropping": 1, "target_width": 1}, [[[4]]]),
    ("GaussianBlur", [np.ones((1, 3, 3, 1), np.float32)[0]], None,
     {"kernel_size": [1, 1], "sigma": [1.0, 1.0]}, np.ones((3, 3, 1))),
    ("SobelEdges", [ROWS[None, :, :, None]], None, {}, [[[[[0, 0]], [[0, 8]], [[0, 0]]]] * 2]),
    ("AffineTransform", [ROWS[:, :, None], f(1, 0, 1, 0, 1, 0, 0, 0)], None, {"fill_value": 9},
     [[[1], [2], [9]], [[4], [5], [9]]]),
    ("Unfold", [ROWS[None, None]], None, {"kernel_size": 2}, [[[0, 1], [1, 2], [3, 4], [4, 5]]]),
    ("Einsum", [ROWS, ROWS, f(1, 2)], None, {"subscripts": "ij,kj,k->i"}, ROWS @ ROWS.T @ [1, 2]),
    ("Einsum", [ROWS[None], ROWS.T], None, {"subscripts": "...ij,jk->...ik"}, [ROWS @ ROWS.T]),
    ("Normalize", [f([1, -3])], None, {"axis": -1, "order": 1, "epsilon": None}, [[0.25, -0.75]]),
    ("Average", [ROWS, f(1, 0, 1)], None, {"axis": 1}, [1, 4]),
    ("SparseCategoricalCrossentropy", [i(1), f([0.5, 0.5])], None, {}, [np.log(2)]),
    ("Where", [np.array([True, False]), i(1, 2)], [(0,), (1,), 1.5], {}, [1, 1.5]),
    ("Select", [np.array([False]), i(1)], [[(0,)], [(1,)], 1.5], {}, [1.5]),
    ("Take", [ROWS, i(-1, 0)], None, {"axis": 1}, [[2, 0], [5, 3]]),
    ("Take", [ROWS], [(0,), {"class_name": "__tensor__", "config": {"value": [-1, 0], "dtype": "int64"}}],
     {"axis": 1}, [[2, 0], [5, 3]]),
    ("Tile", [f(1, 2)], None, {"repeats": [2, 1]}, [[1, 2], [1, 2]]),
    ("Repeat", [f(1, 2, 3)], None, {"repeats": [1, 2, 0], "axis": 0}, [1, 2, 2]),
    ("Angle", [f(-1, 1)], None, {}, [np.pi, 0]),
    ("Isreal", [f(1)], None, {}, [True]),
    ("Gcd", [i([12], [-9]), i(18, 0, 6)], None, {}, [[6, 12, 6], [9, 9, 3]]),
    ("Lcm", [i(4, -6, 0), i(6, 8, 0)], None, {}, [12, 24, 0]),
    ("Histogram", [f(0, 1, 1.5, 4, 9)], None, {"bins": 2, "range": [0, 4]}, [3, 1]),
    ("Histogram", [f(0, 1, 4)], None, {"bins": 2}, [2, 1]),
    ("Bincount", [i([0, 2], [1, 1])], None, {"minlength": 4}, [[1, 0, 1, 0], [0, 2, 0, 0]]),
    ("Nonzero", [i([0, 3], [4, 0])], None, {}, [0, 1]),
    ("Unique", [i(3, 1, 3)], None, {"return_index": True, "return_counts": True}, [1, 3]),
    ("Unique", [i([2, 2], [1, 1], [2, 2])], None, {"axis": 0, "sorted": False}, [[2, 2], [1, 1]]),
    ("Unique", [f(3, 1, 3)], None, {"size": 4, "fill_value": -1}, [1, 3, -1, -1]),
    ("Nanmedian", [f([1, np.nan, 4], [np.nan] * 3)], None, {"axis": 1}, [2.5, np.nan]),
    ("Nanpercentile", [f([1, np.nan, 4], [2, 3, 4])], [(0,), [0, 100]], {"axis": 1}, [[1, 2], [4, 4]]),
    ("Nanquantile", [f(3, np.nan, 1)], [(0,), 0.4], {"method": "higher", "keepdims": True}, [3]),
    ("ISTFT", [f([2], [4]), f([0], [0])], [[(0,), (1,)]],
     {"sequence_length": 1, "sequence_stride": 1, "fft_length": 1, "window": None, "center": False}, [2, 4]),
    ("ISTFT", [f([3, 1], [7, -1]), f([0, 0], [0, 0])], [[(0,), (1,)]],
     {"sequence_length": 2, "sequence_stride": 2, "fft_length": 2, "window": [1.0, 1.0], "center": True},
     [1, 3]),
    ("Fold", [np.arange(1, 9, dtype=np.float32).reshape(1, 4, 2)], None,
     {"output_size": [2, 3], "kernel_size": 2}, [[[[1, 5, 4], [5, 13, 8]]]]),
    ("Lstsq", [f([1, 0], [0, 2], [0, 0]), f(3, 4, 5)], None, {}, [3, 2]),
    ("MapCoordinates", [f(1, 5, 9), f([0.5, 2, 2.5])], None, {"order": 1, "fill_value": 3.0}, [3, 9, 6]),
    ("MapCoordinates", [f(1, 5, 9), f([-1, 4])], None, {"order": 0, "fill_mode": "wrap"}, [9, 5]),
    ("PerspectiveTransform",
     [ROWS[:, :, None], f([0, 0], [0, 1], [2, 0], [2, 1]), f([1, 0], [1, 1], [3, 0], [3, 1])], None,
     {"fill_value": 9}, [[[9], [0], [1]], [[9], [3], [4]]]),
    ("ScaleAndTranslate", [ROWS], [(0,), [2, 6], [2.0], [0.0]], {"spatial_dims": [1], "method": "linear"},
     [[0, 0.25, 0.75, 1.25, 1.75, 2], [3, 3.25, 3.75, 4.25, 4.75, 5]]),
    ("SSIM", [ROWS[:, :, None]] * 2, None, {"filter_size": 1}, 1),
    ("CTCDecode", [f([[9, 0], [0, 9], [0, 9], [0, 9]]), i(3)], None, {}, [[[1, -1, -1, -1]]]),
    ("CTCDecode", [f([[5, 0, 0], [0, 9, 0], [0, 0, 9]]), i(3)], None,
     {"strategy": "beam_search", "beam_width": 4, "top_paths": 2, "mask_index": 1},
     [[[0, 2, -1]], [[2, -1, -1]]]),
]  # fmt: skip


REFUSED: list[Case] = [
    ("DotProductAttention", [HEADS] * 3, None, {"attn_logits_soft_cap": 2.0}, "attn_logits_soft_cap (2.0)"),
    ("DotProductAttention", [HEADS, HEADS.repeat(3, 2), HEADS.repeat(3, 2)], None, {}, "its query is"),
    ("ScatterUpdate", [f(1), i([0]), f(2)], None, {"reduction": "mul"}, "its reduction is 'mul'"),
    ("UnravelIndex", [i([1])], None, {"shape": [2]}, "its places are no vector"),
    ("Digitize", [f(1), f(2)], None, {}, "the edges of its bins are computed"),
    ("Rot90", [ROWS], None, {"k": 2}, "no square"),
    ("Rearrange", [ROWS], [(0,), "a b -> (a c)"], {}, "its pattern is 'a b -> (a c)'"),
    ("Slice", [ROWS], [(0,), [0]], {"shape": [1]}, "it begins at [0]"),
    ("BitwiseOr", [f(1), f(2)], None, {}, "its operands are of the type float"),
    ("Ldexp", [f(1), f(2)], None, {}, "its exponent is no whole number"),
    ("Linspace", [f(0), f(1)], None, {"dtype": "int32"}, "of the type int32"),
    ("Diagonal", [ROWS], None, {"offset": 3}, "its diagonal 3 lies outside of 2 x 3"),
    ("Norm", [ROWS], None, {"ord": "nuc"}, "its order is nuc"),
    ("Quantile", [ROWS, f(1)], None, {}, "its shares are computed"),
    ("Quantile", [ROWS], [(0,), 0.5], {"method": "lower"}, "which Keras does not heed"),
    ("LuFactor", [np.ones((2, 3, 3), np.float32)], None, {}, "it factors several matrices"),
    ("Sum", [f(1)], None, {"initial": 5}, "it begins with a number of its own"),
    ("Corrcoef", [f(1)], None, {}, "its input has 1 axes"),
    ("PadImages", [ROWS[:, :, None]], None, {"top_padding": 5, "target_height": 3},
     "its padding along its height"),
    ("STFT", [np.zeros(9)], None, {"fft_length": 8}, "of the type double"),
    ("Einsum", [ROWS], None, {"subscripts": "ji"}, "in which Keras's backends differ"),
    ("Einsum", [ROWS], None, {"subscripts": "ij,jk->ik"}, "1 tensors are multiplied"),
    ("Einsum", [ROWS[:1], ROWS], None, {"subscripts": "...i,...i->..."}, "sizes behind the dots"),
    ("Einsum", [ROWS], None, {"subscripts": "i->i"}, "does not fit tensors of [2] axes"),
    ("Eig", [ROWS], None, {}, "the function Eig is not read: its results are complex"),
    ("Map", [ROWS], None, {}, "it calls a Python function (Map), which is never run"),
    ("Gcd", [f(1), f(2)], None, {}, "its operands are of the types float and float"),
    ("Bincount", [i(1)], None, {"sparse": True}, "its result is sparse"),
    ("Unique", [ROWS], None, {"axis": 1}, "it sorts slices of several elements"),
    ("MapCoordinates", [f(1), f([1])], None, {"order": 1, "fill_mode": "mirror"}, "its fill_mode 'mirror'"),
    ("ScaleAndTranslate", [ROWS, f(2)], [(0,), [2, 6], (1,), [0.0]],
     {"spatial_dims": [1], "method": "linear"}, "its scale is computed"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_answers(tmp_path: Path, case: Case) -> None:
    session = thinflow.Session(loaded(tmp_path, case), engine="reference")
    got = session.run(["y"], dict(zip(session.inputs, case[1], strict=True)))[0]
    np.testing.assert_allclose(got, case[4], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case[0])
def test_what_is_refused(tmp_path: Path, case: Case) -> None:
    with pytest.raises(thinflow.ThinflowError) as caught:
        loaded(tmp_path, case)
    assert case[4] in caught.value.message


def test_a_function_in_place_of_one_that_the_file_only_names(tmp_path: Path) -> None:
    path = model(tmp_path, "Map", [ROWS], [{"class_name": "function", "config": "square"}, (0,)])
    given = {"y": lambda c: c.emit("Square", c[0])}
    session = thinflow.Session(thinflow.formats.load(path, custom_layers=given), engine="reference")
    assert (session.run(["y"], {"x0": ROWS})[0] == ROWS**2).all()
    with pytest.raises(thinflow.ThinflowError) as caught:
        thinflow.load(path)
    assert "--lambda y=FILE.py:FUNCTION" in caught.value.hint


def preprocessed(folder: Path, *layers: dict[str, Any], x: Array, arrays: list[Array] | None = None) -> Array:
    """What a model of layers one behind the other gives."""
    weights = {} if arrays is None else {layers[-1]["config"]["name"]: arrays}
    path = write_h5(folder / "net.h5", sequential(source(*x.shape[1:]), *layers), weights, "3.15.0")
    session = thinflow.Session(path, engine="reference")
    return session.run(list(session.outputs), dict(zip(session.inputs, [x], strict=True)))[0]


PICTURE = np.arange(12, dtype=np.float32).reshape(1, 2, 2, 3)


@pytest.mark.parametrize("kind", ["Solarization", "Equalization", "MaxNumBoundingBoxes"])
def test_what_only_trains_leaves_pictures_alone(tmp_path: Path, kind: str) -> None:
    one = layer(kind, value_range=[0, 255]) if kind != "MaxNumBoundingBoxes" else layer(kind, max_number=3)
    assert (preprocessed(tmp_path, one, x=PICTURE) == PICTURE).all()


def test_contrast_fills_the_range(tmp_path: Path) -> None:
    got = preprocessed(tmp_path, layer("AutoContrast", value_range=[0, 1]), x=PICTURE / 100)
    assert np.allclose(got.reshape(4, 3), (np.arange(4) / 3)[:, None], atol=1e-5)


def test_whole_numbers_become_floats_where_layers_compute_with_them(tmp_path: Path) -> None:
    """As what looks up words gives them in Keras 3: TensorFlow multiplies and joins one type alone."""
    numbers = source(2, name="n")
    numbers["config"]["dtype"] = "int64"
    layers = [
        node(source(2)), node(numbers),
        node(layer("Concatenate", "both", axis=-1), ("x", 0, 0), ("n", 0, 0)),
        node(layer("Add", "sum"), ("x", 0, 0), ("n", 0, 0)),
        node(dense("product"), ("n", 0, 0)),
    ]  # fmt: skip
    ends = [["both", 0, 0], ["sum", 0, 0], ["product", 0, 0]]
    config = functional(layers, [["x", 0, 0], ["n", 0, 0]], ends)
    graph = thinflow.load(write_h5(tmp_path / "net.h5", config, {"product": [ROWS]}))
    x, n = np.array([[0.5, -1]], np.float32), np.array([[2, 3]], np.int64)
    both, total, product = thinflow.run(graph, {"x": x, "n": n}, engine="reference").values()
    assert both.tolist() == [[0.5, -1, 2, 3]]
    assert total.tolist() == [[2.5, 2]]
    np.testing.assert_allclose(product, n @ ROWS)
    # numpy multiplies anything; TensorFlow and LiteRT do not.
    one_type = {"Concat", "ConcatV2", "AddV2", "MatMul"}
    for joining in (m for m in graph if m.op in one_type):
        assert {str(v.dtype) for v in joining.inputs[:2]} == {"float"}


def test_a_pipeline_is_its_layers(tmp_path: Path) -> None:
    double, normal = layer("Rescaling", scale=2.0, offset=0.0), layer("Normalization", axis=[-1])
    line = {"class_name": "Pipeline", "config": {"name": "line", "layers": [double, normal]}}
    arrays = [np.array([1, 2], np.float32), np.array([4, 1], np.float32), np.array(3)]
    got = preprocessed(tmp_path, line, x=np.array([[1, 2]], np.float32), arrays=arrays)
    assert got.tolist() == [[0.5, 2]]


def test_a_spectrogram_by_kernels(tmp_path: Path) -> None:
    one = layer("STFTSpectrogram", "s", mode="psd", frame_length=2, frame_step=2)
    kernels = [np.ones((2, 1, 2), np.float32), np.zeros((2, 1, 2), np.float32)]
    got = preprocessed(tmp_path, one, x=np.array([[[1], [2], [3]]], np.float32), arrays=kernels)
    assert got.tolist() == [[[9, 9]]]


def attention(folder: Path, x: Array, kernels: list[Array], **options: Any) -> Array:
    """What a layer of attention of one head gives for a sequence that attends to itself."""
    one = layer("MultiHeadAttention", "y", num_heads=1, key_dim=1, use_bias=False, **options)
    use = {**one, "name": "y", "inbound_nodes": [[["x", 0, 0, {"value": ["x", 0, 0]}]]]}
    config = functional([node(source(*x.shape[1:])), use], [["x", 0, 0]], [["y", 0, 0]])
    session = thinflow.Session(write_h5(folder / "net.h5", config, {"y": kernels}), engine="reference")
    return session.run(["y"], {"x": x})[0]


def test_attention_with_a_gate(tmp_path: Path) -> None:
    one, zero = np.ones((1, 1, 1), np.float32), np.zeros((1, 1, 1), np.float32)
    # Query, key, gate, value, output: the gate is half open.
    got = attention(tmp_path, f([[2]]), [one, one, zero, one, one], use_gate=True)
    assert got.tolist() == [[[1]]]


def test_attention_in_a_window(tmp_path: Path) -> None:
    one, zero = np.ones((1, 1, 1), np.float32), np.zeros((1, 1, 1), np.float32)
    x = f([[0], [2], [4], [9]])
    # With queries of zero the mean of what is seen.
    got = attention(tmp_path, x, [zero, one, one, one], sliding_window=2)
    assert np.allclose(got[0, :, 0], [1, 2, 5, 6.5])


def test_masked_scores_of_two_bytes_are_numbers(tmp_path: Path) -> None:
    """Nothing comes of a place that is masked, and no infinity of one that is not."""
    one, zero = np.ones((1, 1, 1), np.float16), np.zeros((1, 1, 1), np.float16)
    got = attention(
        tmp_path, f([[0], [2], [4], [9]]), [zero, one, one, one], sliding_window=2, dtype="float16"
    )
    assert got.dtype == np.float16
    assert np.allclose(got[0, :, 0], [1, 2, 5, 6.5])


def test_small_factors_are_in_the_kernel_of_an_archive_only(tmp_path: Path) -> None:
    dense = layer("Dense", "y", units=1, activation="linear", lora_rank=1, lora_alpha=2)
    kernel, bias = np.array([[2], [3]], np.float32), np.array([1], np.float32)
    path = write_keras(tmp_path / "net.keras", sequential(source(2), dense), {"layers/dense": [kernel, bias]})
    session = thinflow.Session(path, engine="reference")
    assert session.run(["y"], {"x": f([1, 1])})[0].tolist() == [[6]]
    arrays = [bias, kernel, kernel, bias]
    path = write_h5(tmp_path / "net.h5", sequential(source(2), dense), {"y": arrays}, "3.15.0")
    with pytest.raises(thinflow.ThinflowError, match="it has 2 arrays of weights, and the file holds 4"):
        thinflow.load(path)


def test_pictures_are_filled_up_smoothed_and_rounded(tmp_path: Path) -> None:
    tall = np.arange(8, dtype=np.float32).reshape(1, 4, 2, 1)
    filled = layer(
        "Resizing", height=4, width=4, pad_to_aspect_ratio=True, fill_value=9, interpolation="nearest"
    )
    got = preprocessed(tmp_path, {**filled, "module": "keras.layers"}, x=tall)
    assert got[0, 0, :, 0].tolist() == [9, 0, 1, 9]
    smooth = layer("Resizing", height=1, width=1, antialias=True)
    assert np.allclose(preprocessed(tmp_path, smooth, x=np.ones((1, 9, 9, 1), np.float32)), 1)
    bytes_of = np.array([0, 1, 5, 255], np.uint8).reshape(1, 2, 2, 1)
    case: Case = ("Resize", [bytes_of], None, {"size": [2, 4], "interpolation": "bilinear"}, None)
    session = thinflow.Session(loaded(tmp_path, case), engine="reference")
    got = session.run(["y"], {"x0": bytes_of})[0]
    assert got.dtype == np.uint8
    assert got[0, :, :, 0].tolist() == [[0, 0, 1, 1], [5, 68, 192, 255]]
    case = ("Resize", [bytes_of], None, {"size": [2, 4], "fill_mode": "wrap"}, None)
    with pytest.raises(thinflow.ThinflowError, match="its fill_mode is 'wrap'"):
        loaded(tmp_path, case)
