"""Where the bytes of a .tflite or .onnx model are: in a file of its own, or in a package."""

from __future__ import annotations

import os
from pathlib import Path

from thinflow.errors import ThinflowError
from thinflow.formats import pack
from thinflow.formats._files import map_file

PathLike = str | os.PathLike[str]

_KINDS = frozenset({"tflite", "onnx"})


def packed_kind(path: PathLike) -> str:
    """ "tflite" or "onnx" for a package that holds such a model; else ""."""
    try:
        with open(path, "rb") as file:
            if file.read(len(pack.MAGIC)) != pack.MAGIC:
                return ""
        kind = str(pack.open_pack(path).header.get("kind"))
    except (OSError, ThinflowError):
        return ""  # whoever opens it says what is wrong
    return kind if kind in _KINDS else ""


def content_of(path: PathLike) -> bytes | str:
    """What an engine opens: the path of a file, or the bytes of the model in a package.

    Raises:
        FormatError: a wrong key, or a changed package.
        ParameterError: it is encrypted and no key is there.
    """
    return bytes(pack.open_pack(path).model()) if packed_kind(path) else os.fspath(path)


def bytes_of(path: PathLike) -> memoryview:
    """The bytes of a model, mapped where they lie in the clear.

    Raises:
        FormatError: no such file; a wrong key, or a changed package.
    """
    return pack.open_pack(path).model() if packed_kind(path) else map_file(path, unpack=False)


def as_one_piece(path: PathLike, kind: str) -> memoryview:
    """The bytes of a .tflite or .onnx file, with the weights that it keeps in files beside it.

    Raises:
        FormatError: it is damaged, or one of those files is.
    """
    from thinflow.formats._whole import onnx_in_one, tflite_in_one

    data = bytes_of(path)
    whole = {"tflite": tflite_in_one, "onnx": onnx_in_one}[kind]
    return memoryview(whole(data, Path(path)))
