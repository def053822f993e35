"""The loop that does what the lanes of an unrolled recurrence do."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from thinflow.analysis.shapes import infer_node
from thinflow.decompose.loops import while_loop
from thinflow.decompose.terms import Body, Term, stack
from thinflow.ir.function import Function
from thinflow.ir.graph import Value
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import TensorSpec
from thinflow.transforms.recurrence.joins import Join
from thinflow.transforms.recurrence.lanes import Carried, Fixed, Inner, Lane, Source, Stepped, Steps, identity
from thinflow.transforms.recurrence.pieces import sequence_of

Output = tuple[Lane, int]


@dataclass
class Wanted:
    """What of a lane's output is read outside of the loop.

    Attributes:
        values: of the steps.
        joins: readers of all of them at once.
        single: numbers of the steps that others read.
    """

    values: Sequence[Value]
    joins: list[Join] = field(default_factory=list)
    single: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Rolled:
    """A loop as a function of the values outside that it reads.

    Attributes:
        scope: of the names of its nodes.
        arguments: those values.
        results: the values to be replaced, in the order of the function's results.
        joins: likewise for joins, behind them.
    """

    scope: str
    function: Function
    functions: Mapping[str, Function]
    arguments: Sequence[Value]
    results: Sequence[Value]
    joins: Sequence[Join]


class Loop:
    """Writes the loop of some lanes.

    Args:
        name: of a scope that is free in the graph.
        wanted: what is read outside, by lane and output.
    """

    def __init__(self, steps: Steps, name: str, wanted: Mapping[Output, Wanted]) -> None:
        self._steps, self._wanted = steps, wanted
        self._body = Body(name)
        self._given: dict[Hashable, tuple[Value, Term]] = {}
        self._order = steps.in_order()
        # What the loop is handed: states, then what stays the same, sequences among it.
        self._states: dict[tuple[Output, Hashable], Carried] = {}
        self._fixed: dict[Hashable, Term] = {}
        for lane in self._order:
            for source in lane.sources:
                self._declare(source)

    def rolled(self) -> Rolled:
        # The fixed arguments were asked for first, so the numbers of arguments go on from theirs.
        first = [self._outer(s.first) for s in self._states.values()]
        states = [key[0] for key in self._states]
        kept = [o for o, w in self._wanted.items() if w.joins or not self._is_last_state(o, w)]
        rows = [TensorSpec(s.dtype, s.shape) for s in (o[0].nodes[0].output(o[1]).spec for o in kept)]
        last, stacks, _ = while_loop(
            self._steps.count, self._step(kept), first, list(self._fixed.values()), rows
        )
        values: dict[Value, Term] = {}
        joined: list[tuple[Join, Term]] = []
        for output, wanted in self._wanted.items():
            if output not in kept:
                values[wanted.values[-1]] = last[states.index(output)]
                continue
            all_rows = stacks[kept.index(output)]
            joined += [(join, join.of(all_rows)) for join in wanted.joins]
            values.update(self._single(wanted, all_rows))
        results = [*values.values(), *(term for _, term in joined)]
        function = Function(
            f"{self._body.name}/layer",
            self._body.graph,
            [term.value for _, term in self._given.values()],
            [term.value for term in results],
        )
        arguments = [value for value, _ in self._given.values()]
        return Rolled(
            self._body.name,
            function,
            self._body.functions,
            arguments,
            list(values),
            [join for join, _ in joined],
        )

    def _is_last_state(self, output: Output, wanted: Wanted) -> bool:
        """True if only the last step's is read, and the loop hands it on anyway."""
        is_state = any(key[0] == output for key in self._states)
        return is_state and wanted.single == [self._steps.count - 1]

    def _single(self, wanted: Wanted, rows: Term) -> dict[Value, Term]:
        if not wanted.single:
            return {}
        count = self._steps.count
        # One row is cheaper to pick than all are to take apart.
        if len(wanted.single) == 1:
            return {wanted.values[n]: rows.at(0, n) for n in wanted.single}
        parts = self._body.add("Unpack", [rows.value], ports=count, T=rows.dtype, num=count, axis=0)
        return {wanted.values[n]: parts[n] for n in wanted.single}

    # --- what goes in -------------------------------------------------------------------------------------

    def _outer(self, value: Value) -> Term:
        """A value outside as an argument."""
        key = identity(value)
        if key not in self._given:
            self._given[key] = (value, self._body.argument(len(self._given), value.spec))
        return self._given[key][1]

    def _declare(self, source: Source) -> None:
        if isinstance(source, Carried):
            self._states.setdefault(_state_key(source), source)
        elif isinstance(source, Fixed) and _inner_constant(source.value) is None:
            self._fixed.setdefault(identity(source.value), self._outer(source.value))
        elif isinstance(source, Stepped) and _sequence_key(source.values) not in self._fixed:
            self._fixed[_sequence_key(source.values)] = self._rows(source.values)

    def _rows(self, values: Sequence[Value]) -> Term:
        """What the steps read, one behind the other [count, ...]."""
        sequence = sequence_of(values)
        if sequence is not None:
            return sequence.rows(self._outer(sequence.first.source))
        return stack([self._outer(v) for v in values], 0)

    # --- one step -----------------------------------------------------------------------------------------

    def _step(self, kept: Sequence[Output]):  # type: ignore[no-untyped-def]  # the signature is while_loop's
        def step(count: Term, *arguments: Term) -> tuple[list[Term], list[Term]]:
            inner = _Step(count, self._states, self._fixed, arguments)
            for lane in self._order:
                inner.add(lane)
            after = [inner.made[key[0]] for key in self._states]
            return after, [inner.made[output] for output in kept]

        return step


class _Step:
    """The body of the loop.

    Attributes:
        made: what lanes gave, by output.
    """

    def __init__(
        self,
        count: Term,
        states: Mapping[tuple[Output, Hashable], Carried],
        fixed: Mapping[Hashable, Term],
        arguments: Sequence[Term],
    ) -> None:
        self._count, self._body = count, count.body
        self._states = dict(zip(states, arguments, strict=False))
        self._fixed = dict(zip(fixed, arguments[len(states) :], strict=False))
        self._constants: dict[Hashable, Value] = {}
        self._rows: dict[Hashable, Term] = {}
        self.made: dict[Output, Term] = {}

    def add(self, lane: Lane) -> None:
        template = lane.nodes[0]
        inputs = [self._read(source) for source in lane.sources]
        node = self._body.graph.graft(template, _short(template.name), device=template.device)
        node.set_inputs(inputs)
        for port, spec in enumerate(infer_node(node, [v.spec for v in inputs])):
            node.output(port).spec = spec
            self.made[lane, port] = Term(self._body, node.output(port))

    def _read(self, source: Source) -> Value:
        if isinstance(source, Inner):
            return self.made[source.lane, source.port].value
        if isinstance(source, Carried):
            return self._states[_state_key(source)].value
        if isinstance(source, Stepped):
            return self._piece(source.values).value
        key, tensor = identity(source.value), _inner_constant(source.value)
        if tensor is None:
            return self._fixed[key].value
        if key not in self._constants:
            value = self._body.graph.constant(tensor, _short(source.value.node.name))
            (value.spec,) = infer_node(value.node, [])
            self._constants[key] = value
        return self._constants[key]

    def _piece(self, values: Sequence[Value]) -> Term:
        key = _sequence_key(values)
        if key not in self._rows:
            piece = self._fixed[key].gather(self._count)
            sequence = sequence_of(values)
            if sequence is not None and sequence.first.is_kept:
                piece = piece.expand_dims(sequence.first.axis)
            self._rows[key] = piece
        return self._rows[key]


def _short(name: str) -> str:
    return name.rpartition("/")[2]


def _state_key(source: Carried) -> tuple[Output, Hashable]:
    return (source.lane, source.port), identity(source.first)


def _sequence_key(values: Sequence[Value]) -> Hashable:
    sequence = sequence_of(values)
    return tuple(identity(v) for v in values) if sequence is None else sequence


def _inner_constant(value: Value) -> Tensor | None:
    """The constant behind a value, if it belongs into the body: axes, sizes and numbers, but no weights."""
    while value.node.op == "Identity" and not value.node.control_inputs:
        value = value.node.inputs[0]
    tensor = value.node.tensor
    # Kernels want axes and sizes as constants; weights stay outside, where transforms and quantizers look.
    if tensor is None or (tensor.size > 1 and tensor.dtype.kind not in "iub") or tensor.size > 64:
        return None
    return tensor
