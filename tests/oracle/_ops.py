"""Ops computed in TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import op_def_library, op_def_registry

from tests.ops._agreement import Array
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.types import DType

_ROWS = "TensorFlow leaves rows past seq_len_max as memory happened to be"
_CODER = "compressed bytes depend on the encoder; test_decode.py decodes them again"
_UNWRITTEN = "without vectors TensorFlow returns memory as it happened to be"
_ONEDNN = "the kernel in this build takes only what its graph optimiser makes"
_LISTS = "it takes lists of several lengths: test_structural_ops.py has it"
SKIPPED = {
    "BatchSelfAdjointEigV2": _UNWRITTEN,
    "BlockLSTM": _ROWS,
    "BlockLSTMV2": _ROWS,
    "Const": "test_formats.py compares constants",
    "DebugIdentity": "it asks for a debugger to report to",
    "DebugNanCount": "it asks for a debugger to report to",
    "DecodeAndCropJpeg": "TensorFlow does not look beyond the crop when it interpolates colours",
    "Eig": "eigenvalues come in any order",
    "EncodeJpeg": _CODER,
    "EncodeJpegVariableQuality": _CODER,
    "EncodePng": _CODER,
    "FakeParam": "nobody reads what it gives",
    "HostConst": "its value is an attribute",
    "ParseExample": _LISTS,
    "ParseSingleSequenceExample": _LISTS,
    "SparseConcat": _LISTS,
    "SparseCross": _LISTS,
    "Timestamp": "it tells the time",
    "TensorSummary": "it holds the name of its node",
    "EnsureShape": "TensorFlow's shape rule refuses an unknown rank",
    "QuantizedConv2D": _ONEDNN,
    "QuantizedDepthwiseConv2D": _ONEDNN,
    "RefIdentity": "it takes a variable",
    "RefSelect": "it takes variables",
    "RequantizationRangePerChannel": _ONEDNN,
    "RequantizePerChannel": _ONEDNN,
    "SelfAdjointEigV2": _UNWRITTEN,
    "Svd": _UNWRITTEN,
}
"""Op -> why it may differ."""
CASES_SKIPPED: dict[str, Callable[[list[Array]], bool]] = {
    # TensorFlow adds in bfloat16 itself, as many side by side as registers of the processor hold.
    "DepthwiseConv2dNativeBackpropFilter": lambda x: str(x[0].dtype) == "bfloat16",
    "Round": lambda x: x[0].dtype.kind == "i",  # TensorFlow gives zeros and other leftovers
    "ShapeN": lambda x: len({a.dtype for a in x}) > 1,  # we take inputs of several types
    # TensorFlow gives NaN in the whole row, not the limit.
    "Softmax": lambda x: not np.isfinite(x[0].astype(np.float64)).all(),
}
"""Op -> which inputs it may differ on."""
_SMALLER = {"float16": 1, "bfloat16": 1}
"""Type -> what the tolerance near zero is divided by: sums in 16 bits are rounded in any order."""
COMPARED_OUTPUTS = {
    # The others are statistics for training; with is_training=false they may hold anything.
    **dict.fromkeys(("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"), 1),
    # The last two are unused: oneDNN makes scalars of them, TensorFlow's own kernel, which takes half
    # precision on processors without AVX-512, empty lists.
    **dict.fromkeys(("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3"), 3),
}
"""Op -> how many of its outputs are compared, the first ones, where that is not all."""
TOLERANCES = {
    "float64": 1e-7,
    "float32": 2e-5,
    "float16": 6e-3,
    "bfloat16": 3e-2,
    "complex64": 2e-5,
    "complex128": 1e-7,
}


def in_tensorflow(name: str, arrays: list[Array], attrs: dict[str, Any], made: Any) -> list[Array] | None:
    """What TensorFlow's kernel gives; None if it has none for these types on this machine.

    Args:
        made: the type of our first output, for a type that neither the case nor TensorFlow says.
    """
    options = tf.compat.v1.ConfigProto()
    options.graph_options.rewrite_options.disable_meta_optimizer = True
    with tf.Graph().as_default() as graph, tf.compat.v1.Session(graph=graph, config=options) as session:
        try:
            arguments = _arguments(op_def_registry.get(name), arrays, attrs, made)
            _, _, node, _ = op_def_library._apply_op_helper(name, name="op", **arguments)
        except (_NoSuchType, NotImplementedError):  # the latter: an op that newer graphs may not have
            return None
        outputs = [tf.bitcast(t, _PLAIN[t.dtype]) if t.dtype in _PLAIN else t for t in node.outputs]
        try:
            # numpy would cut zeros off the end of bare bytes.
            found = session.run(outputs)
            return [np.array(x, object) if isinstance(x, bytes) else np.asarray(x) for x in found]
        except (tf.errors.UnimplementedError, tf.errors.NotFoundError):
            return None
        except tf.errors.InvalidArgumentError as error:
            if "No OpKernel was registered" in str(error):
                return None
            raise


_PLAIN = {
    tf.quint8: tf.uint8,
    tf.qint8: tf.int8,
    tf.qint32: tf.int32,
    tf.quint16: tf.uint16,
    tf.qint16: tf.int16,
}


class _NoSuchType(Exception):
    """TensorFlow's op does not take arrays of this type."""


def _arguments(definition: Any, arrays: list[Array], attrs: dict[str, Any], made: Any) -> dict[str, Any]:
    """Keyword arguments for tf.raw_ops: lists where an input takes several tensors."""
    variadic = [bool(a.number_attr or a.type_list_attr) for a in definition.input_arg]
    each = (len(arrays) - variadic.count(False)) // max(1, variadic.count(True))
    rest = list(arrays)
    arguments: dict[str, Any] = {}
    types = {a.name: a for a in definition.attr}
    for argument, is_list in zip(definition.input_arg, variadic, strict=True):
        taken = [rest.pop(0) for _ in range(each if is_list else 1)]
        tensors = [_tensor(x, argument, types, attrs) for x in taken]
        arguments[argument.name] = tensors if is_list else tensors[0]
    inferred = {a.type_attr for a in definition.input_arg} | {a.number_attr for a in definition.input_arg}
    inferred |= {a.type_list_attr for a in definition.input_arg}
    known = {a.name for a in definition.attr} - inferred
    given = {key: _attr(value) for key, value in attrs.items() if key in known}
    missing = [a for a in definition.attr if a.name in known and a.name not in given]
    return arguments | {a.name: _default(a, made) for a in missing} | given


def _tensor(array: Array, argument: Any, types: dict[str, Any], attrs: dict[str, Any]) -> Any:
    """A tensor; of a quantized type where the op takes no other."""
    if array.dtype == object:
        return tf.constant(array.tolist(), tf.string, shape=array.shape)
    tensor = tf.constant(array)
    named = attrs.get(argument.type_attr)
    wanted = tf.as_dtype(argument.type) if argument.type else None
    if isinstance(named, DType):
        wanted = _attr(named)
    if wanted is None and argument.type_attr:
        allowed = [tf.as_dtype(t) for t in types[argument.type_attr].allowed_values.list.type]
        if allowed and tensor.dtype not in allowed:
            wanted = next((t for t in allowed if _PLAIN.get(t) == tensor.dtype), None)
            if wanted is None:
                raise _NoSuchType
    return tf.bitcast(tensor, wanted) if wanted in _PLAIN else tensor


def _attr(value: Any) -> Any:
    if isinstance(value, DType):
        return tf.as_dtype(value.number)
    if isinstance(value, ShapeAttr):
        return tf.TensorShape(value.dims)
    if isinstance(value, tuple):
        return [_attr(v) for v in value]
    return value


def _default(attr: Any, made: Any) -> Any:
    value = attr.default_value
    match attr.type:
        case "type" if not attr.HasField("default_value"):
            allowed = [tf.as_dtype(t) for t in attr.allowed_values.list.type]
            plain = tf.as_dtype(made)
            return next((t for t in allowed if _PLAIN.get(t) == plain), plain)
        case "type":
            return tf.as_dtype(value.type)
        case "int" | "float" | "bool" | "string":
            return getattr(value, attr.type[0])
        case "shape":
            return value.shape
        case "list(int)" | "list(float)" | "list(bool)" | "list(string)":
            return list(getattr(value.list, attr.type[5]))
        case "list(shape)":
            return list(value.list.shape)
        case _:
            return [tf.as_dtype(t) for t in value.list.type]


def check(
    mine: tuple[Any, ...], theirs: list[Array], name: str, arrays: list[Array], attrs: dict[str, Any]
) -> None:
    where = f"{name}({', '.join(f'{x.dtype}{list(x.shape)}' for x in arrays)}, {attrs})"
    assert len(mine) == len(theirs), where
    for ours, expected in zip(mine, theirs, strict=True):
        found = np.asarray(ours)
        assert found.shape == expected.shape, where
        if found.dtype == object:
            assert found.ravel().tolist() == expected.ravel().tolist(), where
            continue
        assert found.dtype == expected.dtype, where
        if str(found.dtype) not in TOLERANCES:
            np.testing.assert_array_equal(found, expected, where)
            continue
        wide = np.complex128 if found.dtype.kind == "c" else np.float64
        a, b = expected.astype(wide), found.astype(wide)
        tolerance = TOLERANCES[str(found.dtype)]
        largest = float(np.nanmax(np.abs(np.where(np.isfinite(a), a, 0)), initial=0))
        near_zero = tolerance * min(largest, 1.0) / _SMALLER.get(str(found.dtype), 10)
        if "Conv" in name and str(found.dtype) in _SMALLER:
            # On processors without instructions for it TensorFlow adds the products in half precision, or in
            # bfloat16: a small sum of large products is as far off as those are.
            near_zero = max(near_zero, tolerance * largest / 10)
        np.testing.assert_allclose(b, a, rtol=tolerance, atol=near_zero, err_msg=where)
