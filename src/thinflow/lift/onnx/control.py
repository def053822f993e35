"""ONNX's If and Loop; the values that a body reads from outside are its arguments.

Bodies are lifted for each call: what is constant outside is constant inside, and what is fixed has its sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from thinflow.decompose.loops import while_loop
from thinflow.decompose.terms import Body, Term, concat
from thinflow.errors import UnsupportedOp
from thinflow.ir.function import Function
from thinflow.ir.graph import Graph, Value
from thinflow.ir.types import BOOL, INT32, INT64, DType, Shape, TensorSpec
from thinflow.lift.inline import copied_in, inlined, lifted_body
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.formulas import Formula
from thinflow.lift.onnx.sequences import MOST_ITEMS, is_sequence
from thinflow.lift.onnx.values import integers
from thinflow.lift.rules import lifts

MOST_TURNS = (1 << 31) - 1
"""Iterations of a loop without a limit: TensorFlow's loops count in int32."""


# --- branches -----------------------------------------------------------------------------------------------


@lifts("onnx.If")
def _if(c: Call) -> list[Value]:
    branches = {name: c.body(name) for name in ("then_branch", "else_branch")}
    return either(c, c[0], branches, [c[i] for i in range(1, len(c.xs))])


def either(c: Call, choice: Value, branches: Mapping[str, Function], values: Sequence[Value]) -> list[Value]:
    """The results of one of two functions.

    Args:
        choice: one element: true for the first.
        branches: by the parts of a name that tell them apart.
        values: their operands.
    """
    known = c.content(choice)
    one, other = branches.values()
    if known is not None and known.size == 1:
        # Which one runs follows from sizes, say: as if the file had that one only.
        return inlined(c, one if known.reshape(-1)[0] else other, values)
    # ONNX allows one element of any rank; TensorFlow would take a vector for true because it has elements.
    condition = c.emit("Reshape", choice, integers(c, ()), Tshape=INT64)
    fixed = [True] * len(values)
    lifted = [
        lifted_body(c, function, values, f"{c.name}_{name}", fixed=fixed)
        for name, function in branches.items()
    ]
    (one, taken), (other, _) = lifted
    specs = [_either(a.spec, b.spec) for a, b in zip(one.outputs, other.outputs, strict=True)]
    node = c.many(
        "StatelessIf",
        condition,
        *taken,
        then_branch=c.made(one),
        else_branch=c.made(other),
        Tin=_types([v.spec for v in taken]),
        Tout=_types(specs),
        Tcond=BOOL,
    )
    for port, spec in enumerate(specs):
        node.output(port).spec = spec
    return [node.output(i) for i in range(len(specs))]


def _types(specs: Sequence[TensorSpec]) -> tuple[DType, ...]:
    types = tuple(s.dtype for s in specs if s.dtype is not None)
    if len(types) < len(specs):
        raise UnsupportedOp("the type of a value that its body reads or gives is not known")
    return types


def _either(a: TensorSpec, b: TensorSpec) -> TensorSpec:
    """What holds for a value that is either of two."""
    if a.dtype is not b.dtype and None not in (a.dtype, b.dtype):
        raise UnsupportedOp("its branches give different types")
    return TensorSpec(a.dtype or b.dtype, _common(a.shape, b.shape))


def _common(a: Shape, b: Shape) -> Shape:
    if a is None or b is None or len(a) != len(b):
        return None
    return tuple(n if n == m else None for n, m in zip(a, b, strict=True))


# --- bodies of loops ----------------------------------------------------------------------------------------


@dataclass
class Iteration:
    """The body of a loop, lifted anew wherever it is put.

    Attributes:
        function: in the file.
        captured: what it reads from outside, its last arguments.
    """

    c: Call
    function: Function
    captured: Sequence[Value]

    @classmethod
    def of(cls, c: Call) -> Iteration:
        count = int(c.get("captures", 0))
        return cls(c, c.body("body"), [c[i] for i in range(len(c.xs) - count, len(c.xs))])

    @property
    def variable(self) -> list[Value]:
        """What of the captured values is computed; constants are copied into the body."""
        return [v for v in self.captured if self.c.content(v) is None]

    def results(self, graph: Graph, own: Sequence[Value], variable: Sequence[Value]) -> list[Value]:
        """The results in a graph that has arguments for its own operands and for what varies."""
        rest = list(variable)
        outside = [
            rest.pop(0) if (content := self.c.content(v)) is None else copied_in(graph, v, content)
            for v in self.captured
        ]
        return inlined(self.c, self.function, [*own, *outside], graph=graph, name="body")

    def specs(self, own: Sequence[TensorSpec]) -> list[TensorSpec]:
        """The specs of the results for operands of some specs; what is lifted for that is thrown away."""
        made = self.c.lifter.made
        before = set(made)
        body = Body(f"{self.c.name}/trial")
        arguments = [body.argument(n, spec).value for n, spec in enumerate(own)]
        outer = [body.argument(len(own) + n, v.spec).value for n, v in enumerate(self.variable)]
        results = [v.spec for v in self.results(body.graph, arguments, outer)]
        for name in set(made) - before:
            del made[name]
        return results


def settled(
    states: Sequence[TensorSpec], after: Callable[[Sequence[TensorSpec]], list[TensorSpec]]
) -> tuple[list[TensorSpec], list[TensorSpec]]:
    """Specs of states that hold in every iteration, and the specs of all results for them.

    Args:
        after: from the specs of the states those of the next states, and of what else is given.
    """
    now = list(states)
    # A size is dropped at most once, then the rank: each round drops one or ends.
    while True:
        results = after(now)
        following = [_either(a, b) for a, b in zip(now, results, strict=False)]
        if [s.shape for s in following] == [s.shape for s in now]:
            return now, results
        now = following


def relaxed(start: Term, spec: TensorSpec) -> Term:
    """What a state begins with, of which no more is known than holds in every iteration."""
    if start.value.spec.shape == spec.shape:
        return start
    value = start.body.add("Identity", [start.value], T=start.dtype)[0]
    value.value.spec = spec
    return value


def for_all(
    c: Call,
    iteration: Iteration,
    times: int | Term,
    operands: Callable[[Term, Sequence[Term], Sequence[Term]], list[Value]],
    states: Sequence[Term],
    fixed: Sequence[Term],
    specs: tuple[Sequence[TensorSpec], Sequence[TensorSpec]],
    *,
    skipped: int = 0,
) -> tuple[list[Term], list[Term]]:
    """The states behind a loop of so many iterations, and what they gave side by side.

    Args:
        operands: of the body, from the number of the iteration, the states and what is fixed.
        specs: of the states and of a row of each kind.
        skipped: results of the body in front of the states.
    """
    outer = [Formula(c).term(v) for v in iteration.variable]

    def step(count: Term, *arguments: Term) -> tuple[list[Term], list[Term]]:
        end = len(specs[0])
        own, rest = arguments[:end], arguments[end:]
        inputs = operands(count, own, rest[: len(fixed)])
        variable = [t.value for t in rest[len(fixed) :]]
        results = iteration.results(count.body.graph, inputs, variable)[skipped:]
        after = [Term(count.body, v) for v in results]
        return after[: len(own)], after[len(own) :]

    starts = [relaxed(s, spec) for s, spec in zip(states, specs[0], strict=True)]
    body = fixed[0].body if fixed else Formula(c)
    if not starts:
        # A loop carries something: TensorFlow's take no loops without.
        starts, spare = [body.constant(0, INT32)], 1
        kept = step

        def step(count: Term, *arguments: Term) -> tuple[list[Term], list[Term]]:
            return [arguments[0]], kept(count, *arguments[1:])[1]

    else:
        spare = 0
    last, rows, _ = while_loop(times, step, starts, [*fixed, *outer], specs[1])
    return last[spare:], rows


# --- Loop ---------------------------------------------------------------------------------------------------


@lifts("onnx.Loop")
def _loop(c: Call) -> list[Value]:
    """Loop: of a number of iterations that is known before, or until a condition is false."""
    iteration = Iteration.of(c)
    body = Formula(c)
    if any(is_sequence(c[i]) for i in range(2, len(c.xs))):
        return _unrolled(c, iteration)
    states = [body.term(c[i]) for i in range(2, len(c.xs) - len(iteration.captured))]
    going = c.content(c[1]) if c.has(1) else None
    counts = [TensorSpec(INT64, ()), TensorSpec(BOOL, ())]

    def after(now: Sequence[TensorSpec]) -> list[TensorSpec]:
        return iteration.specs([*counts, *now])[1:]

    specs, results = settled([s.value.spec for s in states], after)
    rows = results[len(states) :]
    if (not c.has(1) or (going is not None and going.all())) and c.has(0) and _goes_on_always(iteration):
        times = _times(c, body)

        def operands(count: Term, own: Sequence[Term], _: Sequence[Term]) -> list[Value]:
            always = count.body.constant(True, BOOL)
            return [count.cast(INT64).value, always.value, *(t.value for t in own)]

        last, stacks = for_all(c, iteration, times, operands, states, [], (specs, rows), skipped=1)
        return [t.value for t in (*last, *stacks)]
    return _while(c, iteration, body, states, (specs, rows))


def _unrolled(c: Call, iteration: Iteration) -> list[Value]:
    """A loop that carries sequences, iteration by iteration: how many items they have changes with each."""
    times = c.content(c[0]) if c.has(0) else None
    going = c.content(c[1]) if c.has(1) else None
    always = not c.has(1) or (going is not None and bool(going.all()))
    if times is None or not always or not _goes_on_always(iteration):
        raise UnsupportedOp("it carries a sequence, and how often it iterates is not known")
    count = int(times.reshape(-1)[0])
    if count > MOST_ITEMS:
        raise UnsupportedOp(f"it carries a sequence through {count} iterations")
    values = [c[i] for i in range(2, len(c.xs) - len(iteration.captured))]
    rows: list[list[Value]] = []
    for number in range(count):
        own = [integers(c, number), c.constant(np.array(True)), *values]
        name = f"{c.name}/{number}"
        _, *after = inlined(c, iteration.function, [*own, *iteration.captured], name=name)
        rows.append(after[len(values) :])
        values = after[: len(values)]
    if not rows and len(iteration.function.outputs) > 1 + len(values):
        raise UnsupportedOp("it gathers what no iteration gives")
    stacks = [c.emit("Pack", *parts, N=count, axis=0) for parts in zip(*rows, strict=True)]
    return [*values, *stacks]


def _goes_on_always(iteration: Iteration) -> bool:
    """True if a body's condition is what it was given, or a constant that is true."""
    function = iteration.function
    value = function.outputs[0]
    while value.node.op == "onnx.Identity":
        value = value.node.inputs[0]
    if value is function.inputs[1]:
        return True
    own = len(function.inputs) - len(iteration.captured)
    if value in function.inputs[own:]:
        content = iteration.c.content(iteration.captured[list(function.inputs).index(value) - own])
        return content is not None and bool(content.all())
    tensor = value.node.tensor
    return tensor is not None and bool(tensor.numpy().all())


def _times(c: Call, body: Formula) -> int | Term:
    """The limit of iterations in int32, as TensorFlow's loops count."""
    if not c.has(0):
        return MOST_TURNS
    limit = c.content(c[0])
    if limit is not None:
        return max(0, min(int(limit.reshape(-1)[0]), MOST_TURNS))
    scalar = body.term(c.emit("Reshape", c[0], integers(c, ()), Tshape=INT64))
    return scalar.minimum(MOST_TURNS).maximum(0).cast(INT32)


def _while(
    c: Call,
    iteration: Iteration,
    body: Formula,
    states: Sequence[Term],
    specs: tuple[Sequence[TensorSpec], Sequence[TensorSpec]],
) -> list[Value]:
    """A loop that ends by its condition: how many rows it gives, nobody knows before."""
    count = len(states)
    gathered = [_nothing(body, spec) for spec in specs[1]]
    first = body.constant(True, BOOL)
    if c.has(1):
        first = body.term(c.emit("Reshape", c[1], integers(c, ()), Tshape=INT64))
    outer = [body.term(v) for v in iteration.variable]

    def step(number: Term, going: Term, *operands: Term) -> tuple[list[Term], list[Term]]:
        own, old = operands[:count], operands[count : count + len(gathered)]
        variable = [t.value for t in operands[count + len(gathered) :]]
        inputs = [number.cast(INT64).value, going.value, *(t.value for t in own)]
        going, *after = (Term(number.body, v) for v in iteration.results(number.body.graph, inputs, variable))
        # The body may give its condition as a vector of one element.
        going = going.reshape(())
        # Results of iterations are stacked, not joined.
        more = [concat([a, b.expand_dims(0)], 0) for a, b in zip(old, after[count:], strict=True)]
        return [going, *after[:count], *more], []

    starts = [relaxed(s, spec) for s, spec in zip(states, specs[0], strict=True)]
    last, _, _ = while_loop(
        _times(c, body), step, [first, *starts, *gathered], outer, goes_on=lambda going, *_: going
    )
    end = 1 + count
    return [t.value for t in (*last[1:end], *(rows.cut(0, 1, None) for rows in last[end:]))]


def _nothing(body: Formula, spec: TensorSpec) -> Term:
    """What rows are put behind, [1, ...] of a row's shape; their number is open."""
    if spec.shape is None or None in spec.shape or spec.dtype is None:
        raise UnsupportedOp("the shape of what it gathers iteration by iteration is not known")
    # One row that is cut off in the end: LiteRT's loops do not carry a tensor without elements.
    first = body.constant(np.zeros((1, *(n or 0 for n in spec.shape))), spec.dtype)
    return relaxed(first, TensorSpec(spec.dtype, (None, *spec.shape)))
