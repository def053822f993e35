"""Exported PyTorch programs as graphs of ATen's ops: what they are fed, what they give, what they keep.

A buffer that a run changes is read by `aten.buffer` of its first value, and `aten.buffer_write` says what it
holds for the next run: neither is an op of PyTorch's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from thinflow.errors import FormatError, UnsupportedOp
from thinflow.formats._json_fields import (
    Object,
    as_bool,
    as_float,
    as_int,
    as_list,
    as_object,
    as_text,
    only_field,
)
from thinflow.formats._pt2_aliases import writes_in_place
from thinflow.formats._pt2_archive import Payload
from thinflow.formats._pt2_arguments import impossible
from thinflow.formats._pt2_nodes import MOST_NAME, NodesReader
from thinflow.formats.foreign import File, interface_attrs, stated
from thinflow.ir.graph import Graph, Value
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import BOOL, DOUBLE, INT64, DType, TensorSpec


class ProgramReader(NodesReader):
    """One exported program on its way to being a graph.

    Args:
        program: its JSON.
        weights, constants: the tensors beside it.
    """

    def __init__(self, program: Object, weights: Payload, constants: Payload) -> None:
        module = as_object(program.get("graph_module"), "graph_module")
        self._signature = as_object(module.get("signature"), "signature")
        super().__init__(as_object(module.get("graph"), "graph"), {})
        self._weights, self._constants = weights, constants
        self._states: dict[str, tuple[str, Value]] = {}
        """Buffers that a run changes, by their own names: how nodes call them, and what is read."""

    def build(self) -> Graph:
        """The graph.

        Raises:
            FormatError: the program contradicts itself, or its tensors are damaged.
            UnsupportedOp: something in it has no place in a graph.
        """
        given = [only_field(s, "an output") for s in self._listed("output_specs")]
        after = dict(_mutation(content) for kind, content in given if kind == "buffer_mutation")
        by_name = set(self._written_by_name())
        specs = [only_field(s, "an input") for s in self._listed("input_specs")]
        inputs = [self._input(kind, content, set(after), by_name) for kind, content in specs]
        self._read_nodes()
        outputs = [self._output(kind, content) for kind, content in given]
        for full, (name, read) in self._states.items():
            # Where nodes write in place, the buffer's own name stands for what it holds by now.
            left = self._value(after.get(full, name))
            if left is not read:
                self.graph.add(
                    "aten.buffer_write", [read, left], self._names.node_name(f"{full}/write", "write")
                )
        self.graph.inputs = [v for v in inputs if v is not None]
        self.graph.outputs = self._distinct([v for v in outputs if v is not None])
        if not self.graph.outputs:
            raise FormatError("it has no outputs")
        File(self.graph, self._names)
        return self.graph

    def _distinct(self, outputs: list[Value]) -> list[Value]:
        """The outputs; one that a program gives again is a copy, as callers go by their places.

        So is an input: few files give what they are fed.
        """
        found: dict[Value, None] = {}
        for value in outputs:
            if value in found or value in self.graph.inputs:
                attrs = stated([value.spec]) | {"_arguments": (b"self",)}
                name = self._names.node_name(f"{value.node.name}/again", "clone")
                value = self.graph.add("aten.clone", [value], name, attrs=attrs).output()
            found[value] = None
        return list(found)

    def _listed(self, name: str) -> list[object]:
        return list(as_list(self._signature.get(name), name))

    # --- inputs and outputs --------------------------------------------------------------------------------

    def _input(self, kind: str, content: object, after: set[str], by_name: set[str]) -> Value | None:
        """An input of the program's graph; None for one that a run need not be given.

        Args:
            after: buffers that the program says it changes, by their own names.
            by_name: what nodes write in place, as they call it.
        """
        spec = as_object(content, "an input")
        if kind == "constant_input":
            return None  # the program was written for this very value
        if kind == "user_input":
            return self._fed(*only_field(spec.get("arg"), "an input"))
        if kind not in {"parameter", "buffer", "tensor_constant"}:
            raise impossible("its input is", kind)
        name = as_text(as_object(spec.get("arg"), "an input").get("name"), "an input's name")
        full = as_text(spec.get(f"{kind}_name"), "a tensor's name")
        # A buffer that the model does not save with its parameters is among the constants.
        tensor = (self._weights if full in self._weights else self._constants).tensor(full)
        value = self.graph.constant(tensor, self._names.node_name(full, "Const"))
        is_state = kind == "buffer" and (full in after or name in by_name)
        if is_state:
            value = self._state(full, value, TensorSpec(tensor.dtype, tensor.shape))
            self._states[full] = name, value
        self._define(name, value, TensorSpec(tensor.dtype, tensor.shape))
        self._aliases.keep(name, is_state=is_state)
        return None

    def _state(self, full: str, first: Value, spec: TensorSpec) -> Value:
        """What a buffer holds when a run begins."""
        attrs = stated([spec]) | {"name": full.encode()}
        node_name = self._names.node_name(f"{full}/read", "buffer")
        return self.graph.add("aten.buffer", [first], node_name, attrs=attrs).output()

    def _written_by_name(self) -> Iterator[str]:
        """The names of operands that nodes write in place."""
        for entry in as_list(self._source.get("nodes"), "nodes"):
            node = as_object(entry, "a node")
            if not writes_in_place(str(node.get("target"))):
                continue
            for argument in as_list(node.get("inputs"), "inputs"):
                kind, content = only_field(as_object(argument, "an argument").get("arg"), "an argument")
                if kind == "as_tensor":
                    yield str(as_object(content, "an argument").get("name"))
                break

    def _fed(self, kind: str, argument: object) -> Value | None:
        if kind == "as_tensor":
            name = as_text(as_object(argument, "an input").get("name"), "an input's name")
            spec, sizes = self._spec(name), self._size_names(name)
        elif kind == "as_sym_int":
            sub, content = only_field(argument, "an input")
            if sub != "as_name":
                return None
            name, spec, sizes = as_text(content, "an input's name"), TensorSpec(INT64, ()), ()
        elif kind in {"as_none", "as_int", "as_float", "as_bool", "as_string"}:
            return None
        else:
            raise impossible("its input is", kind)
        attrs = interface_attrs(spec, sizes)
        node = self.graph.add("Placeholder", name=self._names.node_name(name, "Placeholder"), attrs=attrs)
        self._define(name, node.output(), spec)
        return node.output()

    def _output(self, kind: str, spec: object) -> Value | None:
        """A value that the program gives; None for what only its caller or the next run would see."""
        argument = as_object(spec, "an output").get("arg")
        if kind in {"user_input_mutation", "buffer_mutation"}:
            return None
        if kind != "user_output":
            raise impossible("its output is", kind)
        sub, content = only_field(argument, "an output")
        if sub == "as_none":
            return None
        if sub == "as_sym_int" and "as_name" in as_object(content, "an output"):
            return self._value(as_text(as_object(content, "an output")["as_name"], "an output's name"))
        if sub in _NUMBERS:
            return self._number(sub, content)
        if sub != "as_tensor":
            raise UnsupportedOp("one of its outputs is no tensor and no number", hint="return tensors only")
        return self._value(as_text(as_object(content, "an output").get("name"), "an output's name"))

    def _number(self, kind: str, content: object) -> Value:
        """A number that a program gives whatever it is fed."""
        import numpy as np

        read, element = _NUMBERS[kind]
        array = np.array(read(content, "an output"), element.numpy())
        value = self.graph.constant(Tensor.from_array(array), self._names.node_name("number", "Const"))
        value.spec = TensorSpec(element, ())
        return value

    def _size_names(self, name: str) -> tuple[str, ...]:
        """The symbols of an input's open sizes, "" for those that are known or computed."""
        sizes = as_list(
            as_object(self._metas.get(name, {}), "what is said of it").get("sizes", []), "its sizes"
        )
        found: list[str] = []
        for entry in sizes:
            kind, content = only_field(entry, "a size")
            text = str(as_object(content, "a size").get("expr_str", "")) if kind == "as_expr" else ""
            found.append(text[:MOST_NAME] if text.isidentifier() else "")
        return tuple(found) if any(found) else ()


def _mutation(content: object) -> tuple[str, str]:
    """A buffer that a run changes, and the name of what it holds then."""
    spec = as_object(content, "an output")
    after = as_text(as_object(spec.get("arg"), "an output").get("name"), "an output's name")
    return as_text(spec.get("buffer_name"), "a buffer's name"), after


_NUMBERS: Mapping[str, tuple[Callable[[object, str], bool | float], DType]] = {
    "as_int": (as_int, INT64),
    "as_float": (as_float, DOUBLE),
    "as_bool": (as_bool, BOOL),
}
