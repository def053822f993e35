"""`thinflow inspect` on .tflite and .onnx files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.cli import main
from thinflow.ir.types import FLOAT, INT8
from thinflow.tflite.model import Operator, Program, Quantization, Subgraph, Tensor
from thinflow.tflite.writer import to_bytes

TEXT = """
x = Placeholder() {dtype=float, shape=shape[1,4]}
w = Const() {dtype=float, value=float[4,2]{1,2,3,4,5,6,7,8}}
y = MatMul(x, w) {T=float}
z = Softmax(y) {T=float}
inputs: x
outputs: z
"""


def lines(path: Path, capsys: pytest.CaptureFixture[str], *flags: str) -> list[str]:
    assert main(["inspect", str(path), *flags]) == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("suffix", "kind", "engine"),
    [
        (".tflite", "a LiteRT model (float32;", "litert"),
        (".onnx", "an ONNX model (float32; opset 17;", "onnxruntime"),
    ],
)
def test_a_converted_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], suffix: str, kind: str, engine: str
) -> None:
    path = tmp_path / f"m{suffix}"
    thinflow.save(parse_graph(TEXT), path)
    found = lines(path, capsys)
    assert found[0].startswith(f"m{suffix} is {kind}")
    assert "2 operators" in found[0]
    assert "  x: an input of float[1,4]" in found
    assert "  z: an output of float[1,2]" in found
    assert found[-1] == f"next: thinflow benchmark {path} --engine {engine}"
    data = json.loads("\n".join(lines(path, capsys, "--json")))
    assert data["vocabulary"] == {".tflite": "tflite", ".onnx": "onnx"}[suffix]
    assert data["precision"] == "float32"
    assert data["macs"] == 8


def test_litert_has_the_ops_of_sound_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = parse_graph("""
x = Placeholder() {dtype=float, shape=shape[1600,1]}
y = AudioSpectrogram(x) {window_size=400, stride=160, magnitude_squared=true}
inputs: x
outputs: y
""")
    path = tmp_path / "m.tflite"
    thinflow.save(graph, path)
    found = lines(path, capsys)
    assert "ops of the runtime's own, beyond the standard: AudioSpectrogram" in found
    assert found[-1] == f"next: thinflow benchmark {path} --engine litert"


@pytest.mark.parametrize("suffix", ["tflite", "onnx"])
def test_a_file_of_floats_can_be_made_smaller(
    tmp_path: Path, suffix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    graph, path = parse_graph(DENSE), tmp_path / f"m.{suffix}"
    thinflow.save(graph, path)
    told = f"weights are floats: `thinflow optimize {path} m_out` tries int8"
    assert told in lines(path, capsys)
    thinflow.quantize(graph).save(tmp_path / "q.tflite")
    assert not any(line.startswith("weights are floats") for line in lines(tmp_path / "q.tflite", capsys))


DENSE = f"""
x = Placeholder() {{dtype=float, shape=shape[1,32]}}
w = Const() {{dtype=float, value=float[32,32]{{{", ".join(str(n % 7 - 3) for n in range(1024))}}}}}
y = MatMul(x, w) {{T=float}}
inputs: x
outputs: y
"""


def test_what_an_app_must_bring(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    q = Quantization(np.float32([0.5]), np.int64([0]))
    x, y = (Tensor(n, (1, 4), INT8, quantization=q) for n in "xy")
    z = Tensor("z", (1, 4), FLOAT)
    steps = [
        Operator("CUSTOM", [x], [y], custom_code="MyOp"),
        Operator("CUSTOM", [y], [z], custom_code="FlexErf"),
    ]
    program = Program([Subgraph([x], [z], steps)], metadata={"min_runtime_version": b"2.3.0" + bytes(11)})
    (tmp_path / "m.tflite").write_bytes(to_bytes(program))
    found = lines(tmp_path / "m.tflite", capsys)
    assert found[0].startswith("m.tflite is a LiteRT model (int8; for runtimes from 2.3.0): 2 operators")
    assert "custom ops: MyOp; the app's runtime must have them registered" in found
    assert "TensorFlow ops inside: Erf; they need the Flex delegate" in found


@pytest.mark.parametrize(
    "command",
    [
        *("convert {m} {o}.onnx", "convert {m} {o}.pb", "transform {m} {o}.pb -t fold_constants"),
        *("optimize {m} {o} --no-benchmark", "quantize {m} {o}.tflite --scheme float16"),
    ],
)
def test_every_command_takes_a_converted_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    thinflow.save(parse_graph(TEXT), tmp_path / "m.tflite")
    words = command.format(m=tmp_path / "m.tflite", o=tmp_path / "out").split()
    assert main(words) == 0, capsys.readouterr().err
    assert list(tmp_path.glob("out*"))


def test_kernels_of_tensorflow_are_asked_of_its_models(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    thinflow.save(parse_graph(TEXT), tmp_path / "m.tflite")
    assert main(["print_selective_registration_header", f"--graphs={tmp_path / 'm.tflite'}"]) == 1
    message = capsys.readouterr().err
    assert "is a LiteRT model, which cannot be built into TensorFlow" in message
    assert "hint: give it in TensorFlow's ops: thinflow convert " in message
    assert main(["convert", str(tmp_path / "m.tflite"), str(tmp_path / "again.pb")]) == 0
    assert main(["print_selective_registration_header", f"--graphs={tmp_path / 'again.pb'}"]) == 0


@pytest.mark.parametrize(
    ("domain", "finding", "step"),
    [
        ("com.acme", "custom ops: com.acme.Gelu; the app's runtime must have them", "view {} -o m.html"),
        (
            "com.microsoft",
            "ops of the runtime's own, beyond the standard: com.microsoft.Gelu",
            "benchmark {} ",
        ),
    ],
)
def test_ops_of_other_domains(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], domain: str, finding: str, step: str
) -> None:
    helper = pytest.importorskip("onnx").helper
    ends = [[helper.make_tensor_value_info(n, 1, [2])] for n in "xy"]
    graph = helper.make_graph([helper.make_node("Gelu", ["x"], ["y"], domain=domain)], "g", *ends)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(domain, 1)]
    path = tmp_path / "m.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())
    found = lines(path, capsys)
    assert any(line.startswith(finding) for line in found)
    assert found[-1].startswith(f"next: thinflow {step.format(path)}")
