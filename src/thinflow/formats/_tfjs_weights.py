"""Weights of TensorFlow.js models: groups of files, one behind the other, that a manifest divides.

    [{"paths": ["group1-shard1of2.bin", ...], "weights": [{"name", "shape", "dtype", "quantization"}, ...]}]

Quantized weights are uint8 or uint16, real = scale * stored + min, or halves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from thinflow.errors import FormatError
from thinflow.ir.tensor import RawStorage, Tensor
from thinflow.ir.types import STRING, DType, dtype

if TYPE_CHECKING:
    import numpy as np

_TYPES = {
    "float32": "float",
    "int32": "int32",
    "bool": "bool",
    "complex64": "complex64",
    "string": "string",
}
"""TensorFlow.js's element types -> ours; it has no others."""
_STEPS, _HALF = ("uint8", "uint16"), "float16"
# NPY_MAXDIMS of numpy 1, and 4 TB of floats.
_MOST_RANK, _MOST_ELEMENTS = 32, 2**40
_LENGTH_BYTES = 4
"""In front of each text, as an unsigned number."""


class Shards:
    """The bytes of a group as if they lay in one file."""

    def __init__(self, files: Sequence[memoryview]) -> None:
        self._files = files
        self.size = sum(f.nbytes for f in files)

    def span(self, start: int, size: int) -> memoryview:
        """A view where one file holds all of it, else a copy.

        Raises:
            FormatError: the files end before.
        """
        if start + size > self.size:
            raise FormatError(
                f"its weights take {start + size} bytes or more, the files hold {self.size}",
                hint="one of them is missing a part: fetch them again",
            )
        parts, begin = [], 0
        for file in self._files:
            low, high = max(start - begin, 0), min(start + size - begin, file.nbytes)
            if low < high:
                parts.append(file[low:high])
            begin += file.nbytes
        return parts[0] if len(parts) == 1 else memoryview(b"".join(parts))


def read_weights(manifest: Any, open_file: Callable[[str], memoryview]) -> dict[str, Tensor]:
    """The weights by name.

    Args:
        manifest: as it stands in the model.
        open_file: the bytes of a file that the manifest names.

    Raises:
        FormatError: the manifest is not as it should be, or the files are shorter; names the weight.
    """
    weights: dict[str, Tensor] = {}
    for number, group in enumerate(_listed(manifest, "the manifest of weights")):
        names = _listed(_field(group, "paths"), "its paths")
        if not all(isinstance(n, str) for n in names):
            raise FormatError("paths of weights are no texts", f"group {number}")
        shards = Shards([open_file(n) for n in names])
        place = 0
        for entry in _listed(_field(group, "weights"), "its weights"):
            name = str(_field(entry, "name"))
            try:
                tensor, place = _weight(entry, shards, place)
            except FormatError as error:
                raise error.at(f"weight '{name}'") from error
            if name in weights:
                raise FormatError("two weights have one name", f"weight '{name}'")
            weights[name] = tensor
        if place != shards.size:
            raise FormatError(
                f"its weights take {place} bytes, the files hold {shards.size}",
                f"group {number}",
                "the files belong to another model, or are damaged",
            )
    return weights


def _listed(content: Any, what: str) -> list[Any]:
    if not isinstance(content, list):
        raise FormatError(f"{what} is no list")
    return content


def _field(entry: Any, key: str) -> Any:
    if not isinstance(entry, dict) or key not in entry:
        raise FormatError(f"the manifest of weights lacks '{key}'")
    return entry[key]


def _weight(entry: Any, shards: Shards, place: int) -> tuple[Tensor, int]:
    """A weight, and where the next one begins."""
    shape = _shape(_field(entry, "shape"))
    stated = _field(entry, "dtype")
    if not isinstance(stated, str) or stated not in _TYPES:
        raise FormatError(f"TensorFlow.js has no element type {stated!r:.40}")
    kind, quantization = dtype(_TYPES[stated]), entry.get("quantization")
    if quantization is not None:
        return _quantized(kind, shape, quantization, shards, place)
    if kind is STRING:
        return _texts(shape, shards, place)
    size = math.prod(shape) * kind.itemsize
    return Tensor(kind, shape, RawStorage(shards.span(place, size))), place + size


def _shape(sizes: Any) -> tuple[int, ...]:
    whole = isinstance(sizes, list) and all(isinstance(n, int) and not isinstance(n, bool) for n in sizes)
    if not whole or len(sizes) > _MOST_RANK or any(n < 0 for n in sizes):
        raise FormatError("its shape is no list of sizes")
    if math.prod(sizes) > _MOST_ELEMENTS:
        raise FormatError(f"shape {sizes} makes no sense")
    return tuple(sizes)


def _quantized(
    kind: DType, shape: tuple[int, ...], how: Any, shards: Shards, place: int
) -> tuple[Tensor, int]:
    import numpy as np

    stored = how.get("dtype") if isinstance(how, Mapping) else None
    if stored == _HALF and kind.name == "float":
        size = math.prod(shape) * 2
        halves = np.frombuffer(shards.span(place, size), "<f2").reshape(shape)
        return Tensor.from_array(halves.astype(np.float32), kind), place + size
    if stored not in _STEPS or kind.name not in ("float", "int32"):
        raise FormatError(f"it is quantized as {stored!r:.40}, of {kind}, which TensorFlow.js does not have")
    scale, least = (how.get(key) for key in ("scale", "min"))
    if not all(isinstance(n, int | float) and math.isfinite(n) for n in (scale, least)):
        raise FormatError("its quantization lacks 'scale' or 'min'")
    element = np.dtype(stored).newbyteorder("<")
    size = math.prod(shape) * element.itemsize
    # In double, as JavaScript's numbers are; rounded once.
    real = np.frombuffer(shards.span(place, size), element).astype(np.float64) * scale + least
    if kind.name == "int32":
        # Halves go up, as with JavaScript's Math.round.
        real = np.floor(real + 0.5).clip(-(2**31), 2**31 - 1)
    return Tensor.from_array(real.astype(kind.numpy()).reshape(shape), kind), place + size


def _texts(shape: tuple[int, ...], shards: Shards, place: int) -> tuple[Tensor, int]:
    import numpy as np

    count = math.prod(shape)
    # Each has its length in front, which bounds how many there can be.
    shards.span(place, count * _LENGTH_BYTES)
    texts = np.empty(count, object)
    for number in range(count):
        size = int.from_bytes(shards.span(place, _LENGTH_BYTES), "little")
        texts[number] = bytes(shards.span(place + _LENGTH_BYTES, size))
        place += _LENGTH_BYTES + size
    return Tensor.from_array(texts.reshape(shape), STRING), place


def as_type(tensor: Tensor, kind: DType) -> Tensor:
    """A weight in the type that its node states; what TensorFlow.js lacks, int64 for one, is int32 in files.

    Raises:
        FormatError: one is text, and the other is not.
    """
    if tensor.dtype is kind or kind.name == "invalid":
        return tensor
    if STRING in (tensor.dtype, kind) or not kind.numpy_name:
        raise FormatError(f"it is {tensor.dtype} in the files, and {kind} in the graph")
    array: np.ndarray[Any, Any] = tensor.numpy().astype(kind.numpy())
    return Tensor.from_array(array, kind)


def constants(nodes: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """The constants among nodes in JSON."""
    return (n for n in nodes if isinstance(n, dict) and n.get("op") == "Const")
