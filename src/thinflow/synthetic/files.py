"""Small files and messages of the kinds that models decode: sounds, pictures, tensorflow.Example messages.

Source of the messages: TensorFlow's `example.proto`, `feature.proto`.
"""

from __future__ import annotations

import io
import math
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Node, Value
from thinflow.ir.types import FLOAT, INT64, DType
from thinflow.ops._example import example_bytes

DEFAULT_SIZE = 96
"""Pixels for an unknown height or width."""


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
        # RIFF counts what follows this number: "WAVE", the 24 bytes of the fmt chunk, the 8 that begin the
        # data.
        36 + len(data),
        b"WAVE",
        b"fmt ",
        16,
        # PCM, one channel; then samples a second, bytes a second, bytes a sample, bits a sample.
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
    # Each row of a PNG begins with the number of its filter; 0 is none.
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    out = io.BytesIO(b"")
    out.write(b"\x89PNG\r\n\x1a\n")
    for kind, data in (
        # 8 bits, colour type 2 (RGB), then the only compression, filter method and order of rows there are.
        (b"IHDR", struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows)),
        (b"IEND", b""),
    ):
        out.write(struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)))
    return out.getvalue()


# --- tensorflow.Example -------------------------------------------------------------------------------------


Maker = Callable[[np.random.Generator], bytes]
ANY_NUMBER = 3
"""Values of a feature that may have any number of them."""


@dataclass(frozen=True)
class Wanted:
    """A feature that a node parses.

    Attributes:
        count: how many values.
        value: what becomes of them; None where that cannot be told.
    """

    key: bytes
    kind: DType
    count: int
    value: Value | None


def example_maker(node: Node, maker_for: Callable[[Value], Maker]) -> Maker | None:
    """Makes Examples for a ParseExample, ParseExampleV2 or ParseSingleExample; None if it names no key.

    Args:
        maker_for: what makes the strings that a value holds.
    """
    features = list(_features(node))
    if not features:
        return None

    def make(rng: np.random.Generator) -> bytes:
        return example_bytes((f.key, f.kind, made_values(f, rng, maker_for)) for f in features)

    return make


def _features(node: Node) -> Iterator[Wanted]:
    sparse, dense, ragged = _keys(node)
    kinds = {name: _types(node, name) for name in ("sparse_types", "Tdense", "ragged_value_types")}
    shapes = node.get("dense_shapes") or ()
    # The outputs of all three ops: indices, values and shapes of the sparse features (as many each), then the
    # dense ones.
    for port, key, kind, shape in zip(count(3 * len(sparse)), dense, kinds["Tdense"], shapes, strict=False):
        yield Wanted(key, kind, feature_size(shape), _port(node, port))
    for port, key, kind in zip(count(len(sparse)), sparse, kinds["sparse_types"], strict=False):
        yield Wanted(key, kind, ANY_NUMBER, _port(node, port))
    for key, kind in zip(ragged, kinds["ragged_value_types"], strict=False):
        yield Wanted(key, kind, ANY_NUMBER, None)


def feature_size(shape: object) -> int:
    """How many values a feature of a shape has; an open size counts as 1."""
    sizes = shape.dims if isinstance(shape, ShapeAttr) else shape
    known = sizes if isinstance(sizes, tuple | list) else ()
    return math.prod(1 if size is None else size for size in known)


def _keys(node: Node) -> tuple[list[bytes], list[bytes], list[bytes]]:
    """Names of the sparse, dense and ragged features; empty where they are computed."""
    if node.op == "ParseSingleExample":
        names = [[key_bytes(k) for k in node.get(a) or ()] for a in ("sparse_keys", "dense_keys")]
        return names[0], names[1], []
    if node.op == "ParseExampleV2":
        # Behind the messages and their names. ParseExampleV2 has one vector of keys for each kind of feature,
        # ParseExample one scalar for each key.
        lists = [keys_of(v) for v in node.inputs[2:5]]
        return lists[0], lists[1], lists[2]
    sparse = len(_types(node, "sparse_types"))
    end = 2 + sparse + len(_types(node, "Tdense"))
    keys = [key for v in node.inputs[2:end] for key in keys_of(v)]
    return keys[:sparse], keys[sparse:], []


def _types(node: Node, name: str) -> list[DType]:
    return [kind for kind in node.get(name) or () if isinstance(kind, DType)]


def keys_of(value: Value) -> list[bytes]:
    """The keys that a constant holds; none of what is computed."""
    tensor = value.node.tensor
    return [] if tensor is None else [key_bytes(k) for k in tensor.numpy().ravel().tolist()]


def key_bytes(key: object) -> bytes:
    return key if isinstance(key, bytes) else str(key).encode("utf-8", "surrogateescape")


def _port(node: Node, port: int) -> Value | None:
    return next((v for v in node.outputs if v.port == port), None)


def made_values(feature: Wanted, rng: np.random.Generator, maker_for: Callable[[Value], Maker]) -> list[Any]:
    """Values of a feature's kind and number."""
    if feature.kind is FLOAT:
        return list(rng.uniform(-1, 1, feature.count).astype("<f4").tolist())
    if feature.kind is INT64:
        return list(rng.integers(0, 4, feature.count).tolist())
    make = maker_for(feature.value) if feature.value is not None else _letter
    return [make(rng) for _ in range(feature.count)]


def _letter(rng: np.random.Generator) -> bytes:
    return bytes([rng.integers(ord("a"), ord("z") + 1)])
