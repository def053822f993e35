"""Trained models in eight bits, on clips that calibration did not see."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.quantize.programs import codes, interpreter, quantize, sqnr
from thinflow.analysis.shapes import infer_shapes
from thinflow.formats.graphdef import load
from thinflow.interpreter import Plan
from thinflow.ir.types import FLOAT, TensorSpec
from thinflow.lower.tflite.convert import lower_graph
from thinflow.tflite.model import Program


def outputs(program: Program, arrays: list[np.ndarray]) -> np.ndarray:
    session = interpreter(program, plain=False)
    found = []
    for array in arrays:
        session.set_tensor(session.get_input_details()[0]["index"], array)
        session.invoke()
        found.append(session.get_tensor(session.get_output_details()[0]["index"]).copy())
    return np.concatenate(found)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "decibels"), [("DS_CNN_S", 28), ("CNN_S", 31), ("DNN_S", 33)])
def test_keyword_models(name: str, decibels: float, shared: Path) -> None:
    graph = load(shared / "models" / f"kws_{name}.pb")
    sound, features = graph.value("wav_data"), graph.value("Mfcc")
    plan = Plan(graph, [features], [sound])
    clips = sorted((shared / "data" / "kws").glob("*.wav"))[::2]
    arrays = [plan.run({sound: np.array(c.read_bytes(), object)})[0] for c in clips]
    infer_shapes(graph)
    spec = replace(features.spec, shape=arrays[0].shape)
    infer_shapes(graph, {features: spec})
    features.spec = spec
    logits = next(n for n in graph if n.op == "Softmax").inputs[0]
    specs = {v: v.spec for n in graph for v in n.outputs}
    program = lower_graph(graph, [features], [logits], specs=specs).program
    key = program.subgraphs[0].inputs[0].name
    result = quantize(program, [{key: a} for a in arrays[::2]])
    assert not result.float_operators
    assert codes(result.program).count("QUANTIZE") == codes(result.program).count("DEQUANTIZE") == 1
    expected, found = (outputs(p, arrays[1::2]) for p in (program, result.program))
    assert sqnr(expected, found) > decibels
    assert np.mean(expected.argmax(1) == found.argmax(1)) > 0.9


@pytest.mark.slow
def test_batch_statistics_of_the_pose_model_stay_float(shared: Path) -> None:
    graph = load(shared / "models" / "pose_v2s.pb")
    picture = np.load(shared / "models" / "reference.npz")["pose_v2s/input"].astype(np.float32)
    image, maps = graph.value("image"), graph.value("Openpose/concat_stage7")
    infer_shapes(graph, {image: TensorSpec(FLOAT, picture.shape)})
    specs = {v: v.spec for n in graph for v in n.outputs}
    program = lower_graph(graph, [image], [maps], specs=specs).program
    result = quantize(program, [{"image": picture}])
    float_codes = {o.code for o, _ in result.float_operators}
    assert "RSQRT" in float_codes
    assert not float_codes & {"CONV_2D", "DEPTHWISE_CONV_2D", "CONCATENATION"}
    assert codes(result.program).count("RSQRT") == 39
    assert codes(result.program).count("QUANTIZE") == codes(result.program).count("DEQUANTIZE") == 40
    expected, found = (outputs(p, [picture]) for p in (program, result.program))
    assert sqnr(expected, found) > 10
