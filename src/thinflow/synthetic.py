"""Plausible made-up inputs for a graph nobody has given data for. Seeded, so that everybody gets the same.

What an input is meant to be is read off its type, its shape and what the graph does with it first: bytes that
go into
DecodeWav become a short sound file, bytes that go into DecodeJpeg a small picture.
"""

from __future__ import annotations

import io
import math
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from thinflow.analysis.interface import SWITCH_NAME
from thinflow.errors import FeedError, ParameterError
from thinflow.ir.graph import Node, Value
from thinflow.ir.types import BOOL, STRING, DType, TensorSpec, shape_text
from thinflow.rewrite.pattern import TRANSPARENT

Array = np.ndarray[Any, Any]

DEFAULT_SIZE = 96
"""Pixels for an unknown height or width."""
MAX_RANK = 32
"""What every numpy can hold."""
MAX_BYTES = 1 << 31
"""Of one made-up input. A damaged file may declare any size."""
_WAV_OPS = frozenset({"DecodeWav"})
_PICTURE_OPS = frozenset(
    {"DecodeJpeg", "DecodePng", "DecodeImage", "DecodeBmp", "DecodeGif", "DecodeAndCropJpeg"}
)


def synthetic_feeds(inputs: Sequence[Value], count: int, seed: int = 0) -> Iterator[dict[Value, Array]]:
    """`count` feeds for these inputs, drawn one after the other from one seed.

    Unknown leading sizes become 1, unknown picture sizes `DEFAULT_SIZE`. Floats are uniform in [-1, 1], which
    suits models whose pixels were scaled to that range; integers are small. A training switch gets the value
    for inference: 1 for a keep probability, False for is_training.

    Raises:
        FeedError: an input of a type that cannot be made up (a resource, an unknown type).
    """
    if seed < 0:
        raise ParameterError(f"the seed is {seed}", hint="give a whole number from 0 on")
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield {value: synthetic_array(value, rng) for value in inputs}


def synthetic_array(value: Value, rng: np.random.Generator) -> Array:
    """One made-up array for one input."""
    spec = declared_spec(value)
    if SWITCH_NAME.search(value.node.name) and spec.shape in (None, ()) and spec.dtype is not None:
        neutral = 1.0 if spec.dtype.is_floating else 0  # keep everything; not training
        return np.asarray(neutral, spec.dtype.numpy())
    if spec.dtype is STRING or (spec.dtype is None and _readers_ops(value) & (_WAV_OPS | _PICTURE_OPS)):
        return _string(value, spec, rng)
    if spec.dtype is None or not spec.dtype.numpy_name:
        raise FeedError(
            f"no input can be made up for '{value.name}' of type {spec.dtype}", hint="pass feeds of your own"
        )
    shape = concrete_shape(spec)
    if len(shape) > MAX_RANK or math.prod(shape) * spec.dtype.itemsize > MAX_BYTES:
        raise FeedError(
            f"an input of shape {shape_text(shape)} is too large to make up for '{value.name}'",
            hint=f"give it smaller sizes: --shape {value.name}=...",
        )
    return _numbers(spec.dtype, shape, rng)


def declared_spec(value: Value) -> TensorSpec:
    """What is known of an input: from inference, else from the placeholder's attributes."""
    if value.spec.dtype is not None:
        return value.spec
    element, shape = value.node.get("dtype"), value.node.get("shape")
    return TensorSpec(
        element if isinstance(element, DType) else None, shape if isinstance(shape, tuple) else None
    )


def concrete_shape(spec: TensorSpec) -> tuple[int, ...]:
    """A shape to run with: 1 for an unknown batch, `DEFAULT_SIZE` for unknown sizes of a picture, else 8."""
    if spec.shape is None:
        return ()
    rank = len(spec.shape)
    sizes = [1] + [DEFAULT_SIZE if rank == 4 and axis in (1, 2) else 8 for axis in range(1, rank)]
    return tuple(
        known if known is not None else size
        for known, size in zip(spec.shape, sizes[:rank] or [], strict=True)
    )


def override_shapes(
    inputs: Sequence[Value], shapes: Mapping[str, Sequence[int | None]]
) -> dict[Value, TensorSpec]:
    """Specs of inputs with the shapes a user gave in place of the declared ones.

    Raises:
        FeedError: a shape for something that is not an input.
    """
    specs = {value: declared_spec(value) for value in inputs}
    by_name = {value.name: value for value in inputs}
    for name, shape in shapes.items():
        value = by_name.get(name.removesuffix(":0"))
        if value is None:
            raise FeedError(f"'{name}' is not an input", hint=f"the inputs are {', '.join(by_name)}")
        specs[value] = TensorSpec(specs[value].dtype, tuple(shape))
    return specs


def _numbers(element: DType, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    if element is BOOL:
        return rng.random(shape) < 0.5
    if element.kind == "c":
        return (rng.uniform(-1, 1, shape) + 1j * rng.uniform(-1, 1, shape)).astype(element.numpy())
    if element.is_floating:
        return rng.uniform(-1, 1, shape).astype(element.numpy())
    top = 256 if element.name in {"uint8", "quint8"} else 4
    return rng.integers(0, top, shape).astype(element.numpy())


def _string(value: Value, spec: TensorSpec, rng: np.random.Generator) -> Array:
    ops = _readers_ops(value)
    shape = concrete_shape(spec)
    result = np.empty(shape, object)
    for index in np.ndindex(*shape) if shape else [()]:
        if ops & _WAV_OPS:
            result[index] = synthetic_wav(rng, samples=_desired_samples(value))
        elif ops & _PICTURE_OPS:
            result[index] = synthetic_png(rng)
        else:
            result[index] = b"text"
    return result


def _readers_ops(value: Value) -> set[str]:
    ops: set[str] = set()
    stack: list[Node] = list(value.readers)
    while stack:
        node = stack.pop()
        ops.add(node.op)
        if node.op in TRANSPARENT:
            stack.extend(node.output().readers)
    return ops


def _desired_samples(value: Value) -> int:
    wanted = next((n.get("desired_samples", -1) for n in value.readers if n.op == "DecodeWav"), -1)
    return int(wanted) if wanted > 0 else 16000


def synthetic_wav(rng: np.random.Generator, samples: int = 16000, rate: int = 16000) -> bytes:
    """A mono 16-bit WAV file: a few gliding tones in noise."""
    time = np.arange(samples) / rate
    sound = 0.02 * rng.standard_normal(samples)
    for _ in range(3):
        pitch, glide = rng.uniform(120, 3000), rng.uniform(-400, 400)
        envelope = np.exp(-(((time - rng.uniform(0.2, 0.8)) / rng.uniform(0.05, 0.3)) ** 2))
        sound += 0.2 * envelope * np.sin(2 * np.pi * (pitch * time + glide * time**2))
    data = (np.clip(sound, -1, 1) * 32767).astype("<i2").tobytes()
    header = struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        b"RIFF",
        36 + len(data),
        b"WAVE",
        b"fmt ",
        16,
        1,
        1,
        rate,
        2 * rate,
        2,
        16,
        b"data",
        len(data),
    )
    return header + data


def synthetic_png(rng: np.random.Generator, size: int = DEFAULT_SIZE) -> bytes:
    """A small RGB picture as PNG, which all picture decoders of TensorFlow accept: smooth blobs."""
    y, x = np.mgrid[0:size, 0:size] / size
    picture = np.zeros((size, size, 3))
    for channel in range(3):
        for _ in range(3):
            cx, cy, width = rng.random(), rng.random(), rng.uniform(0.1, 0.4)
            picture[..., channel] += np.exp(-((x - cx) ** 2 + (y - cy) ** 2) / width**2) * rng.uniform(
                60, 160
            )
    pixels = np.clip(picture, 0, 255).astype(np.uint8)
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    out = io.BytesIO(b"")
    out.write(b"\x89PNG\r\n\x1a\n")
    for kind, data in (
        (b"IHDR", struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows)),
        (b"IEND", b""),
    ):
        out.write(struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)))
    return out.getvalue()
