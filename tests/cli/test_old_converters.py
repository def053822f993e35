"""tflite_convert, toco and quantize_graph as people typed them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.keras.written import dense, sequential, source, write_keras
from tests.transforms.golden import parse_graph
from thinflow import formats
from thinflow.cli import main
from thinflow.engines.session import Session
from thinflow.formats.savedmodel import save

CONV = """
    image = Placeholder() {dtype=float, shape=shape[?,6,6,3]}
    filter = Const() {value=float[3,3,3,4]{range}}
    scale = Const() {value=float[]{0.001}}
    weights = Mul(filter, scale) {T=float}
    conv = Conv2D(image, weights) {T=float, strides=[1,1,1,1], padding="SAME"}
    act = Relu6(conv) {T=float}
    axes = Const() {value=int32[2]{1,2}}
"""
FLOAT_GRAPH = f"""{CONV}
    flat = Mean(act, axes) {{T=float, Tidx=int32}}
    out = Softmax(flat) {{T=float}}
    inputs: image
    outputs: out
"""
TRAINED = f"""{CONV}
    low = Const() {{value=float[]{{0}}}}
    high = Const() {{value=float[]{{2.5}}}}
    fake = FakeQuantWithMinMaxVars(act, low, high) {{num_bits=8}}
    flat = Mean(fake, axes) {{T=float, Tidx=int32}}
    out = Softmax(flat) {{T=float}}
    inputs: image
    outputs: out
"""
X = np.random.default_rng(0).uniform(0, 1, (1, 6, 6, 3)).astype(np.float32)
ENDS = ["--input_arrays=image", "--output_arrays=out"]
CODES = ["--mean_values=0", "--std_dev_values=255"]


@pytest.fixture(autouse=True)
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    thinflow.save(parse_graph(FLOAT_GRAPH), "model.pb")
    thinflow.save(parse_graph(TRAINED), "trained.pb")


def expected(name: str = "model.pb") -> np.ndarray:
    return thinflow.run(name, {"image": X}, ["out"], engine="reference")["out"]


def answer(path: str) -> np.ndarray:
    """What a .tflite gives for X, whatever its types."""
    session = Session(path)
    codes, grid = X, session.grids.get("image")
    if grid is not None:
        limits = np.iinfo(session.inputs["image"].dtype.numpy())
        codes = np.clip(np.rint(X / grid[0]) + grid[1], limits.min, limits.max).astype(limits.dtype)
    (y,) = session.run(["out"], {"image": codes})
    scale, zero = session.grids.get("out", (1.0, 0))
    return (y.astype(np.float32) - zero) * np.float32(scale)


@pytest.mark.parametrize(
    "words",
    [
        ["tflite_convert", "--graph_def_file=model.pb", "--output_file=out.tflite", *ENDS],
        ["tflite_convert", "--graph_def_file", "model.pb", "--output_file", "out.tflite"],
        ["toco", "--input_file=model.pb", "--output_file=out.tflite", "--input_array=image",
         "--output_array=out:0"],
        ["toco", "--input_file=model.pb", "--output_file=out.tflite", *ENDS, "--input_shape=1,6,6,3",
         "--inference_type=FLOAT", "--input_format=TENSORFLOW_GRAPHDEF", "--output_format=TFLITE"],
    ],
)  # fmt: skip
def test_floats(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    assert "LiteRT agrees with the graph" in capsys.readouterr().out
    assert np.allclose(answer("out.tflite"), expected(), atol=1e-6)


def test_any_name_of_the_file_and_its_sizes() -> None:
    shape = "--input_shapes=1,6,6,3"
    assert main(["tflite_convert", "--graph_def_file=model.pb", "--output_file=converted", *ENDS, shape]) == 0
    assert Session("converted").inputs["image"].shape == (1, 6, 6, 3)


def test_a_saved_model() -> None:
    save(parse_graph(FLOAT_GRAPH), "saved")
    flags = ["--saved_model_tag_set=serve", "--saved_model_signature_key=serving_default"]
    assert main(["tflite_convert", "--saved_model_dir=saved", "--output_file=out.tflite", *flags]) == 0
    assert np.allclose(answer("out.tflite"), expected(), atol=1e-6)


def test_a_keras_model(capsys: pytest.CaptureFixture[str]) -> None:
    w = np.arange(6, dtype=np.float32).reshape(3, 2)
    write_keras(Path("m.keras"), sequential(source(3), dense(units=2)), {"layers/dense": [w]})
    assert main(["tflite_convert", "--keras_model_file=m.keras", "--output_file=out.tflite"]) == 0
    assert "it was not compared with m.keras itself" in capsys.readouterr().out
    session = Session("out.tflite")
    x = np.float32([[1, 2, 3]])
    (y,) = session.run(list(session.outputs), {next(iter(session.inputs)): x})
    assert np.allclose(y, x @ w)


@pytest.mark.parametrize("kind", ["QUANTIZED_UINT8", "INT8", "UINT8"])
def test_trained_ranges_are_kept(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    codes = CODES if kind != "INT8" else ["--mean_values=-128", "--std_dev_values=255"]
    words = ["tflite_convert", "--graph_def_file=trained.pb", "--output_file=out.tflite", *ENDS, *codes]
    assert main([*words, f"--inference_type={kind}"]) == 0, capsys.readouterr().err
    session = Session("out.tflite")
    wanted = "int8" if kind == "INT8" else "uint8"
    assert str(session.inputs["image"].dtype) == str(session.outputs["out"].dtype) == wanted
    scale, zero = session.grids["image"]
    assert scale == pytest.approx(1 / 255)
    assert zero == (-128 if kind == "INT8" else 0)
    assert np.abs(answer("out.tflite") - expected("trained.pb")).max() < 0.02
    graph = formats.load("out.tflite")
    assert not any(node.op == "tfl.FAKE_QUANT" for node in graph)
    scales = [n.attrs["quantization_scale"] for n in graph if n.op == "tfl.CONV_2D"]
    assert np.allclose(scales, [2.5 / 255], rtol=1e-5)  # what training knew, not what a sample shows


def test_the_quantize_command_keeps_them_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quantize", "trained.pb", "q.tflite"]) == 0
    assert "FAKE_QUANT" not in capsys.readouterr().out
    scales = [n.attrs["quantization_scale"] for n in formats.load("q.tflite") if n.op == "tfl.CONV_2D"]
    assert np.allclose(scales, [2.5 / 255], rtol=1e-5)


def test_default_ranges() -> None:
    words = ["toco", "--input_file=model.pb", "--output_file=out.tflite", *ENDS, *CODES]
    ranges = ["--default_ranges_min=0", "--default_ranges_max=6", "--inference_type=QUANTIZED_UINT8"]
    assert main([*words, *ranges]) == 0
    assert answer("out.tflite").argmax() == expected().argmax()


@pytest.mark.parametrize(("flags", "dtype"), [([], "int8"), (["--quantize_to_float16"], "half")])
def test_smaller_weights(flags: list[str], dtype: str) -> None:
    big = parse_graph(FLOAT_GRAPH.replace("[3,3,3,4]", "[3,3,3,64]"))
    thinflow.save(big, "big.pb")
    words = [
        "tflite_convert",
        "--graph_def_file=big.pb",
        "--output_file=out.tflite",
        "--post_training_quantize",
    ]
    assert main([*words, *flags]) == 0
    stored = {str(n.tensor.dtype) for n in formats.load("out.tflite") if n.tensor is not None}
    assert dtype in stored
    assert np.allclose(answer("out.tflite"), expected("big.pb"), atol=0.02)


def test_other_output_formats() -> None:
    words = ["toco", "--input_file=model.pb", *ENDS]
    assert main([*words, "--output_file=g.dot", "--output_format=GRAPHVIZ_DOT"]) == 0
    assert Path("g.dot").read_text().startswith("digraph")
    assert main([*words, "--output_file=again.pb", "--output_format=TENSORFLOW_GRAPHDEF"]) == 0
    assert np.allclose(expected("again.pb"), expected(), atol=1e-6)
    assert not any(node.op == "Mul" for node in thinflow.load("again.pb"))


def test_flags_that_change_nothing_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["tflite_convert", "--graph_def_file=model.pb", "--output_file=out.tflite", *ENDS, *CODES]
    inert = ["--reorder_across_fake_quant", "--experimental_new_converter=false", "--rnn_states={}"]
    assert main([*words, *inert]) == 0
    captured = capsys.readouterr()
    for flag in inert:
        assert f"{flag.partition('=')[0]} changes nothing: " in captured.err
    assert "mean nothing to a float model" in captured.out


DETECTOR = """
    image = Placeholder() {dtype=float, shape=shape[1,6,6,3]}
    filter = Const() {value=float[6,6,3,36]{normal 3}}
    scale = Const() {value=float[]{0.1}}
    weights = Mul(filter, scale) {T=float}
    conv = Conv2D(image, weights) {T=float, strides=[1,1,1,1], padding="VALID"}
    four = Const() {value=int32[3]{1,9,4}}
    boxes = Reshape(conv, four) {T=float, Tshape=int32}
    raw = Sigmoid(boxes) {T=float}
    begin = Const() {value=int32[3]{0,0,0}}
    size = Const() {value=int32[3]{1,9,3}}
    scores = Slice(raw, begin, size) {T=float, Index=int32}
    anchors = Const() {value=float[9,4]{0.5 x 36}}
    found = TFLite_Detection_PostProcess(boxes, scores, anchors) {max_detections=4, \
max_classes_per_detection=1, num_classes=2, nms_score_threshold=0.0, nms_iou_threshold=0.6, y_scale=10.0, \
x_scale=10.0, h_scale=5.0, w_scale=5.0, use_regular_nms=false}
"""


def test_an_object_detector_as_its_guide_converts_it(capsys: pytest.CaptureFixture[str]) -> None:
    """The four outputs of an op that TensorFlow does not have, and the flag that allows such ops."""
    thinflow.save(parse_graph(DETECTOR.replace("\\\n", "")), "tflite_graph.pb")
    outputs = ",".join(["found", *(f"found:{k}" for k in (1, 2, 3))])
    words = ["toco", "--input_file=tflite_graph.pb", "--output_file=detect.tflite", "--input_shapes=1,6,6,3"]
    ends = ["--input_arrays=image", f"--output_arrays={outputs}", "--inference_type=FLOAT"]
    assert main([*words, *ends, "--allow_custom_ops"]) == 0
    captured = capsys.readouterr()
    assert "LiteRT agrees with the graph" in captured.out
    assert captured.err == (
        "--allow_custom_ops: those that LiteRT comes with are written, with or without it\n"
    )
    assert len(Session("detect.tflite").outputs) == 4
    fallback = ["--default_ranges_min=0", "--default_ranges_max=6", "--mean_values=128", "--std_values=128"]
    kind = ["--inference_type=QUANTIZED_UINT8", "--change_concat_input_ranges=false", "--allow_custom_ops"]
    assert main([*words, *ends[:2], *kind, *fallback]) == 0
    found = Session("detect.tflite")
    assert str(found.inputs["image"].dtype) == "uint8"
    assert all(str(spec.dtype) == "float" for spec in found.outputs.values())


def test_ops_of_tensorflow_are_not_needed_here(capsys: pytest.CaptureFixture[str]) -> None:
    """Guides name both sets; a model that needs only the first converts."""
    assert main([*BASE, "--target_ops=TFLITE_BUILTINS,SELECT_TF_OPS"]) == 0
    assert "SELECT_TF_OPS: ops of TensorFlow are not written" in capsys.readouterr().err
    assert np.allclose(answer("out.tflite"), expected(), atol=1e-6)


def test_drawings_of_before_and_after(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*BASE, "--dump_graphviz_dir=dots/here"]) == 0
    assert "drawn in dots/here: toco_AT_IMPORT.dot and" in capsys.readouterr().out
    assert '[label="Relu6"]' in Path("dots/here/toco_AT_IMPORT.dot").read_text()
    assert '[label="tfl.CONV_2D"]' in Path("dots/here/toco_AFTER_TRANSFORMATIONS.dot").read_text()
    draw = ["toco", "--input_file=out.tflite", "--input_format=TFLITE", "--output_format=GRAPHVIZ_DOT"]
    assert main([*draw, "--output_file=t.dot"]) == 0
    assert '[label="tfl.CONV_2D"]' in Path("t.dot").read_text()
    assert main([*BASE, "--dump_graphviz=out.tflite/x"]) == 1
    assert "the folder cannot be made" in capsys.readouterr().err


def test_a_tflite_file_as_source(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(BASE) == 0
    again = ["toco", "--input_file=out.tflite", "--input_format=TFLITE", "--output_file=again.tflite"]
    assert main([*again, "--input_array=image", "--input_shape=2,6,6,3", "--output_array=out"]) == 0
    assert Session("again.tflite").inputs["image"].shape == (2, 6, 6, 3)
    assert "LiteRT agrees with the graph" in capsys.readouterr().out


def test_a_size_for_open_batches() -> None:
    assert main([*BASE, "--batch_size=3"]) == 0
    assert Session("out.tflite").inputs["image"].shape == (3, 6, 6, 3)


def test_words_of_the_first_toco(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--input_type=FLOAT", "--allow_nonascii_arrays", "--logtostderr", "--v=1"]
    assert main([*BASE, *words]) == 0
    assert capsys.readouterr().err == "--allow_nonascii_arrays changes nothing: names may be any text\n"


BASE = ["tflite_convert", "--graph_def_file=model.pb", "--output_file=out.tflite", *ENDS]
INTEGER = [*BASE, "--inference_type=QUANTIZED_UINT8"]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (INTEGER, "0 means for 1 inputs"),
        ([*INTEGER, "--mean_values=1"], "1 means and 0 standard deviations"),
        ([*INTEGER, *CODES], "nothing tells the range of 'act'"),
        ([*INTEGER, *CODES[:1], "--std_dev_values=0"], "a standard deviation of 0"),
        ([*INTEGER, *CODES[:1], "--std_dev_values=x"], "is no list of numbers"),
        ([*INTEGER, *CODES, "--default_ranges_min=1"], "two numbers that go together"),
        ([*INTEGER, *CODES, "--default_ranges_min=6", "--default_ranges_max=0"], "goes from 6 to 0"),
        ([*INTEGER, *CODES, "--post_training_quantize"], "starts from floats"),
        ([*INTEGER, *CODES, "--inference_input_type=INT8"], "differs from --inference_type"),
        ([*BASE, "--inference_type=QUANTIZED_UINT"], "did you mean 'QUANTIZED_UINT8'"),
        ([*BASE, "--inference_input_type=QUANTIZED_UINT8"], "need an integer --inference_type"),
        ([*BASE, "--quantize_to_float16"], "goes with --post_training_quantize"),
        ([*BASE, "--custom_opdefs=name: 'Acme'"], "ops of your own are not written"),
        ([*BASE, "--target_ops=SELECT_TF_OPS"], "ops of TensorFlow are not written"),
        ([*BASE, "--force_select_tf_ops"], "ops of TensorFlow are not written"),
        ([*BASE, "--target_ops=TFLITE_BUILTIN"], "did you mean 'TFLITE_BUILTINS'"),
        ([*BASE, "--arrays_extra_info_file=x.txt"], "ranges come from FakeQuant"),
        ([*BASE, "--batch_size=-2"], "is no size"),
        (
            [*BASE, "--input_format=TFLTE"],
            "--input_format=TFLTE is not supported\nhint: did you mean 'TFLITE'",
        ),
        ([*BASE, "--input_format=CAFFE"], "leave it out: the file itself tells; `thinflow convert` reads"),
        ([*BASE, "--output_format=PNG"], "--output_format=PNG is not supported"),
        ([*BASE, "--input_shapes=1,2:1"], "2 input shapes for 1 input arrays"),
        ([*BASE, "--input_shapes=1,x"], "cannot be read"),
        ([*BASE, "--input_shapes=1,,,3"], "is a variable of the shell not set?"),
        ([*BASE[:3], "--input_arrays=imge"], "did you mean 'image'"),
        ([*BASE[:3], "--output_arrays=outt"], "did you mean 'out'"),
        (["tflite_convert", "--graph_def_file=none.pb", "--output_file=o.tflite"], "there is no such file"),
        (["tflite_convert", "--keras_model_file=m.h5", "--output_file=o.tflite"], "there is no such file"),
    ],
)
def test_what_is_refused(words: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 1
    err = capsys.readouterr().err
    assert problem in err
    assert err.count("error: ") == 1
    assert not Path("out.tflite").exists()


@pytest.mark.parametrize("tool", ["tflite_convert", "toco", "quantize_graph"])
def test_usage(tool: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([tool, "--help"]) == 0
    assert f"thinflow {tool} --" in capsys.readouterr().out.partition("examples:")[2]
    assert main([tool]) == 2
    assert main([tool, "--ouput_file=x"]) == 2
    assert "did you mean" in capsys.readouterr().err


def test_one_model_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*BASE, "--saved_model_dir=x"]) == 2
    assert "give one model only" in capsys.readouterr().err
    assert main(["toco", "--input_file=model.pb"]) == 2
    assert "--output_file is needed" in capsys.readouterr().err


# --- quantize_graph -----------------------------------------------------------------------------------------

GRAPH = ["quantize_graph", "--input=model.pb", "--output=q.pb", "--output_node_names=out"]


@pytest.mark.parametrize(
    ("flags", "op", "tolerance"),
    [
        (["--mode=round", "--bitdepth=4"], "Const", 0.05),
        (["--mode=weights_rounded"], "Const", 0.01),
        (["--mode=weights"], "Conv2D", 0.01),
        (["--mode=eightbit"], "QuantizedConv2D", 0.05),
        (
            ["--mode=eightbit", "--quantized_fallback_min=-6", "--quantized_fallback_max=6"],
            "QuantizedConv2D",
            0.1,
        ),
    ],
)
def test_modes(flags: list[str], op: str, tolerance: float, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*GRAPH, *flags, "--print_nodes"]) == 0, capsys.readouterr().err
    assert capsys.readouterr().out.endswith("nodes in the quantized graph.\n")
    assert any(node.op == op for node in thinflow.load("q.pb"))
    assert np.abs(expected("q.pb") - expected()).max() < tolerance


def test_rounding_leaves_so_many_values() -> None:
    assert main([*GRAPH, "--mode=round", "--bitdepth=2"]) == 0
    rounded = thinflow.load("q.pb").node("filter").tensor
    assert rounded is not None
    assert len(np.unique(rounded.numpy())) <= 5  # zero stays zero


def test_inputs_as_codes() -> None:
    assert main([*GRAPH, "--mode=eightbit", "--quantized_input", "--quantized_input_max=2"]) == 0
    assert str(thinflow.load("q.pb").inputs[0].dtype) == "quint8"


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--mode=eightbits"], "did you mean 'eightbit'"),
        (["--mode=test"], "thinflow verify"),
        (["--mode=round", "--bitdepth=0"], "--bitdepth=0 is not possible"),
        (["--mode=eightbit", "--quantized_fallback_min=1"], "go together"),
        (["--mode=eightbit", "--quantized_input", "--quantized_input_min=x"], "is not a number"),
    ],
)
def test_wrong_modes(flags: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*GRAPH, *flags]) == 1
    assert problem in capsys.readouterr().err
