"""Collections for tests: models, copies, damaged files, archives, and what is no model."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import numpy as np

import thinflow
from tests.checkpoints import write_checkpoint
from thinflow import zoo


def a_collection(folder: Path) -> Path:
    """A folder with one of each kind.

    | path | is |
    |---|---|
    | digits.pb, copy.bin | a model, and the same bytes under a name that says nothing |
    | digits.tflite | the same network for LiteRT |
    | cut.tflite, cut.onnx | begun and not finished |
    | weights.index, weights.data-... | variables without a graph |
    | more.zip | a tar in it, with digits.pb and a picture in that |
    | notes.txt, picture.png, zeros.bin, noise.dat, empty.pb | no models, or none any more |
    """
    folder.mkdir(parents=True, exist_ok=True)
    graph = zoo.write("digits", folder / "digits.pb")
    content = (folder / "digits.pb").read_bytes()
    (folder / "copy.bin").write_bytes(content)
    thinflow.save(graph, folder / "digits.tflite")
    (folder / "cut.tflite").write_bytes((folder / "digits.tflite").read_bytes()[:9000])
    (folder / "cut.onnx").write_bytes(b"\x08\x07\x12\x04tiny:" + b"\xff" * 100)
    write_checkpoint(folder / "weights", {"w": thinflow.Tensor.from_array(np.ones((3, 4), np.float32))})
    (folder / "notes.txt").write_text("zero\none\n")
    (folder / "picture.png").write_bytes(PNG)
    (folder / "zeros.bin").write_bytes(bytes(5000))
    (folder / "noise.dat").write_bytes(np.random.default_rng(0).bytes(5000))
    (folder / "empty.pb").write_bytes(b"")
    with zipfile.ZipFile(folder / "more.zip", "w") as archive:
        archive.writestr("inner.tar.gz", tar_of({"deep/digits.pb": content, "deep/picture.png": PNG}))
        archive.writestr("readme.txt", "nothing here")
    return folder


PNG = b"\x89PNG\r\n\x1a\n" + bytes(40)


def tar_of(files: dict[str, bytes]) -> bytes:
    """A compressed tar archive."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()
