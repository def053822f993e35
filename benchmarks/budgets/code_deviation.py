"""How far the codes of classic eight-bit graphs are off the interpreter's: op by op, and piled up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import thinflow
from benchmarks.bench import Bench
from benchmarks.budgets.classic_eight_bit import IMAGES, MODELS, QUICK_MODELS, SIZE, frozen
from benchmarks.lines import Line, figure, guarded, judged
from thinflow import Graph, Session
from thinflow.analysis.quant_params import infer_quant_params, quantized_type
from thinflow.analysis.shapes import infer_shapes
from thinflow.interpreter import Plan
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Value
from thinflow.ir.types import QINT8, QUINT8, dtype
from thinflow.lower.tflite.quantized_context import takes_quantized

TITLE = "codes of eight-bit graphs"
IN_QUICK = True
ENGINES = ("litert", "onnxruntime")
_LIMIT = 1

Array = np.ndarray[Any, Any]
Arrays = dict[Value, Array]


def measure(bench: Bench) -> Iterator[Line]:
    for name in QUICK_MODELS if bench.quick else MODELS:
        yield from guarded(f"{TITLE}, {name}", partial(_one, name=name), bench)


def _one(bench: Bench, name: str) -> Iterator[Line]:
    graph = thinflow.load(frozen(bench, name))
    infer_shapes(graph)
    wanted = _code_values(graph)
    feeds = {graph.inputs[0]: _picture(bench.images(name, IMAGES))}
    made = dict(zip(wanted, Plan(graph, wanted, list(feeds)).run(feeds), strict=True))
    for engine in ENGINES:
        found = _op_by_op(graph, engine, feeds, made)
        total = sum(array.size for array in made.values())
        most = max(int(off.max(initial=0)) for off in found.values())
        differ = sum(int(np.count_nonzero(off)) for off in found.values())
        label = f"{TITLE}, {name}, {engine}"
        yield judged(
            f"{label}: most that one op is off, given the interpreter's codes",
            f"≤ {_LIMIT} code",
            f"{most} ({100 * differ / total:.2g} % of {total / 1e6:.1f} M codes differ)",
            most <= _LIMIT,
        )
        yield _piled_up(label, graph, engine, feeds, made)


def _picture(path: Path) -> Array:
    with np.load(path) as images:
        picture: Array = images[next(iter(images))][:1]
    assert picture.shape == (1, SIZE, SIZE, 3)
    return picture


def _code_values(graph: Graph) -> list[Value]:
    """Eight-bit codes on known ranges."""
    grids = infer_quant_params(graph)
    found = (n.output() for n in graph if n.tensor is None and takes_quantized(n.op))
    return [v for v in found if v in grids and quantized_type(v) in (QUINT8, QINT8)]


def _run(graph: Graph, engine: str, feeds: Arrays, wanted: Sequence[Value]) -> list[Array]:
    """Values of a graph."""
    graph.inputs, graph.outputs = list(feeds), list(wanted)
    session = Session(graph, engine=engine)
    return session.run([v.name for v in wanted], {v.name: array for v, array in feeds.items()})


def _op_by_op(graph: Graph, engine: str, feeds: Arrays, made: Mapping[Value, Array]) -> Arrays:
    """How far each op's codes are off, if it is fed what the interpreter made."""
    cut = graph.clone()
    given: Arrays = {}
    for value, array in {**feeds, **made}.items():
        old = cut.node(value.node.name).output(value.port)
        kind = value.dtype or dtype(array.dtype)
        attrs = {"dtype": kind, "shape": ShapeAttr(array.shape)}
        twin = cut.add("Placeholder", name=cut.unique_name(f"{value.node.name}/given"), attrs=attrs)
        old.replace_uses(twin.output())
        given[twin.output()] = array
    outputs = [cut.node(v.node.name).output(v.port) for v in made]
    results = _run(cut, engine, given, outputs)
    return {v: _off(result, made[v]) for v, result in zip(made, results, strict=True)}


def _off(result: Array, wanted: Array) -> Array:
    difference: Array = np.abs(result.astype(np.int16) - wanted.astype(np.int16))
    return difference


def _piled_up(label: str, graph: Graph, engine: str, feeds: Arrays, made: Mapping[Value, Array]) -> Line:
    """The same where each op is fed what the engine made."""
    results = _run(graph, engine, feeds, list(made))
    means = [float(_off(r, a).mean()) for r, a in zip(results, made.values(), strict=True)]
    return figure(
        f"{label}: codes off on average, first, middle and last layer",
        " : ".join(f"{means[n]:.2f}" for n in (0, len(means) // 2, -1)),
    )
