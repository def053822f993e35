"""Custom ops of LiteRT against the reference kernels."""

from __future__ import annotations

import numpy as np
import pytest

import thinflow
from tests.lower.tflite.harness import Net, compare, run_litert
from thinflow.errors import UnsupportedOp
from thinflow.interpreter import Plan
from thinflow.lower.tflite.convert import lower_graph
from thinflow.tflite.reader import read_program
from thinflow.tflite.writer import to_bytes

RATE = np.int32(16000)
SCALES = {"y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0}


def tone(samples=2400, channels=1):
    rng = np.random.default_rng(3)
    seconds = np.arange(samples)[:, None] / 16000
    sound = np.sin(2 * np.pi * seconds * np.linspace(440, 1800, channels)) * 0.4
    return (sound + rng.normal(0, 0.05, sound.shape)).astype(np.float32)


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize(
    ("window", "stride", "channels"), [(480, 160, 1), (512, 512, 2), (640, 320, 1), (3, 7, 1)]
)
def test_spectrogram(window, stride, channels, squared):
    net = Net()
    attrs = {"window_size": window, "stride": stride, "magnitude_squared": squared}
    y = net.op("AudioSpectrogram", net.feed(tone(channels=channels)), **attrs)
    assert net.check(y, rtol=1e-4, atol=1e-4) == ["CUSTOM"]


@pytest.mark.parametrize(
    "attrs",
    [
        {},
        {"dct_coefficient_count": 40},
        {"upper_frequency_limit": 7600.0, "lower_frequency_limit": 125.0, "filterbank_channel_count": 20},
        {"upper_frequency_limit": 20000.0, "dct_coefficient_count": 1},
    ],
)
def test_mfcc(attrs):
    net = Net()
    sound = net.feed(tone())
    spectrogram = net.op("AudioSpectrogram", sound, window_size=480, stride=160, magnitude_squared=True)
    y = net.op("Mfcc", spectrogram, RATE, **attrs)
    assert net.check(y, rtol=1e-3, atol=1e-3) == ["CUSTOM", "CUSTOM"]


def test_options_and_names_reach_the_file():
    net = Net()
    y = net.op("AudioSpectrogram", net.feed(tone()), name="sound/spectrum", window_size=480, stride=160)
    (operator,) = read_program(to_bytes(net.lower(y).program)).subgraphs[0].operators
    assert operator.custom_code == "AudioSpectrogram"
    flexbuffers = pytest.importorskip("flatbuffers.flexbuffers")
    assert flexbuffers.Loads(operator.custom_options) == {
        "window_size": 480,
        "stride": 160,
        "magnitude_squared": False,
    }
    assert operator.outputs[0].name == "sound/spectrum"


@pytest.mark.parametrize(
    ("shape", "attrs", "message"),
    [
        ((None, 1), {"window_size": 480, "stride": 160}, "the number of samples is not known"),
        ((100, 1), {"window_size": 480, "stride": 160}, "100 samples are less than a window of 480"),
        ((2400, 1), {"window_size": 1, "stride": 160}, "a window of 1 every 160 samples"),
    ],
)
def test_spectrograms_that_litert_cannot_make(shape, attrs, message):
    net = Net()
    y = net.op("AudioSpectrogram", net.feed(tone(), shape=shape), **attrs)
    with pytest.raises(UnsupportedOp, match=message):
        net.lower(y)


def test_half_a_hertz_is_refused():
    net = Net()
    y = net.op("Mfcc", net.feed(np.ones((1, 5, 257), np.float32)), RATE, lower_frequency_limit=20.5)
    with pytest.raises(UnsupportedOp, match="whole numbers of hertz only, unlike its lower_frequency_limit"):
        net.lower(y)


def detector(anchors=60, classes=5, background=1, batch=1, **attrs):
    rng = np.random.default_rng(11)
    net = Net()
    encodings = net.feed(rng.normal(size=(batch, anchors, 4)).astype(np.float32), "encodings")
    scores = net.feed(rng.random((batch, anchors, classes + background)).astype(np.float32), "scores")
    grid = np.concatenate([rng.random((anchors, 2)), rng.uniform(0.1, 0.4, (anchors, 2))], 1)
    given = {
        "max_detections": 10,
        "max_classes_per_detection": 1,
        "num_classes": classes,
        "nms_score_threshold": 0.3,
        "nms_iou_threshold": 0.5,
        "use_regular_nms": False,
        **SCALES,
        **attrs,
    }
    name = "TFLite_Detection_PostProcess"
    node = net.op(name, encodings, scores, grid.astype(np.float32), name="detect", **given).node
    return net, [node.output(port) for port in range(4)]


@pytest.mark.parametrize(
    "attrs",
    [
        {},
        {"background": 0},
        {"max_classes_per_detection": 3},
        {"use_regular_nms": True},
        {"use_regular_nms": True, "detections_per_class": 2, "max_detections": 7},
        {"nms_score_threshold": 0.99, "use_regular_nms": True},
    ],
)
def test_detections(attrs):
    net, outputs = detector(**attrs)
    lowered = net.lower(*outputs)
    assert [o.custom_code for o in lowered.program.subgraphs[0].operators] == ["TFLite_Detection_PostProcess"]
    found = run_litert(lowered, {v.name: a for v, a in net.feeds.items()})
    expected = net.reference(*outputs)
    compare(found["detect:3"], expected[3])
    # The kernel leaves what is behind the detections as it was.
    count = int(expected[3][0]) * attrs.get("max_classes_per_detection", 1)
    for value, array in zip(outputs[:3], expected[:3], strict=True):
        compare(found[value.name][:, :count], array[:, :count], 1e-5, 1e-6)
    assert count > 0 or attrs.get("nms_score_threshold", 0) > 0.9


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({"batch": 2}, "one image at a time, not 2"),
        ({"nms_iou_threshold": 0.0}, "an overlap of 0 cannot be a threshold"),
    ],
)
def test_detectors_that_litert_cannot_run(attrs, message):
    net, outputs = detector(**attrs)
    with pytest.raises(UnsupportedOp, match=message):
        net.lower(*outputs)


def test_a_detector_made_to_end_in_the_op():
    net, _ = detector()
    graph, anchors = net.graph, next(n for n in net.graph if n.op == "Const")
    call = (
        f"fuse_detection_postprocess(boxes=encodings, scores=scores, anchors={anchors.name}, num_classes=5)"
    )
    graph.remove(graph.node("detect"))
    graph.inputs, graph.outputs = list(net.feeds), [next(iter(net.feeds))]
    fused = thinflow.transform(graph, call, verify=False)
    lowered = lower_graph(fused, fused.inputs, fused.outputs)
    found = run_litert(lowered, {v.name: a for v, a in net.feeds.items()})
    assert list(lowered.outputs) == [
        "detection_boxes",
        "detection_classes",
        "detection_scores",
        "num_detections",
    ]
    feeds = {fused.value(v.name): a for v, a in net.feeds.items()}
    expected = Plan(fused, fused.outputs, list(feeds)).run(feeds)
    count = int(expected[3][0])
    assert found["num_detections"].tolist() == [count]
    assert count > 10
    np.testing.assert_array_equal(found["detection_classes"][:, :count], expected[1][:, :count])
    assert expected[1][:, :count].min() >= 1
