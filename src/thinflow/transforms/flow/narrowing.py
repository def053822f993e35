"""Dead arguments and results of functions: narrower functions, copied where others call them; and calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from thinflow.ir.attrs import Attr, FunctionAttr, attr_key
from thinflow.ir.function import ARGUMENT, Function, mentioned
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.ledger import Entry
from thinflow.ir.order import ancestors, execution_order
from thinflow.ir.types import DType
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.edits import sweep
from thinflow.rewrite.rule import Refuse, Trace
from thinflow.transforms.flow.dependence import (
    CALLING_OPS,
    Dependence,
    Needs,
    bits,
    callees,
)


class Narrowing:
    """Takes out of calls what nobody needs.

    Args:
        graph: the main graph.
        endless: names of functions whose calls never end.
        trace: for what is done.

    Attributes:
        new_functions: changed and new ones, by name.
    """

    def __init__(self, graph: Graph, endless: set[str], names: Sequence[str], trace: Trace) -> None:
        self.new_functions: dict[str, Function] = {}
        self._library, self._trace = graph.functions, trace
        self._dependence = Dependence(self.find, endless)
        self._mentions: Counter[str] = Counter()
        for body in (graph, *(self._library[name].graph for name in names)):
            self._count(body)
        self._twins: dict[object, str] = {}

    def find(self, name: str) -> Function | None:
        """A function as it is by now."""
        # What was narrowed already goes before what the file holds.
        return self.new_functions.get(name) or self._library.get(name)

    def graph(self, graph: Graph, where: str = "") -> bool:
        """Narrow every call of a graph that can be, those that read the results of others first.

        Args:
            graph: its outputs are what is needed of it.
            where: the function it is the body of; "" for the main graph, whose outputs keep their names.

        Returns:
            Whether anything changed.
        """
        changed = False
        # Once a reader needs less, what it reads may do with less as well.
        for node in reversed(execution_order(graph)):
            if node.graph is not graph or not has(node.op, CALLING_OPS):
                continue
            name = f"{where}/{node.name}" if where else node.name
            try:
                needs = self._dependence.of_call(node)
                if has(node.op, Trait.WHILE) and needs.is_quiet and self._pass_on(node):
                    text = "who reads a variable that stays the same reads what it starts with"
                    self._trace.changes.append(Entry(name, node.op, text))
                    changed = True
                changed |= self._call(graph, node, needs, name, is_main=not where)
            except Refuse as refusal:
                self._trace.leave(node, refusal.reason)
        return changed

    def body(self, name: str) -> None:
        """Narrow the calls inside a function, which itself takes and gives what it did."""
        function = self.find(name)
        if function is None or not any(has(n.op, CALLING_OPS) for n in function.graph):
            return
        inputs, outputs = (list(range(len(side))) for side in (function.inputs, function.outputs))
        narrower, changed = self._narrowed(function, inputs, outputs, name)
        if changed:
            self.new_functions[name] = narrower

    # --- one call -----------------------------------------------------------------------------------------

    def _call(self, graph: Graph, node: Node, needs: Needs, name: str, *, is_main: bool) -> bool:
        results = len(needs.results)
        asked = [v.port for v in node.outputs if v.is_graph_output or v.is_graph_input]
        read = {v.port for v in node.outputs if v.uses} | set(asked)
        if max(read, default=0) >= max(results, 1):
            raise Refuse(f"output {max(read)} is used, but it gives {results} values")
        inputs, outputs = self._kept(node, needs, read)
        if asked and is_main:
            # An output that is asked for by `name:port` keeps its number only if all before it stay.
            wide = self._kept(node, needs, read | set(range(max(asked))))
            if wide != (inputs, outputs):
                last = node.output(max(asked)).name
                self._trace.leave(node, f"'{last}' is asked for by this name, so that results before it stay")
            inputs, outputs = wide
        whole = len(inputs) == len(node.inputs) and len(outputs) == results
        # A loop with no variables is not valid.
        if whole or (has(node.op, Trait.WHILE) and not inputs):
            return False
        refuse_untyped(node, results)
        text = summary(node, inputs, outputs, results)
        functions = self._functions(node, inputs, outputs)
        self._trace.changes.append(Entry(name, node.op, text))
        rewire(graph, node, functions, inputs, outputs, results)
        return True

    def _pass_on(self, node: Node) -> bool:
        """Let readers of a variable that stays the same read what it starts with."""
        body = self._dependence.called(callees(node)[1])
        done = False
        for number, (argument, result) in enumerate(zip(body.inputs, body.outputs, strict=True)):
            # Whatever number of iterations, the result is what the loop began with.
            if _source(result) is argument and node.output(number).uses:
                done |= bool(node.output(number).replace_uses(node.inputs[number]))
        return done

    @staticmethod
    def _kept(node: Node, needs: Needs, read: set[int]) -> tuple[list[int], list[int]]:
        """The inputs and results that stay if these results are read."""
        mask = needs.always
        for port in read:
            mask |= needs.results[port]
        inputs = list(bits(mask))
        # A loop's results are the next values of its variables.
        return (inputs, inputs) if has(node.op, Trait.WHILE) else (inputs, sorted(read))

    def _functions(self, node: Node, inputs: list[int], outputs: list[int]) -> list[FunctionAttr]:
        """The functions that a node calls, narrowed.

        Raises:
            Refuse: one of them needs more; nothing was changed then.
        """
        before, counted, changes = dict(self.new_functions), self._mentions.copy(), len(self._trace.changes)
        try:
            if has(node.op, Trait.WHILE):
                condition, body = callees(node)
                return [self._function(condition, inputs, [0]), self._function(body, inputs, inputs)]
            if has(node.op, Trait.CALL):
                return [self._function(callees(node)[0], inputs, outputs)]
            # Input 0 is the condition, so argument i - 1 of the branches is input i.
            own = [i - 1 for i in inputs if i]
            return [self._function(attr, own, outputs) for attr in callees(node)]
        except Refuse:
            # A function narrowed before another refused must not be left behind.
            self.new_functions, self._mentions = before, counted
            del self._trace.changes[changes:]
            raise

    # --- one function -------------------------------------------------------------------------------------

    def _function(self, attr: Attr | None, inputs: list[int], outputs: list[int]) -> FunctionAttr:
        """The name of a function that takes and gives only these; the same one if nobody else calls it."""
        assert isinstance(attr, FunctionAttr)
        function = self._dependence.called(attr)
        if len(inputs) == len(function.inputs) and len(outputs) == len(function.outputs):
            return attr
        key = (attr_key(attr), tuple(inputs), tuple(outputs))
        # The same narrowing of the same function was made for another call.
        if key in self._twins and self._twins[key] in self.new_functions:
            self._mentions[attr.name] -= 1
            self._mentions[self._twins[key]] += 1
            return FunctionAttr(self._twins[key])
        name = attr.name
        # Others still call it as it is.
        is_shared = self._mentions[name] > 1
        if is_shared:
            # The copy mentions what the original mentions once more.
            self._count(function.graph)
            self._mentions[name] -= 1
            name = self._unique(name)
            self._mentions[name] += 1
        self.new_functions[name] = self._narrowed(function, inputs, outputs, name)[0]
        if is_shared:
            self._twins[key] = name
        return FunctionAttr(name)

    def _narrowed(
        self, function: Function, inputs: list[int], outputs: list[int], name: str
    ) -> tuple[Function, bool]:
        """A copy that takes and gives only these, and whether anything inside it changed."""
        copy = function.copied()
        body = copy.graph
        # What has an effect is not to go, and not to give results for that alone.
        effects = list(dict.fromkeys([*copy.control_outputs, *self._dependence.doing(body)]))
        holder = body.add("NoOp", control_inputs=effects)
        body.outputs = [*(copy.outputs[i] for i in outputs), holder.output()]
        needed = ancestors([v.node for v in body.outputs])
        body.remove(*(n for n in body if n not in needed and n.op != ARGUMENT))
        changed = self.graph(body, name)
        results = body.outputs[:-1]
        body.outputs = results
        body.remove(holder)
        if len(inputs) == len(copy.inputs) and len(outputs) == len(copy.outputs):
            return replace(copy, name=name, outputs=results), changed
        arguments = self._arguments(body, copy.inputs, inputs, results)
        narrower = replace(
            copy,
            name=name,
            inputs=arguments,
            outputs=results,
            control_outputs=effects,
            input_types=_chosen(copy.input_types, inputs),
            output_types=_chosen(copy.output_types, outputs),
            # It lists as many shapes as there were arguments.
            attrs={k: v for k, v in copy.attrs.items() if k != "_input_shapes"},
            source=None,
            specialized=None,
        )
        return narrower, True

    @staticmethod
    def _arguments(
        body: Graph, before: Sequence[Value], chosen: list[int], results: Sequence[Value]
    ) -> list[Value]:
        """The arguments that stay; the others go."""
        kept = [before[i] for i in chosen]
        gone = [v for v in before if v not in set(kept)]
        needed = next((v for v in gone if v.uses or v.node.control_outputs or v in results), None)
        if needed is not None:
            raise Refuse(f"'{needed.name}' is needed after all")
        body.inputs = kept
        body.remove(*(v.node for v in gone))
        for number, value in enumerate(kept):
            # `_Arg` nodes carry their number.
            if "index" in value.node.attrs:
                value.node.attrs["index"] = number
        return kept

    def _count(self, body: Graph) -> None:
        for node in body:
            self._mentions.update(name for name in mentioned(node) if name in self._library)

    def _unique(self, name: str) -> str:
        number = 1
        while f"{name}_{number}" in self.new_functions or f"{name}_{number}" in self._library:
            number += 1
        return f"{name}_{number}"


def _chosen(types: Sequence[DType | None], places: list[int]) -> list[DType | None]:
    return [types[i] for i in places] if types else []


def _source(value: Value) -> Value:
    while value.node.op == "Identity" and value.node.inputs and not value.node.control_inputs:
        value = value.node.inputs[0]
    return value


_PER_OUTPUT = ("Tout", "output_shapes", "_output_shapes")
_HINTS = ("_num_original_outputs", "_read_only_resource_inputs")
"""Annotations that count outputs or inputs, for who takes gradients or orders effects."""


def summary(node: Node, inputs: list[int], outputs: list[int], results: int) -> str:
    """A sentence for the ledger about what is to become of a call."""
    before = len(node.inputs)
    if has(node.op, Trait.WHILE):
        return f"loses {before - len(inputs)} of {before} variables, which nothing needs"
    lost = [
        f"{count} of {total} {what}"
        for count, total, what in (
            (results - len(outputs), results, "results"),
            (before - len(inputs), before, "inputs"),
        )
        if count
    ]
    return f"loses {' and '.join(lost)}, which nothing needs"


def rewire(
    graph: Graph,
    node: Node,
    functions: Sequence[FunctionAttr],
    inputs: list[int],
    outputs: list[int],
    results: int,
) -> None:
    """Let a node call narrower functions: its attributes, inputs and outputs."""
    offset = 1 if has(node.op, Trait.IF | Trait.CASE) else 0
    _name_functions(node, functions)
    for key in _HINTS:
        node.attrs.pop(key, None)
    _choose(node, "T" if has(node.op, Trait.WHILE) else "Tin", [i - offset for i in inputs if i >= offset])
    for key in _PER_OUTPUT:
        listed = node.attrs.get(key)
        # The list may be empty, as that of shapes is where nobody stated them.
        if isinstance(listed, tuple) and len(listed) == results:
            _choose(node, key, outputs)
    lost = [v.node for i, v in enumerate(node.inputs) if i not in set(inputs)]
    node.set_inputs([node.inputs[i] for i in inputs])
    places = {node.output(old): node.output(new) for new, old in enumerate(outputs)}
    specs = [old.spec for old in places]
    declared = graph.outputs
    # Upwards: results only move to lower ports, whose own readers have moved or were none.
    for old, new in places.items():
        if old is not new:
            old.replace_uses(new)
    if any(places.get(v, v) is not v for v in declared):
        graph.outputs = [places.get(v, v) for v in declared]
    # Shapes were inferred for the old ports.
    for new, spec in zip(places.values(), specs, strict=True):
        new.spec = spec
    sweep(graph, lost)


def _name_functions(node: Node, functions: Sequence[FunctionAttr]) -> None:
    if has(node.op, Trait.WHILE):
        node.attrs["cond"], node.attrs["body"] = functions
    elif has(node.op, Trait.IF):
        node.attrs["then_branch"], node.attrs["else_branch"] = functions
    elif has(node.op, Trait.CASE):
        node.attrs["branches"] = tuple(functions)
    else:
        (node.attrs["f"],) = functions


def refuse_untyped(node: Node, results: int) -> None:
    """Raise Refuse if a list of types is not as long as what it is about."""
    count = len(node.inputs) - (1 if has(node.op, Trait.IF | Trait.CASE) else 0)
    expected = {"T": count} if has(node.op, Trait.WHILE) else {"Tin": count, "Tout": results}
    for key, length in expected.items():
        listed = node.attrs.get(key, ())
        if listed != () and not (isinstance(listed, tuple) and len(listed) == length):
            raise Refuse(f"its attribute {key} does not list {length} types")


def _choose(node: Node, key: str, places: list[int]) -> None:
    listed = node.attrs.get(key)
    if isinstance(listed, tuple) and all(i < len(listed) for i in places):
        node.attrs[key] = tuple(listed[i] for i in places)
