"""Ops that are defined by simpler ones: functions of the model itself, and those of ONNX's standard.

The standard's definitions come from the package onnx, which is asked only for an op without a rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from thinflow.errors import UnsupportedOp
from thinflow.formats.onnx import function_from_bytes
from thinflow.ir.attrs import Attr
from thinflow.ir.function import Function
from thinflow.ir.graph import Value
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import DType
from thinflow.ir.vocabulary import ONNX
from thinflow.lift.inline import inlined, specialized
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.values import opset, text
from thinflow.lift.rules import lifts, lifts_defined
from thinflow.onnx import protos

_OURS = frozenset({"absent_inputs", "captures"})
_DOMAINS = ("ai.onnx.preview.training", "ai.onnx.preview", "ai.onnx.ml")
"""Of the standard's ops beside those of "", the longer names first."""


@lifts_defined(ONNX.prefix)
def defined(c: Call) -> list[Value]:
    """An op by its definition: the model's own, else the standard's.

    Raises:
        UnsupportedOp: it has none, or something in it has no counterpart.
    """
    options = {k: v for k, v in c.node.attrs.items() if k not in _OURS and not k.startswith("_")}
    if c.lifter.defines(c.node.op):
        function = c.body_named(c.node.op)
        c.read_options.update(c.node.attrs)
        defaults: Mapping[str, Attr] = function.defaults
    else:
        function, defaults, known = _standard(c, options)
        c.read_options |= known
    c.read_operands.update(range(len(c.xs)))
    return inlined(c, specialized(function, {**defaults, **options}), _operands(c, function))


def _operands(c: Call, function: Function) -> list[Value | None]:
    """The operands by position, those left out at the end included."""
    if len(c.xs) > len(function.inputs):
        raise UnsupportedOp(f"its definition takes {len(function.inputs)} operands, it has {len(c.xs)}")
    return [*c.xs, *[None] * (len(function.inputs) - len(c.xs))]


def _standard(c: Call, options: Mapping[str, Attr]) -> tuple[Function, Mapping[str, Attr], set[str]]:
    """The definition of an op by ONNX's standard, its options where it does not say, and their names."""
    op = c.node.op.removeprefix(ONNX.prefix)
    domain = next((d for d in _DOMAINS if op.startswith(f"{d}.")), "")
    name = op.removeprefix(f"{domain}.") if domain else op
    missing = UnsupportedOp(f"{c.node.op} has no counterpart among TensorFlow's ops here")
    if name.rpartition(".")[2] == "ATen":
        # What PyTorch's exporter left as it was, for Caffe2 to run.
        raise UnsupportedOp(
            f"it is PyTorch's own op '{text(c, 'operator', '')[:80]}'",
            hint="export the model with a newer PyTorch, whose ONNX has more ops",
        )
    # Names of other domains have dots: they are nobody's standard.
    if "." in name:
        raise missing
    try:
        from onnx import defs
    except ImportError as error:
        raise UnsupportedOp(
            f"{c.node.op} may be defined by simpler ops, which the package onnx knows; it is missing",
            hint="pip install 'thinflow[onnx]'",
        ) from error
    version = min(opset(c), defs.onnx_opset_version()) if not domain else 1_000
    try:
        schema = defs.get_schema(name, version, domain)
    except defs.SchemaError:
        raise missing from None
    data = _static(schema, version) or _for_call(c, schema, version, options)
    if not data:
        raise missing
    defaults = {
        key: _value_of(a.default_value) for key, a in schema.attributes.items() if a.default_value.type
    }
    usual = {k: v for k, v in defaults.items() if v is not None}
    return _parsed(data, max(len(c.node.outputs), 1)), usual, set(schema.attributes)


@cache
def _parsed(data: bytes, most_outputs: int) -> Function:
    return function_from_bytes(data, most_outputs)


def _fitting(versions: list[int], version: int) -> int:
    """The version of a definition that a model of some version has: the newest that is not newer."""
    return max((v for v in versions if v <= version), default=min(versions))


def _static(schema: Any, version: int) -> bytes:
    """A definition that does not depend on the call; b"" if there is none."""
    versions = list(schema.function_opset_versions)
    data = schema.get_function_with_opset_version(_fitting(versions, version)) if versions else b""
    return bytes(data)


def _for_call(c: Call, schema: Any, version: int, options: Mapping[str, Attr]) -> bytes:
    """A definition for the types, options and operands of a call; b"" if there is none."""
    versions = list(schema.context_dependent_function_opset_versions)
    if not versions:
        return b""
    node = protos.message("NodeProto")(op_type=schema.name, domain=schema.domain)
    node.input.extend("" if x is None else f"x{n}" for n, x in enumerate(c.xs))
    node.output.extend(f"y{n}" for n in range(max(len(c.node.outputs), 1)))
    for key, value in options.items():
        _add_option(node, key, value)
    types = [_type_of(x) for x in c.xs]
    data: bytes = schema.get_context_dependent_function_with_opset_version(
        _fitting(versions, version), node.SerializeToString(), types
    )
    return bytes(data)


def _type_of(x: Value | None) -> bytes:
    """The TypeProto of an operand."""
    kind = protos.message("TypeProto")()
    if x is None:
        return b""
    if x.dtype is None:
        raise UnsupportedOp("the type of an operand is not known, on which its definition depends")
    kind.tensor_type.elem_type = _number_of(x.dtype)
    if x.spec.shape is not None:
        kind.tensor_type.shape.SetInParent()
        for size in x.spec.shape:
            dimension = kind.tensor_type.shape.dim.add()
            if size is not None:
                dimension.dim_value = size
    return bytes(kind.SerializeToString())


def _number_of(kind: DType) -> int:
    number = next((n for n, name in protos.READABLE_TYPES.items() if name == kind.name), None)
    if number is None:
        raise UnsupportedOp(f"ONNX has no type {kind}")
    return number


def _add_option(node: Any, key: str, value: Attr) -> None:
    """An option of a call as ONNX writes it."""
    items = value if isinstance(value, tuple) else (value,)
    kinds = {int: "i", float: "f", bytes: "s", bool: "i"}
    field = next((f for t, f in kinds.items() if all(type(v) is t for v in items)), None)
    if field is None:
        raise UnsupportedOp(f"its option '{key}' has no place in its definition")
    many = {"i": "ints", "f": "floats", "s": "strings"}[field]
    attribute = node.attribute.add(name=key)
    if isinstance(value, tuple):
        attribute.type = protos.ATTRIBUTE_TYPES[many]
        getattr(attribute, many).extend(value)
    else:
        attribute.type = protos.ATTRIBUTE_TYPES[field]
        setattr(attribute, field, value)


def _value_of(default: Any) -> Attr | None:
    """The value of an attribute of the package onnx; None for a kind that no definition has."""
    names = {number: name for name, number in protos.ATTRIBUTE_TYPES.items()}
    name = names.get(int(default.type), "")
    if name in ("", "t", "g"):
        return None
    value = getattr(default, name)
    return value if name in ("f", "i", "s") else tuple(value)


@lifts("onnx.Constant")
def _constant(c: Call) -> Value:
    """A constant whose elements are an option of the function that it is in."""
    import numpy as np

    for option, kind in (
        ("value_float", "f4"),
        ("value_floats", "f4"),
        ("value_int", "i8"),
        ("value_ints", "i8"),
    ):
        given = c.get(option)
        if given is not None:
            return c.constant(np.array(given, kind))
    for option in ("value_string", "value_strings"):
        given = c.get(option)
        if given is not None:
            return c.constant(np.array(given, object))
    tensor = c.get("value")
    if not isinstance(tensor, Tensor):
        raise UnsupportedOp("it holds something else than a tensor")
    return c.constant(tensor.numpy())


# --- what no definition makes exact -------------------------------------------------------------------------


@lifts(
    "onnx.Bernoulli",
    "onnx.Multinomial",
    "onnx.RandomNormal",
    "onnx.RandomNormalLike",
    "onnx.RandomUniform",
    "onnx.RandomUniformLike",
)
def _random(c: Call) -> Value:
    raise UnsupportedOp(
        "it draws random numbers, of which each runtime has its own",
        hint="export the model for inference, or cut the op off by --inputs and --outputs",
    )


@lifts("onnx.ai.onnx.ml.ZipMap", "onnx.ai.onnx.ml.CastMap", "onnx.ai.onnx.ml.DictVectorizer")
def _dictionary(c: Call) -> Value:
    raise UnsupportedOp(
        "it takes or gives dictionaries, which TensorFlow does not have",
        hint="export with zipmap=False, or cut it off by --outputs: what it reads are the probabilities",
    )
