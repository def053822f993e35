"""Small .tflite classifiers of pictures with LiteRT's model metadata, written field by field."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from thinflow.ir.types import FLOAT, INT32, DType
from thinflow.program.model import Quantization
from thinflow.tflite.metadata import IDENTIFIER, KEY
from thinflow.tflite.model import Operator, Program, Subgraph, Tensor
from thinflow.tflite.writer import to_bytes
from thinflow.wire import flatbuffer
from thinflow.wire.flatbuffer import Scalar, Vector


def program(element: DType = FLOAT, grid: tuple[float, int] | None = None, classes: int = 3) -> Program:
    """scores [1,3] = mean over the pixels of picture [1,4,4,3]."""
    grids = None if grid is None else Quantization(np.float32([grid[0]]), np.int64([grid[1]]))
    x = Tensor("picture", (1, 4, 4, classes), element, quantization=grids)
    y = Tensor("scores", (1, classes), element, quantization=grids)
    axes = Tensor("axes", (2,), INT32, np.int32([1, 2]))
    return Program([Subgraph([x], [y], [Operator("MEAN", [x, axes], [y], {"keep_dims": False})])])


def normalization(*pairs: tuple[float, ...]) -> dict[int, Any]:
    """A process unit: means, and deviations."""
    return {0: Scalar("u8", 1), 1: {slot: Vector("f32", numbers) for slot, numbers in enumerate(pairs)}}


def image(colours: int = 1, size: tuple[int, int] | None = None) -> dict[int, Any]:
    """Content of an image: 1 for RGB, 2 for grey; width and height."""
    sides = None if size is None else {slot: Scalar("u32", n) for slot, n in enumerate(size)}
    return {0: Scalar("u8", 2), 1: {0: Scalar("i8", colours), 1: sides}}


def listed(name: str, kind: int = 2, locale: str | None = None) -> dict[int, Any]:
    """An associated file; 2 for labels along the axis, 3 for labels of values, 5 for a vocabulary."""
    return {0: name, 2: Scalar("i8", kind), 3: locale}


def metadata(inputs: list[dict[int, Any]] | None, outputs: list[dict[int, Any]] | None, **root: Any) -> bytes:
    """The flatbuffer of a model of one subgraph."""
    notes = {int(slot.removeprefix("slot")): value for slot, value in root.items()}
    tables = {2: inputs or None, 3: outputs or None}
    return b"".join(flatbuffer.encode({**notes, 3: [tables]}, IDENTIFIER)[1])


USUAL_INPUT = {0: "image", 1: "A picture", 3: image(), 4: [normalization((127.5,), (127.5,))]}
USUAL_OUTPUT = {0: "probability", 6: [listed("labels.txt")]}
USUAL_FILES = {"labels.txt": b"red\ngreen\nblue\n"}


def tflite(
    content: bytes | None = None,
    files: Mapping[str, bytes] | None = None,
    made: Program | None = None,
    compression: int = zipfile.ZIP_STORED,
) -> bytes:
    """The file with its metadata and an archive behind it, which Python's zipfile writes."""
    made = made or program()
    made.metadata[KEY] = content if content is not None else metadata([USUAL_INPUT], [USUAL_OUTPUT])
    whole = io.BytesIO(to_bytes(made))
    with zipfile.ZipFile(whole, "a", compression) as archive:
        for name, data in (USUAL_FILES if files is None else files).items():
            archive.writestr(name, data)
    return whole.getvalue()


def write(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return str(path)
