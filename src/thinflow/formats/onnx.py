"""ONNX files as graphs with ONNX's own ops, for looking at, comparing and running them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from thinflow.errors import FormatError
from thinflow.formats._onnx_usage import usage_of
from thinflow.formats.files import map_file
from thinflow.formats.foreign import (
    File,
    Names,
    argument_attrs,
    interface_attrs,
    list_text,
    set_spec,
    stated,
    unreadable,
)
from thinflow.formats.format import Format, Sample
from thinflow.formats.onnx_model import (
    MOST_NESTED,
    Model,
    checked_shape,
    free_names,
    graphs_in,
    guessed_kind,
    parse_model,
    running_order,
    size_names,
    spec_of,
    tensor_of,
)
from thinflow.ir.attrs import Attr, FunctionAttr, OpaqueAttr, PlaceholderAttr
from thinflow.ir.function import ARGUMENT, Function
from thinflow.ir.graph import Graph, Value, paused_gc
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import UNKNOWN, TensorSpec
from thinflow.ir.vocabulary import ONNX
from thinflow.onnx import protos
from thinflow.wire.protos import parse, serialize

_HINT = "the file is damaged, cut short or not ONNX; export the model again"
_SHOWN_TEXT = 400
# Varints of one byte, so that the next tag stands at a fixed place.
# Versions 1 and 2 of ONNX's IR are older than its first release, and 1 is how a SavedModel begins.
_FIRST_VERSION, _LAST_VERSION = 3, 63
_VERSION_TAG = 8
_SECOND_TAGS = (0x12, 0x1A, 0x22, 0x28, 0x32, 0x3A, 0x42)
"""Tags that may follow ir_version: producer, its version, domain, model version, doc string, graph, opsets. A
SavedModel begins alike, with version 1."""


def load(path: str | os.PathLike[str]) -> Graph:
    """The graph in an .onnx file; weights stay views of the mapped file, or of the files beside it.

    Raises:
        FormatError: not such a file, or a damaged one; names the place.
    """
    buffer = map_file(path, unpack=False)
    try:
        with paused_gc():
            graph = from_bytes(buffer, path=Path(path))
    except FormatError as error:
        raise unreadable(error, os.fspath(path), FORMAT.title, _HINT) from error
    graph.path = os.fspath(path)
    return graph


def from_bytes(data: memoryview | bytes, *, path: Path | None = None) -> Graph:
    """The graph in the bytes of an .onnx file.

    Args:
        data: the bytes; weights are views of them.
        path: where they come from, to find files of weights beside.
    """
    model = parse_model(memoryview(data), path)
    if not model.message.HasField("graph"):
        raise FormatError("there is no graph in it")
    # A graph may well have outputs that are constants or inputs, and no nodes.
    if not model.message.graph.node and not model.message.graph.output:
        raise FormatError("there are no nodes in it")
    graph = graph_of(model)
    graph.facts = _facts(model.message)
    graph.usage = usage_of(model.message, graph)
    return graph


def _facts(message: Any) -> dict[str, str]:
    facts = {"ir version": str(message.ir_version)}
    producer = f"{message.producer_name} {message.producer_version}".strip()
    if producer:
        facts["producer"] = producer[:_SHOWN_TEXT]
    if message.opset_import:
        facts["opset"] = _versions(message)
    if message.doc_string:
        facts["description"] = message.doc_string[:_SHOWN_TEXT]
    if message.metadata_props:
        facts["metadata"] = list_text(p.key for p in message.metadata_props)
    return facts


def _versions(message: Any) -> str:
    """The op sets that a model or function asks for, ONNX's own first."""
    imports = sorted(message.opset_import, key=lambda o: o.domain not in _DEFAULT_DOMAINS)
    # Of a long list the rest is left out, and lifting reads ONNX's own version here.
    return list_text(
        str(o.version) if o.domain in _DEFAULT_DOMAINS else f"{o.domain} {o.version}" for o in imports
    )


def _recognise(sample: Sample) -> bool:
    head = sample.head
    is_version = len(head) > 2 and head[0] == _VERSION_TAG and _FIRST_VERSION <= head[1] <= _LAST_VERSION
    return is_version and head[2] in _SECOND_TAGS


# --- graphs whose ops are ONNX's: `onnx.Conv`, `onnx.com.microsoft.FusedMatMul` -----------------------------


_DEFAULT_DOMAINS = ("", "ai.onnx")
# AttributeProto.AttributeType, without the types that are carried through.
_FLOAT, _INT, _STRING, _TENSOR, _GRAPH, _FLOATS, _INTS, _STRINGS, _TENSORS = range(1, 10)
_BODIES = "captures"
"""Attribute of a node with bodies: how many of its last inputs are what the bodies read from outside."""


def graph_of(model: Model) -> Graph:
    """The main graph; bodies of control flow and the model's own functions are in its library.

    Raises:
        FormatError: nodes read what nothing writes, or values are written twice.
    """
    library: dict[str, Function] = {}
    for function in model.message.functions:
        try:
            _add_own(function, model, library)
        except FormatError as error:
            raise error.at(f"function '{function.name}'") from error
    reader = _Reader(model, library)
    message = model.message.graph
    graph = reader.build(message, [spec_of(i) for i in message.input], large=model.large)
    graph.functions = library
    graph.inputs = list(dict.fromkeys(reader.declared))
    graph.outputs = list(dict.fromkeys(reader.value(o.name) for o in message.output))
    File(graph, reader.names)
    return graph


def op_of(domain: str, name: str, overload: str = "") -> str:
    """The name of an op in our graphs; functions of a model may share theirs and differ by `overload`."""
    own = name if domain in _DEFAULT_DOMAINS else f"{domain}.{name}"
    return f"{ONNX.prefix}{own}:{overload}" if overload else f"{ONNX.prefix}{own}"


def _add_own(
    message: Any, model: Model, library: dict[str, Function], most_outputs: int | None = None
) -> None:
    """A function that the model itself defines, as an op of its own."""
    reader = _Reader(model, library, input_op=ARGUMENT)
    body = model.message.graph.__class__(node=message.node, value_info=message.value_info)
    for name in message.input:
        body.input.add(name=name)
    graph = reader.build(body, [TensorSpec()] * len(message.input))
    graph.functions = library
    # Functions say themselves what versions their ops have.
    graph.facts = {"opset": _versions(message)} if message.opset_import else {}
    name = op_of(message.domain, message.name, message.overload)
    File(graph, reader.names)
    library[name] = Function(
        name,
        graph,
        reader.declared,
        [reader.value(n) for n in message.output[:most_outputs]],
        attrs={"domain": message.domain.encode()},
        defaults={a.name: reader._attr(a) for a in message.attribute_proto},
    )


def function_from_bytes(data: bytes, most_outputs: int) -> Function:
    """The function in the bytes of a FunctionProto; bodies of control flow are in the library of its graph.

    Args:
        most_outputs: the first outputs are wanted; a definition need not write others.

    Raises:
        FormatError: it is damaged.
    """
    message = parse(protos.message("FunctionProto"), data)
    library: dict[str, Function] = {}
    _add_own(message, Model(protos.message("ModelProto")(), None, {}), library, most_outputs)
    return library[op_of(message.domain, message.name, message.overload)]


class _Reader:
    """One ONNX graph on its way to being ours.

    Args:
        model: the file.
        library: gets the bodies of control flow.
        own: ops that the model defines itself.
        input_op: what stands for an input.
        depth: of bodies around this graph.
    """

    def __init__(
        self,
        model: Model,
        library: dict[str, Function],
        input_op: str = "Placeholder",
        depth: int = 0,
    ) -> None:
        if depth > MOST_NESTED:
            raise FormatError("its graphs are nested too deeply")
        self.graph = Graph()
        self.graph.vocabulary = ONNX.name
        self.declared: list[Value] = []
        self._model, self._library = model, library
        self._input_op, self._depth = input_op, depth
        self._values: dict[str, Value] = {}
        self._specs: dict[str, TensorSpec] = {}
        self.names = Names(self.graph)

    def build(
        self, message: Any, inputs: Sequence[TensorSpec], *, large: Mapping[int, memoryview] | None = None
    ) -> Graph:
        """The graph; its inputs are in `declared`."""
        for info in (*message.value_info, *message.output):
            self._specs[info.name] = spec_of(info)
        for number, tensor in enumerate(message.initializer):
            self._initializer(tensor, (large or {}).get(number))
        for sparse in message.sparse_initializer:
            self._sparse(sparse)
        for info, spec in zip(message.input, inputs, strict=True):
            if info.name not in self._values:  # older files list initializers among the inputs
                self._input(info.name, spec, size_names(info))
        for number in running_order(message.node):
            node = message.node[number]
            try:
                self._node(node)
            except FormatError as error:
                raise error.at(f"node {number} '{node.name}' ({node.op_type})") from error
        for info in message.output:
            self.value(info.name)
        return self.graph

    def value(self, name: str) -> Value:
        """The value that carries a name.

        Raises:
            FormatError: nothing does.
        """
        value = self._values.get(name)
        if value is None:
            raise FormatError(f"'{name}' is read and nothing writes it")
        return value

    def _define(self, name: str, value: Value, spec: TensorSpec) -> None:
        if name in self._values:
            raise FormatError(f"'{name}' is written twice")
        set_spec(value, spec.dtype, spec.shape)
        self._values[name] = value
        self.names.note(name, value)

    def _input(self, name: str, spec: TensorSpec, sizes: tuple[str, ...] = ()) -> None:
        attrs = interface_attrs(spec, sizes) if self._input_op == "Placeholder" else argument_attrs(spec)
        node = self.graph.add(self._input_op, name=self.names.node_name(name, self._input_op), attrs=attrs)
        self._define(name, node.output(), spec)
        self.declared.append(node.output())

    def _initializer(self, message: Any, large: memoryview | None) -> None:
        tensor = tensor_of(message, self._model, large)
        value = self.graph.constant(tensor, self.names.node_name(message.name, "Const"))
        self._define(message.name, value, TensorSpec(tensor.dtype, tensor.shape))

    def _sparse(self, message: Any) -> None:
        values = tensor_of(message.values, self._model)
        spec = TensorSpec(values.dtype, checked_shape(message.dims))
        attrs: dict[str, Attr] = {"values": values, "indices": tensor_of(message.indices, self._model)}
        name = self.names.node_name(message.values.name, "onnx.sparse_constant")
        node = self.graph.add("onnx.sparse_constant", name=name, attrs=attrs | stated([spec]))
        self._define(message.values.name, node.output(), spec)

    def _node(self, message: Any) -> None:
        op = op_of(message.domain, message.op_type, message.overload)
        if op == "onnx.Constant" and self._constant(message):
            return
        attrs, bodies = self._attrs(message)
        inputs = [self.value(n) for n in message.input if n]
        # An empty name is an optional input left out, in the middle, too: the places of the others count.
        absent = tuple(i for i, n in enumerate(message.input) if not n)
        if absent:
            attrs["absent_inputs"] = absent
        if bodies:
            outside = list(dict.fromkeys(n for body in bodies.values() for n in free_names(body)))
            inputs += [self.value(n) for n in outside]
            attrs[_BODIES] = len(outside)
            for key, body in bodies.items():
                attrs[key] = FunctionAttr(self._body(f"{message.name or op}_{key}", body, outside))
        written = [n for n in message.output if n]
        specs = [self._specs.get(n, UNKNOWN) for n in message.output]
        first = message.output[0] if message.output else ""
        name = self.names.node_name(first or message.name, op)
        node = self.graph.add(op, inputs, name, attrs=attrs | stated(specs))
        for port, output in enumerate(message.output):
            if output in written:
                self._define(output, node.output(port), specs[port])

    def _constant(self, message: Any) -> bool:
        """A Constant node as a constant; False if it holds something else than a tensor."""
        by_name = {a.name: a for a in message.attribute}
        # A Constant has exactly one of its attributes; `sparse_value` and strings stay nodes.
        if not message.output or len(by_name) != 1:
            return False
        attr = self._attr(next(iter(by_name.values())))
        name = next(iter(by_name))
        if isinstance(attr, PlaceholderAttr):
            return False
        if name == "value" and isinstance(attr, Tensor):
            tensor = attr
        elif name in {"value_float", "value_floats", "value_int", "value_ints"}:
            import numpy as np

            # Types that the operator's specification fixes for these attributes.
            kind = np.float32 if "float" in name else np.int64
            tensor = Tensor.from_array(np.array(attr, kind))
        else:
            return False
        value = self.graph.constant(tensor, self.names.node_name(message.output[0], "Const"))
        self._define(message.output[0], value, TensorSpec(tensor.dtype, tensor.shape))
        return True

    def _attrs(self, message: Any) -> tuple[dict[str, Attr], dict[str, Any]]:
        attrs: dict[str, Attr] = {}
        bodies: dict[str, Any] = {}
        for attribute in message.attribute:
            if attribute.name in attrs | bodies:
                raise FormatError(f"its option '{attribute.name}' is given twice")
            graphs = graphs_in(attribute)
            for number, graph in enumerate(graphs):
                bodies[attribute.name if len(graphs) == 1 else f"{attribute.name}_{number}"] = graph
            if not graphs:
                attrs[attribute.name] = self._attr(attribute)
        return attrs, bodies

    def _attr(self, message: Any) -> Attr:
        # In the body of a model's own function: the value is the caller's attribute of that name.
        if message.ref_attr_name:
            return PlaceholderAttr(message.ref_attr_name)
        kind = message.type or guessed_kind(message)
        if kind == _TENSOR:
            return tensor_of(message.t, self._model)
        if kind == _TENSORS:
            return tuple(tensor_of(t, self._model) for t in message.tensors)
        plain = {_FLOAT: "f", _INT: "i", _STRING: "s"}
        lists = {_FLOATS: "floats", _INTS: "ints", _STRINGS: "strings"}
        if kind in plain:
            value: Attr = getattr(message, plain[kind])
            return value
        if kind in lists:
            return tuple(getattr(message, lists[kind]))
        return OpaqueAttr(serialize(message))

    def _body(self, wished: str, message: Any, outside: Sequence[str]) -> str:
        """Put a body into the library; the values it reads from outside become its last arguments."""
        specs = [spec_of(i) for i in message.input]
        reader = _Reader(self._model, self._library, ARGUMENT, self._depth + 1)
        for name in outside:
            # Values from outside become arguments first, so that the body's nodes
            # find them by the name they know.
            reader._input(name, self._values[name].spec)
        captured, reader.declared = reader.declared, []
        graph = reader.build(message, specs)
        graph.functions = self._library
        name, count = wished, 0
        while name in self._library:
            count += 1
            name = f"{wished}_{count}"
        File(graph, reader.names)
        outputs = [reader.value(o.name) for o in message.output]
        inputs = [*reader.declared, *captured]
        self._library[name] = Function(
            name,
            graph,
            inputs,
            outputs,
            input_types=[v.dtype for v in inputs],
            output_types=[v.dtype for v in outputs],
        )
        return name


def _copy(graph: Graph, path: str | os.PathLike[str]) -> int:
    from thinflow.formats.one_piece import copy_with_weights

    return copy_with_weights(graph, path, ONNX)


FORMAT = Format(
    name=ONNX.name,
    title=ONNX.title,
    recognise=_recognise,
    load=load,
    save=_copy,
    suffixes=(".onnx",),
    vocabulary=ONNX,
    rank=20,
)
