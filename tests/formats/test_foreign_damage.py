"""Damaged .tflite and .onnx files: a typed error or a graph, soon and in little memory."""

from __future__ import annotations

import random
import time
import tracemalloc
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.formats.damage import FILES, MOST_SECONDS, WORDS, damaged
from tests.transforms.golden import parse_graph
from thinflow.analysis.summary import summarize
from thinflow.errors import ThinflowError
from thinflow.formats import onnx, tflite
from thinflow.ir.graph import Graph
from thinflow.lower.onnx.convert import lower_graph as lower_to_onnx
from thinflow.lower.tflite.convert import lower_graph as lower_to_tflite
from thinflow.onnx.writer import to_bytes as onnx_bytes
from thinflow.tflite.writer import to_bytes as tflite_bytes

TEXT = """
x = Placeholder() {dtype=float, shape=shape[1,6,6,2]}
w = Const() {dtype=float, value=float[3,3,2,4]{ELEMENTS}}
s = Const() {dtype=int32, value=int32[2]{1,64}}
c = Conv2D(x, w) {T=float, strides=[1,1,1,1], padding="VALID"}
r = Relu(c) {T=float}
f = Reshape(r, s) {T=float, Tshape=int32}
y = Softmax(f) {T=float}
inputs: x
outputs: y, r
""".replace("ELEMENTS", ",".join(str(n % 7 - 3) for n in range(72)))
READERS = {"tflite": tflite.from_bytes, "onnx": onnx.from_bytes}
MOST_BYTES = 64 << 20


def _sample(kind: str) -> bytes:
    graph = parse_graph(TEXT)
    if kind == "tflite":
        return tflite_bytes(lower_to_tflite(graph, graph.inputs, graph.outputs).program)
    return onnx_bytes(lower_to_onnx(graph, graph.inputs, graph.outputs).program)


SAMPLES = {kind: _sample(kind) for kind in READERS}


def read(kind: str, raw: bytes) -> Graph | None:
    try:
        return READERS[kind](raw)
    except ThinflowError:
        return None


@pytest.mark.parametrize("kind", READERS)
def test_the_samples_are_sound(kind: str) -> None:
    assert read(kind, SAMPLES[kind]) is not None


@pytest.mark.parametrize("kind", READERS)
def test_every_truncation(kind: str) -> None:
    raw = SAMPLES[kind]
    for size in range(0, len(raw) - 1, 3):
        graph = read(kind, raw[:size])
        assert graph is None or kind == "onnx", size  # a message may end between two fields


@given(st.data())
@pytest.mark.parametrize("kind", READERS)
def test_what_opens_can_be_looked_at(kind: str, data: st.DataObject) -> None:
    raw = damaged(SAMPLES[kind], random.Random(data.draw(st.integers(0, 2**32))))
    graph = read(kind, raw)
    if graph is not None:
        summarize(graph)
        for node in graph:
            if node.tensor is not None and node.tensor.dtype.itemsize:
                assert node.tensor.numpy().shape == node.tensor.shape


@given(st.binary(max_size=200))
@pytest.mark.parametrize("kind", READERS)
def test_any_bytes(kind: str, data: bytes) -> None:
    read(kind, data)
    read(kind, data[:4] + b"TFL3" + data[4:])


@pytest.mark.slow
@pytest.mark.parametrize("kind", READERS)
def test_many_damaged_files(kind: str) -> None:
    rng = random.Random(7)
    opened = 0
    worst = 0.0
    for raw in (damaged(SAMPLES[kind], rng) for _ in range(FILES)):
        begin = time.perf_counter()
        opened += read(kind, raw) is not None
        worst = max(worst, time.perf_counter() - begin)
    assert 0 < opened < FILES
    assert worst < MOST_SECONDS


def bombs() -> Iterator[tuple[str, bytes]]:
    """Small files that ask for much."""
    from thinflow.onnx import protos
    from thinflow.wire.protos import serialize

    raw = SAMPLES["tflite"]
    for word in WORDS[:3]:
        for at in range(0, len(raw) - 4, 16):
            yield "tflite", raw[:at] + word[:4] + raw[at + 4 :]
    for dims in ([2**62], [2**31, 2**31], [1] * 100, [0, 2**62]):
        made = protos.message("ModelProto")(ir_version=8)
        made.graph.initializer.add(name="w", dims=dims, data_type=1)
        made.graph.output.add(name="w")
        yield "onnx", serialize(made)
        made.graph.initializer[0].data_type = 22
        yield "onnx", serialize(made)


def test_small_files_do_not_ask_for_much_memory() -> None:
    np.zeros(1)
    tracemalloc.start()
    try:
        for kind, raw in bombs():
            read(kind, raw)
        assert tracemalloc.get_traced_memory()[1] < MOST_BYTES
    finally:
        tracemalloc.stop()
