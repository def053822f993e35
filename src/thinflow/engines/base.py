"""Protocols of an engine and of a graph made ready to run on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from thinflow.ir.graph import Graph, Value
    from thinflow.typing import Array


class Compiled(Protocol):
    """A graph made ready for one choice of inputs and outputs."""

    @property
    def placement(self) -> dict[str, str]:
        """Node name -> what runs it. Nodes that vanished (constants, Identity) are missing."""
        ...

    @property
    def reasons(self) -> dict[str, str]:
        """Node name -> why the engine itself does not run it."""
        ...

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs for these inputs, in the order given to `compile`. The arrays belong to the caller.

        Raises:
            NodeError: a node failed.
            EngineUnavailable: the engine refused the input sizes.
        """
        ...


class Engine(Protocol):
    """Something that can run graphs."""

    name: str

    def available(self) -> str | None:
        """None if the engine can be used, else the reason it cannot."""
        ...

    def compile(
        self, graph: Graph, inputs: Sequence[Value], outputs: Sequence[Value], *, threads: int = 1
    ) -> Compiled:
        """Prepare part of a graph for repeated runs.

        Args:
            graph: must not change afterwards.
            inputs: values that will be fed.
            outputs: values to compute.
            threads: how many the engine may use.
        """
        ...
