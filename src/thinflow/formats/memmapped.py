"""Memmapped packages: a GraphDef whose big constants lie beside it, aligned, to be used where they are.

    region | padding | region | ... | GraphDef | directory | 8 bytes: where the directory begins

A region is the raw elements of a constant; its node is an `ImmutableConst` that names it. Loading turns
those nodes back into constants, views of the mapped file, so that a graph runs and can be written as any
other.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from thinflow.errors import FormatError
from thinflow.formats import graphdef
from thinflow.formats._files import map_file
from thinflow.formats._memmapped_writer import ALIGNMENT, MAIN_REGION, PREFIX, write
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
    found: dict[str, Region] = {}
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
        if element.name in found:
            raise FormatError("there are two regions of this name", where, "convert the model again")
        found[element.name] = Region(
            element.offset, buffer[element.offset : element.offset + (element.length or room)]
        )
    if MAIN_REGION not in found:
        raise FormatError("there is no graph in this package", hint=f"no region is called {MAIN_REGION}")
    return found


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


FORMAT = Format(
    "memmapped",
    "a memmapped package",
    is_package,
    load,
    save=lambda graph, path: write(graph, path).size_bytes,
    suffixes=(".mmpb",),
    rank=5,  # it begins with weights, which may look like anything
)
