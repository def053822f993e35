"""Walks a graph and applies one target's lowering rules: the part that all targets share.

A rule that refuses its node is no error yet: nobody may read the result. An operator REFUSED takes the node's
place, with the refusal as its option. Dead operators are removed once the outputs are known; the first
REFUSED that is left then is why the graph cannot be lowered.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, cast

import numpy as np

from thinflow.errors import ThinflowError, UnsupportedOp
from thinflow.ir.graph import Node, Value
from thinflow.ir.types import DType, TensorSpec, dtype
from thinflow.lower import rules
from thinflow.lower.building import CUT_OFF, REFUSED, B
from thinflow.lower.slots import S
from thinflow.ops import registry
from thinflow.ops.traits import Trait, has
from thinflow.program.model import Operator
from thinflow.typing import Array

logger = logging.getLogger(__name__)

Specs = Mapping[Value, TensorSpec]

_MAX_FOLDED_BYTES = 1 << 20
"""A constant computed here may be larger only if it is not much larger than what it is computed from."""


@dataclass(frozen=True)
class Vocabulary(Generic[B]):
    """An op vocabulary.

    Attributes:
        name: as rules are registered, which is the name of their package ("onnx").
        label: as users know it ("ONNX").
        builder: makes a builder, given the specs of values where these do not have them.
    """

    name: str
    label: str
    builder: Callable[[Specs | None], B]


def needed_nodes(outputs: Iterable[Value], inputs: Iterable[Value]) -> list[Node]:
    """The nodes that have to run, each after those it reads, control edges aside; loops are cut."""
    fed = set(inputs)
    order: list[Node] = []
    seen: set[Node] = set()
    stack: list[tuple[Node, bool]] = [(v.node, False) for v in reversed(list(outputs)) if v not in fed]
    while stack:
        node, is_done = stack.pop()
        if is_done:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            # Reversed, so that the first input is computed first: the order that a recursion would give.
            stack += [(v.node, False) for v in reversed(node.inputs) if v not in fed and v.node not in seen]
    return order


def first_refusal(operators: Iterable[Operator[Any]]) -> UnsupportedOp | None:
    """The first refusal among what is left of the operators."""
    return next((o.options["error"] for o in operators if o.code == REFUSED), None)


def raise_refusals(operators: Iterable[Operator[Any]]) -> None:
    """Raise the first refusal among what is left of the operators."""
    error = first_refusal(operators)
    if error is not None:
        raise error


class Lowering(Generic[B, S]):
    """The state of one run: which tensor stands for which value.

    Attributes:
        fed: value -> the input of the program that it is.
    """

    def __init__(
        self, target: Vocabulary[B], specs: Specs | None = None, constants: Lowering[B, S] | None = None
    ) -> None:
        self.target = target
        self.specs = specs
        self.builder = target.builder(specs)
        self.tensors: dict[Value, S] = {}
        self.fed: dict[Value, Any] = {}
        self._unknown: set[Value] = set()  # looked into, and no constants
        self._constants = constants

    def feed(self, value: Value) -> None:
        """Make a value an input of the program."""
        self.builder.begin(value.node)
        try:
            self.fed[value] = self.tensors[value] = self.builder.value(value)
        except UnsupportedOp as error:
            raise error.at(value.node.where) from error

    def provide(self, value: Value) -> None:
        """Make a value readable for a trial: as a constant if it is one, else as if it were fed."""
        assert self._constants is not None
        if value in self.tensors:
            return
        known = self._constants.constant(value)
        self.builder.begin(value.node)
        if known is not None:
            self.tensors[value] = known
            return
        try:
            self.tensors[value] = self.builder.value(value)
        except UnsupportedOp as error:
            self._refuse(value.node, error, {value.port})

    def constant(self, value: Value) -> S | None:
        """The constant a value is, if its whole past is constant."""
        if value not in self.tensors and value not in self._unknown:
            # What has been looked at before is not walked again, so that all trials together stay O(nodes).
            for node in needed_nodes([value], self.tensors.keys() | self._unknown):
                self.builder.begin(node)
                folded = self._folded(node) or {}
                # Port 0 is settled even without a reader: `value` may be it.
                for port in {v.port for v in node.outputs} | {0}:
                    if port in folded:
                        self.tensors[node.output(port)] = folded[port]
                    else:
                        self._unknown.add(node.output(port))
        return self.tensors.get(value)

    def read(self, value: Value) -> S:
        """The tensor that stands for a value."""
        tensor = self.tensors.get(value)
        if tensor is None:
            # A port the rule did not provide, or a node in a loop.
            form = f"output {value.port} has no {self.target.label} form"
            problem = form if value.port else "it is part of a loop"
            self._refuse(value.node, UnsupportedOp(problem, value.node.where), {value.port})
            tensor = self.tensors[value]
        return tensor

    def operand(self, node: Node, value: Value) -> S:
        """The tensor that the rule of a node is handed for an input."""
        return self.read(value)

    def lower(self, node: Node) -> None:
        """Emit what computes a node. A refusal is kept: it counts only if the result is read."""
        self.builder.begin(node)
        folded = self._folded(node)
        if folded is not None:
            for port, tensor in folded.items():
                # What was fed stays fed, even where the node could be computed.
                self.tensors.setdefault(node.output(port), tensor)
            return
        self._refine(node)
        mark = self.mark()
        try:
            for port, tensor in enumerate(self._apply(node)):
                self.tensors.setdefault(node.output(port), tensor)
        except UnsupportedOp as error:
            self.undo(mark)
            self._refuse(node, error, {v.port for v in node.outputs} | {0})

    def mark(self) -> tuple[int, ...]:
        """A mark of how much has been emitted by now, for `undo`."""
        return (len(self.builder.operators),)

    def undo(self, mark: tuple[int, ...]) -> None:
        """Drop what has been emitted since."""
        del self.builder.operators[mark[0] :]

    def _apply(self, node: Node) -> tuple[Any, ...]:
        rule = rules.find(node.op, self.target.name)
        if rule is not None:
            inputs = [self.operand(node, v) for v in node.inputs]
            self.builder.begin(node)
            return rules.apply(rule, self.builder, node, inputs)
        if has(node.op, Trait.PASSES_THROUGH) and node.inputs:
            return (self.read(node.inputs[0]),)
        if has(node.op, Trait.FED):
            raise UnsupportedOp("nothing feeds it", node.where, hint=f"name '{node.name}' among the inputs")
        if has(node.op, Trait.VARIABLE):
            raise UnsupportedOp(
                "its value is in a checkpoint: the graph was never frozen",
                node.where,
                hint="give the checkpoint's prefix: --checkpoint PREFIX",
            )
        # What nothing knows no engine runs: mostly an op from a library that TensorFlow loaded.
        is_known = registry.find(node.op) is not None
        add = f"let the reference engine run it, or add a rule in lower/{self.target.name}/"
        raise UnsupportedOp(
            f"{self.target.label} has no form of {node.op}", node.where, hint=add if is_known else CUT_OFF
        )

    def _refine(self, node: Node) -> None:
        """Infer the node's shapes again where they are not complete: constants folded here may tell more."""
        definition = registry.find(node.op)
        inputs = [t for v in node.inputs if (t := self.tensors.get(v)) is not None]
        # Complete shapes cannot get better.
        if (
            definition is None
            or len(inputs) < len(node.inputs)
            or all(self.builder.spec(v).is_static for v in node.outputs)
        ):
            return
        try:
            specs = registry.call_infer(definition, [self.builder.tensor_spec(t) for t in inputs], node.attrs)
        # Files may hold anything, and shapes are help only: without them the rule itself decides.
        except (ThinflowError, *registry.RULE_ERRORS):
            logger.debug("shape rule of %s failed", node.where, exc_info=True)
            return
        for value in node.outputs:
            if value.port < len(specs):
                self.builder.refine(value, specs[value.port])

    def _refuse(self, node: Node, error: UnsupportedOp, ports: set[int]) -> None:
        self.builder.begin(node)
        # Its inputs stay attached, so that the first refusal on the way is the one that is told.
        inputs = [self.tensors[v] for v in node.inputs if v in self.tensors]
        for port, tensor in enumerate(self.builder.refuse(error, max(ports) + 1, inputs)):
            if port in ports:
                self.tensors.setdefault(node.output(port), tensor)

    # --- constants ----------------------------------------------------------------------------------------

    def _folded(self, node: Node) -> dict[int, S] | None:
        """The node's outputs as constants, if they are that."""
        if node.tensor is not None:
            return {0: self.builder.constant(node.output(), node.tensor.numpy(), node.tensor.dtype)}
        inputs = [t for v in node.inputs if (t := self.tensors.get(v)) is not None and t.is_constant]
        if inputs and len(inputs) == len(node.inputs):
            results = self._evaluated(node, inputs)
            if results is not None:
                return results
        # Only ports that somebody reads have to be known.
        ports = [v for v in node.outputs if v.uses or v.is_graph_output]
        found = {v.port: t for v in ports if (t := self._known(v)) is not None}
        return found if found and len(found) == len(ports) else None

    def _known(self, value: Value) -> S | None:
        """A value whose elements shape inference settled, such as the shape of a fixed-size input."""
        spec = self.builder.spec(value)
        if spec.ints is None or not spec.is_static or spec.dtype is None or spec.dtype.kind not in "iub":
            return None
        array = np.array(spec.ints, spec.dtype.numpy()).reshape([n or 0 for n in spec.shape or ()])
        return cast("S", self.builder.constant(value, array, spec.dtype))

    def _evaluated(self, node: Node, inputs: list[Any]) -> dict[int, S] | None:
        """The outputs by the op's kernel; None if it has none, is no function, or makes something huge."""
        definition = registry.find(node.op)
        if definition is None or definition.has(Trait.STATEFUL):
            return None
        # The tensor itself, under its own name: a copy would be written to the file twice.
        if definition.has(Trait.PASSES_THROUGH):
            return {0: inputs[0]}
        if definition.kernel is None or not self._is_affordable(node, inputs):
            return None
        try:
            results = registry.call_kernel(definition, [t.array() for t in inputs], node.attrs)
        except (ThinflowError, *registry.RULE_ERRORS):
            logger.debug("%s could not be evaluated", node.where, exc_info=True)
            return None
        if any(isinstance(result, registry.Handle) for result in results):
            return None
        folded = {}
        for port, result in enumerate(results):
            value = node.output(port)
            array = np.asarray(result)
            folded[port] = self.builder.constant(value, array, self._element(value, array))
        return folded

    def _element(self, value: Value, array: Array) -> DType:
        found = self.builder.spec(value).dtype
        # The graph's own type: qint8 and int8 are one to numpy.
        return found if found is not None and found.numpy_name else dtype(array.dtype)

    def _is_affordable(self, node: Node, inputs: list[Any]) -> bool:
        read = sum(np.asarray(t.array()).nbytes for t in inputs)
        specs = [self.builder.spec(node.output(port)) for port in range(max(len(node.outputs), 1))]
        sizes = [spec.size_bytes for spec in specs]
        written = sum(size or 0 for size in sizes)
        # What a small Fill or Tile blows up stays computed; 8 lets a cast of bytes to the widest numbers
        # pass.
        return written <= max(_MAX_FOLDED_BYTES, 8 * read)
