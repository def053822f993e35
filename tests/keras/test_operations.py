"""Keras 3's operations on tensors: answers that are known, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

import thinflow
from tests.keras.written import write_keras

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
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_answers(tmp_path: Path, case: Case) -> None:
    session = thinflow.Session(loaded(tmp_path, case), engine="reference")
    (got,) = session.run(["y"], dict(zip(session.inputs, case[1], strict=True)))
    np.testing.assert_allclose(got, case[4], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case[0])
def test_what_is_refused(tmp_path: Path, case: Case) -> None:
    with pytest.raises(thinflow.ThinflowError) as caught:
        loaded(tmp_path, case)
    assert case[4] in caught.value.message
