"""Models opened to be run: as files in their own engine, or as graphs, lifted from a file if need be."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from thinflow.engines._files import (
    ModelFile,
    engine_of,
    open_file,
    path_of,
    runs_files_of,
    signature_to_run,
)
from thinflow.engines._threads import side_by_side
from thinflow.errors import EngineUnavailable, GraphError, ThinflowError

if TYPE_CHECKING:
    from thinflow.ir.graph import Graph

logger = logging.getLogger(__name__)

_AMBIGUOUS = frozenset({"duplicate name", "port"})
"""Problems after which nobody can say what the graph computes; others show when the part concerned runs."""


@dataclass
class OpenModel:
    """A model ready for a session; exactly one of `graph` and `file` is set.

    Attributes:
        graph: for an engine that runs graphs.
        file: in its own engine.
        is_lifted: whether the graph was made from a .tflite or .onnx file, for the interpreter.
        refusal: why the interpreter runs a file that its own engine refuses; "" if nothing was refused.
        codes: name -> scale and zero point of values of a lifted graph whose integers stand for real numbers.
    """

    graph: Graph | None = None
    file: ModelFile | None = None
    is_lifted: bool = False
    refusal: str = ""
    codes: dict[str, tuple[float, int]] = field(default_factory=dict)


def open_for_engine(
    model: Graph | str | os.PathLike[str],
    engine: str,
    threads: int,
    inter_op_threads: int,
    signature: str | None,
) -> OpenModel:
    """A model opened for an engine, by name, or for "auto".

    Raises:
        EngineUnavailable: it is a file for another engine, or for one that cannot be had or refuses it, and
            the interpreter does not run it either.
    """
    own = engine_of(model)
    # A second opinion, whether the file's own engine would run it or not.
    if own and engine == "reference":
        return _lifted(model, signature)
    if own and engine != "auto" and runs_files_of(engine) == own:
        return OpenModel(file=open_file(model, engine, threads, signature))
    # Another engine runs what the file says, in the ops that all engines are given.
    if own and engine not in ("auto", own):
        return replace(_lifted(model, signature), is_lifted=False)
    if own:
        return _opened_file(model, own, engine, threads, inter_op_threads, signature)
    if isinstance(model, str | os.PathLike):
        from thinflow.load.graphs import load

        model = load(model, state="auto")
    elif model.vocabulary:
        # Nothing runs the ops of its file.
        return replace(_lifted(model, signature), is_lifted=False)
    _check(model)
    return OpenModel(model)


def _opened_file(
    model: str | os.PathLike[str] | Graph,
    own: str,
    engine: str,
    threads: int,
    inter_op_threads: int,
    signature: str | None,
) -> OpenModel:
    """A file in its own engine; where that refuses it and nobody insists, what the interpreter can run.

    Raises:
        EngineUnavailable: it is refused or cannot be had, and the interpreter does not run it either.
    """
    from thinflow.engines._autotune import usable_engines

    try:
        with side_by_side(inter_op_threads):
            return OpenModel(file=open_file(model, own, threads, signature))
    except EngineUnavailable as error:
        # Who names an engine wants that one. And a missing one is to be installed, not silently replaced.
        if engine != "auto" or not usable_engines([own]):
            raise
        try:
            lifted = _lifted(model, signature)
        except ThinflowError:
            # What the file's own engine said is about the file; what lifting says is about our own limits.
            raise error from None
        lifted.refusal = error.problem
        logger.warning("%s: %s; the interpreter runs it", path_of(model), error.problem)
        return lifted


def _lifted(model: str | os.PathLike[str] | Graph, signature: str | None = None) -> OpenModel:
    """A LiteRT or ONNX model in TensorFlow's ops, for the interpreter, and what its codes stand for.

    Raises:
        UnsupportedOp: it has an op that cannot be said so.
    """
    from thinflow import formats
    from thinflow.load.lifted import in_tensorflow

    if signature is None and engine_of(model) == "litert":
        signature = signature_to_run(model)
    chosen = {} if signature is None else {"signature": signature}
    source = formats.load(model, **chosen) if isinstance(model, str | os.PathLike) else model.clone()
    graph = in_tensorflow(source, keep_grids=False)
    _check(graph)
    return OpenModel(graph, is_lifted=True, codes=_codes(source, graph))


def _codes(source: Graph, graph: Graph) -> dict[str, tuple[float, int]]:
    """Name in the lifted graph -> scale and zero point, of the values of one scale that its file states."""
    from thinflow.analysis.foreign_quant_params import params_of

    found = {}
    for node in source:
        for value in node.outputs if node.tensor is None else ():
            grid = params_of(value)
            # Scales per channel belong to weights, which nobody feeds or fetches.
            if grid is not None and not grid.is_per_channel:
                name = graph.aliases.get(value.name, value.name)
                found[name] = (grid.scale[0], grid.zero_point[0] if grid.zero_point else 0)
    return found


def _check(graph: Graph) -> None:
    """Refuse a graph of which nobody can say what it computes.

    Raises:
        GraphError: names are given twice, or a port is read that does not exist.
    """
    from thinflow.analysis.shapes import port_count
    from thinflow.ir.check import find_problems

    broken = next((p for p in find_problems(graph, port_count) if p.kind in _AMBIGUOUS), None)
    if broken is not None:
        raise GraphError(
            f"the graph is broken: {broken}",
            graph.path,
            hint="`thinflow inspect MODEL` lists everything wrong",
        )
