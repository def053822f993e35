"""Dependence of a function's results on its arguments, through the loops, branches and calls in it.

With it dead arguments and results are found, which `narrowing` takes out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from thinflow.errors import ThinflowError
from thinflow.ir.attrs import Attr, FunctionAttr
from thinflow.ir.function import ARGUMENT, Function
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import NEXT_ITERATIONS, execution_order
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.rule import Refuse
from thinflow.transforms.shared.effects import is_stateless

CALLING_OPS = Trait.WHILE | Trait.IF | Trait.CASE | Trait.CALL
"""Ops that call functions in a way that is known here."""


def is_pure_call(node: Node) -> bool:
    """True if a loop or branching promises to do nothing but compute."""
    return has(node.op, Trait.WHILE | Trait.IF | Trait.CASE) and node.op.startswith("Stateless")


@dataclass(frozen=True)
class Needs:
    """Needs of results as bit sets: bit i stands for argument i, or for input i of a node.

    Attributes:
        results: for each result what it needs.
        always: what is needed whichever results are read: by conditions, and by what has effects.
        is_quiet: whether a call does nothing but compute.
    """

    results: list[int]
    always: int
    is_quiet: bool


def bits(mask: int) -> Iterator[int]:
    """The places of the bits that are set, lowest first."""
    while mask:
        # In two's complement x & -x is the lowest bit that is set.
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def transitive_closure(mask: int, following: Sequence[int]) -> int:
    """Loop variables with all that their next values need, iteration after iteration."""
    waiting = mask
    # Only what is new is followed, so each variable is looked at once.
    while waiting:
        reached = 0
        for place in bits(waiting):
            reached |= following[place]
        waiting = reached & ~mask
        mask |= waiting
    return mask


def callees(node: Node) -> list[Attr | None]:
    """The functions a node calls: of a loop the condition and the body, else each that may be called."""
    attrs = node.attrs_view
    if has(node.op, Trait.WHILE):
        return [attrs.get("cond"), attrs.get("body")]
    if has(node.op, Trait.IF):
        return [attrs.get("then_branch"), attrs.get("else_branch")]
    if has(node.op, Trait.CASE):
        branches = attrs.get("branches")
        return list(branches) if isinstance(branches, tuple) else []
    return [attrs.get("f")]


class Dependence:
    """Answers for the functions of one library.

    Args:
        find: a function by its name.
        endless: names of functions that call themselves, or others that do.
    """

    def __init__(self, find: Callable[[str], Function | None], endless: set[str]) -> None:
        self._find, self._endless = find, endless
        self._known: dict[Function, Needs] = {}

    def called(self, attr: Attr | None) -> Function:
        """The function that an attribute names, its own attributes filled in.

        Raises:
            Refuse: it cannot be looked into.
        """
        if not isinstance(attr, FunctionAttr):
            raise Refuse("it does not say which function it calls")
        if attr.name in self._endless:
            raise Refuse(f"'{attr.name}' calls itself, or a function that does")
        try:
            function = self._find(attr.name)
            if function is None:
                raise Refuse(f"there is no function '{attr.name}'")
            function = function.instantiated(attr.attrs)
        except ThinflowError as error:
            raise Refuse(f"'{attr.name}' cannot be read: {error.problem}") from error
        if function.graph.missing:
            lost = next(iter(function.graph.missing))
            raise Refuse(f"'{attr.name}' refers to a node '{lost}', which does not exist")
        return function

    def of_call(self, node: Node) -> Needs:
        """The inputs that each result of a node in `CALLING_OPS` needs.

        Raises:
            Refuse: a function cannot be looked into, or does not fit.
        """
        functions = [self.called(attr) for attr in callees(node)]
        if not functions:
            raise Refuse("it has no branches")
        # Input 0 of If and Case is the condition, and no argument.
        offset = 1 if has(node.op, Trait.IF | Trait.CASE) else 0
        for function in functions:
            if len(function.inputs) != len(node.inputs) - offset:
                raise Refuse(
                    f"'{function.name}' takes {len(function.inputs)} values, not {len(node.inputs) - offset}"
                )
        needs = [self.of_function(f) for f in functions]
        if has(node.op, Trait.WHILE):
            return self._of_loop(node, *needs)
        if len({len(n.results) for n in needs}) > 1:
            raise Refuse("its branches give different numbers of results")
        # Bit 0: the condition decides whichever result is read.
        always = offset
        for one in needs:
            always |= one.always << offset
        results = [always] * len(needs[0].results)
        for one in needs:
            results = [mask | own << offset for mask, own in zip(results, one.results, strict=True)]
        return Needs(results, always, all(n.is_quiet for n in needs))

    @staticmethod
    def _of_loop(node: Node, condition: Needs, body: Needs) -> Needs:
        count = len(node.inputs)
        if len(condition.results) != 1 or len(body.results) != count:
            raise Refuse(f"its body gives {len(body.results)} values, not {count}")
        # What the test reads matters in every iteration, and so does what makes its next value.
        always = transitive_closure(condition.results[0] | condition.always | body.always, body.results)
        results = [transitive_closure(always | 1 << i, body.results) for i in range(count)]
        return Needs(results, always, condition.is_quiet and body.is_quiet)

    def of_function(self, function: Function) -> Needs:
        """The arguments that each result of a function needs. O(nodes + edges), once per function.

        Raises:
            Refuse: its body has a cycle.
        """
        if function not in self._known:
            try:
                self._known[function] = self._of_body(function)
            except ThinflowError as error:
                raise Refuse(f"'{function.name}' cannot be read: {error.problem}") from error
        return self._known[function]

    def _of_body(self, function: Function) -> Needs:
        calls = {n: self._needs_of(n) for n in function.graph if has(n.op, CALLING_OPS)}
        masks = _masks(function.graph, function.inputs, calls)
        # What has an effect runs whatever is read of the function.
        doing = [n for n in function.graph if not self._is_quiet(n, calls)]
        always = 0
        for node in dict.fromkeys([*function.control_outputs, *doing]):
            always |= masks.runs[node]
        return Needs([masks.of(v) for v in function.outputs], always, not doing)

    def _needs_of(self, node: Node) -> Needs | None:
        try:
            return self.of_call(node)
        # Nothing known: everything it reads is taken to be needed.
        except Refuse:
            return None

    @staticmethod
    def _is_quiet(node: Node, calls: Mapping[Node, Needs | None]) -> bool:
        if node in calls:
            needs = calls[node]
            return needs is not None and needs.is_quiet
        return node.op == ARGUMENT or is_stateless(node) or has(node.op, Trait.CONTROL_FLOW)

    def doing(self, graph: Graph) -> list[Node]:
        """The nodes of a body that may do more than compute."""
        calls = {n: self._needs_of(n) for n in graph if has(n.op, CALLING_OPS)}
        return [n for n in graph if not self._is_quiet(n, calls)]


class _Masks:
    """Needs of each node to run, and of each of its outputs where these differ."""

    def __init__(self) -> None:
        self.runs: dict[Node, int] = {}
        self.ports: dict[Value, int] = {}

    def of(self, value: Value) -> int:
        return self.ports.get(value, self.runs.get(value.node, 0))


def _masks(graph: Graph, arguments: Sequence[Value], calls: Mapping[Node, Needs | None]) -> _Masks:
    """The arguments that each node and value of a body needs.

    What goes round in frames is gone through again until nothing is added.
    """
    order = execution_order(graph)
    has_loops = any(node.op in NEXT_ITERATIONS for node in order)
    own = {value.node: 1 << number for number, value in enumerate(arguments)}
    masks = _Masks()
    while True:
        before = dict(masks.runs)
        for node in order:
            # Masks only grow and have few bits, so this ends.
            _settle(node, own.get(node, 0), calls.get(node), masks)
        if not has_loops or masks.runs == before:
            return masks


def _settle(node: Node, start: int, needs: Needs | None, masks: _Masks) -> None:
    for awaited in node.control_inputs:
        start |= masks.runs[awaited]
    masks_in = [masks.of(v) for v in node.inputs]
    if needs is None:
        for mask in masks_in:
            start |= mask
        masks.runs[node] = start
        return
    masks.runs[node] = start | _union(masks_in, needs.always)
    for port, mask in enumerate(needs.results):
        masks.ports[node.output(port)] = start | _union(masks_in, mask)


def _union(masks: Sequence[int], chosen: int) -> int:
    union = 0
    for place in bits(chosen):
        union |= masks[place]
    return union
