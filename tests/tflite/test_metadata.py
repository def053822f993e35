"""LiteRT's model metadata: what is read from a file, and what is written into one."""

from __future__ import annotations

import random
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import thinflow
from tests.tflite import classifiers
from tests.tflite.classifiers import USUAL_INPUT, USUAL_OUTPUT, image, listed, metadata, normalization
from thinflow.errors import ThinflowError
from thinflow.ir.usage import BGR, IMAGE, RGB, InputUsage, OutputUsage, Usage, Words
from thinflow.tflite.described import described
from thinflow.tflite.metadata import KEY, read_usage
from thinflow.tflite.reader import read_program
from thinflow.tflite.writer import to_bytes
from thinflow.wire import flatbuffer
from thinflow.wire.flatbuffer import Scalar, Vector


def usage_of(
    inputs: list[dict[int, Any]] | None = None,
    outputs: list[dict[int, Any]] | None = None,
    files: dict[str, bytes] | None = None,
    **root: Any,
) -> Usage:
    content = metadata(
        [USUAL_INPUT] if inputs is None else inputs, [USUAL_OUTPUT] if outputs is None else outputs, **root
    )
    return read_usage(content, classifiers.tflite(content, files), ["picture"], ["scores"])


def test_a_graph_knows_its_scaling_and_labels(tmp_path: Path) -> None:
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        path = classifiers.write(tmp_path / "a.tflite", classifiers.tflite(compression=compression))
        for graph in (thinflow.load(path), thinflow.load(path, lift=False), thinflow.load(path).clone()):
            found = graph.usage.input("picture")
            assert found is not None
            assert (found.kind, found.colours, found.formula) == (IMAGE, RGB, "(x - 127.5) / 127.5")
            labels = graph.usage.labels("scores", 3)
            assert labels == Words("labels.txt", ("red", "green", "blue"))
            assert graph.usage.labels("scores", 4) is None
            assert not graph.usage.problems


def test_numbers_for_each_channel_sizes_and_notes() -> None:
    table = {
        3: image(2, (20, 10)),
        4: [normalization((1, 2, 3), (4,))],
        5: {0: Vector("f32", [1]), 1: Vector("f32", [-1])},
    }
    usage = usage_of([table], slot0="net", slot4="somebody", slot5="MIT")
    found = usage.inputs["picture"]
    assert (found.mean, found.std, found.size, found.colours) == ((1, 2, 3), (4,), (10, 20), "grey")
    assert (found.low, found.high) == ((-1,), (1,))
    assert found.text() == "20x10 grey picture, pixels 0..255 (x - [1, 2, 3]) / 4 [TFLITE_METADATA]"
    assert usage.notes == {"name": "net", "author": "somebody", "licence": "MIT"}


def test_sound_text_and_detections() -> None:
    sound = {3: {0: Scalar("u8", 4), 1: {0: Scalar("u32", 16000)}}}
    assert usage_of([sound]).inputs["picture"].text() == "sound, 16000 samples a second [TFLITE_METADATA]"
    files = {"vocab.txt": b"<PAD> 0\nthe 1\n", "labels.txt": b"a\nb\nc\n"}
    text = usage_of([{6: [listed("vocab.txt", 5)]}], files=files).inputs["picture"]
    assert (text.kind, text.words) == ("text", Words("vocab.txt", ("<PAD> 0", "the 1")))
    tokenizer = {0: Scalar("u8", 6), 1: {0: "[^a-z]+", 1: [listed("vocab.txt", 5)]}}
    assert usage_of([{4: [tokenizer]}], files=files).inputs["picture"].words == text.words
    found = usage_of(outputs=[{6: [listed("labels.txt", 3)]}]).outputs["scores"]
    assert found.text().startswith("numbers of 3 labels (red, green, blue) from labels.txt")
    units = [{0: Scalar("u8", 3), 1: {0: Scalar("f32", 0.25)}}, {0: Scalar("u8", 2), 1: {}}]
    notes = usage_of(outputs=[{4: units}]).outputs["scores"].notes
    assert notes == ("scores below 0.25 do not count", "its scores are to be calibrated")


def test_a_tokenizer_beside_all_inputs() -> None:
    unit = {0: Scalar("u8", 4), 1: {0: [listed("v.txt", 5)]}}
    table = {2: [{0: "ids"}], 3: [{0: "scores"}], 5: [unit]}
    content = b"".join(flatbuffer.encode({3: [table]}, b"M001")[1])
    data = classifiers.tflite(content, {"v.txt": b"[PAD]\n[UNK]\n"})
    usage = read_usage(content, data, ["picture"], ["scores"])
    assert usage.inputs["picture"].words == Words("v.txt", ("[PAD]", "[UNK]"))
    assert usage.notes == {"tokenizer": "BERT's"}


def test_the_first_of_several_lists_counts_and_lines_are_kept() -> None:
    files = {"en.txt": b"\xef\xbb\xbfa\r\n\r\nc\r\n\r\n", "de.txt": b"x\ny\nz"}
    usage = usage_of(outputs=[{6: [listed("en.txt", 2, "en"), listed("de.txt", 2, "de")]}], files=files)
    # An empty line in the middle is a class without a name, and no reason to move the others.
    assert usage.outputs["scores"].labels == Words("en.txt", ("a", "", "c"), "en")


@pytest.mark.parametrize(
    ("inputs", "outputs", "files", "words"),
    [
        ([USUAL_INPUT] * 2, None, None, "tells of 2 inputs, the model has 1"),
        ([{4: [normalization((1.0,), (0.0,))]}], None, None, "divides by zero"),
        ([{4: [normalization((float("nan"),), (1.0,))]}], None, None, "not finite"),
        ([{4: [normalization((1, 2), (1, 2, 3))]}], None, None, "2 means and 3 deviations"),
        (None, None, {}, "the file 'labels.txt' is not there"),
        (None, None, {"labels.txt": b"\xff\xfe\x00"}, "no UTF-8 text"),
        (None, [{6: [listed("../labels.txt")]}], None, "'../labels.txt' is not there"),
    ],
)
def test_what_makes_no_sense_is_left_out_and_named(
    inputs: Any, outputs: Any, files: Any, words: str, tmp_path: Path
) -> None:
    (tmp_path / "labels.txt").write_text("outside\n")
    usage = usage_of(inputs, outputs, files)
    assert [problem for problem in usage.problems if words in problem]
    scaled = [u for u in usage.inputs.values() if u.is_scaled]
    labelled = [u for u in usage.outputs.values() if u.labels]
    assert bool(scaled) == (inputs is None)
    assert bool(labelled) == (outputs is None and files is None)


def test_a_model_runs_whatever_is_wrong_with_its_metadata(tmp_path: Path) -> None:
    path = classifiers.write(tmp_path / "a.tflite", classifiers.tflite(b"nonsense" * 9))
    graph = thinflow.load(path)
    assert graph.usage.problems == (
        "TFLITE_METADATA cannot be read: the identifier M001 is missing at byte 4",
    )
    assert len(graph.outputs) == 1


def test_damaged_metadata_never_stops_a_model() -> None:
    content = metadata([USUAL_INPUT], [{**USUAL_OUTPUT, 4: [{0: Scalar("u8", 3), 1: {}}]}], slot0="net")
    data, rng = classifiers.tflite(content), random.Random(3)
    for _ in range(400):
        broken = bytearray(content)
        for _ in range(rng.randint(1, 3)):
            broken[rng.randrange(len(broken))] = rng.randrange(256)
        cut = bytes(broken[: rng.randrange(len(broken))] if rng.random() < 0.2 else broken)
        usage = read_usage(cut, data, ["picture"], ["scores"])
        assert set(usage.inputs) <= {"picture"}
        assert set(usage.outputs) <= {"scores"}
        repr(usage.data())


# --- written ------------------------------------------------------------------------------------------------

KNOWN = Usage(
    {"picture": InputUsage(IMAGE, RGB, (8, 9), (1.5, 2.0, 3.0), (4.0,), description="A picture", said=KEY)},
    {"scores": OutputUsage(Words("labels.txt", ("a", "b", "ü"), "en"), said=KEY)},
    {"name": "net", "author": "me", "free": "key"},
)


def test_what_is_known_is_written_and_read_again() -> None:
    data = to_bytes(described(classifiers.program(), KNOWN))
    program = read_program(data)
    found = read_usage(program.metadata[KEY], data, ["picture"], ["scores"])
    assert found.inputs["picture"] == replace(
        KNOWN.inputs["picture"], low=(-0.375, -0.5, -0.75), high=(63.375, 63.25, 63.0)
    )
    assert found.outputs["scores"].labels == KNOWN.outputs["scores"].labels
    assert found.notes == {"name": "net", "author": "me"}
    with zipfile.ZipFile(__import__("io").BytesIO(data)) as archive:
        assert archive.read("labels.txt") == "a\nb\nü\n".encode()


def test_what_is_assumed_or_does_not_fit_is_not_written() -> None:
    plain = classifiers.program()
    assert described(plain, Usage()) is plain
    assumed = InputUsage(IMAGE, mean=(0.0,), std=(255.0,), assumed="somebody thinks so")
    assert described(plain, Usage({"picture": assumed})) is plain
    other = OutputUsage(Words("l.txt", ("a", "b")))
    assert described(plain, Usage({"elsewhere": KNOWN.inputs["picture"]}, {"scores": other})) is plain


def test_labels_of_two_outputs_and_lines_in_names() -> None:
    words = {
        "scores": Words("x/labels.txt", ("a\nb", "c", "d")),
        "picture": Words("x/labels.txt", ("1", "2", "3")),
    }
    program = classifiers.program()
    main = program.subgraphs[0]
    main.outputs = [*main.outputs, main.inputs[0]]
    made = described(program, Usage(outputs={n: OutputUsage(w) for n, w in words.items()}))
    assert made.files == {"labels.txt": b"a b\nc\nd\n", "labels_2.txt": b"1\n2\n3\n"}


def test_labels_travel_from_file_to_file(tmp_path: Path) -> None:
    source = classifiers.write(tmp_path / "a.tflite", classifiers.tflite())
    for middle in ("b.onnx", "b.pb.tflite"):
        there, back = str(tmp_path / middle), str(tmp_path / f"{middle}.again.tflite")
        graph = thinflow.load(source)
        thinflow.save(graph, there)
        thinflow.save(thinflow.load(there), back)
        for path in (there, back):
            usage = thinflow.load(path).usage
            labels = usage.labels(thinflow.load(path).outputs[0].name, 3)
            assert labels is not None
            assert labels.words == ("red", "green", "blue")
            assert usage.input("picture").formula == "(x - 127.5) / 127.5"  # type: ignore[union-attr]
            assert usage.input("picture").colours == RGB  # type: ignore[union-attr]


def test_a_large_archive_is_no_obstacle(tmp_path: Path) -> None:
    path = classifiers.write(tmp_path / "a.tflite", classifiers.tflite() + b"PK\x05\x06 and more")
    try:
        thinflow.load(path)
    except ThinflowError as error:  # pragma: no cover
        pytest.fail(str(error))


def test_blue_first_is_not_said_to_be_red_first() -> None:
    usage = Usage({"picture": InputUsage(IMAGE, BGR, mean=(1.0,), std=(2.0,))})
    data = to_bytes(described(classifiers.program(), usage))
    found = read_usage(read_program(data).metadata[KEY], data, ["picture"], ["scores"])
    assert found.inputs["picture"].colours == ""


def test_boxes_and_sound_are_told_as_task_libraries_ask_for() -> None:
    boxes = OutputUsage(kind="boxes", said=KEY)
    sound = InputUsage("audio", sample_rate=16000)
    data = to_bytes(described(classifiers.program(), Usage({"picture": sound}, {"scores": boxes})))
    content = read_program(data).metadata[KEY]
    found = read_usage(content, data, ["picture"], ["scores"])
    assert found.outputs["scores"] == boxes
    assert found.outputs["scores"].text() == "boxes: top, left, bottom, right [TFLITE_METADATA]"
    assert found.inputs["picture"].sample_rate == 16000
    (table,) = flatbuffer.root(content, b"M001").tables(3)
    properties = table.tables(2)[0].table(3).table(1)  # type: ignore[union-attr]
    assert properties is not None
    assert properties.scalar(1, "u32") == 1  # channels


def test_boxes_in_another_order_are_not_taken_for_ours() -> None:
    for ends in ({0: Vector("u32", (0, 1, 2, 3)), 1: Scalar("i8", 1)}, {0: Vector("u32", (1, 0, 3, 2))}, {}):
        table = {3: {0: Scalar("u8", 3), 1: ends}}
        assert usage_of(outputs=[table]).outputs["scores"].kind == ""
