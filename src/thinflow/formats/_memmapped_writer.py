"""Writing memmapped packages: big constants move out of the graph, each to an aligned region of its own."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from thinflow.errors import ParameterError
from thinflow.formats import graphdef
from thinflow.formats._files import GZIP_MAGIC, write_file
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.function import Edited, Function
from thinflow.ir.graph import Graph, Node
from thinflow.ir.tensor import RawStorage, Tensor
from thinflow.wire import protos

PREFIX = "memmapped_package://"
MAIN_REGION = PREFIX + "."
"""Name of the region that holds the graph."""
ALIGNMENT = 64
"""Alignment of a tensor's address that TensorFlow's kernels ask for, bytes."""
MIN_BYTES = 10_000
"""Default limit: smaller constants stay in the graph."""

_LAST_TYPE = 23
"""DT_UINT64. Types with higher numbers are younger than the format; its readers do not know them."""


@dataclass(frozen=True)
class Written:
    """Figures of a package that was written.

    Attributes:
        size_bytes: of the file.
        converted: constants that are mapped now.
        regions: pieces they share: equal constants are stored once.
        mapped_bytes: of all regions.
    """

    size_bytes: int
    converted: int
    regions: int
    mapped_bytes: int


def write(graph: Graph, path: str | os.PathLike[str], *, min_bytes: int = MIN_BYTES) -> Written:
    """Write a package, atomically and piece by piece; the graph is not changed.

    Args:
        graph: what to write.
        path: where to.
        min_bytes: constants that take fewer bytes stay in the graph.

    Raises:
        ParameterError: the limit is not positive.
        WriteError: the file cannot be written; what stood there is untouched.
    """
    if min_bytes <= 0:
        raise ParameterError(f"the smallest size to map is {min_bytes} bytes", hint="give at least 1")
    layout = _Layout(min_bytes)
    copy = graph.clone()
    for node in copy:
        layout.take(node)
    _take_functions(copy, layout)
    size = write_file(path, layout.chunks(copy))
    return Written(size, layout.converted, len(layout.regions), sum(t.size_bytes for _, t in layout.regions))


def _take_functions(graph: Graph, layout: _Layout) -> None:
    changed: dict[str, Function] = {}
    for name, function in graph.functions.items():
        if any(layout.wants(node) for node in function.graph):
            copy = function.copied()
            for node in copy.graph:
                layout.take(node)
            changed[name] = copy
    if changed:
        graph.functions = Edited(graph.functions, changed)


@dataclass
class _Layout:
    """Regions of the file with their tensors, in order."""

    min_bytes: int
    converted: int = 0
    regions: list[tuple[str, Tensor]] = field(default_factory=list)
    _names: set[str] = field(default_factory=set)
    _by_content: dict[bytes, str] = field(default_factory=dict)

    def wants(self, node: Node) -> bool:
        """True if a node holds a constant that is to be mapped."""
        tensor = node.tensor
        if tensor is None or not tensor.dtype.itemsize or tensor.dtype.number > _LAST_TYPE:
            return False
        return tensor.size_bytes >= self.min_bytes

    def take(self, node: Node) -> None:
        """Give the constant of a node a region, and let the node name it."""
        tensor = node.tensor
        if tensor is None or not self.wants(node):
            return
        region = self._by_content.get(tensor.fingerprint())
        if region is None:
            region = self._by_content[tensor.fingerprint()] = self._name(node.name)
            self.regions.append((region, tensor))
        node.op = "ImmutableConst"
        node.attrs.clear()
        node.attrs.update(
            {
                "dtype": tensor.dtype,
                "shape": ShapeAttr(tensor.shape),
                "memory_region_name": region.encode(),
            }
        )
        self.converted += 1

    def _name(self, node: str) -> str:
        """A name made of what a region may be called, unlike all others."""
        name = PREFIX + re.sub(r"[^A-Za-z0-9_.]", "_", node)
        while name in self._names or name == MAIN_REGION:
            name += "_"
        self._names.add(name)
        return name

    def chunks(self, graph: Graph) -> Iterator[bytes | memoryview]:
        """The file, piece by piece."""
        directory = protos.message("MemmappedFileSystemDirectory")()
        at = 0
        for name, tensor in self.regions:
            data = _raw(tensor)
            # A file that began like gzip would be unpacked by those who open it.
            padding = ALIGNMENT if not at and data[:2] == GZIP_MAGIC else -at % ALIGNMENT
            yield bytes(padding)
            at += padding
            directory.element.add(name=name, offset=at, length=len(data))
            yield data
            at += len(data)
        start = at
        for chunk in graphdef.to_chunks(graph):
            yield chunk
            at += len(chunk)
        directory.element.add(name=MAIN_REGION, offset=start, length=at - start)
        yield protos.serialize(directory)
        # The last eight bytes say where the directory begins: readers start from the end, so
        # the file is written in one go.
        yield struct.pack("<Q", at)


def _raw(tensor: Tensor) -> memoryview:
    """The elements, little-endian and row by row; the file's own bytes where they are that already."""
    import numpy as np

    if isinstance(tensor.storage, RawStorage):
        return tensor.storage.buffer
    array: np.ndarray[Any, Any] = np.ascontiguousarray(tensor.numpy())
    return array.reshape(-1).view(np.uint8).data
