"""LiteRT programs as graphs whose ops are LiteRT's builtins: `tfl.CONV_2D`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from thinflow.errors import FormatError
from thinflow.formats.foreign import File, Names, argument_attrs, interface_attrs, set_spec, stated
from thinflow.ir.attrs import Attr, FunctionAttr, normalize
from thinflow.ir.function import ARGUMENT, Function
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.tensor import RawStorage, Tensor
from thinflow.ir.types import STRING, TensorSpec
from thinflow.ir.vocabulary import LITERT, TFL_CUSTOM

if TYPE_CHECKING:
    import numpy as np

    from thinflow.tflite.model import Operator, Program, Quantization, Subgraph
    from thinflow.tflite.model import Tensor as FileTensor

"""Begins the name of an op that is not among LiteRT's builtins."""
VARIABLE, UNREADABLE = "tfl.variable", "tfl.constant"
"""A tensor that keeps its value between runs; a constant whose elements cannot be read."""


def graph_of(program: Program, main: int = 0) -> Graph:
    """The graph of one subgraph; the others are functions of its library.

    Raises:
        FormatError: operators read what nothing writes, or tensors are written twice.
    """
    names = _function_names(program)
    library: dict[str, Function] = {}
    for number, subgraph in enumerate(program.subgraphs):
        if number != main:
            library[names[number]] = _function(subgraph, names, number, library)
    builder = _Builder(program.subgraphs[main], names, "Placeholder")
    graph = builder.build(f"subgraph {main}")
    graph.functions = library
    builder.declare()
    File(graph, builder.names)
    return graph


def _function_names(program: Program) -> list[str]:
    names: dict[str, None] = {}
    for number, subgraph in enumerate(program.subgraphs):
        name = subgraph.name or f"subgraph_{number}"
        # A file may give one name to several, and call another what that would become.
        while name in names:
            name = f"{name}_{number}"
        names[name] = None
    return list(names)


def _function(subgraph: Subgraph, names: list[str], number: int, library: dict[str, Function]) -> Function:
    builder = _Builder(subgraph, names, ARGUMENT)
    graph = builder.build(f"subgraph {number}")
    graph.functions = library
    inputs = [builder.values[t] for t in subgraph.inputs]
    outputs = builder.outputs()
    File(graph, builder.names)
    return Function(
        names[number],
        graph,
        inputs,
        outputs,
        input_types=[t.dtype for t in subgraph.inputs],
        output_types=[t.dtype for t in subgraph.outputs],
    )


class _Builder:
    """One subgraph on its way to being a graph.

    Args:
        subgraph: what to read.
        functions: names of all subgraphs.
        input_op: what stands for an input.
    """

    def __init__(self, subgraph: Subgraph, functions: list[str], input_op: str) -> None:
        self.subgraph = subgraph
        self.functions = functions
        self.input_op = input_op
        self.graph = Graph()
        self.graph.vocabulary = LITERT.name
        self.values: dict[FileTensor, Value] = {}
        self._interface = {*subgraph.inputs, *subgraph.outputs}
        # Inputs and outputs keep their names; inner tensors that would take one of them get another.
        self.names = Names(self.graph, (t.name for t in self._interface))

    def build(self, where: str) -> Graph:
        """The graph, without inputs and outputs declared."""
        try:
            for tensor in self.subgraph.inputs:
                if tensor not in self.values:
                    self._input(tensor)
            for number, operator in enumerate(self.subgraph.operators):
                try:
                    self._operator(operator)
                except FormatError as error:
                    raise error.at(f"operator {number} ({operator.code})") from error
            # An output may be a constant that no operator reads: it becomes a node here.
            self.outputs()
        except FormatError as error:
            raise error.at(where) from error
        return self.graph

    def declare(self) -> None:
        """Set the graph's inputs and outputs."""
        # A file may name one tensor twice among them.
        self.graph.inputs = list(dict.fromkeys(self.values[t] for t in self.subgraph.inputs))
        self.graph.outputs = list(dict.fromkeys(self.outputs()))

    def outputs(self) -> list[Value]:
        return [self._read(t) for t in self.subgraph.outputs]

    def _input(self, tensor: FileTensor) -> None:
        spec = spec_of(tensor)
        attrs = interface_attrs(spec) if self.input_op == "Placeholder" else argument_attrs(spec)
        self._define(self._add(self.input_op, tensor, [], attrs | _quantization(tensor)), [tensor])

    def _add(self, op: str, tensor: FileTensor | None, inputs: list[Value], attrs: dict[str, Attr]) -> Node:
        wished = tensor.name if tensor is not None else ""
        name = self.names.node_name(wished, op, is_interface=tensor in self._interface)
        return self.graph.add(op, inputs, name, attrs=attrs)

    def _define(self, node: Node, tensors: list[FileTensor]) -> None:
        for port, tensor in enumerate(tensors):
            # Variables are written by the operators that update them: each write is
            # a new value of the same tensor.
            if tensor in self.values and not tensor.is_variable:
                raise FormatError(f"'{tensor.name}' is written twice")
            value = node.output(port)
            set_spec(value, tensor.dtype, tensor.shape)
            self.values[tensor] = value
            self.names.note(tensor.name, value)

    def _read(self, tensor: FileTensor, *, may_be_scratch: bool = False) -> Value:
        value = self.values.get(tensor)
        if value is None:
            self._source(tensor, may_be_scratch)
            value = self.values[tensor]
        return value

    def _source(self, tensor: FileTensor, may_be_scratch: bool) -> None:
        """A node for a tensor that no operator writes: a constant or a variable, or memory to work in."""
        attrs = _quantization(tensor)
        if tensor.data is not None:
            constant = _constant(tensor, tensor.data)
            node = self._add("Const", tensor, [], {"dtype": constant.dtype, "value": constant, **attrs})
        elif tensor.stored_bytes is not None:
            attrs |= {"stored_bytes": tensor.stored_bytes, **stated([spec_of(tensor)])}
            node = self._add(UNREADABLE, tensor, [], attrs)
        elif tensor.is_variable or may_be_scratch:
            node = self._add(VARIABLE, tensor, [], attrs | stated([spec_of(tensor)]))
        else:
            raise FormatError(f"'{tensor.name}' is read before anything writes it")
        self._define(node, [tensor])

    def _operator(self, operator: Operator) -> None:
        attrs = self._attrs(operator)
        # Index -1 in the file: an optional input, such as a bias, left out.
        absent = tuple(i for i, t in enumerate(operator.inputs) if t is None)
        if absent:
            attrs["absent_inputs"] = absent
        # Operators that were compiled for an accelerator, such as Ethos-U, name the memory that they work in.
        is_custom = operator.code == "CUSTOM"
        inputs = [self._read(t, may_be_scratch=is_custom) for t in operator.inputs if t is not None]
        first = operator.outputs[0] if operator.outputs else None
        node = self._add(op_of(operator), first, inputs, attrs)
        self._define(node, operator.outputs)

    def _attrs(self, operator: Operator) -> dict[str, Attr]:
        from thinflow.tflite.schema import SUBGRAPH_LISTS, SUBGRAPH_OPTIONS

        attrs: dict[str, Attr] = {}
        for key, value in operator.options.items():
            if key in SUBGRAPH_OPTIONS:
                attrs[key] = self._function_named(key, value)
            elif key in SUBGRAPH_LISTS:
                attrs[key] = tuple(self._function_named(key, n) for n in value)
            else:
                attrs[key] = normalize(_text_bytes(value))
        if operator.code == "CUSTOM" and operator.custom_options:
            attrs["custom_options"] = operator.custom_options
            if operator.custom_code.startswith("Flex"):
                attrs |= _flex_attrs(operator.custom_options)
        attrs["version"] = operator.version
        if operator.intermediates:
            attrs |= _intermediate_grids(operator.intermediates)
        for number, tensor in enumerate(operator.outputs):
            attrs |= _quantization(tensor, f"_{number}" if number else "")
        return attrs | stated([spec_of(t) for t in operator.outputs])

    def _function_named(self, option: str, number: int) -> FunctionAttr:
        if not 0 <= number < len(self.functions):
            raise FormatError(f"{option} is {number}, there are {len(self.functions)} subgraphs")
        return FunctionAttr(self.functions[number])


def _flex_attrs(options: bytes) -> dict[str, Attr]:
    """The attributes of an op that TensorFlow's own kernel runs, `flex.T`; its NodeDef is in the options.

    Nothing if the options are something else.
    """
    from thinflow.formats._attrs import decode_attr
    from thinflow.tflite.flexbuffer import decode
    from thinflow.wire import protos

    try:
        content = decode(options)
        # A vector of the op's name and its NodeDef.
        if not isinstance(content, list) or len(content) != 2 or not isinstance(content[1], str | bytes):
            return {}
        raw = content[1]
        node = protos.parse(
            "NodeDef", raw if isinstance(raw, bytes) else raw.encode("utf-8", "surrogateescape")
        )
    except FormatError:
        return {}
    return {f"flex.{k}": decode_attr(node.attr[k]) for k in sorted(node.attr) if not k.startswith("_")}


def _intermediate_grids(tensors: Sequence[FileTensor]) -> dict[str, Attr]:
    """Scales and zero points of what an integer LSTM has inside; scale 0 for a tensor that has not one."""
    grids = [t.quantization for t in tensors]
    known = [q if q is not None and len(q.scale) == 1 else None for q in grids]
    if not any(known):
        return {}
    return {
        "intermediate_scales": tuple(float(q.scale[0]) if q else 0.0 for q in known),
        "intermediate_zero_points": tuple(
            int(q.zero_point[0]) if q and len(q.zero_point) else 0 for q in known
        ),
    }


def op_of(operator: Operator) -> str:
    """`tfl.CONV_2D`, `tfl.custom.MyOp`."""
    if operator.code == "CUSTOM":
        return TFL_CUSTOM + (operator.custom_code or "unnamed")
    return LITERT.prefix + operator.code


def spec_of(tensor: FileTensor) -> TensorSpec:
    """Type and shape that the file states of a tensor."""
    return TensorSpec(tensor.dtype, tensor.shape)


def _text_bytes(value: Any) -> Any:
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value


def _constant(tensor: FileTensor, data: np.ndarray[Any, Any] | memoryview) -> Tensor:
    """A constant as a view of the file; elements of less than a byte are unpacked."""
    import numpy as np

    from thinflow.tflite.model import array_of

    shape = tuple(n or 0 for n in tensor.shape or ())
    array = data if isinstance(data, np.ndarray) else array_of(data, tensor)
    if tensor.dtype is STRING:
        return Tensor.from_array(array, STRING)
    # The bytes of the file as they are; packed and empty ones go through numpy.
    if isinstance(data, np.ndarray) and array.nbytes:
        return Tensor(tensor.dtype, shape, RawStorage(array.reshape(-1).view(np.uint8).data))
    return Tensor.from_array(array, tensor.dtype)


def _quantization(tensor: FileTensor, suffix: str = "") -> dict[str, Attr]:
    """Scale, zero point and axis as attributes; nothing for a tensor of real numbers."""
    q: Quantization | None = tensor.quantization
    if q is None:
        return {}
    attrs: dict[str, Attr] = {}
    if len(q.scale):
        attrs[f"quantization_scale{suffix}"] = tuple(q.scale.tolist())
        attrs[f"quantization_zero_point{suffix}"] = tuple(q.zero_point.tolist())
    if q.is_per_channel:
        attrs[f"quantization_axis{suffix}"] = q.axis
    if q.min is not None and q.max is not None:
        attrs[f"quantization_min{suffix}"] = tuple(q.min.tolist())
        attrs[f"quantization_max{suffix}"] = tuple(q.max.tolist())
    return attrs
