"""Every element type that TensorFlow has a CPU kernel for, on the cases of tests/ops recast to it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import kernels, op_def_registry

from tests.ops._agreement import Array, Case, run
from tests.ops.cases import cases
from tests.oracle._ops import CASES_SKIPPED, COMPARED_OUTPUTS, SKIPPED, check, in_tensorflow
from thinflow.errors import ThinflowError
from thinflow.ir.types import DType, dtype

PER_TYPE = 2
"""Cases of an op and an element type, at most."""

TYPES = {
    "half", "bfloat16", "float", "double", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64",
    "uint64", "bool", "complex64", "complex128",
}  # fmt: skip

_SIGNS = "vectors are unique up to a factor, eigenvalues up to their order"
_POOLED = "recast inputs and outputs of a pool no longer belong together"
_UNWRITTEN = "without vectors TensorFlow returns memory as it happened to be"
LEFT_OUT = {
    "BatchMatMulV3": "its element types go together",
    "Eig": _SIGNS,
    "MaxPoolGradGrad": _POOLED,
    "MaxPoolGradGradV2": _POOLED,
    "SelfAdjointEigV2": _UNWRITTEN,
    "Svd": _UNWRITTEN,
    "SparseAdd": "its threshold has to be of the same type",
    "SplitV": "TensorFlow aborts on sizes of eight bits",
}
"""Op -> why its cases are not compared."""

UNLIKE: set[tuple[str, str]] = {
    ("ClipByValue", "complex64"),  # complex numbers have no order
    ("ClipByValue", "complex128"),
    ("BesselY1", "float"),  # NaN at 0 there
    ("BesselY1", "half"),
    ("Betainc", "float"),  # three digits less there
    ("CTCLoss", "double"),  # summed in float32 there
    ("Igamma", "float"),
    ("Igammac", "float"),
    ("FusedResizeAndPadConv2D", "double"),  # resized in float32 there
    ("ResizeBicubicGrad", "double"),  # weighted in float32 there
}
"""Op and type whose numbers are allowed to differ."""


@cache
def _kernel_types() -> dict[str, dict[str, set[DType]]]:
    """Op -> attribute -> element types with a CPU kernel."""
    found: dict[str, dict[str, set[DType]]] = {}
    for kernel in kernels.get_all_registered_kernels().kernel:
        if kernel.device_type != "CPU":
            continue
        for constraint in kernel.constraint:
            types = found.setdefault(kernel.op, {}).setdefault(constraint.name, set())
            types |= {dtype(t) for t in constraint.allowed_values.list.type}
    return found


@np.errstate(all="ignore")
def _recast(array: Array, kind: DType) -> Array:
    """The values as another type holds them: no negative unsigned, no fraction of an integer."""
    wanted = kind.numpy()
    if array.dtype == wanted and (wanted.kind != "c" or np.isfinite(array).all()):
        return array
    wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    real = wide.real
    if wanted.kind == "c":
        # What infinities become in complex arithmetic is up to the C++ library.
        imaginary = wide.imag if wide.dtype.kind == "c" else np.roll(real, 1) / 2
        parts = [np.nan_to_num(part, nan=1, posinf=2, neginf=-2) for part in (real, imaginary)]
        return np.asarray(parts[0] + 1j * parts[1]).astype(wanted)
    if wanted.kind == "b":
        return np.asarray(real > 0)
    if wanted.kind in "iu":
        info = np.iinfo(wanted)
        finite = np.nan_to_num(real, nan=0, posinf=100, neginf=-100)
        whole = np.rint(finite)
        return np.clip(
            np.abs(whole) if wanted.kind == "u" else whole, max(info.min, -(2**31)), min(info.max, 2**31)
        ).astype(wanted)
    if str(kind) == "bfloat16" or wanted == np.float64:
        # numpy does not take two NaNs of bfloat16 for equal; TensorFlow's float64 erf makes NaN of infinity.
        real = np.nan_to_num(real, nan=1, posinf=2, neginf=-2)
    return np.asarray(real.astype(wanted))


def _typed_inputs(name: str, count: int) -> dict[str, list[int]]:
    """Type attribute -> places of the inputs that have it."""
    places: dict[str, list[int]] = {}
    definition = op_def_registry.get(name)
    variadic = [bool(a.number_attr or a.type_list_attr) for a in definition.input_arg]
    each = (count - variadic.count(False)) // max(1, variadic.count(True))
    place = 0
    for argument, many in zip(definition.input_arg, variadic, strict=True):
        taken = range(place, place + (each if many else 1))
        place = taken.stop
        if argument.type_attr:
            places.setdefault(argument.type_attr, []).extend(taken)
    return places


def _variants(name: str) -> Iterator[Case]:
    """Cases of an op recast."""
    for attr, types in _kernel_types().get(name, {}).items():
        for kind in sorted(types, key=str):
            if str(kind) not in TYPES or (name, str(kind)) in UNLIKE:
                continue
            taken = 0
            for inputs, attrs in cases()[name]:
                arrays = [np.asarray(x) for x in inputs]
                places = _typed_inputs(name, len(arrays)).get(attr, [])
                if not places or any(arrays[p].dtype.kind in "OSb" for p in places):
                    continue
                if taken == PER_TYPE:
                    break
                taken += 1
                cast = [_recast(a, kind) if i in places else a for i, a in enumerate(arrays)]
                yield cast, attrs | ({attr: kind} if attr in attrs else {})


NAMES = sorted(
    name
    for name in cases()
    if not name.startswith("_") and name not in SKIPPED and op_def_registry.get(name) is not None
)


@pytest.mark.parametrize("name", NAMES)
def test_every_type(name: str) -> None:
    if name in LEFT_OUT:
        pytest.skip(LEFT_OUT[name])
    compared = 0
    for arrays, attrs in _variants(name):
        if name in CASES_SKIPPED and CASES_SKIPPED[name](arrays):
            continue
        compared += _compare(name, arrays, attrs)
    if not compared:
        pytest.skip("no case with an element type of its own")


def _compare(name: str, arrays: list[Array], attrs: dict[str, Any]) -> bool:
    """Whether there was something to compare."""
    mine: Any = None
    refusal = ""
    try:
        mine = run(name, *arrays, **attrs)
    except ThinflowError as error:
        refusal = str(error)
    mine = mine if isinstance(mine, tuple) else (mine,)
    try:
        results = in_tensorflow(name, arrays, attrs, None if refusal else np.asarray(mine[0]).dtype)
    except (tf.errors.OpError, ValueError, TypeError):
        return False  # these values make no sense to TensorFlow
    if results is None:
        return False
    assert not refusal, f"{name} runs in TensorFlow: {refusal}"
    count = COMPARED_OUTPUTS.get(name, max(len(mine), len(results)))
    pairs = list(itertools.zip_longest(mine[:count], results[:count]))
    ours, theirs = zip(*(_finite_complex(a, b) for a, b in pairs), strict=True)
    check(ours, list(theirs), name, arrays, attrs)
    return True


def _finite_complex(a: Any, b: Any) -> tuple[Any, Any]:
    """Two results, without complex numbers that are not finite: those are up to the C++ library."""
    if a is None or b is None or np.asarray(a).dtype.kind != "c" or np.shape(a) != np.shape(b):
        return a, b
    finite = np.isfinite(b)
    return np.where(finite, a, 0).astype(b.dtype), np.where(finite, b, 0).astype(b.dtype)
