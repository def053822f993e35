"""The inputs of benchmark_model: zeros with some values, numbers from a range, or the bytes of a file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from thinflow.errors import FeedError, ParameterError
from thinflow.ir.types import STRING, DType, dtype
from thinflow.synthetic import MAX_BYTES, MAX_RANK
from thinflow.typing import Array

_SEED = 0
_RANGE = "--input_layer_value_range"


def filled_input(name: str, type_name: str, shape: Sequence[int], values: Sequence[float]) -> Array:
    """An input of zeros, the first of its elements set.

    Args:
        name: of the input, for messages.
        type_name: TensorFlow's name of the type.
        shape: sizes.
        values: the first elements of the flat tensor.

    Raises:
        FeedError: no such type, or more values than elements.
    """
    element = _element(name, type_name)
    if element is STRING:
        if values:
            raise FeedError(f"input '{name}': values of text cannot be given", hint="leave them out")
        empty = np.empty(tuple(shape), object)
        empty[...] = b""
        return empty
    array = np.zeros(tuple(shape), element.numpy())
    if len(values) > array.size:
        raise FeedError(
            f"input '{name}': {len(values)} values for {array.size} elements", hint="give fewer values"
        )
    for place, number in enumerate(values):
        array.flat[place] = _held(name, element, array.dtype, number)
    return array


def _held(name: str, element: DType, kind: np.dtype[Any], number: float) -> float:
    """A number as an input of a type takes it: integers lose what is behind the point, as in the original.

    Raises:
        FeedError: an integer type does not reach as far.
    """
    if kind.kind not in "iu":
        return number
    limits = np.iinfo(kind)
    if not math.isfinite(number) or not limits.min <= int(number) <= limits.max:
        raise FeedError(
            f"input '{name}': {element} does not hold {number}", hint=f"it holds {limits.min} to {limits.max}"
        )
    return int(number)


def drawn_input(name: str, type_name: str, shape: Sequence[int], low: int, high: int) -> Array:
    """An input of random numbers: integers from `low` to `high`, floats from `low` to just below `high`.

    Raises:
        FeedError: no such type, or its numbers do not reach as far.
    """
    element = _element(name, type_name)
    # The same numbers in every call, so that two measurements compare.
    rng = np.random.default_rng(_SEED)
    if element is STRING:
        raise FeedError(f"input '{name}': text has no range of numbers", hint=f"leave it out of {_RANGE}")
    kind = element.numpy()
    if kind.kind in "iub":
        least, most = (0, 1) if kind.kind == "b" else (np.iinfo(kind).min, np.iinfo(kind).max)
        if low < least or high > most:
            raise FeedError(
                f"input '{name}': {element} does not hold {low} to {high}", hint=f"it holds {least} to {most}"
            )
        wide = np.uint64 if least == 0 else np.int64
        return rng.integers(low, high, tuple(shape), wide, endpoint=True).astype(kind)
    return rng.uniform(low, high, tuple(shape)).astype(kind)


def file_input(name: str, type_name: str, shape: Sequence[int], path: str) -> Array:
    """An input from a file: the raw bytes of its numbers, or its strings with a zero byte between them.

    A single string is the whole file if it has zero bytes inside.

    Raises:
        FeedError: no such type or file, or it holds more or less than the input.
    """
    element = _element(name, type_name)
    data = _bytes_of(name, path)
    # Python's integers: hostile sizes do not overflow.
    count = int(np.prod(shape, dtype=object))
    if element is STRING:
        # A zero byte ends each string, the last one perhaps not.
        items = data.removesuffix(b"\0").split(b"\0")
        if count == 1 < len(items):  # a picture or a sound, in which zeros are nothing special
            items = [data]
        if len(items) != count:
            raise _misfit(name, path, f"{len(items)} strings", f"{count} strings", "a zero byte ends each")
        array = np.empty(count, object)
        array[:] = items
        return array.reshape(tuple(shape))
    kind = element.numpy()
    wanted = count * kind.itemsize
    if len(data) != wanted:
        hint = f"write {count} times {element}, such as array.tofile(...)"
        raise _misfit(name, path, f"{len(data)} bytes", f"{wanted} bytes", hint)
    result: Array = np.frombuffer(data, kind).reshape(tuple(shape)).copy()
    return result


def check_size(name: str, type_name: str, shape: Sequence[int]) -> None:
    """Refuse an input that no memory holds before anything is made of that size.

    Raises:
        FeedError: it is too large.
    """
    item_bytes = np.dtype(getattr(_element(name, type_name), "numpy_name", None) or object).itemsize
    if len(shape) > MAX_RANK or math.prod(shape) * item_bytes > MAX_BYTES:
        sizes = ",".join(map(str, shape))
        raise FeedError(
            f"the input '{name}' of the sizes {sizes} is too large",
            hint=f"it may have {MAX_RANK} sizes and {MAX_BYTES >> 30} GiB at most; see --input_layer_shape",
        )


def _misfit(name: str, path: str, found: str, wanted: str, hint: str) -> FeedError:
    return FeedError(f"input '{name}' takes {wanted}, the file holds {found}", path, hint)


def _bytes_of(name: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        problem = f"the values of '{name}' cannot be read: {error.strerror or error}"
        raise FeedError(problem, path, "check --input_layer_value_files") from error


def _element(name: str, type_name: str) -> DType:
    """The type of that name, which can be fed.

    Raises:
        FeedError: there is none, or it cannot be fed.
    """
    try:
        element = dtype(type_name)
    except ParameterError as error:
        raise FeedError(f"input '{name}': {error.problem}", hint=error.hint) from error
    if element is not STRING and not element.numpy_name:
        raise FeedError(f"input '{name}': a {element} cannot be fed", hint="choose another input")
    return element
