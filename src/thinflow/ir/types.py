"""Element types and tensor descriptions, without importing numpy.

Numbers, names and sizes: TensorFlow's `types.proto`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from thinflow.errors import ParameterError, closest

if TYPE_CHECKING:
    import numpy as np

Shape = tuple[int | None, ...] | None
"""Sizes per dimension, None for an unknown size; None alone for an unknown rank."""

SIZE_NAMES = "_size_names"
"""Attribute of an input with what its file calls the sizes that it leaves open, "" for one without a name."""

REFERENCE_OFFSET = 100  # DT_FLOAT_REF = DT_FLOAT + 100, and so on


@dataclass(frozen=True)
class DType:
    """An element type. Compare with `is` or `==`; obtain with `dtype("float")` or the constants below.

    Attributes:
        number: the value of TensorFlow's `DataType` enum.
        name: TensorFlow's short name, as its flags and logs print it ("float", "int32", "quint8").
        numpy_name: the numpy (or ml_dtypes) type that holds one element; "" if there is none.
        itemsize: bytes per element; 0 when the size varies or is unknown.
        kind: one of "f" float, "i" signed, "u" unsigned, "c" complex, "b" bool, "q" quantized, "O" other.
    """

    number: int
    name: str
    numpy_name: str
    itemsize: int
    kind: str

    def __reduce__(self) -> tuple[Any, ...]:
        # Types are compared with `is`: on the other side it is that side's own.
        return dtype, (self.number,)

    def numpy(self) -> np.dtype[Any]:
        """The numpy dtype of one element (object for strings, which are `bytes`)."""
        import numpy as np

        if not self.numpy_name:
            raise ParameterError(f"numpy has no type for {self.name}")
        try:
            plain: np.dtype[Any] = np.dtype(self.numpy_name)
        except TypeError:
            # numpy knows the names of ml_dtypes only once somebody has imported it.
            import ml_dtypes

            plain = np.dtype(getattr(ml_dtypes, self.numpy_name))
        return plain

    @property
    def is_floating(self) -> bool:
        return self.kind == "f"

    @property
    def is_integer(self) -> bool:
        return self.kind in "iu"

    @property
    def is_quantized(self) -> bool:
        return self.kind == "q"

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"dtype({self.name!r})"


_TABLE = [
    DType(1, "float", "float32", 4, "f"),
    DType(2, "double", "float64", 8, "f"),
    DType(3, "int32", "int32", 4, "i"),
    DType(4, "uint8", "uint8", 1, "u"),
    DType(5, "int16", "int16", 2, "i"),
    DType(6, "int8", "int8", 1, "i"),
    DType(7, "string", "O", 0, "O"),
    DType(8, "complex64", "complex64", 8, "c"),
    DType(9, "int64", "int64", 8, "i"),
    DType(10, "bool", "bool", 1, "b"),
    DType(11, "qint8", "int8", 1, "q"),
    DType(12, "quint8", "uint8", 1, "q"),
    DType(13, "qint32", "int32", 4, "q"),
    DType(14, "bfloat16", "bfloat16", 2, "f"),
    DType(15, "qint16", "int16", 2, "q"),
    DType(16, "quint16", "uint16", 2, "q"),
    DType(17, "uint16", "uint16", 2, "u"),
    DType(18, "complex128", "complex128", 16, "c"),
    DType(19, "half", "float16", 2, "f"),
    DType(20, "resource", "", 0, "O"),
    DType(21, "variant", "", 0, "O"),
    DType(22, "uint32", "uint32", 4, "u"),
    DType(23, "uint64", "uint64", 8, "u"),
    DType(24, "float8_e5m2", "float8_e5m2", 1, "f"),
    DType(25, "float8_e4m3fn", "float8_e4m3fn", 1, "f"),
    DType(26, "float8_e4m3fnuz", "float8_e4m3fnuz", 1, "f"),
    DType(27, "float8_e4m3b11fnuz", "float8_e4m3b11fnuz", 1, "f"),
    DType(28, "float8_e5m2fnuz", "float8_e5m2fnuz", 1, "f"),
    # Elements of less than a byte take a byte each in numpy; only files pack them.
    DType(29, "int4", "int4", 1, "i"),
    DType(30, "uint4", "uint4", 1, "u"),
    DType(31, "int2", "int2", 1, "i"),
    DType(32, "uint2", "uint2", 1, "u"),
    DType(33, "float4_e2m1fn", "float4_e2m1fn", 1, "f"),
]

_BY_NUMBER = {d.number: d for d in _TABLE}
_BY_NAME = {d.name: d for d in _TABLE}
# numpy's "int8" means DT_INT8, not DT_QINT8.
_BY_NUMPY = {d.numpy_name: d for d in _TABLE if d.numpy_name and not d.is_quantized}
# Names of numpy and Python for what TensorFlow calls otherwise.
_ALIASES = {"float32": "float", "float64": "double", "float16": "half", "str": "string", "object": "string"}

FLOAT = _BY_NAME["float"]
DOUBLE = _BY_NAME["double"]
HALF = _BY_NAME["half"]
BFLOAT16 = _BY_NAME["bfloat16"]
INT8 = _BY_NAME["int8"]
UINT8 = _BY_NAME["uint8"]
INT32 = _BY_NAME["int32"]
INT64 = _BY_NAME["int64"]
BOOL = _BY_NAME["bool"]
STRING = _BY_NAME["string"]
RESOURCE = _BY_NAME["resource"]
VARIANT = _BY_NAME["variant"]
QUINT8 = _BY_NAME["quint8"]
QINT8 = _BY_NAME["qint8"]
QINT32 = _BY_NAME["qint32"]
QINT16 = _BY_NAME["qint16"]
QUINT16 = _BY_NAME["quint16"]


def dtype(what: object) -> DType:
    """The DType for a DType, a `DataType` number, a TensorFlow or numpy name, or a numpy dtype or type.

    A reference type (number + 100, or a name ending in `_ref`) maps to its base type. An unknown number gives
    a DType that carries the number, so that newer files survive.

    Raises:
        ParameterError: no such type name.
    """
    if isinstance(what, DType):
        return what
    # True and False are ints in Python. 100 itself is no reference: 0 is no type (DT_INVALID).
    if isinstance(what, int) and not isinstance(what, bool):
        base = what - REFERENCE_OFFSET if REFERENCE_OFFSET < what < 2 * REFERENCE_OFFSET else what
        return _BY_NUMBER.get(base) or DType(base, f"type{base}", "", 0, "O")
    if isinstance(what, str):
        name = what.removesuffix("_ref")
        element = _BY_NAME.get(_ALIASES.get(name, name))
        if element is None:
            raise ParameterError(f"'{what}' is not a TensorFlow type name", hint=closest(what, _BY_NAME))
        return element
    import numpy as np

    as_numpy = np.dtype(what)  # type: ignore[call-overload]
    # Strings of a fixed width, too: TensorFlow has one type of string.
    if as_numpy.kind in "OSU":
        return STRING
    element = _BY_NUMPY.get(as_numpy.name)
    if element is None:
        raise ParameterError(f"TensorFlow has no type for numpy's {as_numpy.name}")
    return element


def all_dtypes() -> Iterator[DType]:
    """Every named element type, in the order of TensorFlow's enum."""
    return iter(_TABLE)


def shape_text(shape: Shape) -> str:
    """`[1,?,3]`, or `?` for an unknown rank."""
    if shape is None:
        return "?"
    return "[" + ",".join("?" if d is None else str(d) for d in shape) + "]"


@dataclass(frozen=True)
class ListSpec:
    """The known facts of a TensorList.

    Attributes:
        count: number of items; None if unknown.
        shape: of every item that was set; of no meaning as long as none was.
        is_set: whether one was.
    """

    count: int | None = None
    shape: Shape = None
    is_set: bool = False

    def with_item(self, shape: Shape) -> ListSpec:
        """The list once an item of that shape was set."""
        # An unset list has no shape that could disagree: the first item decides.
        return ListSpec(self.count, common_shape(self.shape, shape) if self.is_set else shape, True)

    def joined(self, other: ListSpec) -> ListSpec:
        """The common part of both. One that was not set yet has no say in the shape of items."""
        count = self.count if self.count == other.count else None
        if self.is_set and other.is_set:
            return ListSpec(count, common_shape(self.shape, other.shape), True)
        known = self if self.is_set else other
        return ListSpec(count, known.shape, known.is_set)


def common_shape(a: Shape, b: Shape) -> Shape:
    """The common part of two shapes: sizes in which they differ are open, and so is a rank that differs."""
    if a is None or b is None or len(a) != len(b):
        return None
    return tuple(x if x == y else None for x, y in zip(a, b, strict=True))


@dataclass(frozen=True)
class TensorSpec:
    """Static type, shape and small contents of a tensor, as far as they are known before it exists.

    Attributes:
        dtype: element type; None if unknown.
        shape: see `Shape`.
        elements: row-major integer elements of a *small* integer or bool tensor as far as they are known,
            None inside for an unknown one: `Shape(x)` of an x of shape [?, 3] has elements (None, 3). A
            scalar has one element. None when nothing is known. This is how shapes that a model computes stay
            static, per dimension.
        items: of a TensorList: what is known of what it holds.
    """

    dtype: DType | None = None
    shape: Shape = None
    elements: tuple[int | None, ...] | None = None
    items: ListSpec | None = None

    @property
    def rank(self) -> int | None:
        return None if self.shape is None else len(self.shape)

    @property
    def size(self) -> int | None:
        """Number of elements; None unless every dimension is known."""
        if self.shape is None or None in self.shape:
            return None
        return math.prod(cast(tuple[int, ...], self.shape))

    @property
    def size_bytes(self) -> int | None:
        """Bytes in memory; None when unknown (strings included)."""
        if self.size is None or self.dtype is None or not self.dtype.itemsize:
            return None
        return self.size * self.dtype.itemsize

    @property
    def is_static(self) -> bool:
        """True if every dimension is known."""
        return self.size is not None

    @property
    def ints(self) -> tuple[int, ...] | None:
        """All elements, when every one is known."""
        if self.elements is None or any(e is None for e in self.elements):
            return None
        # The second walk is for the type checker: nothing is left out by it.
        return tuple(e for e in self.elements if e is not None)

    def with_shape(self, shape: Sequence[int | None] | None) -> TensorSpec:
        """The same element type with another shape and no known elements."""
        return replace(self, shape=None if shape is None else tuple(shape), elements=None)

    def __str__(self) -> str:
        return f"{self.dtype or '?'}{shape_text(self.shape)}"


UNKNOWN = TensorSpec()
"""Nothing is known."""
