"""Exported PyTorch programs as graphs of ATen's ops.

A node's operands are the tensors and symbolic numbers among its arguments, named in `_arguments`: "weight",
or "tensors.1" for an element of a list. Whatever else is said stands in an option by the argument's name;
where a list holds a symbolic number, the option has a 0 in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

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
from thinflow.formats._pt2_aliases import Aliases, is_in_place
from thinflow.formats._pt2_archive import Payload, element_type
from thinflow.formats.foreign import File, Names, interface_attrs, set_spec, stated
from thinflow.ir.attrs import Attr
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.types import BOOL, DOUBLE, INT64, UNKNOWN, DType, Shape, TensorSpec
from thinflow.ir.vocabulary import ATEN

_ATEN = "torch.ops.aten."
_MOST_NAME = 80
_PLACES = frozenset({"device", "pin_memory", "memory_format", "non_blocking"})
"""Arguments that say where and how a tensor lies in memory."""
_STRIDED = 7


def op_of(target: str) -> str:
    """Our name of an op: `torch.ops.aten.relu_.default` is `aten.relu`, as we write nothing in place."""
    name = target.removeprefix("torch.ops.").removeprefix("aten.").removeprefix("_operator.")
    if target.startswith("_operator."):
        return f"{ATEN.prefix}operator.{name}"
    if not target.startswith("torch.ops."):
        return f"{ATEN.prefix}{target}"
    base, _, overload = name.removesuffix(".default").partition(".")
    plain = base[:-1] if target.startswith(_ATEN) and is_in_place(base) else base
    return ATEN.prefix + (f"{plain}.{overload}" if overload else plain)


class ProgramReader:
    """One exported program on its way to being a graph.

    Args:
        program: its JSON.
        weights, constants: the tensors beside it.
    """

    def __init__(self, program: Object, weights: Payload, constants: Payload) -> None:
        module = as_object(program.get("graph_module"), "graph_module")
        self._signature = as_object(module.get("signature"), "signature")
        self._source = as_object(module.get("graph"), "graph")
        self._metas = as_object(self._source.get("tensor_values"), "tensor_values")
        self._weights, self._constants = weights, constants
        self.graph = Graph()
        self.graph.vocabulary = ATEN.name
        self._names = Names(self.graph)
        self._values: dict[str, Value] = {}
        self._aliases = Aliases()

    def build(self) -> Graph:
        """The graph.

        Raises:
            FormatError: the program contradicts itself, or its tensors are damaged.
            UnsupportedOp: it keeps state, or something in it has no place in a graph.
        """
        specs = as_list(self._signature.get("input_specs"), "input_specs")
        inputs = [self._input(*only_field(s, "an input")) for s in specs]
        for number, entry in enumerate(as_list(self._source.get("nodes"), "nodes")):
            node = as_object(entry, f"node {number}")
            target = as_text(node.get("target"), "an op's name")
            where = f"node {number} '{str(node.get('name') or '')[:_MOST_NAME]}' ({target[:_MOST_NAME]})"
            try:
                self._node(target, node)
            except FormatError as error:
                raise error.at(where) from error
            except UnsupportedOp as error:
                raise UnsupportedOp(error.problem, where, error.hint) from error
        specs = as_list(self._signature.get("output_specs"), "output_specs")
        outputs = [self._output(*only_field(s, "an output")) for s in specs]
        self.graph.inputs = [v for v in inputs if v is not None]
        self.graph.outputs = list(dict.fromkeys(v for v in outputs if v is not None))
        if not self.graph.outputs:
            raise FormatError("it has no outputs")
        File(self.graph, self._names)
        return self.graph

    # --- inputs and outputs --------------------------------------------------------------------------------

    def _input(self, kind: str, content: object) -> Value | None:
        """An input of the program's graph; None for one that a run need not be given."""
        spec = as_object(content, "an input")
        if kind == "constant_input":
            return None  # the program was written for this very value
        if kind == "user_input":
            return self._fed(*only_field(spec.get("arg"), "an input"))
        if kind not in {"parameter", "buffer", "tensor_constant"}:
            raise _impossible("its input is", kind)
        name = as_text(as_object(spec.get("arg"), "an input").get("name"), "an input's name")
        full = as_text(spec.get(f"{kind}_name"), "a tensor's name")
        # A buffer that the model does not save with its parameters is among the constants.
        tensor = (self._weights if full in self._weights else self._constants).tensor(full)
        value = self.graph.constant(tensor, self._names.node_name(full, "Const"))
        self._define(name, value, TensorSpec(tensor.dtype, tensor.shape))
        self._aliases.keep(name)
        return None

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
            raise _impossible("its input is", kind)
        attrs = interface_attrs(spec, sizes)
        node = self.graph.add("Placeholder", name=self._names.node_name(name, "Placeholder"), attrs=attrs)
        self._define(name, node.output(), spec)
        return node.output()

    def _output(self, kind: str, spec: object) -> Value | None:
        """A value that the program gives; None for what only its caller's arrays would show."""
        argument = as_object(spec, "an output").get("arg")
        if kind == "user_input_mutation":
            return None
        if kind == "buffer_mutation":
            name = str(as_object(spec, "an output").get("buffer_name"))[:_MOST_NAME]
            raise UnsupportedOp(
                f"each run changes its buffer '{name}', and the next one would read it",
                hint="export model.eval(), and give states as inputs and outputs",
            )
        if kind != "user_output":
            raise _impossible("its output is", kind)
        sub, content = only_field(argument, "an output")
        if sub == "as_none":
            return None
        if sub == "as_sym_int" and "as_name" in as_object(content, "an output"):
            return self._value(as_text(as_object(content, "an output")["as_name"], "an output's name"))
        if sub != "as_tensor":
            raise UnsupportedOp(
                "one of its outputs is a number that never changes", hint="return tensors only"
            )
        return self._value(as_text(as_object(content, "an output").get("name"), "an output's name"))

    # --- values --------------------------------------------------------------------------------------------

    def _value(self, name: str) -> Value:
        self._aliases.check(name)
        value = self._values.get(name)
        if value is None:
            raise FormatError(f"'{name[:_MOST_NAME]}' is read and nothing writes it")
        return value

    def _define(self, name: str, value: Value, spec: TensorSpec) -> None:
        if name in self._values:
            raise FormatError(f"'{name[:_MOST_NAME]}' is written twice")
        set_spec(value, spec.dtype, spec.shape)
        self._values[name] = value
        self._names.note(name, value)

    def _spec(self, name: str) -> TensorSpec:
        """What the file says of a tensor."""
        if name not in self._metas:
            return UNKNOWN
        meta = as_object(self._metas[name], "what is said of a tensor")
        shape: Shape = tuple(self._size(s) for s in as_list(meta.get("sizes"), "its sizes"))
        return TensorSpec(element_type(meta.get("dtype")), shape)

    def _size(self, entry: object) -> int | None:
        kind, content = only_field(entry, "a size")
        return as_int(content, "a size") if kind == "as_int" else None

    def _size_names(self, name: str) -> tuple[str, ...]:
        """The symbols of an input's open sizes, "" for those that are known or computed."""
        sizes = as_list(
            as_object(self._metas.get(name, {}), "what is said of it").get("sizes", []), "its sizes"
        )
        found: list[str] = []
        for entry in sizes:
            kind, content = only_field(entry, "a size")
            text = str(as_object(content, "a size").get("expr_str", "")) if kind == "as_expr" else ""
            found.append(text[:_MOST_NAME] if text.isidentifier() else "")
        return tuple(found) if any(found) else ()

    # --- nodes ---------------------------------------------------------------------------------------------

    def _node(self, target: str, node: Object) -> None:
        results = [r for o in as_list(node.get("outputs"), "outputs") for r in self._results(o)]
        if not any(name for name, _ in results):
            # Nothing comes of it: an assertion of the exporter, on sizes that its caller gives.
            return
        arguments = _Arguments(self._value)
        for entry in as_list(node.get("inputs"), "inputs"):
            named = as_object(entry, "an argument")
            name = as_text(named.get("name"), "an argument's name")
            arguments.add(name, *only_field(named.get("arg"), f"its argument '{name}'"))
        op = op_of(target)
        attrs = arguments.attrs | stated([spec for _, spec in results])
        attrs["_arguments"] = tuple(n.encode() for n in arguments.names)
        first = next(name for name, _ in results if name)
        made = self.graph.add(op, arguments.values, self._names.node_name(first, op), attrs=attrs)
        for port, (name, spec) in enumerate(results):
            if name:
                self._define(name, made.output(port), spec)
        self._written(target, str(node.get("name") or first), arguments, [n for n, _ in results if n], made)

    def _written(self, target: str, node: str, arguments: _Arguments, results: list[str], made: Node) -> None:
        """Let the name of an operand that was written stand for the result."""
        if target.startswith(_ATEN):
            base = target.removeprefix(_ATEN).partition(".")[0]
            source = arguments.tensor_names[0] if arguments.tensor_names else None
            if self._aliases.note(base, node[:_MOST_NAME], source, results) and source is not None:
                self._values[source] = made.output()

    def _results(self, output: object) -> list[tuple[str, TensorSpec]]:
        """Names of what an op gives, "" for a place that is empty, and what the file says of them."""
        kind, content = only_field(output, "an output")
        if kind == "as_tensor":
            name = as_text(as_object(content, "an output").get("name"), "an output's name")
            return [(name, self._spec(name))]
        if kind == "as_tensors":
            return [r for each in as_list(content, "outputs") for r in self._results({"as_tensor": each})]
        numbers = {"as_sym_int": INT64, "as_sym_float": DOUBLE, "as_sym_bool": BOOL}
        if kind in numbers:
            sub, source = only_field(content, "an output")
            # Such a number can be a known one, which whoever reads it has in his own arguments.
            name = as_text(source, "an output's name") if sub == "as_name" else ""
            return [(name, TensorSpec(numbers[kind], ()))]
        if kind == "as_none":
            return [("", UNKNOWN)]
        raise _impossible("it gives something", kind)


class _Arguments:
    """Arguments of one op: operands with their names, and options."""

    def __init__(self, value: Callable[[str], Value]) -> None:
        self._value = value
        self.names: list[str] = []
        self.tensor_names: list[str] = []
        self.values: list[Value] = []
        self.attrs: dict[str, Attr] = {}

    def add(self, name: str, kind: str, content: object) -> None:
        """One argument by its name in ATen's schema.

        Raises:
            UnsupportedOp: it is of a kind that a graph cannot hold.
        """
        if kind == "as_none" or name in _PLACES:
            return
        what = f"its argument '{name}'"
        if kind in _PLAIN:
            self.attrs[name] = _PLAIN[kind](content, what)
        elif kind in _LISTS:
            self.attrs[name] = tuple(_LISTS[kind](c, what) for c in as_list(content, what))
        elif kind in ("as_tensor", "as_optional_tensor", *_SYMBOLIC):
            number = self._entry(name, kind, content)
            if number is not None:
                self.attrs[name] = number
        elif kind in ("as_tensors", "as_optional_tensors"):
            each = [self._entry(f"{name}.{n}", kind[:-1], c) for n, c in enumerate(as_list(content, what))]
            self.attrs[name] = len(each)
        elif kind in _SYMBOLIC_LISTS:
            numbers = [self._entry(f"{name}.{n}", kind[:-1], c) for n, c in enumerate(as_list(content, what))]
            self.attrs[name] = tuple(0 if n is None else n for n in numbers)
        elif kind == "as_layout" and content == _STRIDED:
            return
        else:
            raise _impossible(f"{what} is", kind)

    def _entry(self, name: str, kind: str, content: object) -> int | float | bool | None:
        """A number that is known; None for an operand, which is noted, and for none at all."""
        what = f"its argument '{name}'"
        if kind == "as_optional_tensor":
            sub, inner = only_field(content, what)
            if sub == "as_none":
                return None
            content = inner
        elif kind in _SYMBOLIC:
            sub, inner = only_field(content, what)
            if sub in _PLAIN:
                number = _PLAIN[sub](inner, what)
                return number if isinstance(number, int | float) else None
            content = {"name": inner}
        else:
            self.tensor_names.append(str(as_object(content, what).get("name")))
        self._read(name, as_text(as_object(content, what).get("name"), what))
        return None

    def _read(self, name: str, source: str) -> None:
        self.names.append(name)
        self.values.append(self._value(source))


def _impossible(what: str, kind: str) -> UnsupportedOp:
    return UnsupportedOp(f"{what} of the kind '{kind[:_MOST_NAME]}', which cannot be in a graph")


def _bytes(value: object, what: str) -> bytes:
    return as_text(value, what).encode()


def _type(value: object, what: str) -> DType:
    del what
    return element_type(value)


_Read = Callable[[object, str], bytes | int | float | DType]
_PLAIN: Mapping[str, _Read] = {
    "as_int": as_int,
    "as_float": as_float,
    "as_bool": as_bool,
    "as_string": _bytes,
    "as_scalar_type": _type,
}
_LISTS: Mapping[str, _Read] = {
    "as_ints": as_int,
    "as_floats": as_float,
    "as_bools": as_bool,
    "as_strings": _bytes,
}
_SYMBOLIC = ("as_sym_int", "as_sym_float", "as_sym_bool")
_SYMBOLIC_LISTS = ("as_sym_ints", "as_sym_floats", "as_sym_bools")
