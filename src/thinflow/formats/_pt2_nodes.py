"""Nodes of an exported PyTorch program, and of the graphs that they call, in a graph of ATen's ops.

A node's operands are the tensors and symbolic numbers among its arguments, named in `_arguments`: "weight",
or "tensors.1" for an element of a list. Whatever else is said stands in an option by the argument's name;
where a list holds a symbolic number, the option has a 0 in its place. Arguments without a name have their
place for one: "0", "3.1".
"""

from __future__ import annotations

from collections.abc import Mapping

from thinflow.errors import FormatError, UnsupportedOp
from thinflow.formats._json_fields import Object, as_int, as_list, as_object, as_text, only_field
from thinflow.formats._pt2_aliases import Aliases, is_in_place
from thinflow.formats._pt2_archive import element_type
from thinflow.formats._pt2_arguments import Arguments, impossible
from thinflow.formats.foreign import File, Names, argument_attrs, set_spec, stated
from thinflow.ir.attrs import FunctionAttr
from thinflow.ir.function import ARGUMENT, Function
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.types import BOOL, DOUBLE, INT64, UNKNOWN, DType, Shape, TensorSpec
from thinflow.ir.vocabulary import ATEN

_ATEN, _WRAP = "torch.ops.aten.", "torch.ops.higher_order."
MOST_NAME = 80
_DEEPEST = 24
"""Graphs inside graphs."""


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


class NodesReader:
    """One graph of a program on its way to being one of ours.

    Args:
        source: its JSON.
        library: the functions of the program; graphs that nodes call are put there.
        depth: of graphs around this one.
    """

    def __init__(self, source: Object, library: dict[str, Function], depth: int = 0) -> None:
        if depth > _DEEPEST:
            raise FormatError("its graphs are nested too deeply")
        self._source, self._library, self._depth = source, library, depth
        self._metas = as_object(source.get("tensor_values"), "tensor_values")
        self.graph = Graph()
        self.graph.vocabulary, self.graph.functions = ATEN.name, library
        self._names = Names(self.graph)
        self._values: dict[str, Value] = {}
        self._aliases = Aliases()
        self._written_in: dict[str, str] = {}
        """What an op that writes in place gives: its operand, under another name."""
        self._parts: dict[str, tuple[str, Node]] = {}
        """Values that are parts of others: of which, and the op that takes them out."""

    def _read_nodes(self) -> None:
        for number, entry in enumerate(as_list(self._source.get("nodes"), "nodes")):
            node = as_object(entry, f"node {number}")
            target = as_text(node.get("target"), "an op's name")
            where = f"node {number} '{str(node.get('name') or '')[:MOST_NAME]}' ({target[:MOST_NAME]})"
            try:
                self._node(target, node)
            except FormatError as error:
                raise error.at(where) from error
            except UnsupportedOp as error:
                raise UnsupportedOp(error.problem, error.where or where, error.hint) from error

    def _body(self, wished: str, source: Object) -> FunctionAttr:
        """A graph that a node calls, put into the library."""
        reader = NodesReader(source, self._library, self._depth + 1)
        reader._aliases.owner = "what its graph is given, which who called it would see"
        inputs = [reader._argument(i) for i in as_list(source.get("inputs"), "inputs")]
        reader._read_nodes()
        outputs = [reader._result(o) for o in as_list(source.get("outputs"), "outputs")]
        File(reader.graph, reader._names)
        plain = self._names.node_name(wished, "graph")
        name, count = plain, 0
        while name in self._library:
            count += 1
            name = f"{plain}_{count}"
        kinds = [[v.dtype for v in values] for values in (inputs, outputs)]
        self._library[name] = Function(
            name, reader.graph, inputs, outputs, input_types=kinds[0], output_types=kinds[1]
        )
        return FunctionAttr(name)

    def _argument(self, entry: object) -> Value:
        name, spec = self._named(entry, "an input")
        node = self.graph.add(
            ARGUMENT, name=self._names.node_name(name, ARGUMENT), attrs=argument_attrs(spec)
        )
        self._define(name, node.output(), spec)
        self._aliases.keep(name)
        return node.output()

    def _result(self, entry: object) -> Value:
        return self._value(self._named(entry, "an output")[0])

    def _named(self, entry: object, what: str) -> tuple[str, TensorSpec]:
        """Name and spec of a tensor or symbolic number that a graph takes or gives."""
        kind, content = only_field(entry, what)
        if kind in _NUMBERS:
            sub, source = only_field(content, what)
            if sub == "as_name":
                return as_text(source, f"the name of {what}"), TensorSpec(_NUMBERS[kind], ())
        if kind != "as_tensor":
            raise impossible(f"{what} of a graph that it calls is", kind)
        name = as_text(as_object(content, what).get("name"), f"the name of {what}")
        return name, self._spec(name)

    # --- values --------------------------------------------------------------------------------------------
    def _value(self, name: str) -> Value:
        name = self._written_in.get(name, name)
        if name in self._parts and self._aliases.is_stale(name):
            self._take_out_again(name)
        self._aliases.check(name)
        value = self._values.get(name)
        if value is None:
            raise FormatError(f"'{name[:MOST_NAME]}' is read and nothing writes it")
        return value

    def _define(self, name: str, value: Value, spec: TensorSpec) -> None:
        if name in self._values:
            raise FormatError(f"'{name[:MOST_NAME]}' is written twice")
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

    def _order_in_memory(self, name: str) -> tuple[int, ...] | None:
        """The axes of a tensor from the widest steps to the narrowest.

        None unless its elements fill its memory from the start, whatever axis is in front.
        """
        meta = as_object(self._metas.get(name), "what is said of a tensor")
        sizes, steps = ([self._size(s) for s in as_list(meta.get(k), k)] for k in ("sizes", "strides"))
        if len(sizes) != len(steps) or self._size(meta.get("storage_offset")) != 0:
            return None
        wanted, order = 1, list[int]()
        # Along an axis of one element no step is made.
        for axis in sorted(range(len(sizes)), key=lambda n: (sizes[n] != 1, steps[n] or 0, -n)):
            size = sizes[axis]
            if size is None or (size != 1 and steps[axis] != wanted):
                return None
            wanted *= size
            order.append(axis)
        return tuple(reversed(order))

    def _size(self, entry: object) -> int | None:
        kind, content = only_field(entry, "a size")
        return as_int(content, "a size") if kind == "as_int" else None

    # --- nodes ---------------------------------------------------------------------------------------------
    def _node(self, target: str, node: Object) -> None:
        results = [r for o in as_list(node.get("outputs"), "outputs") for r in self._results(o)]
        if not any(name for name, _ in results):
            # Nothing comes of it: an assertion of the exporter, on sizes that its caller gives.
            return
        arguments = Arguments(self._value, self._body)
        for place, entry in enumerate(as_list(node.get("inputs"), "inputs")):
            named = as_object(entry, "an argument")
            name = as_text(named.get("name"), "an argument's name") or str(place)
            arguments.add(name, *only_field(named.get("arg"), f"its argument '{name}'"))
        op = op_of(target)
        attrs = arguments.attrs | stated([spec for _, spec in results])
        attrs["_arguments"] = tuple(n.encode() for n in arguments.names)
        if op.partition(".")[2] in _BY_MEMORY and arguments.tensor_names:
            order = self._order_in_memory(arguments.tensor_names[0])
            attrs |= {} if order is None else {"_order": order}
        first = next(name for name, _ in results if name)
        made = self.graph.add(op, arguments.values, self._names.node_name(first, op), attrs=attrs)
        for port, (name, spec) in enumerate(results):
            if name:
                self._define(name, made.output(port), spec)
        self._written(target, str(node.get("name") or first), arguments, [n for n, _ in results if n], made)

    def _written(self, target: str, node: str, arguments: Arguments, results: list[str], made: Node) -> None:
        """Let the name of an operand that was written stand for the result."""
        if target.startswith(_WRAP):
            self._aliases.join([*arguments.tensor_names, *results])
        if target.startswith(_ATEN):
            base = target.removeprefix(_ATEN).partition(".")[0]
            source = arguments.tensor_names[0] if arguments.tensor_names else None
            source = self._written_in.get(source or "", source)
            if source is not None and made.op in _PARTS:
                self._parts[results[0]] = source, made
            if self._aliases.note(base, node[:MOST_NAME], source, results, self._wholes(source)):
                assert source is not None
                self._written_in[results[0]] = source
                self._values[source] = made.output()
                self._put_back(source)

    def _wholes(self, name: str | None) -> list[str]:
        """What a value is a part of, that of which this is one, and so on."""
        found: list[str] = []
        while name in self._parts:
            name = self._parts[name][0]
            found.append(name)
        return found

    def _take_out_again(self, name: str) -> None:
        """Let a part be that of what the whole is by now."""
        whole, part = self._parts[name]
        operands = [self._value(whole), *part.inputs[1:]]
        again = self.graph.add(part.op, operands, self._names.node_name(name, part.op), attrs=part.attrs)
        spec = self._spec(name)
        set_spec(again.output(), spec.dtype, spec.shape)
        self._values[name] = again.output()
        self._aliases.renew(name)

    def _put_back(self, name: str) -> None:
        """Let those whose part was written hold it: they share its memory."""
        while name in self._parts:
            whole, part = self._parts[name]
            op = _PARTS[part.op]
            arguments = part.attrs["_arguments"]
            assert isinstance(arguments, tuple)
            attrs = {n: v for n, v in part.attrs.items() if not n.startswith("_")} | stated(
                [self._spec(whole)]
            )
            attrs["_arguments"] = (arguments[0], b"src", *arguments[1:])
            operands = [self._values[whole], self._values[name], *part.inputs[1:]]
            node = self.graph.add(op, operands, self._names.node_name(f"{whole}/{name}", op), attrs=attrs)
            spec = self._spec(whole)
            set_spec(node.output(), spec.dtype, spec.shape)
            self._values[whole] = node.output()
            name = whole

    def _results(self, output: object) -> list[tuple[str, TensorSpec]]:
        """Names of what an op gives, "" for a place that is empty, and what the file says of them."""
        kind, content = only_field(output, "an output")
        if kind == "as_tensor":
            name = as_text(as_object(content, "an output").get("name"), "an output's name")
            return [(name, self._spec(name))]
        if kind == "as_tensors":
            return [r for each in as_list(content, "outputs") for r in self._results({"as_tensor": each})]
        if kind in _NUMBERS:
            sub, source = only_field(content, "an output")
            # Such a number can be a known one, which whoever reads it has in his own arguments.
            name = as_text(source, "an output's name") if sub == "as_name" else ""
            return [(name, TensorSpec(_NUMBERS[kind], ()))]
        if kind == "as_none":
            return [("", UNKNOWN)]
        raise impossible("it gives something", kind)


_PARTS = {f"{ATEN.prefix}{op}": f"{ATEN.prefix}{back}" for op, back in
          (("slice.Tensor", "slice_scatter"), ("select.int", "select_scatter"))}  # fmt: skip
"""Ops that take a part out, and those that put it back."""
_BY_MEMORY = frozenset({"as_strided", "as_strided_copy"})
"""Ops that read elements by their places in memory, whatever the shape."""
_NUMBERS: Mapping[str, DType] = {"as_sym_int": INT64, "as_sym_float": DOUBLE, "as_sym_bool": BOOL}
