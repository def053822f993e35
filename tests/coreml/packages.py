"""Core ML packages made by hand with messages of our own, for tests: coremltools is not needed."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

from thinflow.coreml.protos import message

SPECIFICATION = "com.apple.CoreML/model.mlmodel"
_TYPES = {"float32": 11, "float16": 10, "int32": 23, "int8": 21, "bool": 1}
_BLOBS = {"float32": 2, "float16": 1, "int8": 4}


def typed(shape: tuple[int | None, ...], kind: str) -> Any:
    """The type of a value."""
    made = message("ValueType")()
    made.tensorType.dataType, made.tensorType.rank = _TYPES[kind], len(shape)
    for n in shape:
        size = made.tensorType.dimensions.add()
        if n is None:
            size.unknown.variadic = False
        else:
            size.constant.size = n
    return made


def value(content: Any) -> Any:
    """A value that stands in the program itself."""
    made = message("Value")()
    tensor = made.immediateValue.tensor
    if isinstance(content, str):
        made.type.tensorType.dataType = 2
        tensor.strings.values.append(content)
        return made
    array = np.asarray(content)
    kind = {"f": "float32", "b": "bool"}.get(array.dtype.kind, "int32")
    made.type.CopyFrom(typed(array.shape, kind))
    field = {"float32": tensor.floats, "bool": tensor.bools, "int32": tensor.ints}[kind]
    field.values.extend(array.reshape(-1).tolist())
    field.SetInParent()
    return made


class Package:
    """A package on its way: operations by hand, weights in their file."""

    def __init__(self, opset: str = "CoreML6") -> None:
        self.model = message("Model")()
        self.model.specificationVersion = 7
        self.function = self.model.mlProgram.functions["main"]
        self.function.opset = opset
        self.block = self.function.block_specializations[opset]
        self.blobs = bytearray(struct.pack("<II", 0, 2).ljust(64, b"\0"))

    def input(self, name: str, shape: tuple[int | None, ...], kind: str = "float32") -> str:
        self.function.inputs.add(name=name, type=typed(shape, kind))
        return name

    def weights(self, array: np.ndarray) -> Any:
        """A value whose elements are in the file of weights."""
        kind = array.dtype.name
        offset = len(self.blobs)
        self.blobs += struct.pack("<IIQQ", 0xDEADBEEF, _BLOBS[kind], array.nbytes, offset + 64).ljust(
            64, b"\0"
        )
        self.blobs += array.tobytes()
        self.blobs += bytes(-len(self.blobs) % 64)
        made = message("Value")()
        made.type.CopyFrom(typed(array.shape, kind))
        made.blobFileValue.fileName, made.blobFileValue.offset = "@model_path/weights/weight.bin", offset
        return made

    def add(
        self, kind: str, name: str, shape: tuple[int | None, ...], of: str = "float32", /, **inputs: Any
    ) -> str:
        """An operation. Inputs are names of values, lists of them, messages, or what becomes a value."""
        operation = self.block.operations.add(type=kind)
        for key, given in inputs.items():
            for each in given if isinstance(given, list) and isinstance(given[0], str) else [given]:
                bound = operation.inputs[key].arguments.add()
                if isinstance(each, str) and each.startswith("%"):
                    bound.name = each[1:]
                else:
                    bound.value.CopyFrom(each if hasattr(each, "WhichOneof") else value(each))
        operation.outputs.add(name=name, type=typed(shape, of))
        return name

    def write(self, path: Path, *outputs: str) -> Path:
        """The package, with these outputs."""
        self.block.outputs.extend(outputs)
        write(path, self.model.SerializeToString(deterministic=True), bytes(self.blobs))
        return path


def write(path: Path, specification: bytes, blobs: bytes | None) -> None:
    """The folder of a package."""
    data = path / "Data" / "com.apple.CoreML"
    (data / "weights").mkdir(parents=True, exist_ok=True)
    (data / "model.mlmodel").write_bytes(specification)
    if blobs is not None:
        (data / "weights" / "weight.bin").write_bytes(blobs)
    items = {"a": {"path": SPECIFICATION}, "b": {"path": "com.apple.CoreML/weights"}}
    (path / "Manifest.json").write_text(json.dumps({"itemInfoEntries": items, "rootModelIdentifier": "a"}))


def small(path: Path) -> tuple[Path, np.ndarray, np.ndarray]:
    """relu(conv(x) + bias), a slice and a softmax of it; the filter and the bias."""
    rng = np.random.default_rng(0)
    w = rng.normal(size=(4, 2, 3, 3)).astype(np.float32)
    bias = rng.normal(size=4).astype(np.float32)
    package = Package()
    x = "%" + package.input("x", (1, 2, 6, 6))
    c = "%" + package.add(
        "conv", "c", (1, 4, 3, 6), x=x, weight=package.weights(w), bias=package.weights(bias), strides=[2, 1],
        pad_type="custom", pad=[1, 1, 1, 1], dilations=[1, 1], groups=1,
    )  # fmt: skip
    r = "%" + package.add("relu", "r", (1, 4, 3, 6), x=c)
    s = "%" + package.add(
        "slice_by_index", "s", (1, 4, 3), x=r, begin=[0, 0, 0, 2], end=[0, 0, 0, 0],
        begin_mask=[True, True, True, False], end_mask=[True, True, True, False],
        squeeze_mask=[False, False, False, True],
    )  # fmt: skip
    package.add("softmax", "y", (1, 4, 3), x=s, axis=1)
    return package.write(path, "y", "r"), w, bias
