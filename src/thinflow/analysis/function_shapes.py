"""Static shapes of what library functions give, from their bodies and what is known of the arguments.

Results of shape rules are remembered, so that nodes that are alike are asked about once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from thinflow.errors import ThinflowError
from thinflow.ir.attrs import Attr, FunctionAttr, attr_key
from thinflow.ir.function import Function
from thinflow.ir.graph import Graph, Node, Value, library_of
from thinflow.ir.types import UNKNOWN, TensorSpec, common_shape
from thinflow.ops import registry
from thinflow.ops.registry import OpDef

MAX_RESULTS = 1 << 16
"""Results remembered; a graph without repetition gains nothing from more."""


Specs = tuple[TensorSpec, ...]


class RuleResults:
    """Results of shape rules by op, attributes that the rule reads, and input specs.

    A rule sees nothing else, so the same again gives the same. Inputs are told apart by identity, which is
    cheap: equal results are one object, so nodes in a row soon have the very same inputs.
    """

    def __init__(self) -> None:
        # With each result its inputs: as long as they live, no other spec has their identity.
        self._results: dict[Hashable, tuple[Specs, Sequence[TensorSpec]]] = {}
        self._specs: dict[TensorSpec, TensorSpec] = {}
        self._read: dict[type[OpDef], tuple[str, ...]] = {}

    def of(
        self, definition: type[OpDef], inputs: Sequence[TensorSpec], attrs: Mapping[str, Any]
    ) -> tuple[TensorSpec, ...]:
        """As `registry.call_infer`, which raises what the rule raises; failures are not remembered."""
        read = self._read.get(definition)
        if read is None:
            rule = definition.infer
            read = self._read[definition] = () if rule is None else tuple(registry.signature(rule).attrs)
        key = (definition, *map(id, inputs), *map(attrs.get, read))
        try:
            known = self._results.get(key)
        except TypeError:  # an attribute that has no hash
            return registry.call_infer(definition, inputs, attrs)
        if known is not None:
            return known[0]
        results = registry.call_infer(definition, inputs, attrs)
        if len(self._results) < MAX_RESULTS:
            # Equal results as one object, since keys go by identity.
            results = tuple(self._specs.setdefault(spec, spec) for spec in results)
            self._results[key] = results, inputs
        return results


# --- functions ----------------------------------------------------------------------------------------------


MAX_BODIES = 1000
"""Bodies looked into for one graph; what further calls give stays unknown."""
_MAX_DEPTH = 20
_MAX_ITERATIONS = 5  # of a while loop, until the shapes of its variables settle

InferBody = Callable[[Graph, Mapping[Value, TensorSpec], "CallShapes"], None]


class CallShapes:
    """Remembers what functions give, so that one called twice alike is looked into once.

    Args:
        infer_body: sets the specs of a body's values from those of its arguments; nested calls it asks here.

    Attributes:
        rules: what the rules of ops gave so far, in the graph and in all bodies.
    """

    def __init__(self, infer_body: InferBody) -> None:
        self._infer_body = infer_body
        self.rules = RuleResults()
        self._known: dict[Hashable, Specs | None] = {}
        self._instances: dict[Hashable, Function] = {}
        self._depth = 0

    def results(self, node: Node, inputs: Sequence[TensorSpec]) -> Specs | None:
        """Specs of a node's outputs if it calls functions and something can be known; else None."""
        functions = library_of(node)
        if not functions:
            return None
        if node.op in functions:
            return self._body(functions, FunctionAttr(node.op, node.attrs), inputs)
        get = node.attrs_view.get
        match node.op:
            case "PartitionedCall" | "StatefulPartitionedCall":
                return self._body(functions, get("f"), inputs)
            case "If" | "StatelessIf":
                return self._any_of(functions, (get("then_branch"), get("else_branch")), inputs[1:])
            case "Case" | "StatelessCase":
                branches = get("branches")
                return self._any_of(functions, branches if isinstance(branches, tuple) else (), inputs[1:])
            case "While" | "StatelessWhile":
                return self._loop(functions, get("body"), inputs)
            case _:
                return None

    def _any_of(
        self, functions: Mapping[str, Function], branches: Sequence[Attr | None], inputs: Sequence[TensorSpec]
    ) -> Specs | None:
        # Which branch runs is not known: only what holds of the results of all of them does.
        joined: Specs | None = None
        for branch in branches:
            specs = self._body(functions, branch, inputs)
            if specs is None or (joined is not None and len(joined) != len(specs)):
                return None
            joined = specs if joined is None else _joined(joined, specs)
        return joined

    def _loop(
        self, functions: Mapping[str, Function], body: Attr | None, inputs: Sequence[TensorSpec]
    ) -> Specs | None:
        """Specs that hold before the first iteration and after every other."""
        specs = tuple(inputs)
        # A size that an iteration changes becomes unknown, and may make others unknown in the
        # next, until nothing changes.
        for _ in range(_MAX_ITERATIONS):
            after = self._body(functions, body, specs)
            if after is None or len(after) != len(specs):
                return None
            before, specs = specs, _joined(specs, after)
            if specs == before:
                return specs
        return None

    def _body(
        self, functions: Mapping[str, Function], called: Attr | None, inputs: Sequence[TensorSpec]
    ) -> Specs | None:
        if not isinstance(called, FunctionAttr) or called.name not in functions:
            return None
        instance = attr_key(called)
        # By attributes and by what is known of the arguments: either decides the shapes inside.
        key = instance, tuple(inputs)
        if key not in self._known:
            if len(self._known) >= MAX_BODIES or self._depth >= _MAX_DEPTH:
                return None
            self._known[key] = None  # what a function that calls itself sees
            self._depth += 1
            try:
                if instance not in self._instances:
                    self._instances[instance] = functions[called.name].instantiated(called.attrs)
                self._known[key] = self._looked_into(self._instances[instance], inputs)
            except ThinflowError:
                return None  # a damaged body says nothing; running it says what is wrong
            finally:
                self._depth -= 1
        return self._known[key]

    def _looked_into(self, function: Function, inputs: Sequence[TensorSpec]) -> Specs | None:
        if len(inputs) != len(function.inputs):
            return None
        self._infer_body(function.graph, dict(zip(function.inputs, inputs, strict=True)), self)
        return tuple(value.spec for value in function.outputs)


def completed(specs: Sequence[TensorSpec], others: Sequence[TensorSpec]) -> Specs:
    """Port by port, the first spec, with the second where it knows no type or no rank."""
    return tuple(
        TensorSpec(a.dtype or b.dtype, b.shape if a.shape is None else a.shape, a.elements, a.items)
        for a, b in zip_longest(specs, others, fillvalue=UNKNOWN)
    )


def _joined(first: Specs, second: Specs) -> Specs:
    """Port by port, what holds of both."""
    return tuple(
        TensorSpec(
            a.dtype if a.dtype == b.dtype else None,
            common_shape(a.shape, b.shape),
            a.elements if a.elements == b.elements else None,
            None if a.items is None or b.items is None else a.items.joined(b.items),
        )
        for a, b in zip(first, second, strict=True)
    )
