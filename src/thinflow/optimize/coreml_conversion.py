"""Core ML packages made of graphs, and proven by being read back.

Core ML runs on Apple's systems alone. So a package is opened by our own reader, which knows nothing of
coremltools, and computed by our own kernels beside the graph. That proves that what stands in the package is
what the graph computes; how Core ML rounds on a phone it does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from thinflow.analysis.precision import RUNTIMES_TOLERANCE
from thinflow.analysis.shapes import infer_shapes
from thinflow.compare.differences import difference, size_of
from thinflow.coreml.runtime import NOT_RUN, coremltools
from thinflow.errors import FeedError, NodeError, ThinflowError, UnsupportedOp, VerificationError
from thinflow.interpreter import Plan
from thinflow.ir.graph import Graph, Value
from thinflow.ir.types import TensorSpec
from thinflow.load.frozen import require_frozen
from thinflow.load.graphs import load
from thinflow.load.usage import completed
from thinflow.lower.coreml.options import Options
from thinflow.lower.coreml.program import MilProgram, Picture, mil_program
from thinflow.lower.coreml.writing import package_of, write_package
from thinflow.lower.onnx.convert import lower_graph, unsupported
from thinflow.onnx.program import Program
from thinflow.optimize.conversion import NOT_VERIFIED
from thinflow.optimize.float_graph import float_graph, type_notes
from thinflow.optimize.samples import samples_for
from thinflow.optimize.source_proof import prove_beside_source
from thinflow.typing import Array, FilePath, Progress

_STEPS = 3
_SHOWN = 12
_SAMPLES = 2
_LEAST = 1e-6
_ROUNDED = 0.25
"""Of the largest value: how far answers may be with weights in int8, or in float16. What a wrong operator
gives is of the size of the values."""


@dataclass
class CoreMLFiles:
    """What was written and proved.

    Attributes:
        size_bytes: of the package.
        proof: what it was compared with, and what came of that.
        notes: on its inputs and outputs.
        difference: the largest, of the largest value; None if nothing was compared.
    """

    size_bytes: int
    proof: str
    notes: list[str]
    difference: float | None = None


def convert_to_coreml(
    graph: Graph,
    path: FilePath,
    options: Options,
    *,
    verify: bool = True,
    is_as_opened: bool = True,
    progress: Progress | None = None,
) -> CoreMLFiles:
    """Write a graph as a package; the whole of it, or nothing.

    Args:
        graph: with inputs and outputs set.
        path: of the package.
        options: see there.
        verify: whether to read it back and compute it.
        is_as_opened: whether the graph is what was opened, and not changed by anybody since.
        progress: called with (done, total, label).

    Raises:
        UnsupportedOp: operators have no form in Core ML; nothing is written.
        VerificationError: what is read back gives other answers; nothing is written.
        EngineUnavailable: coremltools is missing.
        WriteError: it cannot be written.
    """
    coremltools()  # before the work, which would be for nothing without it

    def tell(done: int, label: str) -> None:
        if progress is not None:
            progress(done, _STEPS, label)

    tell(0, "transform")
    require_frozen(graph)
    _require_real(graph)
    optimized = float_graph(graph, verify=verify, runtime="onnx")
    tell(1, "write in Core ML's words")
    made, model, notes = _model(optimized.graph, options, graph)
    notes += [f"note   {text}" for text in type_notes(optimized)]
    tell(2, "read it back, and compute it beside the graph")
    found: list[float] = []
    doubts: list[str] = []

    def check(part: str) -> None:
        back = _read_back(part)
        try:
            found.append(_apart(graph, back, made, options))
        except FeedError as error:
            doubts.append(error.problem)

    size = write_package(model, path, check=check if verify else None)
    proofs = [_proof(found, doubts, options) if verify else NOT_VERIFIED]
    if verify and graph.source is not None:
        beside = prove_beside_source(graph, may_differ=not is_as_opened).sentence
        proofs += [f"the graph {beside}"] if beside else []
    proofs.append(NOT_RUN)
    tell(_STEPS, "done")
    return CoreMLFiles(size, "; ".join(proofs), notes, found[0] if found else None)


def _require_real(graph: Graph) -> None:
    """Refuse ends of complex numbers, which would become pairs of real ones."""
    for value in (*graph.inputs, *graph.outputs):
        if value.dtype is not None and value.dtype.kind == "c":
            raise UnsupportedOp(
                f"'{value.name}' is of complex numbers, which Core ML does not have",
                value.node.where,
                hint="end the model in front of it, or behind its real part: --outputs",
            )


def _model(graph: Graph, options: Options, original: Graph) -> tuple[MilProgram, Any, list[str]]:
    """The program, coremltools' model of it, and notes on its ends. Open sizes become ranges, or 1 where that
    does not go through.
    """
    try:
        made = mil_program(_lowered(graph), options, completed(original))
        return made, package_of(made, options), _notes(made, original, options)
    except UnsupportedOp:
        sizes = _with_batch_of_one(graph)
        if not sizes:
            raise
    infer_shapes(graph, sizes)
    made = mil_program(_lowered(graph), options, completed(original))
    notes = _notes(made, original, options)
    return (
        made,
        package_of(made, options),
        [*notes, "note   the open batch is 1: not all of it can be said for any"],
    )


def _lowered(graph: Graph) -> Program:
    """The graph in ONNX's operators.

    Raises:
        UnsupportedOp: nodes have no form there, all of them.
    """
    try:
        # With the sizes that values have by now: inferred anew, those that the user gave would be lost.
        return lower_graph(graph, graph.inputs, graph.outputs, specs={}).program
    except UnsupportedOp as error:
        reasons = unsupported(graph, graph)
        if len(reasons) < 2:
            raise
        told = [f"{node.where}: {why}" for node, why in islice(reasons.items(), _SHOWN)]
        more = f"; and {len(reasons) - _SHOWN} more" if len(reasons) > _SHOWN else ""
        raise UnsupportedOp(
            f"{len(reasons)} nodes have no form in Core ML: {'; '.join(told)}{more}",
            hint="cut them off: --inputs with a value behind them, or --outputs with one in front",
        ) from error


def _with_batch_of_one(graph: Graph) -> dict[Value, TensorSpec]:
    """The specs of inputs whose batch alone is open, with 1 for it; none where other sizes are open."""
    found = {}
    for value in graph.inputs:
        shape = value.spec.shape
        if shape is None or None in shape[1:]:
            return {}
        if shape and shape[0] is None:
            found[value] = value.spec.with_shape((1, *shape[1:]))
    return found and {v: found.get(v, v.spec) for v in graph.inputs}


def _notes(made: MilProgram, graph: Graph, options: Options) -> list[str]:
    """What an app feeds, and gets."""
    own = {source: name for name, source in made.names.items()}
    notes = []
    for role, values in (("input", graph.inputs), ("output", graph.outputs)):
        for value in values:
            name = own.get(value.name) or own.get(value.node.name) or value.name
            known_as = f"  (here {value.name})" if name != value.name.removesuffix(":0") else ""
            text = f"{role:6} {name}  {value.spec}{known_as}"
            for told, what in ((made.narrowed, ", as {}"), (made.open, ", open sizes from {}")):
                found = told.get(value.name) or told.get(value.node.name)
                text += what.format(found) if found else ""
            picture = made.pictures.get(value.name) or made.pictures.get(value.node.name)
            if picture is not None and role == "input":
                text += (
                    f", a picture in {picture.layout}: (pixel - {_list(picture.mean)}) / {_list(picture.std)}"
                )
                text += f" [{picture.known}]" if picture.known else "; nothing says so: --mean, --std"
            notes.append(text)
    if options.precision == "float32":
        notes.append("note   in float32; the Neural Engine takes float16 alone: --compute-precision float16")
    return notes


def _list(numbers: Sequence[float]) -> str:
    texts = list(dict.fromkeys(f"{n:g}" for n in numbers))
    return texts[0] if len(texts) == 1 else f"[{', '.join(f'{n:g}' for n in numbers)}]"


def _read_back(part: str) -> Graph:
    """The graph that is in a package.

    Raises:
        VerificationError: our reader does not know something in it.
    """
    try:
        return load(part)
    except ThinflowError as error:
        raise VerificationError(
            f"what was written cannot be read back: {error.problem}",
            error.where,
            hint="please report this with the model; --no-verify writes it all the same",
        ) from error


def _apart(graph: Graph, back: Graph, made: MilProgram, options: Options) -> float:
    """The largest difference of what was read back, of the largest value.

    Raises:
        VerificationError: it is more than rounding.
        FeedError: made-up inputs do not go through the graph itself.
    """
    plan, other = Plan(graph, graph.outputs, graph.inputs), Plan(back, back.outputs, back.inputs)
    limit = RUNTIMES_TOLERANCE if options.precision == "float32" and options.weights == "float" else _ROUNDED
    worst = 0.0
    for feed in islice(samples_for(graph, None, limit=_SAMPLES), _SAMPLES):
        feeds, given = _fed(feed, made, back)
        try:
            with np.errstate(all="ignore"):
                wanted = plan.run(feeds)
        except (NodeError, FeedError) as error:
            raise FeedError(f"made-up inputs do not go through the graph: {error.problem}") from error
        with np.errstate(all="ignore"):
            got = dict(zip((v.node.name for v in back.outputs), other.run(given), strict=True))
        for value, array in zip(graph.outputs, wanted, strict=True):
            answer = _answer(value, made, got, options)
            if answer is None:
                continue
            plain = _as_given(np.asarray(array), answer)
            apart = difference(plain, answer, least_size=max(_LEAST, size_of(value))).relative
            if not apart <= limit:
                raise VerificationError(
                    f"the package gives other answers than the graph: '{value.name}' is off by {apart:.2g} of"
                    " the largest value",
                    hint="--compute-precision float32 is exact"
                    if options.precision == "float16"
                    else "please report this with the model; --no-verify writes it all the same",
                )
            worst = max(worst, apart)
    return worst


def _answer(value: Value, made: MilProgram, got: Mapping[str, Array], options: Options) -> Array | None:
    """What the package answers for an output; None for what a classifier hands out under another name."""
    own = {source: name for name, source in made.names.items()}
    name = own.get(value.name) or own.get(value.node.name) or ""
    if name in got:
        return np.asarray(got[name])
    if options.labels:
        # The second of the classifier's results is the row of scores.
        rows = [np.asarray(a) for a in got.values() if np.asarray(a).dtype.kind == "f"]
        return rows[0] if len(rows) == 1 else None
    raise VerificationError(
        f"the package has no output for '{value.name}'", hint="please report this with the model"
    )


def _as_given(array: Array, answer: Array) -> Array:
    """An answer of the graph in the type that the package has for it; a number alone is [1] there."""
    plain = array.reshape(1) if array.ndim == 0 and answer.ndim == 1 else array
    return plain.astype(answer.dtype, copy=False) if plain.dtype.kind in "biuf" else plain


def _fed(
    feed: Mapping[Value, Array], made: MilProgram, back: Graph
) -> tuple[dict[Value, Array], dict[Value, Array]]:
    """What the graph and the package are fed: pixels where it takes a picture."""
    ends = {v.node.name: v for v in back.inputs}
    names = {source: name for name, source in made.names.items()}
    feeds, given = dict(feed), dict[Value, Array]()
    for value, array in feed.items():
        name = names.get(value.name) or names.get(value.node.name) or value.node.name
        end = ends.get(name)
        if end is None:
            continue  # nothing reads it, and the package left it out
        picture = made.pictures.get(value.name) or made.pictures.get(value.node.name)
        if picture is not None:
            feeds[value], given[end] = _pixels(array, picture)
            continue
        plain = array.reshape(1) if array.ndim == 0 else array
        kind = end.dtype.numpy() if end.dtype is not None else plain.dtype
        given[end] = plain.astype(kind)
    return feeds, given


def _pixels(array: Array, picture: Picture) -> tuple[Array, Array]:
    """Made-up pixels as the graph is fed them, scaled, and as Core ML hands them on, [n,c,h,w]."""
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (1, *array.shape[1:])).astype(np.float32)
    mean, std = (np.array(row, np.float32) for row in (picture.mean, picture.std))
    if picture.is_first:
        return ((pixels - mean[:, None, None]) / std[:, None, None]).astype(array.dtype), pixels
    return ((pixels - mean) / std).astype(array.dtype), np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))


def _proof(found: Sequence[float], doubts: Sequence[str], options: Options) -> str:
    if not found:
        return f"read back, but NOT compared: {doubts[0] if doubts else 'there was nothing to feed'}"
    how = []
    if options.precision != "float32":
        how.append(f"in {options.precision}")
    if options.weights != "float":
        how.append(f"with weights in {options.weights}")
    what = f", {' '.join(how)}," if how else ""
    return (
        f"read back and computed by our kernels{what} it agrees with the graph, largest relative difference"
        f" {found[0]:.2g}"
    )
