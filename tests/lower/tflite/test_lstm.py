"""LSTMs in loops as LiteRT's fused op: recognised, exact, and chosen where it is faster."""

from __future__ import annotations

import numpy as np
import pytest

from tests.loops import entered, while_loop
from tests.lower.builders import floats
from tests.lower.lstm_layers import Layer
from tests.lower.tflite.harness import Net, compare
from thinflow.lower.tflite.convert import lower_graph
from thinflow.lower.tflite.lstm import is_faster
from thinflow.quantize.calibrate import calibrate
from thinflow.quantize.int8 import quantize_int8
from thinflow.tflite.writer import to_bytes

FUSED = "UNIDIRECTIONAL_SEQUENCE_LSTM"


def agree(layer, outputs, form="fused"):
    """LiteRT gives what the reference gives, also the second time; the codes of the subgraph that runs."""
    net = layer.net
    lowered = lower_graph(net.graph, list(net.feeds), list(outputs), recurrent=form)
    module = pytest.importorskip("ai_edge_litert.interpreter")
    session = module.Interpreter(model_content=to_bytes(lowered.program))
    runner = session.get_signature_runner("serving_default")
    for scale in (1.0, -0.5, 1.0):
        feeds = {v: np.float32(scale) * a for v, a in net.feeds.items()}
        found = runner(**{v.name: a for v, a in feeds.items()})
        for value, expected in zip(outputs, net.reference(*outputs, feeds=feeds), strict=True):
            compare(found[value.name], expected, 1e-5, 2e-6)
    return [o.code for o in lowered.program.subgraphs[0].operators]


@pytest.mark.parametrize(
    "layer",
    [
        Layer(),
        Layer(forget_bias=0.0),
        Layer(order="igof", forget_bias=0.3),
        Layer(order="ifgo", is_joined=False),
        Layer(is_cut=True),
        Layer(batch=1, first_state=True),
        Layer(clip=0.3),
        Layer(peephole=True),
        Layer(peephole=True, clip=0.4, is_joined=False, first_state=True),
        Layer(outputs=2),
        Layer(outputs=7, peephole=True),
        Layer(steps=1),
    ],
)
def test_what_is_recognised(layer):
    outputs = layer.build()
    codes = agree(layer, outputs)
    assert codes.count(FUSED) == 1
    assert "WHILE" not in codes
    assert "WHILE" in agree(layer, outputs, "loop")


def test_nothing_is_transposed_when_the_batch_comes_first():
    layer = Layer()
    rows, _, _ = layer.build(batch_first=True)
    assert agree(layer, [rows]) == ["MAXIMUM", "MAXIMUM", FUSED]


def test_the_last_output_alone_is_a_slice():
    layer = Layer()
    _, h, _ = layer.build()
    assert agree(layer, [h]) == ["MAXIMUM", "MAXIMUM", FUSED, "STRIDED_SLICE"]


@pytest.mark.parametrize(
    "layer",
    [
        Layer(gate="Softsign"),
        Layer(peephole=True, late_peephole="c"),
    ],
)
def test_what_the_op_cannot_express_stays_a_loop(layer):
    assert "WHILE" in agree(layer, layer.build())


def test_a_cell_in_which_somebody_else_counts_stays_a_loop():
    layer = Layer()
    net = layer.net = Net()
    h, c = net.const(np.zeros((2, 5), np.float32)), net.const(np.zeros((2, 5), np.float32), "zero")
    x = net.feed(floats(2, 3), "x")
    inner = entered(net.graph, "rnn", x)

    def body(v):
        new = layer.cell(inner, v[1], v[2])
        return [net.op("AddV2", v[0], np.int32(1)), *new]

    start = [net.const(np.int32(0), "t"), h, c]
    last = while_loop(net.graph, "rnn", start, lambda v: net.op("Less", v[0], np.int32(3)), body)
    assert "WHILE" in agree(layer, [net.op("Identity", last[1], name="h")])  # x is the same at every step


@pytest.mark.parametrize(
    ("sizes", "collects", "wins"),
    [
        ((1, 10, 8), True, True),
        ((1, 10, 16), True, True),
        ((1, 10, 118), True, False),
        ((1, 10, 8), False, True),
        ((1, 10, 32), False, False),
        ((4, 10, 8), True, False),
        ((16, 10, 118), True, False),
    ],
)
def test_which_form_is_faster_as_measured(sizes, collects, wins):
    assert is_faster(*sizes, collects=collects) == wins


@pytest.mark.parametrize(("layer", "code"), [(Layer(batch=1), FUSED), (Layer(batch=1, units=64), "WHILE")])
def test_the_faster_form_is_chosen(layer, code):
    assert code in agree(layer, layer.build(), "auto")


@pytest.mark.parametrize("first_state", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
def test_an_open_batch_gives_the_state_its_size(first_state, batch_first):
    """A state whose size is found while the model runs would damage LiteRT's memory."""
    layer = Layer(first_state=first_state, open_batch=True, batch=1)
    outputs = layer.build(batch_first=batch_first)
    assert FUSED in agree(layer, outputs, "auto")
    net = layer.net
    content = to_bytes(lower_graph(net.graph, list(net.feeds), list(outputs)).program)
    module = pytest.importorskip("ai_edge_litert.interpreter")
    random, resolvers = np.random.default_rng(0), module.OpResolverType
    for resolver in (resolvers.AUTO, resolvers.BUILTIN_WITHOUT_DEFAULT_DELEGATES):
        session = module.Interpreter(model_content=content, experimental_op_resolver_type=resolver)
        runner = session.get_signature_runner("serving_default")
        for batch in (3, 1, 8, 2, 2):
            feeds = {}
            for value in net.feeds:
                shape = [batch if n is None else n for n in value.shape]
                feeds[value] = random.standard_normal(shape).astype(np.float32)
            found = runner(**{v.name: a for v, a in feeds.items()})
            for value, expected in zip(outputs, net.reference(*outputs, feeds=feeds), strict=True):
                compare(found[value.name], expected, 1e-5, 2e-6)


@pytest.mark.parametrize("options", [{"is_counted": True}, {"filling": 0.5}])
def test_an_open_batch_turns_where_its_size_is_found_late(options):
    layer = Layer(open_batch=True, **options)
    assert "WHILE" in agree(layer, layer.build())


def test_numbers_that_are_none_leave_the_first_state_at_zero():
    layer = Layer(open_batch=True)
    outputs = layer.build()
    x = next(iter(layer.net.feeds.values()))
    x[0, 0, 0] = np.nan
    assert FUSED in agree(layer, outputs)


def test_eight_bits_leave_the_op_and_its_state_alone():
    layer = Layer()
    rows, _, _ = layer.build()
    net = layer.net
    y = net.op("MatMul", net.op("Reshape", rows, np.int32([-1, 5])), floats(5, 40), name="dense")
    lowered = lower_graph(net.graph, list(net.feeds), [y], recurrent="fused")
    samples = [{"x": next(iter(net.feeds.values())) * scale} for scale in (1, 0.5, -1)]
    ranges = calibrate(lowered.program, samples).ranges
    quantized = quantize_int8(lowered.program, ranges).program
    codes = [o.code for o in quantized.subgraphs[0].operators]
    assert FUSED in codes
    assert "QUANTIZE" in codes
    module = pytest.importorskip("ai_edge_litert.interpreter")
    runner = module.Interpreter(model_content=to_bytes(quantized)).get_signature_runner("serving_default")
    for _ in range(2):
        found = runner(x=samples[0]["x"])[y.name]
        assert np.abs(found - net.reference(y)[0]).max() < 0.1
