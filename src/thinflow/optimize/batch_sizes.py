"""The batch that a graph leaves open, kept open in what is made of it, or fixed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Protocol, TypeVar

from thinflow.analysis.shapes import infer_with_loops, placeholder_spec
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Graph, Value
from thinflow.ir.types import TensorSpec
from thinflow.optimize.core import BESIDE, Core
from thinflow.optimize.coverage import Coverage
from thinflow.optimize.samples import Samples


class HasCore(Protocol):
    """A model of a graph's core, for any runtime."""

    @property
    def core(self) -> Core: ...

    @property
    def coverage(self) -> Coverage: ...


class HasShape(Protocol):
    """A tensor of any runtime's program."""

    @property
    def name(self) -> str: ...

    @property
    def shape(self) -> tuple[int | None, ...] | None: ...


M = TypeVar("M", bound=HasCore)


def is_open(spec: TensorSpec) -> bool:
    """True if the first size, which counts the batch, is open."""
    return bool(spec.shape) and spec.shape is not None and spec.shape[0] is None


def takes_batches(core: Core, inputs: Iterable[HasShape]) -> bool:
    """True if a program takes batches of any size, as its graph does.

    A size that is open in what is computed before the core alone, such as that of a decoded picture, is none.

    Args:
        inputs: of the program.
    """
    declared = any(is_open(v.spec) for v in core.graph.inputs)
    # Both: the program's open size may stem from what is computed before the core.
    return declared and any(t.shape and t.shape[0] is None for t in inputs)


def counts_samples(inputs: Sequence[Value]) -> bool:
    """True if inputs leave a batch open. Vectors of any length alone are none: a clip, a list of words."""
    return any(is_open(v.spec) and len(v.spec.shape or ()) > 1 for v in inputs)


def only_batch_is_open(inputs: Sequence[Value]) -> bool:
    """True if inputs leave a batch open, and nothing else."""
    return counts_samples(inputs) and all(None not in (v.spec.shape or ())[1:] for v in inputs)


def fix_batch(graph: Graph, samples: Samples | None) -> dict[Value, TensorSpec]:
    """Infer shapes with the batch of the first sample (1 without samples) where inputs leave it open.

    Returns:
        What the inputs were, for `infer_with_loops` to go back.
    """
    before = {v: v.spec for v in graph.inputs}
    batched = [v for v, spec in before.items() if is_open(spec)]
    # 1 for inputs that samples do not have.
    sizes = _sizes(batched, samples)
    fixed = {v: v.spec.with_shape((sizes.get(v, 1), *(v.spec.shape or ())[1:])) for v in batched}
    infer_with_loops(graph, before | fixed)
    return before


def _sizes(values: Sequence[Value], samples: Samples | None) -> dict[Value, int]:
    first = next(iter(samples), {}) if samples is not None else {}
    # A scalar has no size that could count samples.
    return {v: len(first[v]) for v in values if v in first and first[v].ndim}


def open_else_fixed(
    graph: Graph, samples: Samples | None, make: Callable[[], M], make_fixed: Callable[[], M]
) -> tuple[M, str]:
    """A model with an open batch, or with a fixed one if that holds more of the graph; then also why.

    Args:
        make: makes the model by the shapes that the graph's values have.
        make_fixed: the same, once the batch of the graph's inputs is fixed.

    Raises:
        UnsupportedOp: no part of the graph can be a model.
    """
    model: M | None = None
    refusal: UnsupportedOp | None = None
    try:
        model = make()
    except UnsupportedOp as error:
        refusal = error
    is_whole = model is not None and not model.coverage.is_part
    if not is_whole and counts_samples(graph.inputs):
        # To go back to, should the fixed batch bring no more into the model.
        inferred = {v: v.spec for v in (*graph.inputs, *(model.core.inputs if model is not None else ()))}
        fix_batch(graph, samples)
        with suppress(UnsupportedOp):
            other = make_fixed()
            # An open batch is worth more than an equal part with a fixed one.
            if model is None or _left(other) < _left(model):
                return other, _problem(refusal) if model is None else _why_partial(model.core)
        infer_with_loops(graph, inferred)
    if model is None:
        assert refusal is not None
        raise refusal
    return model, ""


def batch_note(inputs: Sequence[HasShape], core: Core, why: str) -> str:
    """That the batch of a program is fixed, at which size, and why.

    Args:
        inputs: of the program.
        core: what it was made of: of a state [layers,batch,units] the first size is none that was fixed.
    """
    opened = {v.name for v in core.graph.inputs if is_open(placeholder_spec(v.node))}
    batched = [t for t in inputs if t.name in opened] or inputs
    sizes = sorted({t.shape[0] for t in batched if t.shape and t.shape[0] is not None})
    return f"batch  fixed at {' and '.join(map(str, sizes)) or 1}: {why}"


def _left(model: HasCore) -> tuple[bool, int]:
    """The amount of the graph that is not in a model: what is smaller holds more."""
    # A model that begins behind a decoder is whole, so counting nodes alone would not do.
    return model.coverage.is_part, len(model.core.outside)


def _problem(refusal: UnsupportedOp | None) -> str:
    return "" if refusal is None else f"{refusal.problem} ({refusal.where})"


def _why_partial(core: Core) -> str:
    """The reason why a core does not hold the whole graph, by the first node with a reason of its own."""
    own = (pair for pair in core.outside.items() if not pair[1].startswith(BESIDE))
    node, why = next(own, next(iter(core.outside.items())))
    return f"{why} ({node.where})"
