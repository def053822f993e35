"""Values in the place of variables: where a handle went, the value goes, through loops, conditions and calls.

w = VarHandleOp            ->  w = Const
r = ReadVariableOp(w)      ->  r = Identity(w)
g = ResourceGather(w, i)   ->  g = GatherV2(w, i, axis)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from thinflow.errors import GraphError, UnsupportedOp
from thinflow.ir.attrs import Attr, FunctionAttr, ShapeAttr
from thinflow.ir.function import Edited, Function
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import DType, TensorSpec
from thinflow.load.frozen import place_for
from thinflow.load.read_ops import ORIGIN, READERS, drop_references, handed_on
from thinflow.ops.traits import Trait, has

_MAX_DEPTH = 100
"""Functions inside functions beyond this are taken to be endless."""

Held = Mapping[Value, TensorSpec]
"""Values that were handles, and what of."""


@dataclass(frozen=True)
class _Call:
    """Places in an op that calls functions.

    Attributes:
        functions: the attributes that name them.
        first: the first input that is an argument.
        types: the attribute with the types of the arguments.
        results: the attribute with the types of the results.
    """

    functions: tuple[str, ...]
    first: int
    types: str
    results: str


_PLAIN = _Call(("f",), 0, "Tin", "Tout")
_CONDITION = _Call(("then_branch", "else_branch"), 1, "Tin", "Tout")
_CASE = _Call(("branches",), 1, "Tin", "Tout")
_LOOP = _Call(("cond", "body"), 0, "T", "T")
_CALLS = {Trait.CALL: _PLAIN, Trait.IF: _CONDITION, Trait.CASE: _CASE, Trait.WHILE: _LOOP}


def replace_variables(graph: Graph, values: Mapping[Node, Tensor], fed: Collection[str] = ()) -> None:
    """Replace variables by constants of the same names, and whatever reads them by what reads values.

    Args:
        graph: the graph, edited in place; functions that get handles are converted into new ones.
        values: variable -> its value. The numbers are not read.
        fed: names of variables that become inputs, whose values each run is given.

    Raises:
        UnsupportedOp: something else than reading is done to a variable; names the node.
    """
    handles: dict[Value, TensorSpec] = {}
    for node, tensor in values.items():
        attrs: dict[str, Attr] = {"dtype": tensor.dtype, "value": tensor}
        constant = (
            place_for(graph, node, tensor)
            if node.name in fed
            else graph.add("Const", name=node.name, attrs=attrs, before=node)
        )
        constant.origin = ORIGIN
        # Other variables are references: their readers take a value, but for those that
        # `drop_references` renames.
        is_handle = node.op == "VarHandleOp"
        graph.replace(node, constant)
        constant.device = ""  # where the variable lived says nothing of who reads a constant
        constant.output().spec = TensorSpec(tensor.dtype, tensor.shape)
        if is_handle:
            handles[constant.output()] = constant.output().spec
        else:
            drop_references(constant.output())
    _Conversion(graph).run(handles)


class _Conversion:
    """The way of handles through a graph and the functions it calls."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._functions: dict[str, Function] = {}
        self._results: dict[str, dict[int, TensorSpec]] = {}
        self._names: dict[object, str] = {}
        self._originals: dict[str, str] = {}

    def run(self, handles: Held) -> None:
        self._follow(self._graph, handles, 0)
        if self._functions:
            self._graph.functions = Edited(self._graph.functions, self._functions)

    def _follow(self, graph: Graph, handles: Held, depth: int) -> dict[Value, TensorSpec]:
        """Convert whatever reads handles; all that were found."""
        if depth > _MAX_DEPTH:
            raise GraphError(
                f"functions call each other {depth} deep", hint="the model calls itself for ever"
            )
        known = dict(handles)
        pending = list(handles)
        while pending:
            value = pending.pop()
            for node in dict.fromkeys(value.readers):
                for result, spec in self._convert(graph, node, known, depth).items():
                    result.spec = spec
                    # Loops lead back to a value that is known; following it again would never end.
                    if result not in known:
                        known[result] = spec
                        pending.append(result)
        return known

    def _convert(self, graph: Graph, node: Node, known: Held, depth: int) -> dict[Value, TensorSpec]:
        """Make a reader take values for handles; those of its results that are values by now, too."""
        if node.origin == ORIGIN:  # reached once more, through another of its handles
            return {}
        if node.op in READERS:
            READERS[node.op](graph, node, known[node.inputs[0]])
            return {}
        if handed := _passed_on(node, known):
            return handed
        call = next((call for trait, call in _CALLS.items() if has(node.op, trait)), None)
        if call is not None:
            return self._convert_call(node, call, known, depth)
        variable = next(v for v in node.inputs if v in known)
        raise UnsupportedOp(
            f"it uses the variable '{variable.name}' in a way that a constant does not allow",
            node.where,
            "choose outputs that do not change variables",
        )

    def _convert_call(self, node: Node, call: _Call, known: Held, depth: int) -> dict[Value, TensorSpec]:
        inputs = list(enumerate(node.inputs[call.first :]))
        held = {index: known[value] for index, value in inputs if value in known}
        if held:
            _set_types(node, call.types, held)
        returned: dict[int, TensorSpec] = {}
        for key in call.functions:
            attr = node.attrs.get(key)
            if isinstance(attr, FunctionAttr):
                name = self._function(attr.name, held, depth)
                node.attrs[key] = FunctionAttr(name, attr.attrs)
                returned |= self._results.get(name, {})
            elif isinstance(attr, tuple):
                names = [self._function(a.name, held, depth) for a in attr if isinstance(a, FunctionAttr)]
                node.attrs[key] = tuple(FunctionAttr(name) for name in names)
                for name in names:
                    returned |= self._results.get(name, {})
        if call is _LOOP:
            # The results of a loop are its arguments after the last iteration, of the same types.
            returned = dict(held)
            _set_loop_shapes(node, held)
        else:
            _set_types(node, call.results, returned)
        if held or returned:
            node.attrs.pop("_output_shapes", None)  # of handles, which are scalars
        return {node.output(port): spec for port, spec in returned.items()}

    def _function(self, name: str, held: Mapping[int, TensorSpec], depth: int) -> str:
        """The name of a copy of a function that takes values in the place of some handles."""
        name = self._originals.get(name, name)  # the call may have been reached through another argument
        # One copy for each set of arguments that are values now, and for each of their shapes.
        key = (name, tuple(sorted((i, str(s.dtype), s.shape) for i, s in held.items())))
        if key not in self._names:
            function = self._graph.functions.get(name)
            if function is None:
                raise GraphError(f"there is no function '{name}'", hint="the file is damaged")
            copy = self._fresh_name(name)
            # Noted before the body is converted, so that a function that calls itself finds its copy.
            self._names[key], self._originals[copy] = copy, name
            self._functions[copy] = self._converted(function, copy, held, depth)
        return self._names[key]

    def _converted(
        self, function: Function, name: str, held: Mapping[int, TensorSpec], depth: int
    ) -> Function:
        copy = replace(function.copied(), name=name)
        arguments = {copy.inputs[i]: spec for i, spec in held.items() if i < len(copy.inputs)}
        for argument, spec in arguments.items():
            assert spec.dtype is not None
            argument.node.attrs["T"] = spec.dtype
        known = self._follow(copy.graph, arguments, depth + 1)
        done = copy.settled()
        results = {i: known[value] for i, value in enumerate(done.outputs) if value in known}
        self._results[name] = results
        return replace(
            done,
            input_types=_with_types(done.input_types, held),
            output_types=_with_types(done.output_types, results),
        )

    def _fresh_name(self, name: str) -> str:
        number = 0
        while (fresh := f"{name}_frozen_{number}") in self._graph.functions or fresh in self._functions:
            number += 1
        return fresh


def _passed_on(node: Node, known: Held) -> dict[Value, TensorSpec]:
    """The outputs of a node that are the values which it hands on; its types become theirs."""
    held = {i: known[value] for i, value in enumerate(node.inputs) if value in known}
    handed = {output: spec for i, spec in held.items() for output in handed_on(node, i)}
    if handed:
        node.attrs.pop("_output_shapes", None)  # of handles, which are scalars
        if isinstance(node.attrs.get("T"), tuple):
            _set_types(node, "T", held)
        else:
            spec = next(iter(handed.values()))
            assert spec.dtype is not None
            node.attrs["T"] = spec.dtype
    return handed


def _set_types(node: Node, key: str, held: Mapping[int, TensorSpec]) -> None:
    types = node.attrs.get(key)
    if isinstance(types, tuple) and held:
        node.attrs[key] = tuple(held[i].dtype or t if i in held else t for i, t in enumerate(types))


def _set_loop_shapes(node: Node, held: Mapping[int, TensorSpec]) -> None:
    """A loop says which shapes its values have, for handles none."""
    shapes = node.attrs.get("output_shapes")
    if isinstance(shapes, tuple) and shapes:
        node.attrs["output_shapes"] = tuple(
            ShapeAttr(held[i].shape) if i in held else s for i, s in enumerate(shapes)
        )


def _with_types(types: object, held: Mapping[int, TensorSpec]) -> list[DType | None]:
    listed = list(types) if isinstance(types, (list, tuple)) else []
    return [held[i].dtype if i in held else t for i, t in enumerate(listed)]
