"""Writes .onnx files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from thinflow.errors import WriteError
from thinflow.ir.types import STRING
from thinflow.onnx import protos
from thinflow.onnx.program import Operator, Program, Tensor
from thinflow.wire.fields import encode_varint, field_header
from thinflow.wire.packed_integers import pack_integers
from thinflow.wire.protos import serialize

INLINE_LIMIT = 2**31 - 2**26
"""Bytes of weights inside the file; the rest of protobuf's 2 GiB is for the nodes."""
ALIGNMENT = 4096
"""Bytes. A weight starts at a multiple in the second file, so that readers can map it."""

# As released together, in ONNX 1.12 to 1.16: a runtime refuses a file whose IR is newer than its own.
_IR_VERSIONS = {17: 8, 18: 8, 19: 9, 20: 9, 21: 10}
_VERSIONS = {"ai.onnx.ml": 3}
"""Of the op sets beside ONNX's own; 1 if not here."""
_LENGTH_DELIMITED = 2
Chunk = bytes | memoryview


@dataclass
class OnnxFile:
    """The content of a file, and of the file beside it that holds the weights, if any.

    Attributes:
        size, chunks: the .onnx file, to be walked once; weights are not copied.
        data_size, data_chunks: the second file; 0 bytes if there is none.
    """

    size: int
    chunks: Iterator[Chunk]
    data_size: int
    data_chunks: Iterator[Chunk]


def write_program(program: Program, *, beside: str = "", inline_limit: int = INLINE_LIMIT) -> OnnxFile:
    """The file's content.

    Args:
        program: checked with `validate` first.
        beside: name of a second file in the same folder; large weights go there if there is one.
        inline_limit: bytes of weights that may be in the .onnx file itself.

    Raises:
        GraphError: the program is not well formed.
        WriteError: the weights need a second file and there is none.
    """
    program.validate()
    every = program.homes()
    shared = _shared(program, every)
    homes = {t: home for t, home in every.items() if t not in shared}
    total = sum(t.stored_bytes for t in homes)
    if total > inline_limit and not beside:
        raise WriteError(
            f"{total >> 20} MiB of weights do not fit a protobuf file",
            hint="write the weights to a second file",
        )
    # These go to the file straight from their arrays; in a protobuf message they would be copied.
    large = [t for t in homes if t.is_streamed]
    graph = protos.message("GraphProto")()
    _Encoder(homes, shared).encode(program, graph, {})
    offsets, data_size = _offsets(large) if beside else ([], 0)
    for tensor, offset in zip(large, offsets, strict=False):
        header = _header(tensor)
        header.data_location = protos.EXTERNAL
        places = {"location": beside, "offset": str(offset), "length": str(tensor.stored_bytes)}
        for key, text in places.items():
            header.external_data.add(key=key, value=text)
        graph.initializer.append(header)
    size, chunks = _framed(_model(program), serialize(graph), [] if beside else large)
    return OnnxFile(size, chunks, data_size, _external(large, offsets))


def _own_zero_point(operator: Operator) -> list[Tensor]:
    """The zero point of weights that an operator dequantizes.

    ONNX Runtime turns weights to uint8 where products of signed ones may overflow, if it is asked to, and
    fails on a zero point that it has turned already for others.
    """
    inputs = operator.inputs
    if operator.code != "DequantizeLinear" or len(inputs) < 3 or inputs[0] is None or inputs[2] is None:
        return []
    return [inputs[2]] if inputs[0].is_constant and inputs[2].is_constant else []


def _shared(program: Program, homes: Mapping[Tensor, Program]) -> dict[Tensor, Tensor]:
    """Constants that need no place of their own -> the one of the same content that stands for them.

    Elements are read only where type, shape and home are those of another constant.
    """
    # An output is fetched by its own name.
    alone = {t for part in program.programs() for t in part.outputs}
    alone |= {t for part in program.programs() for o in part.operators for t in _own_zero_point(o)}
    alike: dict[Any, list[Tensor]] = {}
    for tensor, home in homes.items():
        if tensor not in alone and tensor.dtype is not STRING:
            # In one home only: a constant of one body cannot be seen from another.
            alike.setdefault((home, tensor.dtype, tensor.array().shape), []).append(tensor)
    shared: dict[Tensor, Tensor] = {}
    for group in alike.values():
        by_content: dict[bytes, Tensor] = {}
        for tensor in group if len(group) > 1 else ():
            first = by_content.setdefault(hashlib.blake2b(_little_endian(tensor).data).digest(), tensor)
            if first is not tensor:
                shared[tensor] = first
    return shared


def to_bytes(program: Program) -> bytes:
    """The whole file in memory."""
    return b"".join(write_program(program).chunks)


def _model(program: Program) -> bytes:
    from thinflow._version import __version__

    model = protos.message("ModelProto")(
        ir_version=_IR_VERSIONS[program.opset],
        producer_name="thinflow",
        producer_version=__version__,
        doc_string=program.description,
    )
    for key, text in program.metadata.items():
        model.metadata_props.add(key=key, value=text)
    model.opset_import.add(domain="", version=program.opset)
    domains = {o.code.rpartition(".")[0] for part in program.programs() for o in part.operators}
    for domain in sorted(domains - {""}):
        model.opset_import.add(domain=domain, version=_VERSIONS.get(domain, 1))
    return serialize(model)


def _framed(model: bytes, graph: bytes, large: Sequence[Tensor]) -> tuple[int, Iterator[Chunk]]:
    """Length and chunks of the model with its graph, which large weights follow as further initializers."""
    # A message's length stands before it, so that of the whole graph is needed before the first byte is
    # written.
    heads: list[bytes] = []
    length = len(graph)
    for tensor in large:
        fields = serialize(_header(tensor))
        nbytes = tensor.stored_bytes
        tag = field_header(protos.RAW_DATA_FIELD, _LENGTH_DELIMITED) + encode_varint(nbytes)
        inner = len(fields) + len(tag) + nbytes
        frame = field_header(protos.INITIALIZER_FIELD, _LENGTH_DELIMITED) + encode_varint(inner)
        heads.append(frame + fields + tag)
        length += len(heads[-1]) + nbytes
    # Fields of a message may come in any order, and repeated ones in pieces: large weights follow the encoded
    # rest of the graph, which protobuf never sees.
    start = model + field_header(protos.GRAPH_FIELD, _LENGTH_DELIMITED) + encode_varint(length) + graph

    def chunks() -> Iterator[Chunk]:
        yield start
        for head, tensor in zip(heads, large, strict=True):
            yield head
            yield _little_endian(tensor).data

    return len(start) - len(graph) + length, chunks()


def _offsets(large: Sequence[Tensor]) -> tuple[list[int], int]:
    offsets: list[int] = []
    end = 0
    for tensor in large:
        offsets.append(-(-end // ALIGNMENT) * ALIGNMENT)
        end = offsets[-1] + tensor.stored_bytes
    return offsets, end


def _external(large: Sequence[Tensor], offsets: Sequence[int]) -> Iterator[Chunk]:
    end = 0
    for tensor, offset in zip(large, offsets, strict=False):
        # Zeros up to the next page.
        yield bytes(offset - end)
        yield _little_endian(tensor).data
        end = offset + tensor.stored_bytes


def _header(tensor: Tensor) -> Any:
    """A TensorProto without elements."""
    return protos.message("TensorProto")(
        name=tensor.name, dims=tensor.array().shape, data_type=protos.STORED_TYPES[tensor.dtype.name]
    )


def _fill(header: Any, tensor: Tensor) -> None:
    """Put the elements into a TensorProto."""
    if tensor.dtype is STRING:
        texts = tensor.array().reshape(-1).tolist()
        header.string_data.extend(t.encode() if isinstance(t, str) else bytes(t) for t in texts)
    else:
        header.raw_data = _little_endian(tensor).tobytes()


def _little_endian(tensor: Tensor) -> np.ndarray[Any, Any]:
    """The elements in the order and byte order of the file: flat, a copy only if need be."""
    array = np.ascontiguousarray(tensor.array()).reshape(-1)
    if tensor.dtype.name in protos.PACKED_BITS:
        return pack_integers(array, protos.PACKED_BITS[tensor.dtype.name])
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("<"))
    return array.view(np.uint8) if array.size else np.zeros(0, np.uint8)


def _describe(info: Any, tensor: Tensor, *, names_sizes: bool = False) -> None:
    """Name, type and shape of an input or output. Unknown sizes of inputs get names, as readers expect."""
    info.name = tensor.name
    kind = info.type.tensor_type
    kind.elem_type = protos.ELEMENT_TYPES[tensor.dtype.name]
    if tensor.shape is None:
        return
    # A scalar has a shape without sizes, which is not the same as no shape.
    kind.shape.SetInParent()
    for axis, size in enumerate(tensor.shape):
        dim = kind.shape.dim.add()
        if size is not None:
            dim.dim_value = size
        elif names_sizes:
            # A name for each: sizes of the same name would be taken for equal.
            dim.dim_param = f"{tensor.name}_dim_{axis}"


class _Encoder:
    """Turns programs into GraphProtos, but for the elements of large constants.

    Args:
        homes: constant -> the program that it is stored with.
        shared: constant -> the one that stands for it.
    """

    def __init__(self, homes: Mapping[Tensor, Program], shared: Mapping[Tensor, Tensor]) -> None:
        self._shared = shared
        self._small: dict[Program, list[Tensor]] = {}
        for tensor, home in homes.items():
            if not tensor.is_streamed:
                self._small.setdefault(home, []).append(tensor)
        self._names: set[str] = set()

    def encode(self, program: Program, graph: Any, outer: Mapping[Tensor, str]) -> None:
        """Fill a GraphProto.

        Args:
            outer: the last inputs of a body -> the names of the outer tensors that they stand for.
        """
        graph.name = program.name
        for tensor in self._small.get(program, ()):
            graph.initializer.append(_header(tensor))
            _fill(graph.initializer[-1], tensor)
        for value in program.inputs:
            if value not in outer:
                _describe(graph.input.add(), value, names_sizes=True)
        for value in program.outputs:
            _describe(graph.output.add(), value)
        for operator in program.operators:
            self._node(graph.node.add(), operator, outer)

    def _node(self, node: Any, operator: Operator, outer: Mapping[Tensor, str]) -> None:
        node.domain, _, node.op_type = operator.code.rpartition(".")
        names = ["" if t is None else outer.get(t, self._shared.get(t, t).name) for t in operator.inputs]
        # Captured inputs are edges of ours: in the file a body names the outer tensors itself.
        own = names[: len(names) - operator.captured]
        # Absent inputs at the end are left out; an empty name holds the place of one before others.
        while own and not own[-1]:
            own.pop()
        node.input.extend(own)
        node.output.extend(t.name for t in operator.outputs)
        node.name = self._unique(operator.origin or operator.outputs[0].name)
        if operator.origin not in ("", node.name):  # profiles are told in the names of the source
            node.doc_string = operator.origin
        for key, value in operator.options.items():
            if value is not None:
                _encode_attribute(node.attribute.add(name=key), value)
        for key, body in operator.bodies.items():
            attribute = node.attribute.add(name=key, type=protos.ATTRIBUTE_TYPES["g"])
            captured = body.inputs[len(body.inputs) - operator.captured :]
            pairs = zip(captured, names[len(names) - operator.captured :], strict=True)
            self.encode(body, attribute.g, dict(pairs))

    def _unique(self, wished: str) -> str:
        name, count = wished, 0
        while name in self._names:
            count += 1
            name = f"{wished}_{count}"
        self._names.add(name)
        return name


def _encode_attribute(attribute: Any, value: Any) -> None:
    if isinstance(value, Tensor):
        field = "t"
        attribute.t.CopyFrom(_header(value))
        # Its name is the attribute's.
        attribute.t.ClearField("name")
        _fill(attribute.t, value)
    elif isinstance(value, str):
        field, attribute.s = "s", value.encode()
    elif isinstance(value, (bool, int, np.integer)):
        field, attribute.i = "i", int(value)
    elif isinstance(value, (float, np.floating)):
        field, attribute.f = "f", float(value)
    elif value and all(isinstance(v, str) for v in value):
        field = "strings"
        attribute.strings.extend(v.encode() for v in value)
    else:
        # An empty sequence becomes integers, which is what most lists of attributes are.
        field = "floats" if any(isinstance(v, float) for v in value) else "ints"
        getattr(attribute, field).extend(value)
    attribute.type = protos.ATTRIBUTE_TYPES[field]
