"""Whether smaller models answer for two samples at once as well as for one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from thinflow.compare.differences import difference
from thinflow.engines._child import run_file
from thinflow.errors import VerificationError
from thinflow.ir.types import TensorSpec
from thinflow.lower.tflite.program import Program, Signature, Tensor, to_bytes
from thinflow.lower.tflite.variables import with_variables
from thinflow.optimize.batch_sizes import HasCore, batch_note, is_open, several, told
from thinflow.optimize.float_model import FloatModel
from thinflow.optimize.quantizing import QuantizedModel
from thinflow.optimize.samples import Samples
from thinflow.quantize.result import Quantized
from thinflow.typing import Array

Q = TypeVar("Q", bound=QuantizedModel)

_WORSE, _FARTHER = 3.0, 0.1
"""How much farther from the float model's answers those for two samples may be than those for one: by this
factor, and by that share of the largest value. Answers of other samples are farther away."""


def why_one_batch(
    model: HasCore, plain: bytes, smaller: bytes, samples: Samples, *, engine: str = "litert"
) -> str:
    """Why a smaller model with an open batch is not as good with two samples at once as with one; or "".

    Args:
        model: what both were made from.
        plain, smaller: the float model's file and the smaller one's, which take and give the same types.
        samples: for the whole graph.
        engine: that runs them.
    """
    with told() as why:
        feeds = [model.core.before(next(iter(samples))), several(model.core, samples)]
        exact = run_file(plain, engine, feeds, name="the float model")
        found = run_file(smaller, engine, feeds, name="the smaller model")
        one, two = (_distance(a, b) for a, b in zip(exact, found, strict=True))
        if two > _WORSE * one + _FARTHER:
            raise VerificationError(f"off by {two:.2g} of the largest value, with one sample by {one:.2g}")
    return "".join(why)


def _distance(exact: Sequence[Array], found: Sequence[Array]) -> float:
    """The largest relative difference of real outputs; classes and counts may well differ."""
    pairs = zip(exact, found, strict=True)
    if any(a.shape != b.shape for a, b in zip(exact, found, strict=True)):
        raise VerificationError("its outputs have other shapes than the float model's")
    return max((difference(a, b).relative for a, b in pairs if a.dtype.kind == "f"), default=0.0)


def checked_batch(model: FloatModel, made: Q, samples: Samples) -> Q:
    """A smaller LiteRT model whose batch is open only if it answers so; a fixed one is told in its warnings.

    Args:
        model: the float model that it was made from.
        made: the smaller one.
        samples: for the whole graph.
    """
    if not model.is_open:
        return replace(made, warnings=[*model.batch_notes, *made.warnings])
    why = why_one_batch(model, model.content, made.comparable, samples)
    if not why:
        return made
    first = model.core.before(next(iter(samples)))
    sizes = {v.name: len(a) for v, a in zip(model.core.inputs, first, strict=True) if a.ndim}
    quantized = _with_sizes(made.quantized, sizes)
    note = batch_note(quantized.program.subgraphs[0].inputs, why)
    content = to_bytes(with_variables(quantized.program, model.core.states))
    return replace(made, quantized=quantized, content=content, warnings=[note, *made.warnings])


def _with_sizes(made: Quantized[Program], sizes: dict[str, int]) -> Quantized[Program]:
    """The program with first sizes of its inputs fixed where they are open."""
    main = made.program.subgraphs[0]
    fixed = {t: _fixed(t, sizes.get(t.name, 1)) for t in main.inputs if is_open(TensorSpec(t.dtype, t.shape))}
    moved = {
        o: replace(o, inputs=[t if t is None else fixed.get(t, t) for t in o.inputs])
        for o in main.operators
        if any(t in fixed for t in o.inputs)
    }
    inputs, outputs = ([fixed.get(t, t) for t in side] for side in (main.inputs, main.outputs))
    operators = [moved.get(o, o) for o in main.operators]
    subgraph = replace(main, inputs=inputs, outputs=outputs, operators=operators)
    signatures = {
        key: Signature(*({name: fixed.get(t, t) for name, t in side.items()} for side in pair))
        for key, pair in made.program.signatures.items()
    }
    subgraphs = [subgraph, *made.program.subgraphs[1:]]
    return replace(
        made,
        program=replace(made.program, subgraphs=subgraphs, signatures=signatures),
        float_operators=[(moved.get(o, o), reason) for o, reason in made.float_operators],
    )


def _fixed(tensor: Tensor, size: int) -> Tensor:
    return replace(tensor, shape=(size, *(tensor.shape or ())[1:]))
