"""Multiplications of layers are those of their formulas."""

from __future__ import annotations

from tests.quantize.programs import Builder
from thinflow.ir.types import INT32, INT64, STRING
from thinflow.optimize.float_graph import float_graph
from thinflow.optimize.litert import float_model
from thinflow.optimize.onnx import onnx_model
from thinflow.optimize.samples import rebind, samples_for
from thinflow.quantize.kernels.litert import INT8_KERNELS
from thinflow.quantize.macs import multiplications, multiplied
from thinflow.tflite.model import Operator, Program, Subgraph, Tensor
from thinflow.zoo import mobilenet_v1


def test_a_convolution_and_a_depthwise_one() -> None:
    b = Builder(1)
    x = b.input(1, 8, 8, 4)
    b.channels[x] = 4
    program = b.program(b.depthwise(x, act="NONE"))
    (layer,) = (o for o in program.subgraphs[0].operators if o.code == "DEPTHWISE_CONV_2D")
    y, w = layer.outputs[0].shape, layer.inputs[1].shape
    assert multiplications(program)[layer] == y[1] * y[2] * w[1] * w[2] * w[3]


def test_a_whole_network_on_both_runtimes() -> None:
    """MobileNet v1, 224: 569 million in its paper (Howard et al., 2017, table 4)."""
    counts = []
    for order, lower in (("litert", float_model), ("onnx", onnx_model)):
        graph = mobilenet_v1.build(0)
        samples = samples_for(graph, None, limit=1)
        plain = float_graph(graph, samples=samples, verify=False, runtime=order).graph
        model = lower(plain, rebind(samples, graph, plain))
        counts.append(sum(multiplications(model.program).values()))
    assert counts[0] == counts[1]
    assert 560e6 < counts[0] < 580e6


def test_what_gives_nothing_multiplies_nothing() -> None:
    """As the operator that fills a table does."""
    keys, values = (Tensor(name, (2,), element) for name, element in (("k", INT64), ("v", STRING)))
    fill = Operator("HASHTABLE_IMPORT", [Tensor("table", (1,), INT32), keys, values], [])
    program = Program([Subgraph([], [], [fill])])
    assert multiplications(program) == {}
    assert multiplied(fill, INT8_KERNELS) == 0
