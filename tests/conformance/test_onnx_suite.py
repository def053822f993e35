"""ONNX's own suite, which is inside the `onnx` package, in the interpreter: right or refused, never wrong."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from thinflow.errors import ThinflowError

onnx = pytest.importorskip("onnx")
loader = pytest.importorskip("onnx.backend.test.loader")

Array = np.ndarray[Any, Any]
KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
RIGHT = 1270
"""Cases that give ONNX's answers; 1283 of 1998 with onnx 1.23. A newer package has more, and some others."""
BFLOAT16_TOLERANCE = 2**-6
"""Of what is rounded to eight bits after every op: two steps."""


def arrays(values: Sequence[Any]) -> list[Array]:
    return [
        onnx.numpy_helper.to_array(v) if isinstance(v, onnx.TensorProto) else np.asarray(v) for v in values
    ]


def data_sets(case: Any) -> list[tuple[list[Array], list[Array]]]:
    """Inputs and outputs of each set; read from files where the case has a folder."""
    if case.data_sets is not None:
        return [(arrays(xs), arrays(ys)) for xs, ys in case.data_sets]
    found = []
    for folder in sorted(Path(case.model_dir).glob("test_data_set_*")):
        sides: list[list[Array]] = []
        for side in ("input", "output"):
            files = sorted(folder.glob(f"{side}_*.pb"), key=lambda f: int(f.stem.rpartition("_")[2]))
            tensors = [onnx.TensorProto.FromString(f.read_bytes()) for f in files]
            sides.append(arrays(tensors))
        found.append((sides[0], sides[1]))
    return found


def is_of_tensors(case: Any) -> bool:
    """Whether nothing goes in or out that is no tensor: sequences of tensors, or nothing."""
    sets = case.data_sets or []
    return not any(isinstance(v, list | tuple) or v is None for xs, ys in sets for v in (*xs, *ys))


def model_of(case: Any) -> Any:
    return case.model if case.model is not None else onnx.load(Path(case.model_dir) / "model.onnx")


def with_constants(model: Any, xs: Sequence[Array]) -> Any:
    """The model with its small inputs but the first as constants: axes, sizes and the like."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    fed = list(made.graph.input)
    for value, x in list(zip(fed, xs, strict=False))[1:]:
        if x.dtype.kind in "iub" or x.size <= 8:
            made.graph.initializer.append(onnx.numpy_helper.from_array(x, value.name))
            made.graph.input.remove(value)
    return made


def opened(model: Any, xs: Sequence[Array], folder: Path) -> tuple[Any, thinflow.Session]:
    """The model and what runs it; with constants instead of inputs where it is refused otherwise."""
    path = folder / "m.onnx"
    path.write_bytes(model.SerializeToString())
    try:
        return model, thinflow.Session(path, "reference")
    except ThinflowError:
        model = with_constants(model, xs)
        path.write_bytes(model.SerializeToString())
        return model, thinflow.Session(path, "reference")


def difference(found: Array, expected: Array, case: Any) -> str:
    """What is not equal about two arrays; "" for nothing."""
    if (found.dtype, found.shape) != (expected.dtype, expected.shape):
        return f"{found.dtype}{list(found.shape)} instead of {expected.dtype}{list(expected.shape)}"
    if expected.dtype.kind in "OSU":
        texts = [[x.encode() if isinstance(x, str) else x for x in a.reshape(-1)] for a in (found, expected)]
        return "" if texts[0] == texts[1] else "other texts"
    a, b = ((x if x.dtype.kind == "c" else x.astype(np.float64)) for x in (found, expected))
    rtol = BFLOAT16_TOLERANCE if expected.dtype.name == "bfloat16" else case.rtol
    return "" if np.allclose(a, b, rtol=rtol, atol=case.atol, equal_nan=True) else "other numbers"


def verdict(case: Any, folder: Path) -> str:
    """ "right", "refused", or what is wrong."""
    model, sets = model_of(case), data_sets(case)
    given = {t.name for t in model.graph.initializer}
    names = [i.name for i in model.graph.input if i.name not in given]
    names = names if len(names) == len(sets[0][0]) else [i.name for i in model.graph.input]
    try:
        model, session = opened(model, sets[0][0], folder)
        wanted = [o.name for o in model.graph.output]
        for xs, ys in sets:
            feeds = {n: x for n, x in zip(names, xs, strict=True) if n in {i.name for i in model.graph.input}}
            for found, expected in zip(session.run(wanted, feeds), ys, strict=True):
                wrong = difference(found, expected, case)
                if wrong:
                    return wrong
    except ThinflowError:
        return "refused"
    return "right"


@pytest.mark.slow
def test_nothing_is_wrong(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = [c for kind in KINDS for c in loader.load_model_tests(kind=kind)]
        cases = [c for c in cases if is_of_tensors(c)]
        found = defaultdict(list)
        for case in cases:
            found[verdict(case, tmp_path)].append(case.name)
    right, refused = (found.pop(v, []) for v in ("right", "refused"))
    print(f"\n{len(cases)} cases: {len(right)} right, {len(refused)} refused")
    assert not found
    assert len(right) >= RIGHT
