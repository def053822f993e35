"""Files that hold no model: what they are, and what to do."""

from __future__ import annotations

import io
import struct
import tarfile
import zipfile
from pathlib import Path

import pytest

import thinflow
from thinflow.errors import FormatError


def zipped(*names: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in names:
            archive.writestr(name, "x")
    return buffer.getvalue()


def tarred() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo("x"))
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "what", "todo"),
    [
        (b"cat\ndog\nbig bird\n", "a text (a list of labels?)", "--labels"),
        (b"a,b\n1,2\n3,4\n", "a table (CSV)", "--data"),
        (b'{"a": 1}', "a JSON text", "give the model"),
        (b"One sentence of prose that has clearly more words than a label.", "a text", "give the model"),
        (bytes(100), "a file of zeros", "fetch it again"),
        (tarred(), "a tar archive", "unpack"),
        (b"\x93NUMPY\x01\x00", "a numpy array", "--calibration"),
        (b"RIFF\x00\x00\x00\x00WAVEfmt ", "a WAV sound", "give the model"),
        (b"\x89PNG\r\n\x1a\n", "a PNG picture", "give the model"),
        (
            struct.pack("<Q", 20) + b'{"a":{"dtype":"F32"}}',
            "a safetensors file",
            "load the weights into their model, and export it with",
        ),
        (b"GGUF\x03\x00\x00\x00", "a GGUF model", "export the model as .onnx"),
        (b"\x18\x00\x00\x00ORTM\x00\x00", "a model in ONNX Runtime's own form", "give the .onnx file"),
        (b"LITERTLM\x01\x00\x00\x00", "a bundle for LiteRT-LM", "litert-lm-peek"),
        (zipped("archive/data.pkl"), "a PyTorch file", "torch.export.save(torch.export.export(model.eval()"),
        (zipped("m/code/__torch__/net.py", "m/data.pkl"), "a TorchScript archive", "torch.jit.load"),
        (zipped("a.npy"), "an .npz file of numpy arrays", "--calibration"),
        (zipped("m/saved_model.pb"), "a zip archive with a SavedModel in it", "unpack"),
        (zipped("readme"), "a zip archive", "unpack"),
        (zipped("a/m.onnx", "readme"), "a zip archive with a model in it", "unpack it and give a/m.onnx"),
        (zipped("../m.onnx"), "files that would lie outside of its folder", "do not trust it"),
        (zipped(), "an empty zip archive", "download or export it again"),
        (
            zipped("config.json", "metadata.json"),
            "a Keras archive without model.weights.h5",
            "save the whole",
        ),
        (
            zipped("metadata.json", "model.weights.h5"),
            "a Keras archive without config.json",
            "save the whole",
        ),
        (zipped("a.npy")[:20], "a damaged zip archive", "download"),
        (b"\x80\x04\x95", "a Python pickle (PyTorch?)", "torch.export.save(torch.export.export(model.eval()"),
        (
            b'\n\xb6;\x1a\x04root"\x14_tf_keras_sequential*',
            "what Keras noted of the layers of a SavedModel",
            "give the folder that it is in",
        ),
        (b"<!DOCTYPE html>", "a web page", "download the model file itself"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",  # archives hold the time they were made
)
def test_files(tmp_path: Path, content: bytes, what: str, todo: str) -> None:
    path = tmp_path / "model.pb"
    path.write_bytes(content)
    with pytest.raises(FormatError) as caught:
        thinflow.load(path)
    assert (
        caught.value.problem == f"this is {what}, not a model that can be read"
        or what in caught.value.problem
    )
    assert todo in caught.value.hint


@pytest.mark.parametrize(
    ("names", "what", "todo"),
    [
        ([], "this folder is empty", "name a model"),
        (["a.jpg", "b.PNG", "labels.txt"], "this is a folder of 2 pictures", "--calibration"),
        (["a.wav"], "this is a folder of 1 sound", "--calibration"),
        (["a.npy", "b.npz"], "this is a folder of 2 arrays", "--calibration"),
        (["events.out.tfevents.1.host"], "a folder of TensorBoard event files", "events.out.tfevents.1.host"),
        (["variables"], "a SavedModel's folder without saved_model.pb", "copy the whole folder"),
        (["a.pb", "b.onnx", "notes"], "this is a folder, not a model", "it contains a.pb, b.onnx"),
        (["a.keras", "b.h5"], "this is a folder, not a model", "it contains a.keras, b.h5"),
        (["ladder"], "an unfinished optimize left this, and no model", "the same command goes on from there"),
        (
            ["ladder", "report_interrupted.html"],
            "an unfinished optimize",
            "there; report_interrupted.html shows",
        ),
        (["notes", "more"], "this is a folder, not a model", "name a model"),
    ],
)
def test_folders(tmp_path: Path, names: list[str], what: str, todo: str) -> None:
    for name in names:
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(FormatError) as caught:
        thinflow.load(tmp_path)
    assert what in caught.value.problem
    assert todo in caught.value.hint


def test_core_ml_is_not_taken_for_onnx(tmp_path: Path) -> None:
    path = tmp_path / "x.mlmodel"
    path.write_bytes(bytes([0x08, 4, 0x12, 16, 0x0A, 8, 0x0A, 4]) + b"data" + bytes(8))
    with pytest.raises(FormatError, match="this is a Core ML model") as caught:
        thinflow.load(path)
    assert ".mlpackage" in caught.value.hint


def test_the_checksums_of_a_savedmodel_are_no_graph(tmp_path: Path) -> None:
    path = tmp_path / "fingerprint.pb"
    path.write_bytes(b"\x08\x05\x10\x06\x18\x07")
    with pytest.raises(FormatError, match="the checksums of a SavedModel"):
        thinflow.load(path)


def test_the_oldest_pickles_are_texts(tmp_path: Path) -> None:
    import pickle

    path = tmp_path / "m.pth"
    path.write_bytes(pickle.dumps(["a", 1], protocol=0))
    with pytest.raises(FormatError, match=r"a Python pickle \(PyTorch\?\).*\nhint: export it with PyTorch"):
        thinflow.load(path)
