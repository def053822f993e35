"""Loops over the steps of a sequence, in the form that the targets know recurrent layers by.

A `StatelessWhile` whose body gathers a step from the sequence, computes the next states, and writes the
output of the step as a row of a list. Weights are constants of the body.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from thinflow.ir.attrs import FunctionAttr
from thinflow.ir.function import ARGUMENT, Function
from thinflow.ir.graph import Value
from thinflow.ir.types import BOOL, INT32, VARIANT, TensorSpec
from thinflow.keras.call import Call
from thinflow.keras.writer import Writer, element_type

Step = Callable[[Sequence[Value], Sequence[Value]], tuple[Value, Sequence[Value]]]
"""From the steps of the sequences and the states: the output of the step, and the next states. What it adds
goes into the body of the loop."""


def looped(
    c: Call, sequences: Sequence[Value], states: Sequence[Value], step: Step, row: TensorSpec | None
) -> tuple[Value | None, list[Value]]:
    """The outputs of all steps, and the last states.

    Args:
        c: the layer.
        sequences: each [steps, batch, ...].
        states: at the start, each [batch, ...]; their types and shapes stay.
        step: see there.
        row: type and shape of a step's output; None if nobody wants them.

    Returns:
        [steps, batch, ...], None without a row; and the states.
    """
    times = c.dim(sequences[0], 0)
    limit = times if isinstance(times, Value) else c.const(times, "steps")
    rows = [_reserved(c, limit, row)] if row is not None else []
    carried = [c.const(0, "step"), *rows, *states, *sequences]
    # A limit that is known is one of the condition itself, which runtimes look at.
    carried += [limit] if isinstance(times, Value) else []
    first, last = 1 + len(rows), 1 + len(rows) + len(states)

    def body(arguments: list[Value]) -> list[Value]:
        number = arguments[0]
        steps = [_gathered(c, x, number) for x in arguments[last : last + len(sequences)]]
        y, after = step(steps, arguments[first:last])
        kept = [_with_row(c, r, number, y) for r in arguments[1:first]]
        return [c.emit("AddV2", number, 1), *kept, *after, *arguments[last:]]

    def condition(arguments: list[Value]) -> list[Value]:
        most: Value | int = arguments[-1] if isinstance(times, Value) else times
        return [c.emit("Less", arguments[0], most)]

    results = repeated(c, carried, condition, body)
    stack = None if row is None else _stacked(c, results[1], row, times)
    return stack, results[first:last]


def repeated(
    c: Call,
    carried: Sequence[Value],
    condition: Callable[[list[Value]], list[Value]],
    body: Callable[[list[Value]], list[Value]],
) -> list[Value]:
    """Values as a loop leaves them, whose types and shapes stay.

    Args:
        c: the layer.
        carried: the values at the start.
        condition: of such values one truth, a scalar: whether there is another turn.
        body: from such values to the next ones.
    """
    specs = [v.spec for v in carried]
    named = {key: _function(c, key, inner, specs) for key, inner in (("cond", condition), ("body", body))}
    kinds = tuple(element_type(v) for v in carried)
    # 32 as Keras's own `rnn` writes it.
    node = c.node("StatelessWhile", *carried, name="while", T=kinds, parallel_iterations=32, **named)
    results = [node.output(port) for port in range(len(carried))]
    # Shapes of a loop's variables may change in general; here they stay.
    for value, spec in zip(results, specs, strict=True):
        value.spec = TensorSpec(spec.dtype, spec.shape)
    return results


@contextmanager
def _writing(c: Call, writer: Writer) -> Iterator[None]:
    """New nodes, also those of layers inside, go elsewhere for a while."""
    outer = c.writer
    c.writer = c.builder.writer = writer
    try:
        yield
    finally:
        c.writer = c.builder.writer = outer


def _function(
    c: Call, part: str, inner: Callable[[list[Value]], list[Value]], specs: Sequence[TensorSpec]
) -> FunctionAttr:
    """A new function of the model's library."""
    library = c.writer.functions
    writer = Writer(library)
    writer.scope = c.writer.scope
    kinds = tuple(spec.dtype for spec in specs)
    arguments = []
    for number, spec in enumerate(specs):
        node = writer.graph.add(ARGUMENT, (), f"input_{number}", attrs={"T": spec.dtype or INT32})
        arguments.append(node.output())
        arguments[-1].spec = TensorSpec(spec.dtype, spec.shape)
    with _writing(c, writer):
        results = inner(arguments)
    name = f"{writer.scope}while_{part}_{len(library)}"
    given = (BOOL,) if part == "cond" else kinds
    library[name] = Function(name, writer.graph, arguments, results, input_types=kinds, output_types=given)
    return FunctionAttr(name, {})


def _gathered(c: Call, x: Value, number: Value) -> Value:
    """One step of a sequence."""
    axis = c.const(0, "axis")
    y = c.emit("GatherV2", x, number, axis, T=None, Tparams=element_type(x), Tindices=INT32, Taxis=INT32)
    y.spec = TensorSpec(x.spec.dtype, (x.spec.shape or ())[1:])
    return y


# --- lists of rows ------------------------------------------------------------------------------------------


def _sizes(c: Call, row: TensorSpec) -> Value:
    return c.const([-1 if n is None else n for n in row.shape or ()], "element_shape")


def _reserved(c: Call, count: Value, row: TensorSpec) -> Value:
    sizes = _sizes(c, row)
    rows = c.emit("TensorListReserve", sizes, count, T=None, element_dtype=row.dtype, shape_type=INT32)
    rows.spec = TensorSpec(VARIANT, ())
    return rows


def _with_row(c: Call, rows: Value, number: Value, row: Value) -> Value:
    after = c.emit("TensorListSetItem", rows, number, row, T=None, element_dtype=element_type(row))
    after.spec = TensorSpec(VARIANT, ())
    return after


def _stacked(c: Call, rows: Value, row: TensorSpec, times: Value | int) -> Value:
    known = None if isinstance(times, Value) else times
    count = -1 if known is None else known
    sizes = _sizes(c, row)
    stack = c.emit("TensorListStack", rows, sizes, T=None, element_dtype=row.dtype, num_elements=count)
    stack.spec = TensorSpec(row.dtype, (known, *(row.shape or ())))
    return stack
