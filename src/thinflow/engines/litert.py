"""LiteRT (XNNPACK on the CPU): the runtime that phones and boards use.

What LiteRT can run is lowered region by region; the rest runs in the interpreter, between the regions.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from thinflow.engines.base import Compiled
from thinflow.engines.partition import Region, partition
from thinflow.errors import EngineUnavailable, FeedError, UnsupportedOp
from thinflow.ir.types import RESOURCE, VARIANT

if TYPE_CHECKING:
    import numpy as np

    from thinflow.interpreter import Plan
    from thinflow.ir.graph import Graph, Node, Value

    Array = np.ndarray[Any, Any]

logger = logging.getLogger(__name__)

_CONTROL_FLOW = frozenset(
    {
        "Enter",
        "Exit",
        "Switch",
        "Merge",
        "NextIteration",
        "LoopCond",
        "RefEnter",
        "RefExit",
        "RefSwitch",
        "RefMerge",
        "RefNextIteration",
    }
)


class Model:
    """A .tflite model in LiteRT, fed and fetched by position.

    Args:
        content: the file's bytes, or its path.
        threads: how many threads the kernels may use.
        keep_all: keep every intermediate tensor, for calibration and debugging.
        settled: the model states the sizes of its inputs; if not, the first run tells, and may be refused.

    Raises:
        EngineUnavailable: LiteRT refuses the model.
    """

    def __init__(
        self, content: bytes | str, *, threads: int = 1, keep_all: bool = False, settled: bool = True
    ) -> None:
        from thinflow.litert import interpreter

        source = {"model_path": content} if isinstance(content, str) else {"model_content": content}
        try:
            self.interpreter = interpreter(
                **source, num_threads=threads, experimental_preserve_all_tensors=keep_all, allocated=settled
            )
        except (ValueError, RuntimeError) as error:
            raise EngineUnavailable(
                f"LiteRT refuses the model: {error or 'it gives no reason'}",
                content if isinstance(content, str) else "",
                hint="the file may be damaged; convert the model again"
                if isinstance(content, str)
                else "please report this with the model",
            ) from error
        self._inputs = self.interpreter.get_input_details()
        self._outputs = self.interpreter.get_output_details()
        self._shapes = [tuple(d["shape"]) for d in self._inputs] if settled else None

    @property
    def input_names(self) -> list[str]:
        return [d["name"] for d in self._inputs]

    @property
    def output_names(self) -> list[str]:
        return [d["name"] for d in self._outputs]

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs. Tensors are allocated anew only when an input changes its shape."""
        self._resize([x.shape for x in inputs])
        try:
            for detail, array in zip(self._inputs, inputs, strict=True):
                self.interpreter.set_tensor(detail["index"], array)
            self.interpreter.invoke()
        except (ValueError, RuntimeError) as error:
            raise EngineUnavailable(
                f"LiteRT failed: {error}", hint="engine='reference' may say more"
            ) from error
        return [self.interpreter.get_tensor(d["index"]) for d in self._outputs]

    def _resize(self, shapes: Sequence[tuple[int, ...]]) -> None:
        from thinflow.litert import allocate

        if list(shapes) == self._shapes:
            return
        try:
            for detail, shape in zip(self._inputs, shapes, strict=True):
                self.interpreter.resize_tensor_input(detail["index"], shape, strict=False)
            allocate(self.interpreter)
        except (ValueError, RuntimeError) as error:
            raise FeedError(
                f"LiteRT cannot run with inputs of shape {list(map(list, shapes))}: {error}"
            ) from error
        self._shapes = list(shapes)


class _Piece:
    """One region ready to run.

    A region LiteRT turns out to refuse, now or for some input, goes to the interpreter for good.
    """

    def __init__(self, graph: Graph, region: Region, threads: int) -> None:
        self.region = region
        self.refusal = ""
        self._graph = graph
        self._plan: Plan | None = None
        self._model: Model | None = None
        if region.on_engine and region.outputs:
            try:
                self._model = _lowered(graph, region, threads)
            except (UnsupportedOp, EngineUnavailable) as error:
                self.refusal = error.message

    @property
    def runs_on_engine(self) -> bool:
        return self._model is not None

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        if self._model is not None:
            try:
                return self._model.run(arrays)
            except (EngineUnavailable, FeedError) as error:
                logger.info("falling back to the interpreter: %s", error.message)
                self.refusal, self._model = error.message, None
        if self._plan is None:
            from thinflow.interpreter import Plan

            self._plan = Plan(self._graph, self.region.outputs, self.region.inputs)
        return self._plan.run(dict(zip(self.region.inputs, arrays, strict=True)))


class _Compiled:
    def __init__(
        self,
        pieces: list[_Piece],
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        refused: Mapping[Node, str],
    ) -> None:
        self._pieces = pieces
        self._inputs = list(inputs)
        self._outputs = list(outputs)
        self._refused = refused
        self._constants = {v: _constant(v) for v in outputs if v.node.tensor is not None}

    @property
    def placement(self) -> dict[str, str]:
        return {
            n.name: "litert" if p.runs_on_engine else "reference"
            for p in self._pieces
            for n in p.region.nodes
        }

    @property
    def reasons(self) -> dict[str, str]:
        reasons = {n.name: why for n, why in self._refused.items()}
        for piece in self._pieces:
            if piece.refusal:
                reasons.update((n.name, piece.refusal) for n in piece.region.nodes)
        return reasons

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        values: dict[Value, Array] = dict(zip(self._inputs, inputs, strict=True)) | self._constants
        for piece in self._pieces:
            region = piece.region
            values.update(zip(region.outputs, piece.run([values[v] for v in region.inputs]), strict=True))
        return [values[v] for v in self._outputs]


def _constant(value: Value) -> Array:
    tensor = value.node.tensor
    assert tensor is not None
    return tensor.numpy()


class LiteRT:
    """Regions in LiteRT, the rest in the interpreter."""

    name = "litert"

    def available(self) -> str | None:
        from importlib.util import find_spec

        return (
            None
            if find_spec("ai_edge_litert")
            else "the package ai-edge-litert is missing (pip install ai-edge-litert)"
        )

    def compile(
        self, graph: Graph, inputs: Sequence[Value], outputs: Sequence[Value], *, threads: int = 1
    ) -> Compiled:
        from thinflow.analysis.shapes import infer_shapes
        from thinflow.interpreter import Plan
        from thinflow.lower.tflite.convert import unsupported

        infer_shapes(graph, {v: v.spec for v in inputs if v.spec.shape is not None})
        plan = Plan(graph, outputs, inputs)
        nodes = plan.nodes
        if any(n.op in _CONTROL_FLOW for n in nodes):
            reason = "the graph has TF1 control flow, which runs as a whole in the interpreter"
            whole = Region(False, nodes, list(inputs), list(outputs))
            return _Compiled([_Piece(graph, whole, threads)], inputs, outputs, dict.fromkeys(nodes, reason))
        refused = unsupported(graph, [n for n in nodes if n.tensor is None], specs={})
        refused |= {n: why for n in nodes if n not in refused and (why := _unreadable(n))}
        regions = partition(nodes, inputs, outputs, refused)
        return _Compiled([_Piece(graph, r, threads) for r in regions], inputs, outputs, refused)


def _unreadable(node: Node) -> str:
    """Why LiteRT cannot be handed an input of the node; empty if it can."""
    for value in node.inputs:
        if value.node.tensor is None and (value.dtype is None or value.dtype in (RESOURCE, VARIANT)):
            return f"its input '{value.name}' is {value.dtype or 'of unknown type'}"
    return ""


def _lowered(graph: Graph, region: Region, threads: int) -> Model:
    from thinflow.lower.tflite.convert import lower_graph
    from thinflow.lower.tflite.program import to_bytes

    lowered = lower_graph(graph, region.inputs, region.outputs, specs={})
    settled = all(v.spec.is_static for v in region.inputs)
    return Model(to_bytes(lowered.program), threads=threads, settled=settled)


ENGINE = LiteRT()
