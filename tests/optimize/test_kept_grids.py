"""Quantized files in, quantized files out: the same scales, without samples."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import thinflow
from benchmarks.ptq.cases import MODELS
from tests.lower.c.c_networks import Layers
from tests.night import some
from tests.transforms.golden import parse_graph
from thinflow import formats
from thinflow.analysis.foreign_quant_params import params_of
from thinflow.cli import main
from thinflow.errors import VerificationError
from thinflow.ir.types import INT8, INT32
from thinflow.lift.grids import grid_of
from thinflow.optimize import beside_source, kept_grids
from thinflow.optimize.made_layers import made_layers
from thinflow.quantize.recipe import Decision, Quantized
from thinflow.tflite.model import Operator, Program, Quantization, Subgraph, Tensor
from thinflow.tflite.reader import read_program
from thinflow.tflite.writer import to_bytes
from thinflow.transforms.quantized.grids import kept_grids as kept_grids_of

pytest.importorskip("ai_edge_litert")
pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")

FILES = (
    "hello_world_int8 micro_speech_quantized mlperf_ad01_int8 mlperf_kws_ref mlperf_resnet_quant"
    " mlperf_str_ww mlperf_vww_96_int8 mobilenet_v1_025_224_quant person_detect"
)


@pytest.mark.parametrize(
    ("suffix", "name"), some([(s, n) for s in (".tflite", ".onnx") for n in FILES.split()], 2)
)
def test_real_files(name: str, suffix: str, shared: Path, tmp_path: Path) -> None:
    source = shared / "zoo" / "tflite" / f"{name}.tflite"
    stored = np.load(source.with_suffix(".npz"))
    feeds = [stored[k] for k in stored if k.startswith("in:")]
    graph = thinflow.load(source)
    target = tmp_path / f"m{suffix}"
    size = thinflow.convert(graph, target)
    assert size < 1.1 * source.stat().st_size + 3000
    given = [v.name for v in graph.inputs]
    # By position: ONNX and LiteRT call tensors what the file does, as far as they can.
    names = [v.name for v in thinflow.load(target, lift=False).inputs]
    assert len(names) == len(given)
    answers = thinflow.run(target, dict(zip(names, feeds, strict=True))).values()
    for key, found in zip((k for k in stored if k.startswith("out:")), answers, strict=True):
        nearest = [stored[k] for k in (key, f"ref-{key}") if k in stored]
        assert found.dtype == stored[key].dtype
        assert min(np.abs(found.astype(int) - one).max() for one in nearest) <= 1


@pytest.mark.parametrize("suffix", [".tflite", ".onnx"])
def test_by_way_of_a_graph_that_states_the_grids(suffix: str, shared: Path, tmp_path: Path) -> None:
    """Nothing in a GraphDef says what is an output, and its codes stay the only one."""
    source = shared / "zoo" / "tflite" / "hello_world_int8.tflite"
    thinflow.convert(source, tmp_path / "m.pb")
    assert [v.dtype for v in thinflow.load(tmp_path / "m.pb").outputs] == [INT8]
    thinflow.convert(tmp_path / "m.pb", tmp_path / f"m{suffix}")
    codes = np.arange(-128, 128, dtype=np.int8)[:, None]
    answers = [
        next(iter(thinflow.run(path, {thinflow.load(path, lift=False).inputs[0].name: codes}).values()))
        for path in (source, tmp_path / f"m{suffix}")
    ]
    np.testing.assert_array_equal(*answers)


def test_scales_stay(shared: Path, tmp_path: Path) -> None:
    source = shared / "zoo" / "tflite" / "mlperf_kws_ref.tflite"
    thinflow.convert(thinflow.load(source), tmp_path / "m.tflite")
    before, after = (_grids(path) for path in (source, tmp_path / "m.tflite"))
    # The pool over all of the picture is a mean now, and what was reshaped has the grid of what it was.
    assert before <= after | Counter({grid: 9 for grid in after})
    assert set(before) == set(after)


def _grids(path: Path) -> Counter:
    found = (params_of(n.output()) for n in formats.load(path) if n.op.startswith("tfl."))
    return Counter((p.scale, p.zero_point) for p in found if p is not None)


def qdq(path: Path, seed: int) -> tuple[Path, list[dict[str, np.ndarray]]]:
    """A small net that ONNX Runtime's own tool has quantized, and samples."""
    quantization = pytest.importorskip("onnxruntime.quantization")
    helper, rng = onnx.helper, np.random.default_rng(seed)
    inits = {
        "w0": rng.standard_normal((8, 3, 3, 3)) / 5, "b0": rng.standard_normal(8) / 10,
        "w1": rng.standard_normal((8, 1, 3, 3)) / 3, "b1": rng.standard_normal(8) / 10,
        "w2": rng.standard_normal((5, 16)) / 4, "b2": rng.standard_normal(5) / 10,
    }  # fmt: skip
    near = {"kernel_shape": [3, 3], "pads": [1] * 4}
    nodes = [
        helper.make_node("Conv", ["x", "w0", "b0"], ["c0"], strides=[2, 2], **near),
        helper.make_node("Relu", ["c0"], ["r0"]),
        helper.make_node("Conv", ["r0", "w1", "b1"], ["c1"], group=8, **near),
        helper.make_node("Add", ["r0", "c1"], ["a"]),
        helper.make_node("Concat", ["a", "r0"], ["j"], axis=1),
        helper.make_node("GlobalAveragePool", ["j"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "w2", "b2"], ["y"], transB=1),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", 1, (1, 3, 12, 12))],
        [helper.make_tensor_value_info("y", 1, None)],
        [onnx.numpy_helper.from_array(a.astype(np.float32), n) for n, a in inits.items()],
    )  # fmt: skip
    plain = path.with_suffix(".float.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), plain)
    feeds = [{"x": rng.standard_normal((1, 3, 12, 12)).astype(np.float32)} for _ in range(4)]

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc, name-defined]
        left = iter(feeds)

        def get_next(self) -> dict[str, np.ndarray] | None:
            return next(self.left, None)

    kinds, has_zeros = quantization.QuantType, seed in (1, 5)
    kind = kinds.QUInt8 if seed % 2 else kinds.QInt8
    quantization.quantize_static(
        plain, path, Reader(), quant_format=quantization.QuantFormat.QDQ, activation_type=kind,
        weight_type=kinds.QUInt8 if has_zeros else kinds.QInt8, per_channel=bool(seed % 3) and not has_zeros,
    )  # fmt: skip
    return path, feeds


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(6))
def test_onnx_with_its_own_scales(seed: int, tmp_path: Path) -> None:
    source, feeds = qdq(tmp_path / "m.onnx", seed)
    graph = thinflow.load(source)
    (step,) = {grid_of(n).scale for n in kept_grids_of(graph) if "y_" in n.name}  # type: ignore[union-attr]
    for target in (tmp_path / "m.tflite", tmp_path / "again.onnx"):
        thinflow.convert(graph, target)
        for feed in feeds:
            (expected,) = thinflow.run(source, feed).values()
            (found,) = thinflow.run(target, feed).values()
            # LiteRT's kernels round otherwise, also in the layers before the last.
            allowed = 3.01 if target.suffix == ".tflite" else 1.01
            assert np.abs(found - expected).max() <= allowed * step
    operators = Counter(n.op for n in formats.load(tmp_path / "m.tflite"))
    assert operators["tfl.CONV_2D"] == operators["tfl.DEPTHWISE_CONV_2D"] == 1
    assert operators["tfl.QUANTIZE"] <= 3
    assert not {"tfl.FAKE_QUANT", "tfl.CAST", "tfl.ROUND"} & operators.keys()


@pytest.mark.filterwarnings("ignore")
def test_a_part_of_a_quantized_model(tmp_path: Path) -> None:
    source, feeds = qdq(tmp_path / "m.onnx", 1)
    thinflow.convert(source, tmp_path / "part.tflite", outputs=["r0_QuantizeLinear_Output"])
    (found,) = thinflow.run(tmp_path / "part.tflite", feeds[0]).values()
    assert found.dtype == np.uint8


def test_a_file_that_answers_otherwise_is_not_written(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = thinflow.load(shared / "zoo" / "tflite" / "mlperf_kws_ref.tflite")
    right = kept_grids.quantize_int8

    def wrong(program, ranges, *rest):  # type: ignore[no-untyped-def]
        return right(
            program, {t: r._replace(low=r.low * 9, high=r.high * 9) for t, r in ranges.items()}, *rest
        )

    monkeypatch.setattr(kept_grids, "quantize_int8", wrong)
    with pytest.raises(VerificationError, match=r"the file gives .* for 'Identity'"):
        thinflow.convert(graph, tmp_path / "m.tflite")
    assert not (tmp_path / "m.tflite").exists()


def test_quantizing_anew_keeps_the_ranges(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = shared / "zoo" / "tflite" / "mlperf_kws_ref.tflite"
    assert main(["quantize", str(source), str(tmp_path / "m.tflite"), "--samples", "2"]) == 0
    assert "codes of inputs and outputs are float32 from here on" in capsys.readouterr().out
    written = thinflow.load(tmp_path / "m.tflite", lift=False)
    assert [v.dtype.name for v in (*written.inputs, *written.outputs) if v.dtype] == ["float", "float"]
    assert not {"tfl.CAST", "tfl.ROUND"} & {n.op for n in written}
    # The ranges of the file's layers: samples that are made up would tell others.
    assert set(_grids(source)) >= {g for g in _grids(tmp_path / "m.tflite") if g[1] == -128 and g[0] > 0.01}


@pytest.mark.parametrize("suffix", [".tflite", ".onnx"])
def test_nothing_is_said_of_ranges_that_samples_did_not_give(
    suffix: str, shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = shared / "zoo" / "tflite" / "hello_world_int8.tflite"
    assert main(["quantize", str(source), str(tmp_path / f"m{suffix}")]) == 0
    said = capsys.readouterr().out
    assert "tensors keep the eight-bit ranges that the model states, none is from samples" in said
    assert "made-up inputs: speed and size are real, accuracy is not" in said
    assert "ranges fit" not in said
    assert "calibration samples" not in said


def test_the_report_says_whose_ranges_they_are(shared: Path, tmp_path: Path) -> None:
    source = shared / "zoo" / "tflite" / "hello_world_int8.tflite"
    report = thinflow.optimize(source, tmp_path, measure=False)
    assert "the eight-bit ranges that the model states, none is from samples" in " ".join(report.origin)
    assert "ranges fit the made-up data" not in " ".join(report.warnings)
    assert "until real samples have been tried" in str(report)


def test_ranges_of_samples_are_counted_beside_those_of_the_model() -> None:
    decisions = [
        Decision(name, np.ones(1, np.float32), 0, (0.0, 1.0), observer, "")
        for name, observer in (("a", "trained"), ("b", "minmax"), ("c", "weights"), ("d", "kept"))
    ]
    made = Quantized(None, decisions)
    assert (made.stated, made.measured) == (["a", "d"], ["b"])


@pytest.mark.parametrize("scheme", ["int8", "int16x8"])
def test_a_fused_lstm_that_stays_float_is_told_first(
    scheme: str, shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = shared / "zoo" / "keras" / "emg_lstm.keras", tmp_path / "m.tflite"
    assert main(["quantize", str(source), str(target), "--scheme", scheme]) == 0
    first = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("  float:"))
    assert "UNIDIRECTIONAL_SEQUENCE_LSTM" in first
    assert first.endswith(
        "its state would have eight bits, which every step rounds again"
        if scheme == "int8"
        else "LiteRT's integer LSTM has inputs of eight bits"
    )


def test_sixteen_bits_of_an_lstm_that_begins_with_zeros(shared: Path, tmp_path: Path) -> None:
    source = shared / "zoo" / "onnx" / "lstm_vae_encoder.onnx"
    assert main(["quantize", str(source), str(tmp_path / "m.tflite"), "--scheme", "int16x8"]) == 0


@pytest.mark.parametrize("suffix", [".tflite", ".onnx"])
@pytest.mark.parametrize("clamp", ["RELU", "RELU6"])
def test_grids_wider_than_a_clamp(clamp: str, suffix: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)

    def grid(*scales: float) -> Quantization:
        return Quantization(np.float32(scales), np.zeros(len(scales), np.int64))

    x = Tensor("x", (1, 6, 6, 4), INT8, quantization=grid(0.1))
    w = Tensor(
        "w", (8, 3, 3, 4), INT8, rng.integers(-99, 99, (8, 3, 3, 4), np.int8), quantization=grid(0.004)
    )
    b = Tensor("b", (8,), INT32, rng.integers(-900, 900, 8, np.int32), quantization=grid(0.0004))
    # From -6.4 to 6.35, as training chose it before the clamp.
    y = Tensor("y", (1, 6, 6, 8), INT8, quantization=grid(0.05))
    z = Tensor("z", (1, 6, 6, 8), INT8, quantization=grid(0.05))
    near = {"padding": "SAME", "stride_w": 1, "stride_h": 1, "fused_activation_function": clamp}
    pool = {"padding": "SAME", "stride_w": 1, "stride_h": 1, "filter_width": 2, "filter_height": 2}
    steps = [Operator("CONV_2D", [x, w, b], [y], near), Operator("AVERAGE_POOL_2D", [y], [z], pool)]
    source, target = tmp_path / "s.tflite", tmp_path / f"m{suffix}"
    source.write_bytes(to_bytes(Program([Subgraph([x], [z], steps)])))
    feed = {"x": rng.integers(-128, 127, (1, 6, 6, 4), np.int8, endpoint=True)}
    (expected,) = thinflow.run(source, feed).values()
    assert expected.min() >= 0
    thinflow.convert(thinflow.load(source), target)
    (found,) = thinflow.run(target, feed).values()
    assert np.abs(found.astype(int) - expected).max() <= 1


@pytest.mark.parametrize("verb", ["quantize", "optimize"])
def test_a_model_of_integers_has_its_lstms_in_integers(verb: str, tmp_path: Path) -> None:
    """Also those that are faster as a loop, which hands over floats."""
    source, target = MODELS / "lstm.keras", tmp_path / "m.tflite"
    ends = ["--input-type", "int8", "--output-type", "int8"]
    if verb == "optimize":
        (tmp_path / "r.toml").write_text('version = 1\n[recipe]\ninput_type = "int8"\noutput_type = "int8"\n')
        ends, target = ["--recipe", str(tmp_path / "r.toml"), "--no-benchmark"], tmp_path / "out"
    assert main([verb, str(source), str(target), "--effort", "none", *ends]) == 0
    if verb == "optimize":
        # The float model keeps what is faster.
        assert len(read_program((target / "lstm_fp32.tflite").read_bytes()).subgraphs) > 1
        target = target / "lstm_int8.tflite"
    program = read_program(target.read_bytes())
    lstms = [o for o in program.subgraphs[0].operators if o.code == "UNIDIRECTIONAL_SEQUENCE_LSTM"]
    assert [o.inputs[0].dtype.name for o in lstms] == ["int8", "int8"]
    assert len(program.subgraphs) == 1


@pytest.mark.parametrize("suffix", [".tflite", ".onnx"])
@pytest.mark.parametrize("low", [0, 50])
def test_a_second_grid_that_cuts_off_what_another_reader_has(low: int, suffix: str, tmp_path: Path) -> None:
    """Quantizers fold a Relu into the grid behind it: y = |x| + x within the limits of the second grid."""
    helper, numpy_helper = onnx.helper, onnx.numpy_helper
    grids = {"wide": (0.02, 128), "cut": (0.01, low), "sum": (0.02, 60)}
    constants = []
    for name, (scale, zero) in grids.items():
        constants.append(numpy_helper.from_array(np.float32(scale), f"{name}_s"))
        constants.append(numpy_helper.from_array(np.uint8(zero), f"{name}_z"))
    nodes = []

    def round_to(grid: str, x: str, y: str) -> None:
        ends = [f"{grid}_s", f"{grid}_z"]
        nodes.append(helper.make_node("QuantizeLinear", [x, *ends], [f"{y}_codes"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"{y}_codes", *ends], [y]))

    round_to("wide", "x", "a")
    round_to("cut", "a", "b")
    nodes.append(helper.make_node("Abs", ["a"], ["c_exact"]))
    round_to("wide", "c_exact", "c")
    nodes.append(helper.make_node("Add", ["b", "c"], ["y_exact"]))
    round_to("sum", "y_exact", "y")
    ends = [helper.make_tensor_value_info(name, 1, [1, 64]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], constants)
    source, target = tmp_path / "s.onnx", tmp_path / f"m{suffix}"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    source.write_bytes(model.SerializeToString())
    thinflow.convert(thinflow.load(source), target)
    feed = {"x": np.linspace(-2.6, 2.6, 64, dtype=np.float32)[None]}
    (expected,) = thinflow.run(source, feed).values()
    (found,) = thinflow.run(target, feed).values()
    np.testing.assert_allclose(found, expected, atol=0.021)


def test_few_places_of_a_map_of_classes_may_be_another_class() -> None:
    classes = np.zeros(1000, np.int64)
    for apart, is_fine in ((90, True), (110, False)):
        other = classes.copy()
        other[:apart] = 20
        assert kept_grids._is_astray_in_few(other, classes) is is_fine
    assert not kept_grids._is_astray_in_few(np.full(1, 20), np.zeros(1, np.int64))


def test_what_no_output_was_compared_of_is_not_said_to_agree() -> None:
    text = """
boxes = Placeholder() {dtype=float, shape=shape[4,4]}
scores = Placeholder() {dtype=float, shape=shape[4]}
most = Const() {dtype=int32, value=int32[]{2}}
at = NonMaxSuppression(boxes, scores, most) {iou_threshold=0.5}
y = Neg(scores) {T=float}
inputs: boxes, scores
outputs: at, y
"""
    graph = parse_graph(text)
    told = {
        count: kept_grids._agrees(
            SimpleNamespace(engine="onnxruntime", core=SimpleNamespace(outputs=graph.outputs[:count])), 0.5
        )
        for count in (1, 2)
    }
    assert told[1].startswith("ONNX Runtime runs it; its detections were not compared one by one")
    assert "answers as the graph does, up to 0.5" in told[2]
    assert "detections were not compared one by one" in told[2]


def test_two_grids_in_a_row_of_which_the_second_is_no_clamp(tmp_path: Path) -> None:
    """max(a x, x) of codes, as PReLU is stored: both sides are brought to the grid of the larger."""
    net = Layers(1, 4, 4, 3)
    x = net.conv(3)
    assert x.quantization is not None
    x.quantization.zero_point[:] = -20
    step = float(x.quantization.scale[0])
    slope = net.constant("a", np.array([[[-18, 90, 127]]], np.int8), 0.0085)
    scaled = net.tensor("scaled", (1, 4, 4, 3), 0.88 * step, -11)
    one, other, y = (net.tensor(name, (1, 4, 4, 3), 0.95 * step, -28) for name in ("one", "other", "y"))
    net.emit("MUL", [x, slope], scaled)
    net.emit("QUANTIZE", [x], one)
    net.emit("QUANTIZE", [scaled], other)
    net.emit("MAXIMUM", [other, one], y)
    net.conv(2)
    path = tmp_path / "m.tflite"
    path.write_bytes(net.content())
    made = thinflow.convert_verified(path, tmp_path / "m.onnx")
    assert "each of 6 quantized layers, fed with the file's own values, is within 1 step" in made.proof


def pooled(folder: Path) -> Path:
    """Averages of codes, and a layer that reads them."""
    net = Layers(1, 8, 8, 4)
    net.pool("AVERAGE_POOL_2D", 2, 2)
    net.conv(2)
    path = folder / "m.tflite"
    path.write_bytes(net.content())
    return path


def test_an_average_is_a_layer_by_itself(tmp_path: Path) -> None:
    """In a part with channels first it has a name of its own, and its roundings are not those of the next."""
    path = pooled(tmp_path)
    thinflow.convert(path, tmp_path / "m.onnx")
    found = made_layers(formats.load(path), thinflow.load(path), thinflow.load(tmp_path / "m.onnx"))
    assert {v.node.op for v in found} == {"tfl.AVERAGE_POOL_2D", "tfl.CONV_2D"}


@pytest.mark.parametrize("ends_in_codes", [True, False])
def test_layers_that_are_right_outweigh_answers_that_are_apart(
    ends_in_codes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def apart(*args: object) -> float:
        raise VerificationError("the file gives 1 and the graph 2")

    monkeypatch.setattr(kept_grids, "_compare", apart)
    monkeypatch.setattr(beside_source, "is_coded", lambda own: ends_in_codes)
    if ends_in_codes:
        made = thinflow.convert_verified(pooled(tmp_path), tmp_path / "m.onnx")
        assert "roundings that add up lead its answers away from the graph's; it agrees with" in made.proof
    else:
        with pytest.raises(VerificationError, match="the file gives 1 and the graph 2"):
            thinflow.convert(pooled(tmp_path), tmp_path / "m.onnx")


def test_products_of_kept_codes_overflow_nowhere(tmp_path: Path) -> None:
    """As an application opens the file, which sets no option: 2 * 127 * 255 is beyond 16 bits."""
    runtime = pytest.importorskip("onnxruntime")

    def grid(scale: float) -> Quantization:
        return Quantization(np.float32([scale]), np.array([0]))

    x = Tensor("x", (1, 2, 2, 16), INT8, quantization=grid(1 / 64))
    w = Tensor("w", (8, 1, 1, 16), INT8, np.full((8, 1, 1, 16), 127, np.int8), grid(1 / 64))
    b = Tensor("b", (8,), INT32, np.arange(8, dtype=np.int32), grid(2**-12))
    y = Tensor("y", (1, 2, 2, 8), INT8, quantization=grid(1 / 2))
    options = {"padding": "VALID", "stride_w": 1, "stride_h": 1, "fused_activation_function": "NONE"}
    layer = Operator("CONV_2D", [x, w, b], [y], options)
    source, target = tmp_path / "s.tflite", tmp_path / "m.onnx"
    source.write_bytes(to_bytes(Program([Subgraph([x], [y], [layer])])))
    thinflow.convert(source, target)
    session = runtime.InferenceSession(target, providers=["CPUExecutionProvider"])
    codes = np.random.default_rng(0).integers(60, 128, x.shape).astype(np.int8)
    for fed in (codes, -codes, codes - np.int8(94)):
        (found,) = session.run(None, {session.get_inputs()[0].name: fed})
        (expected,) = thinflow.run(source, {"x": fed}).values()
        np.testing.assert_array_equal(found, expected)


def test_the_proof_opens_files_as_applications_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def run_file(*given: object, careful: bool = True, **options: object) -> object:
        asked.append(careful)
        return engine_run_file(*given, careful=careful, **options)

    engine_run_file = kept_grids.run_file
    monkeypatch.setattr(kept_grids, "run_file", run_file)
    thinflow.convert(pooled(tmp_path), tmp_path / "m.onnx")
    assert asked
    assert not any(asked)
