"""The numpy interpreter as an engine: runs whatever has a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from thinflow.engines.base import Compiled

if TYPE_CHECKING:
    import numpy as np

    from thinflow.ir.graph import Graph, Value


class _Compiled:
    def __init__(self, graph: Graph, inputs: Sequence[Value], outputs: Sequence[Value], threads: int) -> None:
        from thinflow.interpreter import Plan

        self._plan = Plan(graph, outputs, inputs)
        self._inputs = list(inputs)
        self._threads = threads
        self.reasons: dict[str, str] = {}

    @property
    def placement(self) -> dict[str, str]:
        return {n.name: "reference" for n in self._plan.nodes if n.tensor is None}

    def run(self, inputs: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
        from thinflow.engines._threads import blas

        # numpy takes no number of threads; its matrix library does, for the whole process.
        with blas().limited(self._threads):
            return self._plan.run(dict(zip(self._inputs, inputs, strict=True)))


class Reference:
    """Exact and slow. `threads` is for numpy's matrix library, all else runs in one."""

    name = "reference"

    def available(self) -> str | None:
        return None

    def compile(
        self, graph: Graph, inputs: Sequence[Value], outputs: Sequence[Value], *, threads: int = 1
    ) -> Compiled:
        return _Compiled(graph, inputs, outputs, threads)


ENGINE = Reference()
