"""Properties that a reduction keeps: what may be wrong with a graph, as something to try again and again."""

from __future__ import annotations

import math
import re
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from thinflow.analysis.shapes import infer_shapes, port_count
from thinflow.compare.differences import difference
from thinflow.errors import ParameterError, ThinflowError
from thinflow.formats import graphdef
from thinflow.formats.files import npz_bytes
from thinflow.formats.sealing import may_write_copies
from thinflow.ir.graph import Graph
from thinflow.typing import Array

if TYPE_CHECKING:
    from thinflow.rewrite.runner import Step

Feeds = Mapping[str, Array]

# As for converted files: the sums of float32 products depend on their order.
ENGINE_TOLERANCE = 1e-3
"""Relative difference from which an engine counts as wrong, unless told otherwise."""
_WRONG = "the numbers differ"
# Quoted names, numbers and lists of sizes: they differ from graph to graph while the failure is one.
_PLACE = re.compile(r"'[^']*'|\"[^\"]*\"|\d[\d.e+-]*|\[[^\]]*\]")


class Property(Protocol):
    """A way of failing."""

    @property
    def own_process(self) -> bool:
        """True if trying it starts a process anyway, so that a crash harms nobody."""
        ...

    def outcome(self, graph: Graph, feeds: Feeds, timeout_seconds: float) -> str:
        """The failure of the graph, in the same words for the same kind of failure; "" if it works."""
        ...

    def arguments(self) -> list[str]:
        """The command line options that say this property."""
        ...


@dataclass(frozen=True)
class TransformsFail:
    """A pipeline of transforms fails on the graph, or changes what it computes.

    Attributes:
        transforms: the pipeline.
        resolve: makes its steps; handed in, as the transforms are not known here.
        tolerance: relative difference that is allowed; None: what the transforms promise, and for those that
            change numbers on purpose anything finite.
    """

    transforms: str
    resolve: Callable[[str], Sequence[Step]]
    tolerance: float | None = None
    own_process: bool = False

    def outcome(self, graph: Graph, feeds: Feeds, timeout_seconds: float) -> str:
        from thinflow.rewrite.runner import run

        steps = self.resolve(self.transforms)
        try:
            after = run(graph, steps, port_count=port_count).graph
        except Exception as error:  # a bug in a transform is a failure like any other
            return _kind(error)
        try:
            # What does not run in the reference shows nothing about transforms.
            expected = _reference(graph, feeds)
        except ThinflowError:
            return ""
        try:
            found = _reference(after, feeds)
        except ThinflowError as error:
            return f"the result does not run: {_kind(error)}"
        return _compared(expected, found, self._allowed([s.transform for s in steps]))

    def _allowed(self, transforms: Sequence[Any]) -> float:
        if self.tolerance is not None:
            return self.tolerance
        from thinflow.compare.differences import NO_CHANGE

        exact = all(t.exact for t in transforms)
        # Twice what the steps promise together: rounding near the limit is no failure. 1e30 lets all finite
        # numbers pass.
        return max(NO_CHANGE, 2 * sum(t.tolerance for t in transforms)) if exact else 1e30

    def arguments(self) -> list[str]:
        return ["--transforms", self.transforms, *_tolerance(self.tolerance)]


@dataclass(frozen=True)
class EngineDisagrees:
    """An engine fails on the graph, or gives other numbers than the reference.

    Attributes:
        engine: its name.
        tolerance: relative difference that is allowed; None: `ENGINE_TOLERANCE`.
    """

    engine: str
    tolerance: float | None = None
    own_process: bool = False

    def outcome(self, graph: Graph, feeds: Feeds, timeout_seconds: float) -> str:
        from thinflow.engines.session import Session

        try:
            expected = _reference(graph, feeds)
        except ThinflowError:
            return ""
        try:
            fed = {v.name: feeds[v.name] for v in graph.inputs}
            found = Session(graph, self.engine).run([v.name for v in graph.outputs], fed)
        except Exception as error:  # a bug in the lowering is a failure like any other
            return _kind(error)
        allowed = ENGINE_TOLERANCE if self.tolerance is None else self.tolerance
        return _compared(expected, found, allowed)

    def arguments(self) -> list[str]:
        return ["--engine", self.engine, *_tolerance(self.tolerance)]


@dataclass(frozen=True)
class CommandFails:
    """A command of the user's ends with another code than 0.

    Attributes:
        command: is split like a shell does, and run without one; `{}` stands for the .pb file, `{feeds}` for
            an .npz file with the inputs.
    """

    command: str
    own_process: bool = True

    def outcome(self, graph: Graph, feeds: Feeds, timeout_seconds: float) -> str:
        if not may_write_copies():
            raise ParameterError(
                "the model was decrypted and stays in memory, but a command needs it in a file",
                hint="unpack it first: thinflow unpack MODEL.tfpack MODEL.pb",
            )
        with tempfile.TemporaryDirectory(prefix="thinflow-") as folder:
            model, inputs = Path(folder, "model.pb"), Path(folder, "feeds.npz")
            try:
                graphdef.save(graph, model)
            except ThinflowError:
                return ""
            inputs.write_bytes(npz_bytes(feeds, compressed=False))
            words = [w.replace("{feeds}", str(inputs)).replace("{}", str(model)) for w in self._words()]
            try:
                done = subprocess.run(words, capture_output=True, check=False, timeout=timeout_seconds)
            # No answer in time is a failure of its own kind, so that a search may shrink a graph that hangs.
            except subprocess.TimeoutExpired:
                return "the command gives no answer"
            except OSError as error:
                raise ParameterError(
                    f"the command cannot be run: {error.strerror}", words[0], "give the path of a program"
                ) from error
        if done.returncode == 0:
            return ""
        return f"the command is ended by signal {-done.returncode}" if done.returncode < 0 else (
            "the command fails"
        )  # fmt: skip

    def _words(self) -> list[str]:
        try:
            words = shlex.split(self.command)
        except ValueError as error:
            raise ParameterError(f"the command cannot be read: {error}", hint="check its quotes") from error
        if not any("{}" in w for w in words):
            raise ParameterError(
                f"the command '{self.command}' does not say where the model goes",
                hint="write {} in its place",
            )
        return words

    def arguments(self) -> list[str]:
        return ["--command", self.command]


def _tolerance(tolerance: float | None) -> list[str]:
    return [] if tolerance is None else ["--tolerance", f"{tolerance:g}"]


def _reference(graph: Graph, feeds: Feeds) -> list[Array]:
    from thinflow.interpreter import Plan
    from thinflow.ops.random import repeatable_randomness

    fed = {v: feeds[v.name] for v in graph.inputs if v.name in feeds}
    with repeatable_randomness():
        return Plan(graph, graph.outputs, list(fed)).run(fed)


def _compared(expected: Sequence[Array], found: Sequence[Array], allowed: float) -> str:
    for x, y in zip(expected, found, strict=True):
        gap = difference(x, y)
        if math.isinf(gap.relative) and x.shape != y.shape:
            return "the shapes differ"
        # A relative difference of numbers that are equal in fact may come of a division by 0.
        if gap.relative > allowed and gap.largest > 0:
            return _WRONG
    return ""


def _kind(error: Exception) -> str:
    """The kind of an error: its type and its words, without names and numbers."""
    problem = error.problem if isinstance(error, ThinflowError) else str(error)
    # Cut: the wanted outcome is compared as a whole, and long messages differ at their ends.
    return f"{type(error).__name__}: {_PLACE.sub('_', problem)}"[:200]


def outcome_of_file(
    what: Property,
    content: bytes,
    inputs: Sequence[str],
    outputs: Sequence[str],
    feeds: Feeds,
    timeout_seconds: float,
) -> str:
    """As `Property.outcome`, for a GraphDef's bytes: what a child process does."""
    graph = graphdef.from_bytes(content)
    graph.inputs = [graph.value(n) for n in inputs]
    graph.outputs = [graph.value(n) for n in outputs]
    infer_shapes(graph)
    return what.outcome(graph, feeds, timeout_seconds)
