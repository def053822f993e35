"""Constants whose bytes stay where they are until somebody asks for numbers."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from thinflow.errors import FormatError, ParameterError
from thinflow.ir.types import STRING, DType, dtype, shape_text

if TYPE_CHECKING:
    import numpy as np


class Storage(Protocol):
    """The place where a tensor's elements live."""

    @property
    def stored_bytes(self) -> int:
        """Bytes they occupy there; a splat stored as one value counts one value."""
        ...

    @property
    def is_splat(self) -> bool:
        """True if one value is stored for all elements."""
        ...

    def read(self, element: DType, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        """A read-only array of that type and shape, without a copy where possible."""
        ...


class RawStorage:
    """Little-endian elements in row-major order, in any buffer: a mapped file, bytes, an array."""

    __slots__ = ("buffer",)

    def __init__(self, buffer: memoryview | bytes) -> None:
        view = memoryview(buffer)
        # `cast` refuses views that have a zero in their shape.
        self.buffer = view.cast("B") if view.nbytes else memoryview(b"")

    @property
    def stored_bytes(self) -> int:
        return len(self.buffer)

    @property
    def is_splat(self) -> bool:
        return False

    def read(self, element: DType, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        import numpy as np

        expected = math.prod(shape) * element.itemsize
        # No itemsize: strings, resources and variants, of which a buffer does not say where one ends.
        if not element.itemsize or any(d < 0 for d in shape):
            raise FormatError(f"{element} elements cannot be read from raw bytes")
        if len(self.buffer) != expected:
            raise FormatError(
                f"a {element} tensor of shape {shape_text(shape)} takes {expected} bytes, "
                f"the file holds {len(self.buffer)}",
                hint="the file is damaged or was cut short; fetch it again",
            )
        array = np.frombuffer(self.buffer, dtype=element.numpy()).reshape(shape)
        array.flags.writeable = False
        return array


class ArrayStorage:
    """An array in memory. A broadcast scalar (all strides 0) counts as a splat."""

    __slots__ = ("array",)

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    @property
    def stored_bytes(self) -> int:
        # Of an array of objects numpy counts the pointers.
        if self.array.dtype.hasobject:
            return sum(len(s) for s in self.array.ravel())
        return self.array.itemsize if self.is_splat else self.array.nbytes

    @property
    def is_splat(self) -> bool:
        return not self.array.dtype.hasobject and _is_broadcast(self.array)

    def read(self, element: DType, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        return self.array


class Tensor:
    """An immutable constant: type, shape, and a storage that is decoded on demand.

    Shape, type and sizes never touch the storage. Unaligned views are possible; copy before handing memory to
    C code.
    """

    __slots__ = ("_array", "_fingerprint", "dtype", "shape", "storage")

    def __init__(self, element: DType, shape: tuple[int, ...], storage: Storage) -> None:
        self.dtype = element
        self.shape = shape
        self.storage = storage
        self._array: np.ndarray[Any, Any] | None = None
        self._fingerprint = b""

    @classmethod
    def from_array(cls, array: Any, element: DType | None = None) -> Tensor:
        """A tensor over an array, or over anything `numpy.asarray` takes.

        An array of the right type is shared, not copied: do not change it afterwards.

        Args:
            array: numbers, or bytes and str for strings.
            element: the element type, if not the array's own; numbers are converted to it.
        """
        import numpy as np

        if not isinstance(array, np.ndarray):
            holds_text = element is STRING or isinstance(array, (bytes, str))
            array = np.asarray(
                array, object if holds_text else None
            )  # numpy's own string types lose trailing zeros
        if array.dtype.kind in "SUO":
            array = _as_byte_strings(array)
        element = element or dtype(array.dtype)
        expected = element.numpy()
        if array.dtype != expected or not array.dtype.isnative:
            array = array.astype(expected)
        # A view, so that the flag below is not set on the caller's array.
        view = array.view()
        view.flags.writeable = False
        return cls(element, tuple(array.shape), ArrayStorage(view))

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """Bytes in memory once decoded; for strings, the bytes stored."""
        return self.size * self.dtype.itemsize if self.dtype.itemsize else self.storage.stored_bytes

    @property
    def is_splat(self) -> bool:
        """True if the elements are stored once and repeated."""
        return self.size > 1 and self.storage.is_splat

    def numpy(self) -> np.ndarray[Any, Any]:
        """The elements as a read-only array. Mapped weights are a view of the file; splats have stride 0."""
        if self._array is None:
            self._array = self.storage.read(self.dtype, self.shape)
        return self._array

    def fingerprint(self) -> bytes:
        """Equal exactly for tensors of equal type, shape and bits, however they are stored.

        Reads every element once.
        """
        if not self._fingerprint:
            # The same bits are another constant as int32, or with another shape.
            digest = hashlib.blake2b(f"{self.dtype}{self.shape}".encode(), digest_size=16)
            for chunk in _byte_chunks(self.numpy()):
                digest.update(chunk)
            self._fingerprint = digest.digest()
        return self._fingerprint

    def same_as(self, other: Tensor) -> bool:
        """True if type, shape and bits agree (so NaN equals the same NaN, and 0.0 differs from -0.0)."""
        if self is other:
            return True
        if self.dtype != other.dtype or self.shape != other.shape:
            return False
        return self.fingerprint() == other.fingerprint()

    def __str__(self) -> str:
        return f"{self.dtype}{shape_text(self.shape)}{{{self.preview()}}}"

    def __repr__(self) -> str:
        return f"Tensor({self.dtype}{shape_text(self.shape)})"

    def preview(self, count: int = 8) -> str:
        """The first elements as short text; a splat as `2.5 x 100`."""
        if not self.size:
            return ""
        shown = 1 if self.is_splat else count
        # `flat[:n]` copies n elements alone; `ravel` would expand a splat or a transposed view.
        items = [v.item() if hasattr(v, "item") else v for v in self.numpy().flat[:shown]]
        texts = [
            v.decode("utf-8", "backslashreplace") if isinstance(v, bytes) else _number_text(v) for v in items
        ]
        if self.is_splat:
            return f"{texts[0]} x {self.size}"
        return ",".join(texts) + (",..." if self.size > count else "")


_CHUNK = 1 << 18  # elements
_BLOCK_BYTES = 1 << 22
"""Of an array that is not in row-major order, copied at once: few calls, and little memory beside it."""


def _byte_chunks(array: np.ndarray[Any, Any]) -> Iterator[bytes | memoryview]:
    """The elements in row-major order, a bounded number of bytes at a time."""
    import numpy as np

    if array.dtype.hasobject:
        # With its length before each, so that ["ab", "c"] and ["a", "bc"] differ.
        for item in array.flat:
            yield len(item).to_bytes(8, "little")
            yield item
    elif array.flags.c_contiguous:
        # One axis first: numpy does not view a scalar as elements of another size.
        yield array.reshape(-1).view(np.uint8).data
    elif _is_broadcast(array):  # the same bytes as the expanded array would give, without expanding it
        block = np.full(min(array.size, _CHUNK), array.flat[0]).view(np.uint8).data
        whole, rest = divmod(array.nbytes, len(block))
        yield from (block for _ in range(whole))
        yield block[:rest]
    else:
        rows = _BLOCK_BYTES * len(array) // array.nbytes  # of a contiguous copy
        # A single row is larger than the block: go by its own rows.
        if not rows:
            for row in array:
                yield from _byte_chunks(row)
            return
        for start in range(0, len(array), rows):
            yield np.ascontiguousarray(array[start : start + rows]).reshape(-1).view(np.uint8).data


def _as_byte_strings(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    import numpy as np

    strings = np.empty(array.shape, object)
    flat = strings.reshape(-1)
    for i, item in enumerate(array.flat):
        if not isinstance(item, (bytes, str)):
            raise ParameterError(
                f"a string tensor cannot hold {type(item).__name__}", hint="give bytes or str"
            )
        flat[i] = item.encode() if isinstance(item, str) else bytes(item)
    return strings


def _number_text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _is_broadcast(array: np.ndarray[Any, Any]) -> bool:
    # The stride of an axis of size 1 is never used and may be anything.
    return array.size > 1 and not any(array.strides[i] for i in range(array.ndim) if array.shape[i] > 1)
