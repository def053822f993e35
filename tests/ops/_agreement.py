"""Runs an op on arrays, and its shape rule on everything that may be known of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from thinflow.ir.types import UNKNOWN, TensorSpec, dtype
from thinflow.ops import registry

Array = np.ndarray[Any, Any]
Case = tuple[list[Array], dict[str, Any]]


def text(*words: bytes) -> Array:
    """A vector of byte strings."""
    result = np.empty(len(words), object)
    result[:] = words
    return result


def spec_of(array: Array) -> TensorSpec:
    """All that can be known of a constant."""
    elements = tuple(int(v) for v in array.ravel().tolist()) if array.dtype.kind in "iub" else None
    return TensorSpec(dtype(array.dtype), array.shape, elements)


def run(name: str, *inputs: Any, **attrs: Any) -> Any:
    """The output of an op's kernel (a tuple of several), inputs as arrays that must stay as they are."""
    arrays = [np.asarray(x) for x in inputs]
    before = [x.copy() for x in arrays]
    for array in arrays:
        array.flags.writeable = False
    outputs = registry.call_kernel(registry.get(name), arrays, attrs)
    for array, old in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, old)
    return outputs[0] if len(outputs) == 1 else outputs


def infer(name: str, *specs: TensorSpec, **attrs: Any) -> Any:
    """The specs an op's shape rule gives (one, or a tuple of several)."""
    result = registry.call_infer(registry.get(name), specs, attrs)
    return result[0] if len(result) == 1 else result


def _weakened(spec: TensorSpec) -> Iterator[TensorSpec]:
    """The spec with something forgotten: its elements, one of them, one dimension, all of them, the rank."""
    yield replace(spec, elements=None)
    for i in range(len(spec.elements or ())):
        known = list(spec.elements or ())
        known[i] = None
        yield replace(spec, elements=tuple(known))
    shape = spec.shape or ()
    for axis in range(len(shape)):
        yield spec.with_shape((*shape[:axis], None, *shape[axis + 1 :]))
    yield spec.with_shape((None,) * len(shape))
    yield replace(UNKNOWN, dtype=spec.dtype)


def check_agreement(name: str, case: Case, exact: bool = True) -> None:
    """The shape rule never contradicts the kernel, whatever is forgotten; knowing everything it is exact."""
    inputs, attrs = case
    outputs = run(name, *inputs, **attrs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    full = [spec_of(np.asarray(x)) for x in inputs]
    variants = [full]
    for i, spec in enumerate(full):
        variants += [[*full[:i], weak, *full[i + 1 :]] for weak in _weakened(spec)]
    variants.append([replace(UNKNOWN, dtype=s.dtype) for s in full])
    for number, specs in enumerate(variants):
        inferred = registry.call_infer(registry.get(name), specs, attrs)
        assert len(inferred) == len(outputs), name
        for spec, output in zip(inferred, outputs, strict=True):
            array = np.asarray(output)
            given = ", ".join(map(str, specs))
            where = f"{name}({given}) gives {spec}, the kernel {array.dtype}{list(array.shape)}"
            assert spec.dtype is not None, where
            assert spec.dtype.numpy() == array.dtype, where
            if spec.shape is not None:
                assert len(spec.shape) == array.ndim, where
                assert all(d is None or d == n for d, n in zip(spec.shape, array.shape, strict=True)), where
            elif number == 0 and exact:
                raise AssertionError(where)
            if number == 0 and exact:
                assert spec.is_static, where
            if spec.elements is not None:
                known = list(zip(spec.elements, array.ravel().tolist(), strict=True))
                assert all(e is None or e == v for e, v in known), f"{where}; elements {spec.elements}"
