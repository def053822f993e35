"""label_image and label_wav as people type them."""

from __future__ import annotations

import csv
import io
import json
import struct
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.cli import main
from thinflow.compat.label_image import Preparation, picture, ranked
from thinflow.compat.labels import _session
from thinflow.errors import GraphError, ParameterError
from thinflow.ir.types import INT32, dtype
from thinflow.tflite.model import Operator, Program, Quantization, Subgraph, Tensor
from thinflow.tflite.writer import to_bytes

Image = pytest.importorskip("PIL.Image")

# Scores are the mean of red, green and blue: [1, 3].
COLOURS = """
    input = Placeholder() {dtype=float, shape=shape[?,4,4,3]}
    axes = Const() {value=int32[2]{1,2}}
    scores = Mean(input, axes) {T=float, Tidx=int32}
    inputs: input
    outputs: scores
"""
# A sound is loud or not.
SOUNDS = """
    wav_data = Placeholder() {dtype=string, shape=shape[]}
    sound = DecodeWav(wav_data) {desired_channels=1, desired_samples=16000}
    size = Abs(sound) {T=float}
    axes = Const() {value=int32[2]{0,1}}
    loud = Max(size, axes) {T=float, Tidx=int32}
    one = Const() {value=float[]{1}}
    quiet = Sub(one, loud) {T=float}
    labels_softmax = Pack(quiet, loud) {T=float, N=2, axis=0}
    inputs: wav_data
    outputs: labels_softmax
"""


def picture_file(path: Path, colour: tuple[int, int, int], size: tuple[int, int] = (8, 6)) -> Path:
    Image.new("RGB", size, colour).save(path)
    return path


def wav(path: Path, amplitude: int, kind: int = 1) -> Path:
    samples = np.full(16000, amplitude, "<i2").tobytes()
    head = struct.pack(
        "<4sI4s4sIHHIIHH", b"RIFF", 36 + len(samples), b"WAVE", b"fmt ", 16, kind, 1, 16000, 32000, 2, 16
    )
    path.write_bytes(head + struct.pack("<4sI", b"data", len(samples)) + samples)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    thinflow.save(parse_graph(COLOURS), tmp_path / "colours.pb")
    thinflow.save(parse_graph(SOUNDS), tmp_path / "sounds.pb")
    (tmp_path / "colours.txt").write_text("red\ngreen \nblue\n\n")
    (tmp_path / "sounds.txt").write_text("quiet\nloud\n")
    (tmp_path / "pictures").mkdir()
    picture_file(tmp_path / "pictures" / "a.png", (200, 10, 50))
    picture_file(tmp_path / "pictures" / "b.bmp", (0, 255, 0))
    (tmp_path / "clips").mkdir()
    wav(tmp_path / "clips" / "shout.wav", 32000)
    wav(tmp_path / "clips" / "whisper.wav", 100)
    return tmp_path


def image(folder: Path, *flags: str) -> list[str]:
    graph, labels = f"--graph={folder / 'colours.pb'}", f"--labels={folder / 'colours.txt'}"
    return ["label_image", graph, labels, f"--image={folder / 'pictures'}", *flags]


def speech(folder: Path, *flags: str) -> list[str]:
    graph, labels = f"--graph={folder / 'sounds.pb'}", f"--labels={folder / 'sounds.txt'}"
    return ["label_wav", graph, labels, f"--wav={folder / 'clips'}", *flags]


SMALL = ("--input_width=4", "--input_height=4")


def test_one_picture_as_the_original_prints_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(image(folder, f"--image={folder / 'pictures' / 'a.png'}", *SMALL, "--input_layer=input"))
    captured = capsys.readouterr()
    assert code == 0
    assert captured.out == "red (0): 0.784314\nblue (2): 0.196078\ngreen (1): 0.0392157\n"
    assert "the model's output is 'scores'" in captured.err


def test_mean_and_deviation(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--input_mean=128", "--input_std=64", "--output_layer=scores:0", "--top_k=1"]
    assert main(image(folder, f"--image={folder / 'pictures' / 'a.png'}", *SMALL, *flags)) == 0
    captured = capsys.readouterr()
    assert captured.out == "red (0): 1.125\n"
    assert captured.err == ""


def test_the_layout_of_the_script(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--layout=python", "--top_k=2", "--output_layer=scores", "--bgr"]
    assert main(image(folder, f"--image={folder / 'pictures' / 'a.png'}", *SMALL, *flags)) == 0
    assert capsys.readouterr().out == "blue 0.784314\nred 0.196078\n"


def test_the_sizes_of_the_model(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(image(folder, "--input_width=0", "--input_height=0", "--top_k=1")) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[:2] == [f"{folder / 'pictures' / 'a.png'}:", "red (0): 0.784314"]
    assert f"{folder / 'pictures' / 'b.bmp'}:\ngreen (1): 1\n" in out


def test_a_folder_as_csv_and_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(image(folder, *SMALL, "--csv", "--top_k=1")) == 0
    rows = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    assert rows[0] == ["file", "rank", "label", "index", "score"]
    assert [row[1:4] for row in rows[1:]] == [["1", "red", "0"], ["1", "green", "1"]]
    assert main(image(folder, *SMALL, "--json", "--top_k=1")) == 0
    data = json.loads(capsys.readouterr().out)
    assert [item["labels"][0]["label"] for item in data] == ["red", "green"]


def test_self_test(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(image(folder, *SMALL, "--self_test")) == 1
    assert "Self test failed" in capsys.readouterr().err


def test_root_dir(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["label_image", f"--root_dir={folder}", "--graph=colours.pb", "--image=pictures/a.png"]
    assert main([*argv, f"--labels={folder / 'colours.txt'}", *SMALL, "--top_k=1"]) == 0
    assert capsys.readouterr().out.startswith("red")


def test_a_converted_model(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    thinflow.convert(folder / "colours.pb", folder / "c.tflite", shapes={"input": (1, 4, 4, 3)})
    argv = image(folder, f"--graph={folder / 'c.tflite'}", "--input_width=0", "--input_height=0", "--top_k=1")
    assert main(argv) == 0
    assert "red (0): 0.784314" in capsys.readouterr().out


def test_sounds_as_the_originals_print_them(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(speech(folder, f"--wav={folder / 'clips' / 'shout.wav'}")) == 0
    captured = capsys.readouterr()
    assert captured.out == "loud (score = 0.97656)\nquiet (score = 0.02344)\n"
    assert captured.err == ""
    assert main(speech(folder, "--how_many_labels=1", "--layout=cpp")) == 0
    assert capsys.readouterr().out == (
        f"{folder / 'clips' / 'shout.wav'}:\nloud (1): 0.976562\n\n"
        f"{folder / 'clips' / 'whisper.wav'}:\nquiet (0): 0.996948\n"
    )


def test_a_model_of_samples(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A graph cut after the decoder is fed the decoded samples."""
    graph = thinflow.transform(folder / "sounds.pb", "strip_unused_nodes", ["sound"], ["labels_softmax"])
    thinflow.save(graph, folder / "cut.pb")
    assert (
        main(speech(folder, f"--graph={folder / 'cut.pb'}", "--input_name=sound", "--how_many_labels=1")) == 0
    )
    assert "loud (score = 0.97656)" in capsys.readouterr().out


def test_the_keyword_models(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clip = sorted((shared / "data" / "kws").glob("yes_*.wav"))[0]
    argv = ["label_wav", f"--graph={shared / 'models' / 'kws_CNN_S.pb'}", f"--wav={clip}"]
    assert main([*argv, f"--labels={shared / 'models' / 'kws_labels.txt'}"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert all("(score = 0." in line or "(score = 1." in line for line in lines)


def not_a_picture(folder: Path) -> list[str]:
    (folder / "x.jpg").write_bytes(b"hello")
    return image(folder, f"--image={folder / 'x.jpg'}", *SMALL)


def half_a_picture(folder: Path) -> list[str]:
    (folder / "x.png").write_bytes((folder / "pictures" / "a.png").read_bytes()[:40])
    return image(folder, f"--image={folder / 'x.png'}", *SMALL)


def no_labels(folder: Path) -> list[str]:
    (folder / "none.txt").write_text("\n\n")
    return image(folder, f"--labels={folder / 'none.txt'}", *SMALL)


def binary_labels(folder: Path) -> list[str]:
    (folder / "none.txt").write_bytes(b"\xff\xfe\x00")
    return image(folder, f"--labels={folder / 'none.txt'}", *SMALL)


def few_labels(folder: Path) -> list[str]:
    (folder / "few.txt").write_text("red\n")
    return image(folder, f"--labels={folder / 'few.txt'}", *SMALL)


def compressed_sound(folder: Path) -> list[str]:
    return speech(folder, f"--wav={wav(folder / 'alaw.wav', 100, kind=6)}")


def no_sound(folder: Path) -> list[str]:
    return speech(folder, f"--wav={folder / 'sounds.txt'}")


def empty_folder(folder: Path) -> list[str]:
    return speech(folder, f"--wav={folder / 'pictures'}")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (not_a_picture, "this is not a picture"),
        (half_a_picture, "the picture cannot be read"),
        (no_labels, "there are no labels in it"),
        (binary_labels, "this is not a text file"),
        (few_labels, "the model has 3 classes, the file of labels 1 lines"),
        (compressed_sound, "the sound cannot be read"),
        (no_sound, "this is not a WAV file"),
        (empty_folder, "there is no .wav file in this folder"),
        (lambda f: image(f, f"--image={f / 'none.jpg'}"), "cannot be read"),
        (lambda f: image(f, f"--labels={f / 'none'}"), "the labels cannot be read"),
        (lambda f: image(f, "--input_layer=inptu"), "did you mean 'input'"),
        (lambda f: image(f, "--output_layer=score"), "did you mean 'scores'"),
        (lambda f: image(f, "--input_std=0"), "would divide by zero"),
        (lambda f: image(f, "--input_mean=x"), "--input_mean=x is not a number"),
        (lambda f: image(f, *SMALL, "--output_layer=input"), "not one row of scores"),
    ],
)
def test_bad_input(argv: object, words: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv(folder)) == 1  # type: ignore[operator]
    err = capsys.readouterr().err
    assert words in err
    assert "Traceback" not in err


@pytest.mark.parametrize("tool", ["label_image", "label_wav"])
def test_usage(tool: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([tool]) == 2
    assert "is needed" in capsys.readouterr().err
    assert main([tool, "--help"]) == 0
    assert main([tool, "--lables=x"]) == 2
    assert "labels" in capsys.readouterr().err


def test_equal_scores_keep_their_order() -> None:
    assert [g.index for g in ranked(np.array([[0.5, 0.7, 0.5, 0.7]]), list("abcd"), 9)] == [1, 3, 0, 2]
    with pytest.raises(GraphError, match="not one row"):
        ranked(np.zeros((2, 2)), ["a", "b"], 1)


def test_a_moving_picture_counts_by_its_first_frame(tmp_path: Path) -> None:
    first, second = Image.new("RGB", (4, 4), (255, 0, 0)), Image.new("RGB", (4, 4), (0, 0, 255))
    first.save(tmp_path / "m.gif", save_all=True, append_images=[second])
    pixels = picture(tmp_path / "m.gif", Preparation(2, 2, 0, 255))
    assert pixels.shape == (1, 2, 2, 3)
    assert pixels[0, 0, 0].tolist() == [1, 0, 0]


def test_no_deviation() -> None:
    with pytest.raises(ParameterError, match="divide by zero"):
        Preparation(std=0)


# --- inputs of every layout and type ------------------------------------------------------------------------

LAYOUTS = {
    "channels last": "shape=shape[1,4,4,3]",
    "channels first": "shape=shape[1,3,4,4]",
    "one picture": "shape=shape[4,4,3]",
    "one row": "shape=shape[1,48]",
    "open sizes": "shape=shape[?,?,?,3]",
}


def placeholder_model(path: Path, attrs: str, dtype: str = "float") -> Path:
    """A model whose three scores are what it is fed at (0,0,0), (0,0,1) and (0,0,2) of a 4x4 picture."""
    shape = [int(n) if n != "?" else 4 for n in attrs.partition("[")[2].strip("]").split(",")]
    first = len(shape) == 4 and shape[1] == 3
    cast = "" if dtype == "float" else f"Cast(input) {{SrcT={dtype}, DstT=float}}"
    text = f"""
        input = Placeholder() {{dtype={dtype}, {attrs}}}
        number = {cast or "Identity(input) {T=float}"}
        size = Const() {{value=int32[4]{{{"1,3,4,4" if first else "1,4,4,3"}}}}}
        whole = Reshape(number, size) {{T=float, Tshape=int32}}
        axes = Const() {{value=int32[2]{{{"2,3" if first else "1,2"}}}}}
        scores = Mean(whole, axes) {{T=float, Tidx=int32}}
        inputs: input
        outputs: scores
    """
    thinflow.save(parse_graph(text), path)
    return path


def label(folder: Path, model: Path, *flags: str) -> list[str]:
    one = f"--image={folder / 'pictures' / 'a.png'}"
    return image(folder, f"--graph={model}", one, "--output_layer=scores", *flags)


@pytest.mark.parametrize("attrs", LAYOUTS.values(), ids=list(LAYOUTS))
def test_layouts(attrs: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = SMALL if "?,?" in attrs else ()
    assert main(label(folder, placeholder_model(folder / "m.pb", attrs), "--input_layer=input", *sizes)) == 0
    assert capsys.readouterr().out == "red (0): 0.784314\nblue (2): 0.196078\ngreen (1): 0.0392157\n"


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64", "half", "double"])
def test_types_of_graphs(dtype: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = placeholder_model(folder / "m.pb", "shape=shape[1,4,4,3]", dtype)
    assert main(label(folder, model, "--input_layer=input")) == 0
    whole = dtype in {"uint8", "int32", "int64"}
    top = capsys.readouterr().out.splitlines()[0]
    assert top.startswith("red (0): 200" if whole else "red (0): 0.784"), top


def test_one_channel(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = """
        input = Placeholder() {dtype=float, shape=shape[1,1,2,2]}
        size = Const() {value=int32[2]{1,4}}
        scores = Reshape(input, size) {T=float, Tshape=int32}
        inputs: input
        outputs: scores
    """
    thinflow.save(parse_graph(text), folder / "grey.pb")
    (folder / "four.txt").write_text("a\nb\nc\nd\n")
    found = {}
    for name in ("a.png", "a.jpg", "a.gif", "a.bmp"):
        Image.new("RGB", (4, 4), (200, 10, 50)).save(folder / name)
        flags = [f"--labels={folder / 'four.txt'}", f"--image={folder / name}", "--input_std=1", "--top_k=1"]
        assert main(image(folder, f"--graph={folder / 'grey.pb'}", "--output_layer=scores", *flags)) == 0
        found[name] = float(capsys.readouterr().out.rpartition(" ")[2])
    assert all(value == pytest.approx(71, abs=2) for value in found.values()), (
        found
    )  # 0.299 r + 0.587 g + ...


def test_a_bmp_of_one_channel_for_a_model_of_three(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Image.new("P", (4, 4)).save(folder / "palette.bmp")
    assert main(image(folder, *SMALL, f"--image={folder / 'palette.bmp'}")) == 1
    assert "has 1 channel, the model takes 3" in capsys.readouterr().err


def test_file_bytes_for_a_model_that_decodes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = """
        contents = Placeholder() {dtype=string, shape=shape[]}
        pixels = DecodePng(contents) {channels=3, dtype=uint8}
        number = Cast(pixels) {SrcT=uint8, DstT=float}
        axes = Const() {value=int32[2]{0,1}}
        scores = Mean(number, axes) {T=float, Tidx=int32}
        inputs: contents
        outputs: scores
    """
    thinflow.save(parse_graph(text), folder / "decodes.pb")
    assert main(label(folder, folder / "decodes.pb", "--input_layer=contents", "--top_k=1")) == 0
    assert capsys.readouterr().out == "red (0): 200\n"


# As the graphs of 2015 have it: a JPEG goes in, `Mul` scales it to -1..1. Scores: blue, green, red.
OLD = """
    contents = {contents}
    DecodeJpeg = DecodeJpeg(contents) {{channels=3}}
    Cast = Cast(DecodeJpeg) {{SrcT=uint8, DstT=float}}
    dim = Const() {{value=int32[]{{0}}}}
    ExpandDims = ExpandDims(Cast, dim) {{T=float, Tdim=int32}}
    size = Const() {{value=int32[2]{{4,4}}}}
    ResizeBilinear = ResizeBilinear(ExpandDims, size) {{T=float}}
    mean = Const() {{value=float[]{{128}}}}
    Sub = Sub(ResizeBilinear, mean) {{T=float}}
    scale = Const() {{value=float[]{{0.0078125}}}}
    Mul = Mul(Sub, scale) {{T=float}}
    axes = Const() {{value=int32[2]{{1,2}}}}
    softmax = Mean(Mul, axes) {{T=float, Tidx=int32}}
    outputs: softmax
"""
RED = "red (0): 0.5625\nblue (2): -0.609375\ngreen (1): -0.921875\n"


@pytest.mark.parametrize(
    ("contents", "told"),
    [
        ("Placeholder() {dtype=string}", "there is no layer 'input'; the model's input is 'contents'\n"),
        (
            'Const() {value=string[]{""}}',
            "the model decodes pictures itself: the file goes into 'contents'\n",
        ),
    ],
)
def test_a_graph_that_decodes_pictures_gets_the_file(
    contents: str, told: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command of the retraining tutorial, which names no input; guessing `Mul` would scale twice."""
    thinflow.save(parse_graph(OLD.format(contents=contents)), folder / "old.pb")
    assert main(label(folder, folder / "old.pb", "--output_layer=softmax:0")) == 0
    captured = capsys.readouterr()
    assert captured.out == RED
    assert captured.err == told
    given = ["--input_layer=Mul", "--input_mean=128", "--input_std=128", "--output_layer=softmax"]
    assert main(label(folder, folder / "old.pb", *given)) == 0
    assert capsys.readouterr() == (RED, "")


def test_mul_is_scaled_as_its_graphs_want(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is left when the decoder has been stripped takes pixels from -1 to 1, not from 0 to 1."""
    whole = parse_graph(OLD.format(contents="Placeholder() {dtype=string}"))
    strip = 'strip_unused_nodes(type=float, shape="1,4,4,3")'
    thinflow.save(thinflow.transform(whole, strip, inputs=["Mul"], outputs=["softmax"]), folder / "old.pb")
    assert main(label(folder, folder / "old.pb", "--output_layer=softmax")) == 0
    captured = capsys.readouterr()
    assert captured.out == RED
    assert "the model's input is 'Mul'\n'Mul' is scaled as Inception of 2015 has it" in captured.err


def test_files_where_tensorflow_had_them(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = folder / "tensorflow" / "examples" / "label_image" / "data"
    data.mkdir(parents=True)
    monkeypatch.chdir(folder)
    (folder / "colours.pb").rename(data / "inception_v3_2016_08_28_frozen.pb")
    picture_file(data / "grace_hopper.jpg", (10, 200, 50))
    assert main(["label_image", *SMALL]) == 2
    assert "--labels is needed" in capsys.readouterr().err
    (folder / "colours.txt").rename(data / "imagenet_slim_labels.txt")
    assert main(["label_image", *SMALL, "--top_k=1"]) == 0
    assert capsys.readouterr().out.startswith("green (1): 0.78")
    assert main(["label_image", *SMALL, "--top_k=1", "--image=pictures/a.png"]) == 0
    assert capsys.readouterr().out.startswith("red (0): ")


@pytest.mark.parametrize(
    ("flags", "out"),
    [
        ("-m {m} -i {i} -l {l}", "0.568627: 0 red\n-0.607843: 2 blue\n-0.921569: 1 green\n"),
        ("-m {m} -i {i} -l {l} -c 3 -r 1 -f 1 -v 4 -t 2 -w 1 -a 0", "0.568627: 0 red\n"),
        ("--tflite_model {m} --labels {l} --image {i} --num_results=1 -b 0 -s 255", "0.784314: 0 red\n"),
        (
            "--model_file {m} --label_file {l} --image {i}",
            "0.568627: red\n-0.607843: blue\n-0.921569: green\n",
        ),
    ],
)
def test_the_flags_of_litert(flags: str, out: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = folder / "colours.tflite"
    assert main(["convert", str(folder / "colours.pb"), str(model), "--shape", "input=1,4,4,3"]) == 0
    capsys.readouterr()
    files = {"m": model, "i": folder / "pictures" / "a.png", "l": folder / "colours.txt"}
    assert main(["label_image", *(word.format(**files) for word in flags.split())]) == 0
    captured = capsys.readouterr()
    assert captured.out == out
    assert captured.err.startswith("average time: ")
    assert captured.err.endswith(" ms\n")


@pytest.mark.parametrize("kind", ["uint8", "int8"])
def test_quantized_inputs_and_scores(kind: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Pixels as they are, or scaled and put on the grid of the input: both the model's real numbers."""
    zero = 128 if kind == "uint8" else 0
    grid = Quantization(np.array([1 / 128], np.float32), np.array([zero], np.int64))
    x = Tensor("input", (1, 4, 4, 3), dtype(kind), quantization=grid)
    axes = Tensor("axes", (2,), INT32, np.array([1, 2], np.int32))
    y = Tensor("scores", (1, 3), dtype(kind), quantization=grid)
    program = Program([Subgraph([x], [y], [Operator("MEAN", [x, axes], [y], {"keep_dims": False})])])
    (folder / "m.tflite").write_bytes(to_bytes(program))
    model = folder / "m.tflite"
    real = f"red (0): {(200 - 128) / 128:.6g}\n"
    assert main(label(folder, model, "--input_layer=input", "--top_k=1")) == 0
    assert capsys.readouterr().out == real
    flags = ["--input_mean=128", "--input_std=128", "--input_layer=input", "--top_k=1"]
    assert main(label(folder, model, *flags)) == 0
    assert capsys.readouterr().out == real
    assert main(label(folder, model, "--input_mean=0", "--input_std=400", *flags[2:])) == 0
    assert capsys.readouterr().out == "red (0): 0.5\n"


@pytest.mark.parametrize(
    ("attrs", "words"),
    [
        ("shape=shape[1,2,4,4,3]", "which is none of a picture"),
        ("shape=shape[1,47]", "are no picture of these sizes"),
    ],
)
def test_inputs_that_take_no_picture(
    attrs: str, words: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"""
        input = Placeholder() {{dtype=float, {attrs}}}
        scores = Relu(input) {{T=float}}
        inputs: input
        outputs: scores
    """
    thinflow.save(parse_graph(text), folder / "m.pb")
    assert main(label(folder, folder / "m.pb", "--input_layer=input")) == 1
    assert words in capsys.readouterr().err


def test_the_original_fills_labels_up_to_sixteen() -> None:
    labels = [f"l{n}" for n in range(1001)]
    scores = np.zeros((1, 1008))
    scores[0, 1005], scores[0, 7] = 3, 2
    assert [(g.label, g.index) for g in ranked(scores, labels, 2)] == [("", 1005), ("l7", 7)]
    with pytest.raises(GraphError, match="1010 classes, the file of labels 1001 lines"):
        ranked(np.zeros((1, 1010)), labels, 2)


def rewritten(folder: Path, rate: int = 16000, bits: int = 16, channels: int = 1) -> str:
    """A second of silence in another form."""
    block = channels * bits // 8
    data = bytes(rate * block)
    head = struct.pack("<4sI4s4sIHHIIHH", b"RIFF", 36 + len(data), b"WAVE", b"fmt ", 16, 1, channels, rate,
                       rate * block, block, bits)  # fmt: skip
    (folder / "other.wav").write_bytes(head + struct.pack("<4sI", b"data", len(data)) + data)
    return f"--wav={folder / 'other.wav'}"


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"bits": 8}, "format 1, 8 bits, 1 channels"),
        ({"bits": 24}, "format 1, 24 bits, 1 channels"),
        ({"bits": 32}, "format 1, 32 bits, 1 channels"),
        ({"rate": 44100}, "has 44100 samples a second, the model expects 16000"),
        ({"rate": 8000}, "--sample_rate=8000"),
    ],
)
def test_sounds_in_other_forms(
    form: dict[str, int], words: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(speech(folder, rewritten(folder, **form))) == 1
    err = capsys.readouterr().err
    assert words in err
    assert err.count("error: ") == 1


def test_sounds_that_the_original_takes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(speech(folder, rewritten(folder, channels=2))) == 0  # the first channel counts
    assert capsys.readouterr().out.startswith("quiet (score = 1.00000)")
    for expected in ("--sample_rate=8000", "--sample_rate=0"):
        assert main(speech(folder, rewritten(folder, rate=8000), expected)) == 0


def test_samples_in_the_shape_of_the_input(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for shape in ("16000,1", "1,16000", "?,16000", "8000", "1,?"):
        text = f"""
            sound = Placeholder() {{dtype=float, shape=shape[{shape}]}}
            size = Const() {{value=int32[2]{{1,-1}}}}
            row = Reshape(sound, size) {{T=float, Tshape=int32}}
            begin = Const() {{value=int32[2]{{0,0}}}}
            two = Const() {{value=int32[2]{{1,2}}}}
            scores = Slice(row, begin, two) {{T=float, Index=int32}}
            inputs: sound
            outputs: scores
        """
        thinflow.save(parse_graph(text), folder / "samples.pb")
        loud = f"--wav={folder / 'clips' / 'shout.wav'}"
        assert main(speech(folder, f"--graph={folder / 'samples.pb'}", loud)) == 0, shape
        assert "(score = 0.97656)" in capsys.readouterr().out


EIGHT_BIT = """
x = Placeholder() {dtype=float, shape=shape[1,4]}
low = Const() {dtype=float, value=float[]{-1}}
high = Const() {dtype=float, value=float[]{1}}
q = QuantizeV2(x, low, high) {T=quint8, mode="MIN_FIRST"}
y = QuantizedRelu(q, low, high) {Tinput=quint8, out_type=quint8}
outputs: y
"""
FLOAT_ONLY = "x = Placeholder() {dtype=float, shape=shape[1,4]}\ny = Relu(x) {T=float}\noutputs: y"


@pytest.mark.parametrize(("text", "engine"), [(EIGHT_BIT, "reference"), (FLOAT_ONLY, "litert")])
def test_eight_bit_graphs_answer_exactly(text: str, engine: str, tmp_path: Path) -> None:
    thinflow.save(parse_graph(text), tmp_path / "m.pb")
    assert _session(tmp_path / "m.pb").engine == engine
    assert _session(tmp_path / "m.pb", engine="litert").engine == "litert"
