"""Graphs with known answers kept beside the project: what can be lowered gives them too."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.tflite.harness import compare, run_litert
from thinflow.errors import UnsupportedOp
from thinflow.formats.graphdef import load
from thinflow.lower.tflite.convert import lower_graph
from thinflow.lower.tflite.quantized_context import takes_quantized

FEWEST_LOWERED = 174
"""Of the graphs in ../shared/conformance; raise it when more can be lowered."""


def _a_code(graph, expected):
    """How far off a result may be: LiteRT's eight-bit kernels may round to the code beside TensorFlow's."""
    codes = any(takes_quantized(n.op) for n in graph)
    return 1e-5 + (float(np.ptp(expected)) / 100 if codes and expected.size else 0)


def test_conformance(shared):
    lowered_names, refused, wrong = [], [], []
    for file in sorted((shared / "conformance").glob("*.npz")):
        data = np.load(file)
        graph = load(file.with_suffix(".pb"))
        inputs = {graph.value(k[3:]): k for k in data.files if k.startswith("in:")}
        outputs = {graph.value(k[4:]): k for k in data.files if k.startswith("out:")}
        try:
            lowered = lower_graph(graph, list(inputs), list(outputs))
        except UnsupportedOp as refusal:
            refused.append(refusal)
            continue
        try:
            results = run_litert(lowered, {v.name: data[k] for v, k in inputs.items()})
            for value, key in outputs.items():
                compare(results[value.name], data[key], atol=_a_code(graph, data[key]))
        except (AssertionError, RuntimeError, ValueError) as failure:
            wrong.append(f"{file.stem}: {failure}")
        lowered_names.append(file.stem)
    assert not wrong
    assert all(refusal.where.startswith("node '") for refusal in refused)
    print(len(lowered_names))
    assert len(lowered_names) >= FEWEST_LOWERED, [refusal.message for refusal in refused]


@pytest.mark.parametrize(
    ("name", "inputs", "output"),
    [
        ("pose_v2s", {"image": "input"}, "Openpose/concat_stage7"),
        ("autoencoder", {"X": "X"}, "output"),
        ("unrolled_gru", {"X": "X", "keep_prob": None}, "output"),
    ],
)
def test_models(shared, name, inputs, output):
    answers = np.load(shared / "models" / "reference.npz")
    graph = load(shared / "models" / f"{name}.pb")
    lowered = lower_graph(graph, [graph.value(i) for i in inputs], [graph.value(output)])
    feeds = {i: np.float32(1) if key is None else answers[f"{name}/{key}"] for i, key in inputs.items()}
    compare(run_litert(lowered, feeds)[output], answers[f"{name}/output"], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("name", "codes"),
    [
        ("kws_DS_CNN_S", {"CONV_2D": 5, "DEPTHWISE_CONV_2D": 4, "AVERAGE_POOL_2D": 1, "RESHAPE": 1}),
        ("kws_DNN_S", {"FULLY_CONNECTED": 4, "RESHAPE": 1}),
    ],
)
def test_counts_behind_the_audio_front_end(shared, name, codes):
    graph = load(shared / "models" / f"{name}.pb")
    features = next(node for node in graph if node.op == "Mfcc").output()
    program = lower_graph(graph, [features], [graph.value("labels_softmax")]).program
    written = [o.code for o in program.subgraphs[0].operators]
    assert {code: written.count(code) for code in codes} == codes
    assert len(written) == sum(codes.values()) + written.count("SOFTMAX") + written.count(
        "FULLY_CONNECTED"
    ) * ("FULLY_CONNECTED" not in codes)
