"""MIL's operators as we read them, beside what coremltools itself computes of constants."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.coreml.packages import Package
from thinflow.coreml.runtime import coremltools, quiet

pytestmark = pytest.mark.skipif(find_spec("coremltools") is None, reason="coremltools is not installed")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 3, 4)).astype(np.float32)
Y = RNG.normal(size=(3, 1)).astype(np.float32)
SMALL = RNG.uniform(-0.9, 0.9, (2, 3, 4)).astype(np.float32)
WHOLE, OTHER = np.array([[7, -7, 3], [-3, 5, 9]], np.int32), np.array([[2, 2, -2], [2, -3, 3]], np.int32)
TRUTHS = X > 0

Inputs = dict[str, Any]
OPERANDS = {"x", "y", "cond", "a", "b", "indices", "values"}
CASES: list[tuple[str, Inputs]] = [
    *((op, {"x": X}) for op in ("abs", "ceil", "cos", "cosh", "erf", "exp", "exp2", "floor", "relu")),
    *((op, {"x": X}) for op in ("relu6", "round", "sigmoid", "sign", "silu", "sin", "sinh", "softplus")),
    *((op, {"x": X}) for op in ("softsign", "square", "tanh", "identity")),
    *((op, {"x": SMALL}) for op in ("acos", "asin", "atan", "atanh", "tan")),
    *((op, {"x": np.abs(X) + 1}) for op in ("sqrt", "rsqrt", "log", "inverse")),
    *((op, {"x": X, "y": Y}) for op in ("add", "sub", "mul", "real_div", "maximum", "minimum")),
    *((op, {"x": X, "y": Y}) for op in ("mod", "floor_div")),
    *((op, {"x": X, "y": X.round()}) for op in ("equal", "not_equal", "less", "less_equal", "greater")),
    *((op, {"x": WHOLE, "y": OTHER}) for op in ("add", "mod", "floor_div", "greater_equal", "mul")),
    *((op, {"x": TRUTHS, "y": SMALL > 0}) for op in ("logical_and", "logical_or", "logical_xor")),
    ("logical_not", {"x": TRUTHS}),
    ("pow", {"x": np.abs(X), "y": Y}),
    ("select", {"cond": TRUTHS, "a": X, "b": -X}),
    ("cast", {"x": X * 3, "dtype": "int32"}),
    ("cast", {"x": WHOLE, "dtype": "fp32"}),
    ("clip", {"x": X, "alpha": np.float32(-0.5), "beta": np.float32(0.25)}),
    ("threshold", {"x": X, "alpha": np.float32(0.1)}),
    ("leaky_relu", {"x": X, "alpha": np.float32(0.3)}),
    ("elu", {"x": X, "alpha": np.float32(0.7)}),
    ("sigmoid_hard", {"x": X, "alpha": np.float32(0.3), "beta": np.float32(0.4)}),
    ("linear_activation", {"x": X, "alpha": np.float32(0.3), "beta": np.float32(0.4)}),
    ("scaled_tanh", {"x": X, "alpha": np.float32(0.3), "beta": np.float32(0.4)}),
    ("gelu", {"x": X, "mode": "EXACT"}),
    ("gelu", {"x": X, "mode": "TANH_APPROXIMATION"}),
    ("gelu", {"x": X, "mode": "SIGMOID_APPROXIMATION"}),
    ("softmax", {"x": X, "axis": 1}),
    *(
        (f"reduce_{op}", {"x": X, "axes": [0, 2], "keep_dims": True})
        for op in ("mean", "sum", "max", "min", "prod")
    ),
    *(
        (f"reduce_{op}", {"x": X, "axes": [-1], "keep_dims": False})
        for op in ("l1_norm", "l2_norm", "sum_square")
    ),
    ("reduce_log_sum_exp", {"x": X, "axes": [1], "keep_dims": False}),
    ("reduce_argmax", {"x": X, "axis": 1, "keep_dims": False}),
    ("reduce_argmin", {"x": X, "axis": -1, "keep_dims": True}),
    ("transpose", {"x": X, "perm": [2, 0, 1]}),
    ("reshape", {"x": X, "shape": np.array([4, -1], np.int32)}),
    ("expand_dims", {"x": X, "axes": [0, -1]}),
    ("squeeze", {"x": X[:, :1], "axes": [1]}),
    ("concat", {"values": [X, -X], "axis": 1}),
    ("stack", {"values": [X, -X], "axis": 1}),
    ("tile", {"x": X, "reps": np.array([1, 2, 3], np.int32)}),
    ("gather", {"x": X, "indices": np.array([[2, 0], [-1, 1]], np.int32), "axis": 1}),
    ("gather_along_axis", {"x": X, "indices": np.zeros((2, 3, 4), np.int32), "axis": 2}),
    ("gather_nd", {"x": X, "indices": np.array([[1, 2], [0, 0]], np.int32)}),
    ("slice_by_index", {"x": X, "begin": [1, 0, 3], "end": [2, 3, 0], "stride": [1, 2, -1]}),
    (
        "slice_by_index",
        {
            "x": X, "begin": [1, 2, 0], "end": [0, 0, -1], "begin_mask": [False, True, False],
            "end_mask": [True, True, False], "squeeze_mask": [True, False, False],
        },
    ),
    ("slice_by_size", {"x": X, "begin": [0, 1, 0], "size": [2, -1, 3]}),
    # Exclusive ones break coremltools, which takes an array for a type there.
    ("cumsum", {"x": X, "axis": 1, "exclusive": False, "reverse": True}),
    ("cumsum", {"x": X, "axis": 2, "exclusive": False, "reverse": False}),
    ("one_hot", {"indices": np.array([2, 0], np.int32), "one_hot_vector_size": np.int32(3), "axis": 1}),
    ("band_part", {"x": X, "lower": 0, "upper": 1}),
    ("matmul", {"x": X, "y": X, "transpose_x": True, "transpose_y": False}),
    ("pad", {"x": X, "pad": [1, 0, 0, 2], "mode": "constant", "constant_val": np.float32(3)}),
    ("pad", {"x": X, "pad": [1, 2], "mode": "reflect", "constant_val": np.float32(0)}),
    ("reverse", {"x": X, "axes": [0, 2]}),
    ("flatten2d", {"x": X, "axis": 2}),
]  # fmt: skip


def theirs(op: str, inputs: Inputs) -> Any:
    """What coremltools makes of constants; None where it computes nothing of this operator."""
    ct = coremltools()
    from coremltools.converters.mil import Builder as mb
    from coremltools.converters.mil.mil import Function

    with quiet(), Function({}, opset_version=ct.target.iOS16):
        made = getattr(mb, op)(**inputs)
        return None if made.val is None else np.asarray(made.val)


def ours(op: str, inputs: Inputs, wanted: np.ndarray, folder: Path) -> np.ndarray:
    """The same of a package whose operands are fed."""
    package, feeds, given = Package(), {}, {}
    for key, value in inputs.items():
        arrays = value if key == "values" else [value]
        if key not in OPERANDS:
            given[key] = value
            continue
        names = []
        for number, array in enumerate(arrays):
            # Truths are no inputs of a package: what becomes one is.
            name = package.input(
                f"{key}{number}", array.shape, "float32" if array.dtype == bool else array.dtype.name
            )
            feeds[name] = array.astype(np.float32) if array.dtype == bool else array
            if array.dtype == bool:
                name = package.add("cast", f"{name}_bool", array.shape, "bool", x=f"%{name}", dtype="bool")
            names.append(f"%{name}")
        given[key] = names if key == "values" else names[0]
    kind = {"f": "float32", "b": "bool"}.get(wanted.dtype.kind, "int32")
    package.add(op, "result", wanted.shape, kind, **given)
    path = package.write(folder / "one.mlpackage", "result")
    (found,) = thinflow.Session(thinflow.load(path), engine="reference").run(["result"], feeds)
    return found


@pytest.mark.parametrize(("op", "inputs"), CASES, ids=[f"{i}-{op}" for i, (op, _) in enumerate(CASES)])
def test_an_operator_beside_coremltools(op: str, inputs: Inputs, tmp_path: Path) -> None:
    wanted = theirs(op, inputs)
    if wanted is None:
        pytest.skip("coremltools computes nothing of it")
    found = ours(op, inputs, wanted, tmp_path)
    assert found.shape == wanted.shape
    assert np.allclose(found.astype(np.float64), wanted.astype(np.float64), rtol=1e-5, atol=1e-6)


def test_most_operators_are_computed_by_both() -> None:
    """Else the tests above would be skipped one by one, and nobody would know."""
    computed = sum(theirs(op, inputs) is not None for op, inputs in CASES)
    assert computed >= 70, f"{computed} of {len(CASES)}"
