"""Arguments of an inference interface: models, names, arrays."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from thinflow.errors import ParameterError
from thinflow.ir.graph import Graph
from thinflow.ir.types import dtype

if TYPE_CHECKING:
    from thinflow.typing import Array

ASSET_PREFIX = "file:///android_asset/"
Port = tuple[str, int]
Source = str | os.PathLike[str] | bytes | BinaryIO | Graph


def graph_of(model: Source, assets: str | os.PathLike[str] | None) -> Graph:
    from thinflow.analysis.shapes import infer_shapes
    from thinflow.formats import graphdef
    from thinflow.load.sources import open_model

    if isinstance(model, Graph):
        infer_shapes(model)
        return model
    if isinstance(model, str | os.PathLike):
        graph = open_model(located(os.fspath(model), assets))
    else:
        content = model if isinstance(model, bytes | bytearray | memoryview) else model.read()
        graph = graphdef.from_bytes(memoryview(content))
    infer_shapes(graph)
    return graph


def located(name: str, assets: str | os.PathLike[str] | None) -> str:
    """The file a name stands for."""
    folder = Path(assets) if assets is not None else None
    if name.startswith(ASSET_PREFIX):
        if folder is None:
            raise ParameterError(
                f"'{name}' is an asset, and there is no folder of assets", hint="give assets=FOLDER"
            )
        return str(folder / name.removeprefix(ASSET_PREFIX))
    if folder is not None and (folder / name).is_file():
        return str(folder / name)
    return name


def parsed(name: str) -> Port:
    """Node and output of NAME or NAME:INDEX; what follows the last colon is a name too if it is no number."""
    # From the right: scopes may hold colons, an index stands last.
    node, colon, index = name.rpartition(":")
    try:
        return (node, int(index)) if colon else (name, 0)
    except ValueError:
        return name, 0


def spelled(port: Port) -> str:
    return f"{port[0]}:{port[1]}" if port[1] else port[0]


def copied(values: Any, declared: Callable[[], Any]) -> Array:
    import numpy as np

    if isinstance(values, bytes | bytearray | memoryview):
        result: Array = np.frombuffer(values, np.uint8).copy()
        return result
    if hasattr(values, "dtype"):
        # A copy in rows: the caller may use its array again before the run, as in Java.
        return np.array(values, order="C")
    return np.array(values, declared())


def type_name(array: Array) -> str:
    try:
        return dtype(array.dtype).name
    except ParameterError:
        return ""


def as_array(out: Any) -> Array:
    import numpy as np

    try:
        return np.asarray(memoryview(out))
    except TypeError as error:
        raise ParameterError(
            f"cannot fetch into a {type(out).__name__}", hint="give a numpy array or a bytearray"
        ) from error


def copy_into(out: Any, found: Array, name: str) -> None:
    """Copy an output to the beginning of what the caller gives; see `InferenceInterface.fetch`.

    Raises:
        ParameterError: it cannot be written, is too small, or of another type.
    """
    import numpy as np

    target = out if isinstance(out, np.ndarray) else as_array(out)
    if not (target.flags.c_contiguous and target.flags.writeable):
        raise ParameterError("the array to fetch into is not writable, or has gaps", hint="make a new one")
    flat, values = target.reshape(-1), np.ascontiguousarray(found).reshape(-1)
    if flat.dtype != values.dtype:
        # Java fetches any type into a buffer of bytes.
        if flat.dtype not in (np.uint8, np.int8) or values.dtype.hasobject:
            raise ParameterError(
                f"'{name}' is {values.dtype}, the array to fetch into is {flat.dtype}",
                hint=f"make it np.zeros(size, '{values.dtype}')",
            )
        flat, values = flat.view(np.uint8), values.view(np.uint8)
    if flat.size < values.size:
        raise ParameterError(
            f"'{name}' has {values.size} elements, the array to fetch into {flat.size}",
            hint=f"make it np.zeros({values.size}, '{values.dtype}')",
        )
    flat[: values.size] = values
