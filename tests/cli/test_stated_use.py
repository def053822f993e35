"""Commands that take labels and the scaling of pictures from the model's file, as users type them."""

from __future__ import annotations

import json
import wave
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.tflite import classifiers
from tests.tflite.classifiers import USUAL_OUTPUT, image, metadata, normalization
from thinflow.cli import main
from thinflow.ir.types import FLOAT, INT32, dtype
from thinflow.tflite.model import Operator, Program, Subgraph, Tensor
from thinflow.wire.flatbuffer import Scalar

Image = pytest.importorskip("PIL.Image")
pytest.importorskip("ai_edge_litert")

COLOURS = {"red": (200, 50, 10), "green": (10, 200, 50), "blue": (50, 10, 200)}
TAKEN = "from the model's file: pixels (x - 127.5) / 127.5 (TFLITE_METADATA)"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "photos").mkdir()
    for name, colour in COLOURS.items():
        for number in range(2):
            Image.new("RGB", (8, 6), colour).save(tmp_path / "photos" / f"{name}_{number}.png")
    classifiers.write(tmp_path / "m.tflite", classifiers.tflite())
    return tmp_path


def label(folder: Path, *flags: str) -> list[str]:
    return [
        "label_image",
        f"--graph={folder / 'm.tflite'}",
        f"--image={folder / 'photos' / 'green_0.png'}",
        *flags,
    ]


def test_label_image_needs_neither_labels_nor_scaling(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(label(folder)) == 0
    captured = capsys.readouterr()
    # (200 - 127.5) / 127.5
    assert captured.out.splitlines() == ["green (1): 0.568627", "blue (2): -0.607843", "red (0): -0.921569"]
    assert TAKEN in captured.err
    assert "from the model's file: 3 labels (red, green, blue) of labels.txt" in captured.err


def test_flags_win_and_what_differs_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "other.txt").write_text("rouge\nvert\nbleu\n")
    assert main(label(folder, "--input_mean=0", "--input_std=1", f"--labels={folder / 'other.txt'}")) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("vert (1): 200\n")
    assert "pixels go in as x, as the flags say; the model's file says (x - 127.5) / 127.5" in captured.err
    assert (
        "other.txt is taken; the model's file has other labels: 3 labels (red, green, blue)" in captured.err
    )
    (folder / "same.txt").write_text("red\ngreen\nblue\n")
    same = ("--input_mean=127.5", "--input_std=127.5", f"--labels={folder / 'same.txt'}")
    assert main(label(folder, *same)) == 0
    assert "the model's file" not in capsys.readouterr().err


def test_the_flags_of_litert(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = metadata([{3: image(), 4: [normalization((0.0,), (255.0,))]}], [USUAL_OUTPUT])
    classifiers.write(folder / "m.tflite", classifiers.tflite(content))
    assert (
        main(["label_image", "-m", str(folder / "m.tflite"), "-i", str(folder / "photos" / "red_0.png")]) == 0
    )
    captured = capsys.readouterr()
    assert captured.out.startswith("0.784314: 0 red\n")
    assert "pixels x / 255 (TFLITE_METADATA)" in captured.err


def test_a_file_without_labels(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    classifiers.write(folder / "m.tflite", classifiers.to_bytes(classifiers.program()))
    assert main(label(folder)) == 2
    assert "--labels is needed." in capsys.readouterr().err
    # There are some, and none for this output.
    classifiers.write(folder / "m.tflite", classifiers.tflite(files={"labels.txt": b"a\nb\n"}))
    assert main(label(folder)) == 1
    err = capsys.readouterr().err
    assert "the model's file has no labels for its output 'scores'" in err
    assert "--labels=labels.txt" in err


@pytest.mark.parametrize(("element", "zero"), [("uint8", 128), ("int8", 0)])
def test_codes_are_the_pixels(
    element: str, zero: int, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = classifiers.program(dtype(element), (1 / 128, zero))
    classifiers.write(folder / "m.tflite", classifiers.tflite(made=made))
    assert main(label(folder)) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("green (1): 0.5625\n")
    assert "its codes are pixels, which stand for (x - 127.5) / 127.5 (TFLITE_METADATA)" in captured.err


def test_codes_that_are_no_pixels_are_computed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = classifiers.program(dtype("uint8"), (1 / 50, 100))
    classifiers.write(folder / "m.tflite", classifiers.tflite(made=made))
    assert main(label(folder)) == 0
    captured = capsys.readouterr()
    # 100 + round(50 * 0.5686...) = 128
    assert captured.out.startswith("green (1): 0.56\n")
    assert TAKEN in captured.err


def test_inspect_tells_all(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(folder / "m.tflite")]) == 0
    out = capsys.readouterr().out
    assert "usage:\n  picture: 4x4 RGB picture, pixels 0..255 (x - 127.5) / 127.5 [TFLITE_METADATA]\n" in out
    assert "  scores: 3 labels (red, green, blue) from labels.txt [TFLITE_METADATA]\n" in out
    assert main(["inspect", "--json", str(folder / "m.tflite")]) == 0
    usage = json.loads(capsys.readouterr().out)["usage"]
    assert usage["inputs"]["picture"]["mean"] == [127.5]
    assert usage["outputs"]["scores"]["labels"] == ["red", "green", "blue"]
    classifiers.write(folder / "m.tflite", classifiers.tflite(b"?"))
    assert main(["inspect", str(folder / "m.tflite")]) == 0
    assert "not read of the file's metadata: TFLITE_METADATA cannot be read" in capsys.readouterr().out


def test_evaluate_takes_both(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(folder / "m.tflite"), str(folder / "photos")]) == 0
    out = capsys.readouterr().out
    assert out.startswith("accuracy 100.00%: 6 of 6 samples right (61.0% to 100.0%)\n")
    said = "pixels (x - 127.5) / 127.5 (TFLITE_METADATA)"
    assert f"from the model's file: 3 labels (labels.txt), {said}\n" in out
    found = thinflow.evaluate(thinflow.load(folder / "m.tflite"), folder / "photos")
    assert (found.correct, found.taken) == (6, f"from the model's file: 3 labels (labels.txt), {said}")
    (folder / "l.txt").write_text("green\nblue\nred\n")
    assert (
        main(
            ["evaluate", str(folder / "m.tflite"), str(folder / "photos"), "--labels", str(folder / "l.txt")]
        )
        == 0
    )
    out = capsys.readouterr().out
    assert out.startswith("accuracy 0.00%")
    assert "labels.txt" not in out


def test_evaluate_feeds_codes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for element, zero in (("uint8", 128), ("int8", 0)):
        made = classifiers.program(dtype(element), (1 / 128, zero))
        classifiers.write(folder / "m.tflite", classifiers.tflite(made=made))
        assert main(["evaluate", str(folder / "m.tflite"), str(folder / "photos")]) == 0
        said = "accuracy 100.00%: 6 of 6 samples right (61.0% to 100.0%)\n"
        assert capsys.readouterr().out.startswith(said)


def test_calibration_scales_pictures_as_the_file_says(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from thinflow.optimize.samples import samples_for

    graph = thinflow.load(folder / "m.tflite")
    samples = samples_for(graph, folder / "photos")
    (first, *_) = [next(iter(feed.values())) for feed in samples]
    assert abs(float(first.max()) - (200 - 127.5) / 127.5) < 1e-6
    assert samples.note.endswith("pixels as -1..1, as the model's file says")
    assert not samples.unscaled
    assert (
        main(
            [
                "optimize",
                str(folder / "m.tflite"),
                str(folder / "out"),
                "--calibration",
                str(folder / "photos"),
            ]
        )
        == 0
    )
    out = capsys.readouterr().out
    assert "pixels as -1..1, as the model's file says" in out
    for made in sorted((folder / "out").glob("*.tflite")):
        labels = thinflow.load(made).usage.labels("scores", 3)
        assert labels is not None
        assert labels.words == ("red", "green", "blue")


def test_label_wav_takes_labels_from_the_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sound, halves = Tensor("sound", (1, 16000), FLOAT), Tensor("halves", (1, 2, 8000), FLOAT)
    axes, scores = Tensor("axes", (1,), INT32, np.int32([2])), Tensor("scores", (1, 2), FLOAT)
    sizes = Tensor("sizes", (3,), INT32, np.int32([1, 2, 8000]))
    steps = [
        Operator("RESHAPE", [sound, sizes], [halves], {"new_shape": [1, 2, 8000]}),
        Operator("MEAN", [halves, axes], [scores], {"keep_dims": False}),
    ]
    content = metadata([{3: {0: Scalar("u8", 4), 1: {0: Scalar("u32", 16000)}}}], [USUAL_OUTPUT])
    files, made = {"labels.txt": b"first\nlast\n"}, Program([Subgraph([sound], [scores], steps)])
    model = classifiers.write(folder / "s.tflite", classifiers.tflite(content, files, made))
    with wave.open(str(folder / "s.wav"), "wb") as file:
        file.setparams((1, 2, 16000, 0, "NONE", ""))
        file.writeframes(np.repeat([16384, 8192], 8000).astype("<i2").tobytes())
    assert main(["label_wav", f"--graph={model}", f"--wav={folder / 's.wav'}"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "first (score = 0.50000)\nlast (score = 0.25000)\n"
    assert "from the model's file: 2 labels (first, last) of labels.txt" in captured.err
    plain = classifiers.write(folder / "p.tflite", classifiers.to_bytes(classifiers.program()))
    assert main(["label_wav", f"--graph={plain}", f"--wav={folder / 's.wav'}"]) == 2
    assert "--labels is needed." in capsys.readouterr().err


def test_run_feeds_a_picture_as_the_file_says(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    photo = folder / "photos" / "green_0.png"
    assert main(["run", str(folder / "m.tflite"), "--feed", f"picture={photo}"]) == 0
    out = capsys.readouterr().out
    assert "0.568" in out
    assert "from the model's file: pixels (x - 127.5) / 127.5 (TFLITE_METADATA)\n" in out
    assert main(["run", str(folder / "m.tflite")]) == 0
    assert "from the model's file" not in capsys.readouterr().out
