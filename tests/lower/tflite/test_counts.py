"""No operators that only move numbers are left over: as many as TensorFlow's converter leaves, or fewer.

The counts are those of its results for the same graphs; `tests/oracle` compares again, with the real one.
"""

from __future__ import annotations

from collections import Counter

import pytest

from thinflow import zoo
from thinflow.formats import graphdef
from thinflow.ir.types import FLOAT, TensorSpec
from thinflow.lower.tflite.convert import lower_graph

MOVING = {"TRANSPOSE", "PAD", "PADV2", "RESHAPE", "SQUEEZE", "EXPAND_DIMS", "CAST", "SHAPE"}

ZOO = {
    "digits": ((1, 8, 8, 1), {"RESHAPE": 1}),
    "mobilenet_v1": ((1, 224, 224, 3), {"RESHAPE": 1}),
    "mobilenet_v2": ((1, 224, 224, 3), {}),
    "inception_v3_2015": ((1, 299, 299, 3), {}),
    "resnet_v2_50": ((1, 224, 224, 3), {"PAD": 4, "RESHAPE": 1}),
}

# input, its shape, output -> what TensorFlow's converter leaves, and how many operators in all
SHARED = {
    "kws_DS_CNN_S": ("Mfcc", (1, 49, 10), "labels_softmax", {"RESHAPE": 1}, 13),
    "kws_CNN_S": ("Mfcc", (1, 49, 10), "labels_softmax", {"RESHAPE": 2}, 8),
    "kws_DNN_S": ("Mfcc", (1, 25, 10), "labels_softmax", {"RESHAPE": 1}, 6),
    "autoencoder": ("X", (1, 784), "output", {}, 8),
    "pose_v2s": ("image", (1, None, None, 3), "Openpose/concat_stage7", {"SHAPE": 1}, 567),
    # its converter fails on the loop; one turns the batch of one around
    "kws_Basic_LSTM_S": ("Mfcc", (1, 49, 10), "labels_softmax", {"RESHAPE": 1}, 20),
}


def counted(graph):
    program = lower_graph(graph, graph.inputs, graph.outputs).program
    return Counter(o.code for s in program.subgraphs for o in s.operators)


def moving(counts):
    return {code: n for code, n in counts.items() if code in MOVING}


LARGE = ("inception_v3_2015", "resnet_v2_50", "mobilenet_v2")


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in LARGE)) for n in ZOO])
def test_zoo(name):
    graph = zoo.build(name)
    shape, expected = ZOO[name]
    for value in graph.inputs:
        value.spec = TensorSpec(FLOAT, shape)
    assert moving(counted(graph)) == expected


@pytest.mark.parametrize("name", SHARED)
def test_shared_models(name, shared):
    fed, shape, wanted, expected, total = SHARED[name]
    graph = graphdef.load(shared / "models" / f"{name}.pb")
    graph.inputs, graph.outputs = [graph.value(fed)], [graph.value(wanted)]
    graph.inputs[0].spec = TensorSpec(FLOAT, shape)
    counts = counted(graph)
    assert moving(counts) == expected
    assert counts.total() <= total
