"""Memmapped packages: a GraphDef whose big constants lie beside it, aligned, to be used where they are.

    region | padding | region | ... | GraphDef | directory | 8 bytes: where the directory begins

A region is the raw elements of a constant; its node is an `ImmutableConst` that names it. Loading turns
those nodes back into constants, views of the mapped file, so that a graph runs and can be written as any
other.
"""

from __future__ import annotations

import math
import os
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from thinflow.errors import FormatError, ParameterError
from thinflow.formats import graphdef
from thinflow.formats.files import GZIP_MAGIC, map_file, write_file
from thinflow.formats.format import Format, Sample
from thinflow.ir.attrs import Attr, ShapeAttr
from thinflow.ir.function import Edited, Function
from thinflow.ir.graph import Graph, Node, Problem
from thinflow.ir.tensor import RawStorage, Tensor
from thinflow.ir.types import DType
from thinflow.wire import protos

_POINTER_BYTES = 8


@dataclass(frozen=True)
class Region:
    """A piece of the package.

    Attributes:
        offset: where it begins, bytes from the start of the file.
        data: its bytes. Packages of old writers do not say how long it is; it then reaches to the next one.
    """

    offset: int
    data: memoryview


def load(path: str | os.PathLike[str]) -> Graph:
    """The graph of a package; its constants are views of the mapped file.

    Raises:
        FormatError: not a package, or a damaged one; names the file and the node or region.
    """
    buffer = map_file(path)
    try:
        found = regions(buffer)
        graph = graphdef.from_bytes(found[MAIN_REGION].data)
        _fill_functions(graph, found)
        for node in graph:
            _fill(node, found, graph.problems)
    except FormatError as error:
        raise error.at(os.fspath(path)) from error
    graph.path = os.fspath(path)
    graph.facts = {"kept in": f"a memmapped package of {len(found) - 1} mapped regions"}
    return graph


def regions(buffer: memoryview) -> Mapping[str, Region]:
    """The pieces of a package by name, without looking into them.

    Raises:
        FormatError: the directory is damaged: out of the file, out of order, with a name twice.
    """
    end = _directory_offset(buffer)
    if end is None:
        raise FormatError("this is not a memmapped package", hint="the file may have been cut short")
    directory = protos.parse("MemmappedFileSystemDirectory", buffer[end:-_POINTER_BYTES])
    elements = list(directory.element)
    by_name: dict[str, Region] = {}
    # Each region has room up to the next; old writers state no length, and then it is the length.
    ends = [*(e.offset for e in elements), end][1:]
    for element, after in zip(elements, ends, strict=True):
        where = f"region '{element.name}' at byte {element.offset}"
        room = after - element.offset
        if room <= 0:
            raise FormatError(
                "the regions are not in order", where, "convert the model again; the directory is damaged"
            )
        if element.length > room:
            raise FormatError(
                f"it is {element.length} bytes long, and only {room} fit there",
                where,
                "the file is damaged or was cut short; fetch it again",
            )
        if element.name in by_name:
            raise FormatError("there are two regions of this name", where, "convert the model again")
        by_name[element.name] = Region(
            element.offset, buffer[element.offset : element.offset + (element.length or room)]
        )
    if MAIN_REGION not in by_name:
        raise FormatError("there is no graph in this package", hint=f"no region is called {MAIN_REGION}")
    return by_name


def _directory_offset(buffer: memoryview) -> int | None:
    """Offset of the directory, by the last bytes of the file; None if they are no such offset."""
    if len(buffer) <= _POINTER_BYTES:
        return None
    (offset,) = struct.unpack("<Q", buffer[-_POINTER_BYTES:])
    return offset if offset < len(buffer) - _POINTER_BYTES else None


def is_package(sample: Sample) -> bool:
    """True if a file ends in a directory of regions."""
    if sample.is_folder or PREFIX.encode() not in sample.tail:
        return False
    (offset,) = struct.unpack("<Q", sample.tail[-_POINTER_BYTES:])
    # 0x0A is the tag of the directory's first element.
    start = offset - (sample.size - len(sample.tail))
    # The directory of a big model is longer than the tail.
    return offset < sample.size - _POINTER_BYTES and (start < 0 or sample.tail[start : start + 1] == b"\x0a")


# --- from regions to constants ------------------------------------------------------------------------------


def _fill_functions(graph: Graph, found: Mapping[str, Region]) -> None:
    """Likewise in the bodies of functions, which are decoded only if one of them may name a region."""
    # The op's name as it stands in the undecoded library.
    if not any(b"ImmutableConst" in raw for _, raw in graph.passenger.fields):
        return
    changed: dict[str, Function] = {}
    for name, function in graph.functions.items():
        if any(node.op == "ImmutableConst" for node in function.graph):
            copy = function.copied()
            for node in copy.graph:
                _fill(node, found, graph.problems)
            changed[name] = copy
    if changed:
        graph.functions = Edited(graph.functions, changed)


def _fill(node: Node, found: Mapping[str, Region], problems: list[Problem]) -> None:
    """Turn an ImmutableConst into the constant it names; one that names a file elsewhere stays."""
    if node.op != "ImmutableConst":
        return
    name = node.attrs.get("memory_region_name")
    text = name.decode("utf-8", "replace") if isinstance(name, bytes) else ""
    if not text.startswith(PREFIX):
        return
    if text not in found:
        raise FormatError(f"its region '{text}' is not in the package", node.where, "convert the model again")
    region = found[text]
    if region.offset % ALIGNMENT:
        problems.append(
            Problem(
                "alignment",
                node.name,
                f"its data begins at byte {region.offset}, no multiple of {ALIGNMENT}: TensorFlow refuses it",
            )
        )
    tensor = _tensor(node, region.data)
    # Attributes such as `_class`, which go with any op; the rest belongs to ImmutableConst.
    others = {k: v for k, v in node.attrs.items() if k.startswith("_")}
    node.op = "Const"
    node.attrs.clear()
    node.attrs.update({"dtype": tensor.dtype, "value": tensor, **others})


def _tensor(node: Node, data: memoryview) -> Tensor:
    element, sizes = _declared(node.attrs)
    if element is None or not element.itemsize or sizes is None:
        raise FormatError(
            "it does not tell a type and shape of numbers", node.where, "the graph of the package is damaged"
        )
    size = math.prod(sizes) * element.itemsize
    if size > len(data):
        raise FormatError(
            f"a {element} tensor of shape {list(sizes)} takes {size} bytes, its region holds {len(data)}",
            node.where,
            "the file is damaged or was cut short; fetch it again",
        )
    return Tensor(element, sizes, RawStorage(data[:size]))


def _declared(attrs: Mapping[str, Attr]) -> tuple[DType | None, tuple[int, ...] | None]:
    """Type and shape, each None unless it is told in full."""
    element, shape = attrs.get("dtype"), attrs.get("shape")
    dims = shape.dims if isinstance(shape, ShapeAttr) else None
    sizes = None if dims is None else tuple(d for d in dims if d is not None)
    is_full = sizes is not None and dims is not None and len(sizes) == len(dims)
    return element if isinstance(element, DType) else None, sizes if is_full else None


# --- writing ------------------------------------------------------------------------------------------------
#
# Big constants move out of the graph, each to an aligned region of its own.


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


FORMAT = Format(
    "memmapped",
    "a memmapped package",
    is_package,
    load,
    save=lambda graph, path: write(graph, path).size_bytes,
    suffixes=(".mmpb",),
    rank=5,  # it begins with weights, which may look like anything
)
