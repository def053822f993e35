"""Strings and lookup tables.

TensorFlow's strings are bytes and ONNX's are text, so only what treats both alike has a form here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import BOOL, FLOAT, INT32, INT64, STRING, DType, dtype
from thinflow.lower.onnx.builder import Builder, require, shape_of
from thinflow.lower.operands import known_content
from thinflow.lower.rules import lower
from thinflow.onnx.program import Tensor
from thinflow.onnx.protos import ELEMENT_TYPES
from thinflow.program.model import Dims

TEXT_OPS = frozenset(
    """AsString Concat ConcatV2 ExpandDims Gather GatherV2 Identity IdentityN LookupTableFind
    LookupTableFindV2 Pack ReduceJoin RegexFullMatch Reshape Shape Slice Snapshot Squeeze
    StaticRegexFullMatch StopGradient StridedSlice StringJoin StringToNumber Transpose
    Unpack""".split()  # noqa: SIM905
)
"""Ops that have a form where strings are among their operands or results."""


def _text(b: Builder, text: str, suffix: str) -> Tensor:
    return b.const(np.array(text.encode(), object), suffix, STRING)


def _plain(pattern: bytes | str) -> str:
    return pattern if isinstance(pattern, str) else pattern.decode()


@lower("StringJoin", to="onnx")
def string_join(b: Builder, node: Node, *xs: Tensor, separator: str = "") -> Tensor:
    """One behind the other, with something between."""
    require(len(xs) > 0, "there is nothing to join")
    y = xs[0]
    for x in xs[1:]:
        if separator:
            y = b.step("StringConcat", y, _text(b, _plain(separator), "separator"))
        y = b.step("StringConcat", y, x)
    return b.result(y) if len(xs) > 1 else y


@lower("ReduceJoin", to="onnx")
def reduce_join(
    b: Builder, node: Node, x: Tensor, axes: Tensor, *, keep_dims: bool = False, separator: str = ""
) -> Tensor:
    """Along one axis after the other, so that the first one listed varies fastest."""
    gone = b.axes(axes, len(shape_of(x, "x")))
    for axis in gone:
        x = _joined(b, x, axis, _plain(separator))
    return b.result(x if keep_dims else b.squeezed(x, gone))


def _joined(b: Builder, x: Tensor, axis: int, separator: str) -> Tensor:
    """The strings along an axis joined; the axis stays, with one place."""
    count = shape_of(x)[axis]
    require(bool(count) and (count or 0) <= 1 << 12, f"{count} strings cannot be joined")
    shape: Dims = tuple(1 if a == axis else n for a, n in enumerate(shape_of(x)))
    parts = [x]
    if count != 1:
        pieces = b.ints([1] * (count or 0), "pieces")
        parts = list(
            b.step_ports(
                "Split", x, pieces, shapes=[shape] * (count or 0), elements=[None] * (count or 0), axis=axis
            )
        )
    y = parts[0]
    for part in parts[1:]:
        if separator:
            y = b.step("StringConcat", y, _text(b, separator, "separator"))
        y = b.step("StringConcat", y, part)
    return y


@lower("AsString", to="onnx")
def as_string(b: Builder, node: Node, x: Tensor, *, width: int = -1, fill: str = "") -> Tensor:
    """Of whole numbers and truth values; how reals are written differs between the two."""
    # ONNX's Cast has no format.
    require(width < 0 and not fill, "padded numbers have no ONNX form")
    if x.dtype is BOOL:
        return b.emit("Where", x, _text(b, "true", "true"), _text(b, "false", "false"))
    require(x.dtype.is_integer, f"{x.dtype} is written otherwise in ONNX")
    return b.emit("Cast", x, to=ELEMENT_TYPES["string"])


@lower("StringToNumber", to="onnx")
def string_to_number(b: Builder, node: Node, x: Tensor, *, out_type: DType | None = None) -> Tensor:
    wanted = out_type or dtype("float")
    require(wanted.name in ("float", "double", "int32", "int64"), f"a text cannot become {wanted}")
    return b.emit("Cast", x, to=ELEMENT_TYPES[wanted.name])


@lower("RegexFullMatch", to="onnx")
def regex_full_match(b: Builder, node: Node, x: Tensor, pattern: Tensor) -> Tensor:
    require(pattern.is_constant and pattern.array().size == 1, "the pattern is computed while the model runs")
    # Both sides match by RE2's syntax, so the pattern goes over as it is.
    return b.emit("RegexFullMatch", x, pattern=_plain(pattern.array().reshape(-1)[0]))


@lower("StaticRegexFullMatch", to="onnx")
def static_regex_full_match(b: Builder, node: Node, x: Tensor, *, pattern: str) -> Tensor:
    return b.emit("RegexFullMatch", x, pattern=_plain(pattern))


# ---- Lookup tables that never change, as LabelEncoder of ONNX's ops for machine learning.


ENCODER = "ai.onnx.ml.LabelEncoder"
_WORDS = {STRING: "strings", INT64: "int64s", FLOAT: "floats"}
_DEFAULTS = {STRING: "default_string", INT64: "default_int64", FLOAT: "default_float"}


@lower("LookupTableFindV2", "LookupTableFind", to="onnx")
def lookup(b: Builder, node: Node, table: Tensor, keys: Tensor, default: Tensor) -> Tensor:
    """The value of each key; a default for those that are not there."""
    content = known_content(node)
    require(default.is_constant and default.shape == (), "the default is computed, or is one for each key")
    require(bool(content.items), "the table is empty")
    # Its keys and values are attributes: lists of texts, int64 or float.
    key = INT64 if content.key is INT32 else content.key
    value = INT64 if content.value is INT32 else content.value
    require(key in (STRING, INT64), f"keys of {content.key} have no ONNX form")
    require(value in _WORDS, f"values of {content.value} have no ONNX form")
    options = {
        f"keys_{_WORDS[key]}": _attribute_values(list(content.items), key),
        f"values_{_WORDS[value]}": _attribute_values(list(content.items.values()), value),
        _DEFAULTS[value]: _attribute_values([default.array().reshape(-1)[0]], value)[0],
    }
    found = b.step(ENCODER, b.cast(keys, key), shape=keys.shape, element=value, **options)
    return b.result(b.cast(found, content.value))


@lower("LookupTableSizeV2", "LookupTableSize", to="onnx")
def size(b: Builder, node: Node, table: Tensor) -> Tensor:
    """The number of keys."""
    return b.int64(len(known_content(node).items), "count")


def _attribute_values(values: Sequence[Any], element: DType) -> list[Any]:
    """Values as attributes hold them.

    Raises:
        UnsupportedOp: a text is no UTF-8, which ONNX's texts are.
    """
    if element is not STRING:
        kind = int if element is INT64 else float
        return [kind(np.asarray(v)) for v in values]
    try:
        return [v if isinstance(v, str) else bytes(v).decode() for v in values]
    except UnicodeDecodeError:
        require(False, "a text of the table is not UTF-8, which ONNX's texts are")
        raise
