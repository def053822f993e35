"""Constants whose bytes stay where they are until somebody asks for numbers."""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING, Any, Protocol

from thinflow.errors import FormatError
from thinflow.ir.types import STRING, DType, dtype, shape_text

if TYPE_CHECKING:
    import numpy as np


class Storage(Protocol):
    """Where a tensor's elements live."""

    @property
    def stored_bytes(self) -> int:
        """Bytes they occupy there; a splat stored as one value counts one value."""
        ...

    def read(self, element: DType, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        """A read-only array of that type and shape, without a copy where possible."""
        ...


class RawStorage:
    """Little-endian elements in row-major order, in any buffer: a mapped file, bytes, an array."""

    __slots__ = ("buffer",)

    def __init__(self, buffer: memoryview | bytes) -> None:
        self.buffer = memoryview(buffer).cast("B")

    @property
    def stored_bytes(self) -> int:
        return len(self.buffer)

    def read(self, element: DType, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        import numpy as np

        expected = math.prod(shape) * element.itemsize
        if not element.itemsize:
            raise FormatError(f"{element} elements cannot be read from raw bytes")
        if len(self.buffer) != expected:
            raise FormatError(
                f"a {element} tensor of shape {shape_text(shape)} takes {expected} bytes, the file holds {len(self.buffer)}",
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
        if self.array.dtype.hasobject:
            return sum(len(s) for s in self.array.ravel())
        return self.array.itemsize if _is_broadcast(self.array) else self.array.nbytes

    def read(self, element: DType, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        return self.array


class Tensor:
    """An immutable constant: type, shape, and a storage that is decoded on demand.

    Shape, type and sizes never touch the storage. Unaligned views are possible; copy before handing memory to C code.
    """

    __slots__ = ("_array", "dtype", "shape", "storage")

    def __init__(self, element: DType, shape: tuple[int, ...], storage: Storage) -> None:
        self.dtype = element
        self.shape = shape
        self.storage = storage
        self._array: np.ndarray[Any, Any] | None = None

    @classmethod
    def from_array(cls, array: Any, element: DType | None = None) -> Tensor:
        """A tensor over an array (or anything `numpy.asarray` takes); the array is shared, not copied.

        Args:
            array: numbers, or bytes / object arrays of bytes for strings.
            element: the TensorFlow type when numpy's is ambiguous (quint8 is uint8 to numpy).
        """
        import numpy as np

        array = array if isinstance(array, np.ndarray) or element is not STRING else np.asarray(array, object)
        array = np.asarray(array)
        if array.dtype.kind in "SUO":
            array = _as_byte_strings(array)
        view = array.view()
        view.flags.writeable = False
        return cls(element or dtype(array.dtype), tuple(array.shape), ArrayStorage(view))

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
        """Whether the elements are stored once and repeated."""
        return self.size > 1 and bool(self.dtype.itemsize) and self.storage.stored_bytes <= self.dtype.itemsize

    def numpy(self) -> np.ndarray[Any, Any]:
        """The elements as a read-only array. Mapped weights are a view of the file; splats have stride 0."""
        if self._array is None:
            self._array = self.storage.read(self.dtype, self.shape)
        return self._array

    def fingerprint(self) -> bytes:
        """Equal exactly for tensors of equal type, shape and bits, however they are stored. Reads every element."""
        import numpy as np

        digest = hashlib.blake2b(f"{self.dtype}{self.shape}".encode(), digest_size=16)
        array = self.numpy()
        if array.dtype.hasobject:
            for item in array.ravel():
                digest.update(len(item).to_bytes(8, "little") + item)
        else:
            digest.update(np.ascontiguousarray(array).view(np.uint8).data if array.size else b"")
        return digest.digest()

    def same_as(self, other: Tensor) -> bool:
        """Whether type, shape and bits agree (so NaN equals the same NaN, and 0.0 differs from -0.0)."""
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
        flat = self.numpy().ravel()[:count].tolist() if not self.is_splat else [self.numpy().ravel()[0]]
        texts = [v.decode("utf-8", "backslashreplace") if isinstance(v, bytes) else _number_text(v) for v in flat]
        if self.is_splat:
            return f"{texts[0]} x {self.size}"
        return ",".join(texts) + (",..." if self.size > count else "")


def _as_byte_strings(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    import numpy as np

    strings = np.empty(array.shape, object)
    flat = strings.reshape(-1)
    for i, item in enumerate(array.ravel().tolist()):
        flat[i] = item.encode() if isinstance(item, str) else bytes(item)
    return strings


def _number_text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _is_broadcast(array: np.ndarray[Any, Any]) -> bool:
    return array.size > 1 and not any(array.strides[i] for i in range(array.ndim) if array.shape[i] > 1)
