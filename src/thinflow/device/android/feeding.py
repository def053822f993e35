"""Arrays as the files that benchmark_model reads inputs from, and what it writes of outputs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from thinflow.errors import EngineUnavailable
from thinflow.tflite.model import Program, Tensor
from thinflow.tflite.runtime import allocate, interpreter, source
from thinflow.typing import Array

Shape = tuple[int, ...]
_SEPARATORS = set(",:")
_NO_HELP = "measure on a device of the kind ssh, or run it here"


def input_flags(program: Program, arrays: Sequence[Array], paths: Sequence[str]) -> list[str]:
    """The flags that feed a model files.

    Args:
        arrays: an array for each input, in order.
        paths: the files there.

    Raises:
        EngineUnavailable: benchmark_model cannot be told so.
    """
    names = [_name(t, n) for n, t in enumerate(program.subgraphs[0].inputs)]
    shapes = [",".join(map(str, a.shape)) for a in arrays]
    # The flag with no sizes at all is the flag not given.
    if shapes == [""]:
        raise EngineUnavailable("benchmark_model takes no single input without dimensions", hint=_NO_HELP)
    files = ",".join(f"{name}:{path}" for name, path in zip(names, paths, strict=True))
    return [
        f"--input_layer={','.join(names)}",
        f"--input_layer_shape={':'.join(shapes)}",
        f"--input_layer_value_files={files}",
    ]


def _name(tensor: Tensor, number: int) -> str:
    # Names tie the flags together, inputs go by their order; another name than the tensor's is warned of.
    is_plain = tensor.name and not _SEPARATORS.intersection(tensor.name)
    return tensor.name if is_plain else f"input_{number}"


def file_bytes(array: Array) -> bytes:
    """What is in the file of an input."""
    return np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False).tobytes()


def output_kinds(
    path: str, program: Program, arrays: Sequence[Array]
) -> list[tuple[str, Shape, np.dtype[Any]]]:
    """Name, sizes and type of each output, for inputs of these sizes.

    Args:
        path: of the model's file on this machine, whose LiteRT works sizes out that the file leaves open.

    Raises:
        EngineUnavailable: an output is text.
    """
    outputs = program.subgraphs[0].outputs
    kinds = [np.dtype(t.dtype.numpy()) for t in outputs]
    for tensor, kind in zip(outputs, kinds, strict=True):
        if kind.hasobject:
            raise EngineUnavailable("benchmark_model gives back no text", f"output '{tensor.name}'", _NO_HELP)
    stated = [t.shape for t in outputs]
    shapes = [tuple(n for n in s if n is not None and n >= 0) if s is not None else None for s in stated]
    if any(a is None or b is None or len(a) != len(b) for a, b in zip(shapes, stated, strict=True)):
        shapes = list(_worked_out(path, arrays))
    little = (k.newbyteorder("<") for k in kinds)
    return [(t.name, s or (), k) for t, s, k in zip(outputs, shapes, little, strict=True)]


def _worked_out(path: str, arrays: Sequence[Array]) -> Iterator[Shape]:
    # Allocated, and not run: what follows from values alone stays unknown, and the count of bytes tells.
    made = interpreter(allocated=False, **source(path))
    for detail, array in zip(made.get_input_details(), arrays, strict=True):
        made.resize_tensor_input(detail["index"], array.shape)
    allocate(made)
    for detail in made.get_output_details():
        yield tuple(int(n) for n in detail["shape"])


def output_arrays(kinds: Sequence[tuple[str, Shape, np.dtype[Any]]], content: bytes) -> list[Array]:
    """The outputs that a file holds, one behind the other.

    Raises:
        EngineUnavailable: it holds more or less; sizes may follow from what the model computes.
    """
    found: list[Array] = []
    place = 0
    expected = sum(math.prod(shape) * kind.itemsize for _, shape, kind in kinds)
    if expected != len(content):
        names = ", ".join(name for name, _, _ in kinds)
        raise EngineUnavailable(
            f"benchmark_model wrote {len(content)} bytes, where {expected} were expected",
            f"outputs {names}",
            hint=_NO_HELP,
        )
    for _, shape, kind in kinds:
        found.append(np.frombuffer(content, kind, math.prod(shape), place).reshape(shape).copy())
        place += found[-1].nbytes
    return found
