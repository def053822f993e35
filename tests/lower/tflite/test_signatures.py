"""Names, sizes and weights of lowered models as others see them: signatures, open sizes, files over 2 GB."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.builders import floats
from tests.lower.tflite.harness import Net
from thinflow.engines.session import Session
from thinflow.tflite.reader import read_program
from thinflow.tflite.writer import to_bytes, write_program

litert = pytest.importorskip("ai_edge_litert.interpreter")


def classifier(batch=2):
    """A net with names that have scopes, a weight of 48 kB, and an output that is the second of its node."""
    net = Net()
    x = net.feed(floats(2, 3, 4), "input/images", (batch, 3, 4))
    flat = net.op("Reshape", x, np.int32([-1, 12]), name="head/flat")
    y = net.op("MatMul", flat, floats(12, 1000), name="head/logits")
    node = net.op("TopKV2", net.op("Softmax", y, name="head/softmax"), np.int32(3), name="head/best").node
    return net, [net.graph.node("head/softmax").output(), node.output(0), node.output(1)]


def saved(tmp_path, net, outputs, **options):
    path = tmp_path / "model.tflite"
    _, chunks = write_program(net.lower(*outputs).program, **options)
    path.write_bytes(b"".join(bytes(c) for c in chunks))
    return path


def test_signatures_have_the_names_of_the_graph():
    net, outputs = classifier()
    session = litert.Interpreter(model_content=to_bytes(net.lower(*outputs).program))
    names = ["head/best", "head/best:1", "head/softmax"]
    assert session.get_signature_list() == {"serving_default": {"inputs": ["input/images"], "outputs": names}}
    assert [d["name"] for d in session.get_input_details()] == ["input/images"]
    assert sorted(d["name"] for d in session.get_output_details()) == names


def test_inner_tensors_keep_their_names():
    net, outputs = classifier()
    session = litert.Interpreter(
        model_content=to_bytes(net.lower(*outputs).program),
        experimental_op_resolver_type=litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    )
    session.allocate_tensors()
    assert {"head/flat", "head/logits"} <= {d["name"] for d in session.get_tensor_details()}


@pytest.mark.parametrize("name", ["input/images", "input/images:0"])
def test_a_session_on_the_file_takes_them(tmp_path, name):
    net, outputs = classifier()
    session = Session(saved(tmp_path, net, outputs))
    found = session.run([v.name for v in outputs], {name: next(iter(net.feeds.values()))})
    for array, expected in zip(found, net.reference(*outputs), strict=True):
        np.testing.assert_allclose(array, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("engine", ["litert", "file"])
def test_an_open_batch_is_resized_as_it_comes(tmp_path, engine):
    net, outputs = classifier(batch=None)
    path = saved(tmp_path, net, outputs)
    (x,) = net.feeds
    assert litert.Interpreter(model_path=str(path)).get_input_details()[0]["shape_signature"].tolist() == [
        -1,
        3,
        4,
    ]
    session = Session(path) if engine == "file" else Session(net.graph, "litert")
    for batch in (3, 1, 5, 3):
        images = floats(batch, 3, 4)
        found = session.run([v.name for v in outputs], {x.name: images})
        for array, expected in zip(found, net.reference(*outputs, feeds={x: images}), strict=True):
            np.testing.assert_allclose(array, expected, rtol=1e-5, atol=1e-6)
    assert engine == "file" or set(session.placement.values()) == {"litert"}


def test_weights_outside_of_the_flatbuffer_run_and_are_streamed(tmp_path):
    """As models over 2 GB are stored; the limit is lowered instead."""
    net, outputs = classifier()
    lowered = net.lower(*outputs)
    size, chunks = write_program(lowered.program, inline_limit=1000)
    constants = [t for t in lowered.program.subgraphs[0].tensors() if t.is_constant]
    (weights,) = [np.asarray(t.array()) for t in constants if np.asarray(t.array()).size > 1000]
    parts = [np.frombuffer(c, np.uint8) for c in chunks]
    assert sum(p.size for p in parts) == size
    assert any(p.size == weights.nbytes for p in parts)
    raw = b"".join(p.tobytes() for p in parts)
    assert raw.index(b"outside flatbuffers") < raw.index(np.ascontiguousarray(weights).tobytes())
    assert len(read_program(raw).subgraphs[0].operators) == len(lowered.program.subgraphs[0].operators)
    path = tmp_path / "large.tflite"
    path.write_bytes(raw)
    expected = net.reference(*outputs)
    for content in ({"model_path": str(path)}, {"model_content": raw}):
        runner = litert.Interpreter(**content).get_signature_runner("serving_default")
        found = runner(**{v.name: a for v, a in net.feeds.items()})
        for value, array in zip(outputs, expected, strict=True):
            np.testing.assert_allclose(found[value.name], array, rtol=1e-5, atol=1e-6)
    session = Session(path)
    np.testing.assert_allclose(
        session.run([outputs[0].name], {v.name: a for v, a in net.feeds.items()})[0],
        expected[0],
        rtol=1e-5,
        atol=1e-6,
    )
