"""Programs of MIL as graphs whose ops are MIL's: `coreml.conv`."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from thinflow.coreml.names import NAMES_KEY
from thinflow.coreml.operators import OPERANDS
from thinflow.coreml.protos import COLOURS, ELEMENT_TYPES
from thinflow.errors import FormatError
from thinflow.formats._coreml_package import Package
from thinflow.formats.foreign import File, Names, interface_attrs, list_text, set_spec, stated
from thinflow.formats.onnx_model import PackedStorage
from thinflow.ir.attrs import Attr, normalize
from thinflow.ir.graph import Graph, Value
from thinflow.ir.tensor import RawStorage, Tensor
from thinflow.ir.types import STRING, DType, TensorSpec, dtype
from thinflow.ir.usage import IMAGE, InputUsage, OutputUsage, Usage, Words
from thinflow.ir.vocabulary import COREML
from thinflow.typing import Array

_MOST_RANK, _MOST_ELEMENTS = 16, 1 << 40
_MOST_OPTION = 4096
_SHOWN_TEXT = 200
_BITS = {"int4": 4, "uint4": 4}


def graph_of(package: Package) -> Graph:
    """The graph of a package's main function.

    Raises:
        FormatError: operations read what nothing writes, or values are written twice, or weights are damaged.
    """
    specification = package.specification
    program, description = specification.mlProgram, specification.description
    name = description.defaultFunctionName or "main"
    if name not in program.functions:
        raise FormatError(f"there is no function '{name[:_SHOWN_TEXT]}' in it")
    function = program.functions[name]
    if function.opset not in function.block_specializations:
        raise FormatError(
            f"its function '{name[:_SHOWN_TEXT]}' has no operations for '{function.opset[:40]}'"
        )
    reader = _Reader(package)
    graph = reader.build(function, function.block_specializations[function.opset])
    _name_as_in_source(graph, reader, description.metadata.userDefined)
    graph.facts = _facts(specification, function.opset)
    graph.usage = _usage(description, name, graph)
    return graph


class _Reader:
    """One function on its way to being a graph."""

    def __init__(self, package: Package) -> None:
        self.graph = Graph()
        self.graph.vocabulary = COREML.name
        self.names = Names(self.graph)
        self.values: dict[str, Value] = {}
        self._package = package
        self._constants: dict[str, Tensor] = {}

    def build(self, function: Any, block: Any) -> Graph:
        """The graph, its inputs and outputs declared."""
        inputs = []
        for entry in function.inputs:
            spec = _spec(entry.type)
            node = self.graph.add(
                "Placeholder", name=self.names.node_name(entry.name, "input"), attrs=interface_attrs(spec)
            )
            self._define(entry.name, node.output(), spec)
            inputs.append(node.output())
        for number, operation in enumerate(block.operations):
            try:
                self._operation(operation)
            except FormatError as error:
                raise error.at(f"operation {number} ({operation.type[:40]})") from error
        outputs = [self.value(name) for name in block.outputs]
        if not outputs:
            raise FormatError("its function gives nothing")
        self.graph.inputs, self.graph.outputs = inputs, list(dict.fromkeys(outputs))
        File(self.graph, self.names)
        return self.graph

    def value(self, name: str) -> Value:
        """What carries a name; a constant becomes a node when it is first read.

        Raises:
            FormatError: nothing does.
        """
        if name in self._constants and name not in self.values:
            self._define(name, *self._constant_node(self._constants[name], name))
        if name not in self.values:
            raise FormatError(f"'{name[:_SHOWN_TEXT]}' is read and nothing writes it")
        return self.values[name]

    def _constant_node(self, tensor: Tensor, name: str) -> tuple[Value, TensorSpec]:
        value = self.graph.constant(tensor, self.names.node_name(name, "Const"))
        return value, TensorSpec(tensor.dtype, tensor.shape)

    def _define(self, name: str, value: Value, spec: TensorSpec) -> None:
        if name in self.values:
            raise FormatError(f"'{name[:_SHOWN_TEXT]}' is written twice")
        set_spec(value, spec.dtype, spec.shape)
        self.values[name] = value
        self.names.note(name, value)

    def _operation(self, operation: Any) -> None:
        if operation.type == "const" and len(operation.outputs) == 1 and "val" in operation.attributes:
            name = operation.outputs[0].name
            if name in self._constants or name in self.values:
                raise FormatError(f"'{name[:_SHOWN_TEXT]}' is written twice")
            self._constants[name] = self._tensor(operation.attributes["val"])
            return
        given = self._inputs(operation)
        places = OPERANDS.get(operation.type, tuple(sorted(given)))
        inputs: list[Value] = []
        absent: list[int] = []
        at = 0
        for key in places:
            bound = given.pop(key, None)
            for one in bound or [None]:
                if one is None:
                    absent.append(at)
                else:
                    inputs.append(self._operand(one, f"{operation.type}/{key}"))
                at += 1
        attrs: dict[str, Attr] = {key: self._option(key, bound) for key, bound in given.items()}
        # Only places in the middle need to be told; nothing is missing behind the last one.
        if any(place < len(inputs) for place in absent):
            attrs["absent_inputs"] = tuple(absent)
        specs = [_spec(output.type) for output in operation.outputs]
        op = f"{COREML.prefix}{operation.type}"
        first = operation.outputs[0].name if operation.outputs else ""
        if not operation.type.isidentifier():
            raise FormatError("its type is no name")
        node = self.graph.add(op, inputs, self.names.node_name(first, op), attrs=attrs | stated(specs))
        for port, output in enumerate(operation.outputs):
            self._define(output.name, node.output(port), specs[port])

    def _inputs(self, operation: Any) -> dict[str, list[Any]]:
        """What is bound to each input: a name or a value each. Operators of constants have theirs among the
        attributes."""
        found: dict[str, list[Any]] = {}
        for key, argument in operation.inputs.items():
            found[key] = [
                b.name if b.WhichOneof("binding") == "name" else b.value for b in argument.arguments
            ]
        for key, value in operation.attributes.items():
            if key != "name":
                found.setdefault(key, [value])
        return found

    def _operand(self, bound: Any, name: str) -> Value:
        if isinstance(bound, str):
            return self.value(bound)
        value, spec = self._constant_node(self._tensor(bound), name)
        set_spec(value, spec.dtype, spec.shape)
        return value

    def _option(self, key: str, bound: list[Any]) -> Attr:
        """An input that says how an operator computes, as an attribute.

        Raises:
            FormatError: it is computed, or too large to be one.
        """
        tensors = [self._constants.get(b) if isinstance(b, str) else self._tensor(b) for b in bound]
        found: list[Any] = []
        for tensor in tensors:
            if tensor is None:
                raise FormatError(f"its input '{key[:40]}' is computed, where a constant should be")
            if math.prod(tensor.shape) > _MOST_OPTION:
                return tensor
            numbers = tensor.numpy().reshape(-1).tolist()
            found.append(numbers[0] if not tensor.shape else tuple(numbers))
        if len(found) == 1:
            return normalize(found[0])
        return normalize([n for f in found for n in (f if isinstance(f, tuple) else (f,))])

    # --- values --------------------------------------------------------------------------------------------

    def _tensor(self, value: Any) -> Tensor:
        """The tensor that a value is.

        Raises:
            FormatError: it is none, or damaged.
        """
        kind = value.WhichOneof("value")
        if kind == "immediateValue" and value.immediateValue.WhichOneof("value") == "list":
            return _strings([t for v in value.immediateValue.list.values for t in _texts(v)])
        spec = _spec(value.type)
        shape = spec.shape
        if spec.dtype is None or shape is None or None in shape:
            raise FormatError("it has a constant whose type or sizes are not known here")
        sizes = tuple(n for n in shape if n is not None)
        if kind == "blobFileValue":
            place = value.blobFileValue
            return self._blob(place.fileName, place.offset, spec.dtype, sizes)
        if kind != "immediateValue" or value.immediateValue.WhichOneof("value") != "tensor":
            raise FormatError("it has a constant that is no tensor")
        return _immediate(value.immediateValue.tensor, spec.dtype, sizes)

    def _blob(self, name: str, offset: int, element: DType, shape: tuple[int, ...]) -> Tensor:
        blob = self._package.blob(name, offset)
        if blob.element and blob.element != element.name:
            raise FormatError(f"weights of {element} are {blob.element} in its file of weights")
        bits = _BITS.get(element.name)
        count = math.prod(shape)
        expected = count * element.itemsize if bits is None else -(-count * bits // 8)
        if len(blob.data) != expected:
            raise FormatError(
                f"weights of shape {list(shape)} take {expected} bytes, its file has {len(blob.data)}"
            )
        return Tensor(
            element, shape, RawStorage(blob.data) if bits is None else PackedStorage(blob.data, bits)
        )


def _spec(message: Any) -> TensorSpec:
    """Type and sizes of a value; unknown of what is no tensor.

    Raises:
        FormatError: they make no sense.
    """
    if message.WhichOneof("type") != "tensorType":
        return TensorSpec()
    tensor = message.tensorType
    name = ELEMENT_TYPES.get(tensor.dataType)
    element = dtype(name) if name is not None else None
    if tensor.rank < 0:
        return TensorSpec(element)
    shape = tuple(
        d.constant.size if d.WhichOneof("dimension") == "constant" else None for d in tensor.dimensions
    )
    if len(shape) != tensor.rank or len(shape) > _MOST_RANK:
        raise FormatError(f"a value of {tensor.rank} axes has {len(shape)} sizes")
    if math.prod(max(n or 1, 1) for n in shape) > _MOST_ELEMENTS:
        raise FormatError("the sizes of a value make no sense")
    return TensorSpec(element, shape)


def _immediate(message: Any, element: DType, shape: tuple[int, ...]) -> Tensor:
    """Elements that stand in the program itself.

    Raises:
        FormatError: there are fewer or more than the shape says.
    """
    import numpy as np

    kind = message.WhichOneof("value")
    if kind is None:
        raise FormatError("it has a constant without elements")
    values = getattr(message, kind).values
    count = math.prod(shape)
    # Types for which MIL has no field of their own: halves, and integers of 8 and 16 bits or fewer.
    if kind == "bytes":
        bits = _BITS.get(element.name)
        expected = count * element.itemsize if bits is None else -(-count * bits // 8)
        if len(values) != expected:
            raise FormatError(
                f"a constant of shape {list(shape)} takes {expected} bytes, it has {len(values)}"
            )
        storage = RawStorage(values) if bits is None else PackedStorage(memoryview(values), bits)
        return Tensor(element, shape, storage)
    if len(values) != count:
        raise FormatError(f"a constant of shape {list(shape)} has {len(values)} elements")
    if kind == "strings":
        return _strings(list(values), shape)
    if element is STRING:
        raise FormatError("a constant of texts holds numbers")
    stored: Any = {"floats": np.float32, "doubles": np.float64, "bools": np.bool_}.get(kind, np.int64)
    array: Array = np.array(values, stored)
    with np.errstate(all="ignore"):
        return Tensor.from_array(array.astype(element.numpy()).reshape(shape), element)


def _strings(texts: list[str], shape: tuple[int, ...] | None = None) -> Tensor:
    import numpy as np

    # Put in one by one: of a list of bytes numpy makes rows of one width, without their zeros at the end.
    items = np.empty(len(texts), object)
    items[:] = [text.encode() for text in texts]
    return Tensor.from_array(items.reshape((len(texts),) if shape is None else shape), STRING)


def _texts(value: Any) -> Iterator[str]:
    tensor = value.immediateValue.tensor
    if tensor.WhichOneof("value") == "strings":
        yield from tensor.strings.values
    else:
        kind = tensor.WhichOneof("value")
        yield from (str(n) for n in (getattr(tensor, kind).values if kind else ()))


# --- what stands around the program -------------------------------------------------------------------------


def _name_as_in_source(graph: Graph, reader: _Reader, notes: Mapping[str, str]) -> None:
    """Let ends be found by the names that they had before they became identifiers."""
    try:
        names = json.loads(notes.get(NAMES_KEY, "{}"))
    except (ValueError, RecursionError):
        return
    if not isinstance(names, dict):
        return
    for own, source in names.items():
        value = reader.values.get(own)
        if value is not None and isinstance(source, str):
            plain = source.removesuffix(":0")
            if plain and plain != value.node.name and plain not in graph:
                graph.aliases.setdefault(plain, value.name)


def _facts(specification: Any, opset: str) -> dict[str, str]:
    metadata = specification.description.metadata
    facts = {"specification": str(specification.specificationVersion), "operators": opset[:_SHOWN_TEXT]}
    if metadata.shortDescription:
        facts["description"] = metadata.shortDescription[:_SHOWN_TEXT]
    if metadata.userDefined:
        facts["metadata"] = list_text(sorted(metadata.userDefined))
    return facts


def _usage(description: Any, function: str, graph: Graph) -> Usage:
    """What the description says of pictures, and of classes."""
    ends = description
    for one in description.functions:
        ends = one if one.name == function else ends
    inputs = {}
    for feature in ends.input:
        if feature.type.WhichOneof("Type") == "imageType":
            image = feature.type.imageType
            inputs[feature.name] = InputUsage(
                kind=IMAGE,
                colours=COLOURS.get(image.colorSpace, ""),
                size=(image.height, image.width),
                mean=(0.0,),
                std=(1.0,),
                said="imageType",
            )
    outputs = {}
    for node in graph:
        labels = node.get("classes") if node.op == f"{COREML.prefix}classify" else None
        if isinstance(labels, tuple):
            words = tuple(w.decode("utf-8", "replace") if isinstance(w, bytes) else str(w) for w in labels)
            outputs[node.output(1).node.name] = OutputUsage(labels=Words("classes", words), said="classify")
    return Usage(inputs=inputs, outputs=outputs)
